/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of tags. A full line sends rows on to the next one and counts them, which is what a look-up
 * for a key that is not there needs: it ends where nobody went past.
 *
 * A tag has one byte of the hash. A line that is three quarters full has eleven, so that about one
 * look-up in twenty finds a wrong row first, or finds that its row lies in the next line. Larger
 * tags would help little, since the key in the row decides in the end.
 *
 * Taking a row out leaves no mark. The counts of the lines that it had gone past fall by one, and a
 * look-up ends there again as if the row had never come: tables whose rows come and go do not slow
 * down, and never have to be cleaned up.
 */
#include "server/core/tables/row_index.h"

#include "base/assert.h"
#include "base/row_hash.h"

#define LINE_BYTES sizeof(struct ps_row_line)

/* Of 100 places so many are used when the index is full. More, and lines overflow into chains. */
#define PLACES_USED 85

/* One line more than the places ask for, so that a line's neighbour is never itself. */
static uint64_t lines_for(uint64_t rows)
{
    PS_ASSERT(rows < UINT64_MAX / 100);
    return rows * 100 / (PLACES_USED * PS_ROW_LINE_ROWS) + 2;
}

/* With the line that is lost to the alignment. */
uint64_t ps_row_index_bytes(uint64_t rows)
{
    return lines_for(rows) * LINE_BYTES + LINE_BYTES;
}

/* The lines begin at a multiple of their size: a look-up is one line of the cache, never two. */
bool ps_row_index_create(struct ps_row_index *index, const struct ps_allocator *memory,
                         uint64_t rows)
{
    /* A table of 256 stripes of so many rows has 4,294 million, which are 88 GiB at least. */
    if (rows > PS_ROW_NUMBERS)
        return false;
    uint64_t lines = lines_for(rows);
    void *allocated = ps_zeroed(memory, ps_row_index_bytes(rows));
    if (allocated == NULL)
        return false;
    uintptr_t at = ((uintptr_t)allocated + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    index->lines = (struct ps_row_line *)at;
    index->allocated = allocated;
    index->line_count = (uint32_t)lines;
    index->spread = ps_row_hash_spread(allocated);
    uint64_t rows_max = lines * PS_ROW_LINE_ROWS * PLACES_USED / 100;
    index->rows_max = rows_max < PS_ROW_NUMBERS ? (uint32_t)rows_max : PS_ROW_NUMBERS;
    PS_ASSERT(index->rows_max >= rows);
    return true;
}

/* Zeroed, so that it is an index without rows again. */
void ps_row_index_destroy(struct ps_row_index *index, const struct ps_allocator *memory)
{
    PS_ASSERT((index->lines == NULL) == (index->allocated == NULL));
    ps_release(memory, index->allocated);
    memset(index, 0, sizeof *index);
}

/* Always into the first line from the home on that has a place: so whoever looks for the row
 * passes only lines that it was counted in. */
void ps_row_index_insert(struct ps_row_index *index, uint64_t hash, uint32_t row)
{
    PS_ASSERT(index->lines != NULL && row < PS_ROW_NUMBERS);
    uint32_t at = ps_row_home(index, hash);
    uint32_t free_places;
    /* The index is never full, so that this ends: its limit is below the number of places. */
    while ((free_places = ps_row_line_match(&index->lines[at], 0)) == 0) {
        PS_ASSERT(index->lines[at].past < UINT32_MAX);
        index->lines[at].past++;
        at = ps_row_line_after(index, at);
    }
    uint32_t place = (uint32_t)__builtin_ctz(free_places);
    PS_ASSERT(index->lines[at].tags[place] == 0);
    index->lines[at].tags[place] = ps_row_tag(hash);
    ps_row_line_set_number(&index->lines[at], place, row);
}

/* The place of `row` in a line, or -1. */
static int place_of(const struct ps_row_line *line, uint8_t tag, uint32_t row)
{
    PS_ASSERT(tag != 0);
    for (uint32_t found = ps_row_line_match(line, tag); found != 0; found &= found - 1) {
        int place = __builtin_ctz(found);
        if (ps_row_line_number(line, (uint32_t)place) == row)
            return place;
    }
    return -1;
}

/* Rows are told apart by their number: others may have the same tag, and other keys even the same
 * hash as far as the index has it. */
void ps_row_index_remove(struct ps_row_index *index, uint64_t hash, uint32_t row)
{
    PS_ASSERT(index->lines != NULL && row != PS_ROW_NONE);
    uint8_t tag = ps_row_tag(hash);
    uint32_t at = ps_row_home(index, hash);
    int place;
    while ((place = place_of(&index->lines[at], tag, row)) < 0) {
        /* It went past here when it came, whatever has left the line since. */
        PS_ASSERT(index->lines[at].past > 0);
        index->lines[at].past--;
        at = ps_row_line_after(index, at);
    }
    /* The number goes too: a look-up may follow it before it has looked at the tag
     * (row_look_up.c), and must then find a page. */
    index->lines[at].tags[place] = 0;
    ps_row_line_set_number(&index->lines[at], (uint32_t)place, 0);
}
