/* SPDX-License-Identifier: Apache-2.0 */
/* A row knows the version of its last push, so nothing has to be kept in order to tell which rows
 * have changed: it takes one walk over all rows of the hold, beside pushes. Counting and choosing
 * are one walk, and what was found is kept as bits: the head of a file says how many rows there are
 * before the first one is written. A hold that was looked through and is not worth narrowing is as
 * it was, and is written whole.
 */
#include "server/core/tables/row_changes.h"

#include "server/core/tables/row_hold_parts.h"

#include "base/assert.h"

static uint64_t find_in_page(struct ps_row_hold *hold, uint32_t stripe, uint64_t page,
                             uint32_t version, uint32_t age_end);
static void let_rows_be(struct ps_row_hold *hold, uint32_t stripe);

/* The caller holds pushes and sweeps off, for the instant of the hold: so mark and rows are of
 * one. */
enum ps_status ps_row_hold_mark(struct ps_row_hold *hold, struct ps_error *error)
{
    PS_ASSERT(hold->mark == NULL);
    hold->mark = ps_row_mark_create(hold->table->removals);
    /* Without it the snapshot is given up, as for want of any other memory. */
    if (hold->mark == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to mark an instant of a table");
    return PS_OK;
}

/* The later end of what is asked of the list; the earlier one is a mark that somebody took. */
const struct ps_row_mark *ps_row_hold_marked(const struct ps_row_hold *hold)
{
    PS_ASSERT(hold != NULL);
    return hold->mark;
}

/* A hold of a whole checkpoint ends with its file. Its mark goes on, for the increments to come. */
struct ps_row_mark *ps_row_hold_take_mark(struct ps_row_hold *hold)
{
    PS_ASSERT(hold != NULL);
    struct ps_row_mark *mark = hold->mark;
    hold->mark = NULL;
    return mark;
}

/* Page by page, in the order of memory. A row's version lies in its first line, so that a table is
 * gone through at the speed of memory whatever its width. */
enum ps_status ps_row_hold_find_changed(struct ps_row_hold *hold, uint64_t version, uint64_t since,
                                        uint64_t *rows, struct ps_error *error)
{
    uint32_t words = hold->table->shape.live_words;
    PS_ASSERT(since <= version && version - since <= PS_ROW_VERSIONS_MAX);
    PS_ASSERT(hold->changed == NULL);
    hold->changed =
        ps_zeroed_array(hold->table->memory, hold->page_count * words, sizeof *hold->changed);
    if (hold->changed == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look for rows that have changed");
    uint64_t found = 0;
    for (uint32_t stripe = 0; stripe < PS_ROW_STRIPES; stripe++)
        for (uint64_t page = hold->aside.first_pages[stripe];
             page < hold->aside.first_pages[stripe + 1]; page++)
            found +=
                find_in_page(hold, stripe, page, (uint32_t)version, (uint32_t)(version - since));
    PS_ASSERT(found <= hold->rows);
    *rows = found;
    return PS_OK;
}

/* By ages, and not by versions: the difference in 32 bits is right also where versions have gone on
 * from 0. A row of the hold is never younger than the hold. */
static uint64_t find_in_page(struct ps_row_hold *hold, uint32_t stripe, uint64_t page,
                             uint32_t version, uint32_t age_end)
{
    uint32_t words = hold->table->shape.live_words;
    const uint64_t *live = hold->live + page * words;
    uint64_t *changed = hold->changed + page * words;
    const uint8_t *rows[PS_ROW_PAGE_ROWS_MAX];
    PS_ASSERT(page < hold->page_count);
    /* For half a microsecond, as reading holds it. */
    ps_mutex_lock(ps_row_lock_of(hold->table, stripe));
    ps_row_hold_find_rows(hold, stripe, page, rows);
    /* `live` has the rows of the instant: one that was made since is not looked at. */
    for (uint32_t word = 0; word < words; word++)
        for (uint64_t left = live[word]; left != 0; left &= left - 1) {
            uint32_t place = (uint32_t)__builtin_ctzll(left);
            uint32_t age = version - ps_row_touched(rows[word * 64 + place]);
            changed[word] |= age < age_end ? (uint64_t)1 << place : 0;
        }
    ps_mutex_unlock(ps_row_lock_of(hold->table, stripe));
    return ps_held_rows(changed, words);
}

/* Readers ask the bits and the sums, and know nothing of this. */
void ps_row_hold_narrow(struct ps_row_hold *hold)
{
    uint32_t words = hold->table->shape.live_words;
    PS_ASSERT(hold->changed != NULL);
    for (uint32_t stripe = 0; stripe < PS_ROW_STRIPES; stripe++)
        let_rows_be(hold, stripe);
    /* The sums are those of the fewer rows; pages without one have the same as the next. */
    uint64_t rows = 0;
    for (uint64_t page = 0; page < hold->page_count; page++) {
        hold->firsts[page] = rows;
        rows += ps_held_rows(hold->changed + page * words, words);
    }
    hold->firsts[hold->page_count] = rows;
    memcpy(hold->live, hold->changed, hold->page_count * words * sizeof *hold->live);
    PS_ASSERT(rows <= hold->rows);
    hold->rows = rows;
    ps_release(hold->table->memory, hold->changed);
    hold->changed = NULL;
}

/* Rows that nobody will read are not set aside any more: pushes beside an increment copy what it
 * has, and nothing else. */
static void let_rows_be(struct ps_row_hold *hold, uint32_t stripe)
{
    uint32_t words = hold->table->shape.live_words;
    uint64_t end = hold->aside.first_pages[stripe + 1] * words;
    PS_ASSERT(end <= hold->page_count * words);
    ps_mutex_lock(ps_row_lock_of(hold->table, stripe));
    for (uint64_t i = hold->aside.first_pages[stripe] * words; i < end; i++)
        hold->aside.due[i] &= hold->changed[i];
    ps_mutex_unlock(ps_row_lock_of(hold->table, stripe));
}
