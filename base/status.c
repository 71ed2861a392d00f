/* SPDX-License-Identifier: Apache-2.0 */
/* The status table (PS_STATUS_TABLE in the header) turned into look-ups. Word, remedy and sentence
 * of a status stand in one row, so a new status cannot lack one of them. */
#include "base/status.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* A text before it is made to fit: with two of the longest names and what is said of them. */
#define WHOLE_BYTES 2048

struct status_row {
    const char *word;
    enum ps_remedy remedy;
    const char *sentence;
};

static const struct status_row rows[PS_STATUS_COUNT] = {
#define ROW(name, word, remedy, sentence) [name] = {word, remedy, sentence},
    PS_STATUS_TABLE(ROW)
#undef ROW
};

PS_PRINTF(3, 0)
static void fill(struct ps_error *error, enum ps_status status, const char *format,
                 va_list arguments);

/* A failure is one line at the place where it is noticed: the caller's `error` is filled if there
 * is one, and the status comes back for the return statement. */
enum ps_status ps_fail(struct ps_error *error, enum ps_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, format, arguments);
    va_end(arguments);
    return status;
}

/* The word of the refusal travels with the error to whoever answers the caller, and is counted
 * there: only that place knows who was refused, and sees refusals of all floors. A caller that
 * passes no error loses the word, as it loses the text. */
enum ps_status ps_refuse(struct ps_error *error, enum ps_status status, enum ps_refusal refusal,
                         uint32_t retry_ms, const char *format, ...)
{
    PS_ASSERT(refusal > PS_REFUSED_NOT && refusal < PS_REFUSAL_COUNT);
    va_list arguments;
    va_start(arguments, format);
    fill(error, status, format, arguments);
    va_end(arguments);
    /* Behind `fill`, which takes away what an earlier refusal left. */
    if (error != NULL) {
        error->refusal = refusal;
        error->retry_ms = retry_ms;
    }
    return status;
}

/* An error struct may be used again; what an earlier failure stored in it must not remain. A text
 * that does not fit is made shorter: a failure may not fail, and its text may lack a part of a name
 * rather than what was wrong with it. */
static void fill(struct ps_error *error, enum ps_status status, const char *format,
                 va_list arguments)
{
    PS_ASSERT(status != PS_OK);
    PS_ASSERT(format != NULL);
    if (error == NULL)
        return;
    error->status = status;
    error->session = 0;
    error->refusal = PS_REFUSED_NOT;
    error->retry_ms = 0;
    char whole[WHOLE_BYTES];
    (void)vsnprintf(whole, sizeof whole, format, arguments);
    ps_utf8_shorten(error->text, sizeof error->text, whole);
}

/* Words are for logs and the wire, sentences for people, remedies for programs.
 *
 * The three that follow are look-ups in one array, so a status has all of them or does not compile.
 * A status never comes from outside as a number (the wire has codes of its own,
 * proto/status_codes.c), so one beyond the table is a bug. */
const char *ps_status_word(enum ps_status status)
{
    PS_ASSERT(status < PS_STATUS_COUNT);
    return rows[status].word;
}

const char *ps_status_sentence(enum ps_status status)
{
    PS_ASSERT(status < PS_STATUS_COUNT);
    return rows[status].sentence;
}

enum ps_remedy ps_status_remedy(enum ps_status status)
{
    PS_ASSERT(status < PS_STATUS_COUNT);
    return rows[status].remedy;
}
