/* The status table turned into look-ups. */
#include "base/status.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>

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

enum ps_status ps_fail(struct ps_error *error, enum ps_status status, const char *format, ...)
{
    PS_ASSERT(status != PS_OK);
    PS_ASSERT(format != NULL);
    if (error == NULL)
        return status;
    error->status = status;
    error->session = 0;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

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
