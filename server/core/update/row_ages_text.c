/* SPDX-License-Identifier: Apache-2.0 */
/* Words and numbers with one space between them, so that whoever looks at a header can read how old
 * the rows are:
 *
 *     due VERSION time AGE VERSION AGE VERSION ... clocks MINIMUM VERSION ...
 *
 * Each of the three parts is there only if there is something to say. */
#include "server/core/update/row_ages_text.h"

#include "base/assert.h"
#include "base/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Two lists, all of whose numbers have twenty digits, and the words. The header's measure counts
 * the longest text of every table, so that a table which has grown old never fails a checkpoint. */
enum { NUMBER_BYTES = 21, PAIRS_MAX = PS_ROW_AGE_STEPS + 2 };
_Static_assert(2 * PAIRS_MAX * 2 * NUMBER_BYTES + NUMBER_BYTES + sizeof "due" + sizeof " time" +
                       sizeof " clocks" <=
                   PS_CHECKPOINT_AGES_MAX,
               "the longest text fits into a header's entry");

/* What is read, from its begin to its end. A reader of words stands at the first one that it has
 * not taken; when it has taken all, at the end. */
struct words {
    const char *at;
    const char *end;
};

static size_t put_word(char *text, size_t size, const char *word);
static size_t put_number(char *text, size_t size, uint64_t number);
static bool take_word(struct words *words, const char *word);
static bool take_number(struct words *words, uint64_t *number);
static enum ps_status take_pairs(struct words *words, const struct ps_row_ages_read *read,
                                 bool are_of_time, struct ps_row_ages *ages,
                                 struct ps_error *error);
static uint64_t time_of(const struct ps_row_ages_read *read, uint64_t age);

/* What is due but not gone is said apart: the versions that it was known by went from the lists
 * when it became due. Of a walk that is under way nothing is said; what it has not come to is found
 * by the next one. */
size_t ps_row_ages_text_write(const struct ps_row_expiry *expiry,
                              const struct ps_table_settings *settings, uint64_t time,
                              char text[PS_ROW_AGES_TEXT_BYTES])
{
    size_t size = 0;
    text[0] = '\0'; /* of no parts: a text, too */
    PS_ASSERT(expiry->by_time.count <= PAIRS_MAX && expiry->by_clock.count <= PAIRS_MAX);
    if (expiry->due > expiry->swept) {
        size = put_word(text, size, "due");
        size = put_number(text, size, expiry->due);
    }
    /* Ages by which rows do not go, as after a change of settings, may be those of other clocks. */
    if (settings->expire_ms > 0 && expiry->by_time.count > 0)
        size = put_word(text, size, "time");
    /* Whoever reads it has another clock. One that stood still at the look says 0, and so does one
     * that fell: younger than the rows are. */
    for (size_t i = 0; settings->expire_ms > 0 && i < expiry->by_time.count; i++) {
        const struct ps_row_age *seen = &expiry->by_time.seen[i];
        size = put_number(text, size, time > seen->at ? time - seen->at : 0);
        size = put_number(text, size, seen->version);
    }
    if (settings->expire_clocks > 0 && expiry->by_clock.count > 0)
        size = put_word(text, size, "clocks");
    for (size_t i = 0; settings->expire_clocks > 0 && i < expiry->by_clock.count; i++) {
        size = put_number(text, size, expiry->by_clock.seen[i].at);
        size = put_number(text, size, expiry->by_clock.seen[i].version);
    }
    return size;
}

/* By writing it, so that the measure follows whatever becomes of the form. */
size_t ps_row_ages_text_widest(const struct ps_table_settings *settings,
                               char text[PS_ROW_AGES_TEXT_BYTES])
{
    struct ps_row_expiry widest = {.due = UINT64_MAX};
    text[0] = '\0';
    if (settings->expire_ms == 0 && settings->expire_clocks == 0)
        return 0;
    widest.by_time.count = widest.by_clock.count = PAIRS_MAX;
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        /* Of time 0, which is an age of twenty digits. */
        widest.by_time.seen[i].version = UINT64_MAX;
        widest.by_clock.seen[i] = (struct ps_row_age){UINT64_MAX, UINT64_MAX};
    }
    return ps_row_ages_text_write(&widest, settings, UINT64_MAX, text);
}

/* A step is what rows may live too long in any case. */
uint64_t ps_row_ages_passed(uint64_t span_ms, uint64_t from_unix_ns, uint64_t to_unix_ns)
{
    uint64_t most = span_ms / PS_ROW_AGE_STEPS;
    PS_ASSERT(most <= span_ms);
    if (to_unix_ns <= from_unix_ns)
        return 0;
    uint64_t passed = (to_unix_ns - from_unix_ns) / 1000000;
    return passed < most ? passed : most;
}

/* No row is of a version that is still to come. One above the table's own is the highest: then all
 * rows are due. */
static enum ps_status read_due(struct words *words, const struct ps_row_ages_read *read,
                               uint64_t *due, struct ps_error *error)
{
    PS_ASSERT(*due == 0);
    if (take_number(words, due) && *due > 0 && *due - 1 <= read->version)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT,
                   "due: no number from 1 to 1 + %" PRIu64 ", the table's version", read->version);
}

/* The parts in their order, each of them once. A word that does not go there leaves the reader
 * before the end, and so does a part that came before: the number of bytes that were read is the
 * place to look at in the header. */
static enum ps_status read_parts(struct ps_bytes text, const struct ps_row_ages_read *read,
                                 struct ps_row_expiry *expiry, struct ps_error *error)
{
    struct words words = {(const char *)text.data, (const char *)text.data + text.size};
    PS_ASSERT(expiry->due == 0 && expiry->by_time.count == 0 && expiry->by_clock.count == 0);
    if (take_word(&words, "due"))
        PS_TRY(read_due(&words, read, &expiry->due, error));
    if (take_word(&words, "time"))
        PS_TRY(take_pairs(&words, read, true, &expiry->by_time, error));
    if (take_word(&words, "clocks"))
        PS_TRY(take_pairs(&words, read, false, &expiry->by_clock, error));
    if (text.size > 0 && words.at == words.end)
        return PS_OK;
    return ps_fail(error, PS_ERR_CORRUPT, "behind %zu of %zu bytes: no word that goes there",
                   text.size - (size_t)(words.end - words.at), text.size);
}

/* There is no text of which a half is believed: what stands behind the place that is not known may
 * have been meant to take back what stands before it. */
enum ps_status ps_row_ages_text_read(struct ps_bytes text, const struct ps_row_ages_read *read,
                                     struct ps_row_expiry *expiry, struct ps_error *error)
{
    enum ps_status status = read_parts(text, read, expiry, error);
    if (status != PS_OK)
        *expiry = (struct ps_row_expiry){0};
    return status;
}

/* A space stands before each but the first. There is always room: the longest text was measured
 * above. */
static size_t put_word(char *text, size_t size, const char *word)
{
    int put =
        snprintf(text + size, PS_ROW_AGES_TEXT_BYTES - size, "%s%s", size > 0 ? " " : "", word);
    PS_ASSERT(put > 0 && (size_t)put < PS_ROW_AGES_TEXT_BYTES - size);
    return size + (size_t)put;
}

static size_t put_number(char *text, size_t size, uint64_t number)
{
    char digits[NUMBER_BYTES];
    PS_ASSERT(size > 0);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
    return put_word(text, size, digits);
}

/* Up to the next space or the end; NULL: there is none, or it is longer than any that is known. */
static const char *look(const struct words *words, char word[NUMBER_BYTES])
{
    PS_ASSERT(words->at <= words->end);
    size_t left = (size_t)(words->end - words->at);
    /* memchr may not be given NULL. */
    const char *space = left > 0 ? memchr(words->at, ' ', left) : NULL;
    const char *end = space != NULL ? space : words->end;
    size_t size = (size_t)(end - words->at);
    if (size == 0 || size >= NUMBER_BYTES)
        return NULL;
    memcpy(word, words->at, size);
    word[size] = '\0';
    return end;
}

/* Over the space as well, behind which something has to come: the end of the words is then never
 * reached, and the text is refused. */
static void step(struct words *words, const char *end)
{
    PS_ASSERT(end > words->at && end <= words->end);
    bool has_more = words->end - end > 1;
    words->at = has_more ? end + 1 : end;
}

/* Nothing is taken of another word, so that the next part may be asked for. */
static bool take_word(struct words *words, const char *word)
{
    char found[NUMBER_BYTES];
    PS_ASSERT(strlen(word) < sizeof found);
    const char *end = look(words, found);
    if (end == NULL || strcmp(found, word) != 0)
        return false;
    step(words, end);
    return true;
}

/* Digits alone, and no more of them than a number of 64 bits has: nothing that a program which
 * reads the header by other means could take for another number. */
static bool take_number(struct words *words, uint64_t *number)
{
    char found[NUMBER_BYTES];
    PS_ASSERT(words->at <= words->end);
    const char *end = look(words, found);
    if (end == NULL || !ps_quantity_number(found, number))
        return false;
    step(words, end);
    return true;
}

/* Neither falls: who looks at ages relies on it. Rows that seemed older than they are would go, so
 * that a list which says two things of one version is not mended but refused. */
static enum ps_status check_pair(const struct ps_row_age *seen, const struct ps_row_age *before,
                                 const struct ps_row_ages_read *read, const char *part, size_t i,
                                 struct ps_error *error)
{
    PS_ASSERT(i > 0 && i <= PAIRS_MAX);
    if (seen->version > read->version)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "%s: pair %zu is of version %" PRIu64 ", and the table of version %" PRIu64,
                       part, i, seen->version, read->version);
    if (seen->version < before->version || seen->at < before->at)
        return ps_fail(error, PS_ERR_CORRUPT, "%s: pair %zu is older than the one before it", part,
                       i);
    return PS_OK;
}

/* One pair at least, the oldest first. Ends at the word of the next part, which is no number, or at
 * the end; of a pair without its second half the whole text is refused. */
static enum ps_status take_pairs(struct words *words, const struct ps_row_ages_read *read,
                                 bool are_of_time, struct ps_row_ages *ages, struct ps_error *error)
{
    const char *part = are_of_time ? "time" : "clocks";
    struct ps_row_age before = {0, 0};
    uint64_t number = 0;
    PS_ASSERT(ages->count == 0);
    while (ages->count < PAIRS_MAX && take_number(words, &number)) {
        struct ps_row_age seen = {.at = are_of_time ? time_of(read, number) : number};
        if (!take_number(words, &seen.version))
            return ps_fail(error, PS_ERR_CORRUPT, "%s: pair %zu has no version", part,
                           ages->count + 1);
        PS_TRY(check_pair(&seen, &before, read, part, ages->count + 1, error));
        ages->seen[ages->count++] = before = seen;
    }
    return ages->count > 0 ? PS_OK : ps_fail(error, PS_ERR_CORRUPT, "%s: no pair of numbers", part);
}

/* Rows from before all time are as old as that: younger than they are. */
static uint64_t time_of(const struct ps_row_ages_read *read, uint64_t age)
{
    uint64_t known = read->time - read->passed_ms;
    PS_ASSERT(read->passed_ms <= read->time);
    return age < known ? known - age : 0;
}
