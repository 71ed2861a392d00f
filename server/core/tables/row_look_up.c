/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline. For each key it takes the first row of the home line that has the key's tag, which
 * is the right one for 19 of 20. The others are put aside and looked at together: each of them
 * waits for two or three lines that nobody has asked for, as long as a dozen of the quick ones
 * take.
 *
 * Every turn of the one loop takes four keys a stage further, each AHEAD keys behind the other. So
 * the memory is asked for a line or two every few instructions, and a processor, which can wait
 * for some twenty lines at once, computes meanwhile. A loop for each stage over a group of keys
 * asks for a hundred lines in a row, then for none: it waits, and then the memory does.
 *
 * Measured with ten million rows of 16 floats on one of two shared cores: 38 nanoseconds a key, 55
 * in groups, and 120 to 160 key by key. The same lines without a table, in a loop that knows all
 * addresses beforehand, take 28 to 30.
 */
#include "server/core/tables/row_look_up.h"

#include "base/assert.h"

/* Keys between two stages. Fewer are not long enough for a line to come, and more than 20 push
 * lines out of the nearest cache. */
#define AHEAD 12

/* Keys between the stage that finds a tag and the one that compares the key, and one more. */
#define TAGS_KEPT 32
_Static_assert(TAGS_KEPT > 2 * AHEAD, "a tag is used before its place is taken");

/* Keys that are looked at together when the quick way was wrong. */
#define ASIDE_MAX 64

/* Lines of one row that are asked for, beside its last; the processor goes on by itself in longer
 * ones. With all five of a row of 64 floats it waits for room to ask: 5 % of a look-up. */
#define ROW_LINES_MAX 2
#define LINE_BYTES 64

struct look_up {
    const struct ps_row_table *table;
    const uint64_t *hashes;
    const uint64_t *keys;
    uint8_t **rows; /* before a key's row is known, its home line */
    uint32_t *numbers;
    size_t bytes;
    const struct ps_row_copies *copies; /* may be NULL */
    bool tagged[TAGS_KEPT];             /* the row has the key's tag */
    uint32_t aside_count;
    uint32_t aside[ASIDE_MAX];
};

static void ask_home(struct look_up *look, uint32_t at);
static void take_number(struct look_up *look, uint32_t at);
static void ask_row(struct look_up *look, uint32_t at);
static void check_row(struct look_up *look, uint32_t at);
static void copy_row(const struct look_up *look, uint32_t at);
static void find_aside(struct look_up *look);

/* The last keys go through without others behind them. Before the first, `i` less some stages
 * wraps to a number that is none of a key. */
void ps_row_look_up(const struct ps_row_table *table, const uint64_t *hashes, const uint64_t *keys,
                    uint32_t count, size_t bytes, uint8_t **rows, uint32_t *numbers,
                    const struct ps_row_copies *copies)
{
    struct look_up look = {.table = table,
                           .hashes = hashes,
                           .keys = keys,
                           .rows = rows,
                           .numbers = numbers,
                           .bytes = bytes,
                           .copies = copies};
    PS_ASSERT(bytes > 0 && bytes <= table->shape.stride);
    PS_ASSERT(count <= UINT32_MAX / 2);
    for (uint32_t i = 0; i < count + 3 * AHEAD; i++) {
        if (i < count)
            ask_home(&look, i);
        if (i - AHEAD < count)
            take_number(&look, i - AHEAD);
        if (i - 2 * AHEAD < count)
            ask_row(&look, i - 2 * AHEAD);
        if (i - 3 * AHEAD < count)
            check_row(&look, i - 3 * AHEAD);
    }
    find_aside(&look);
}

/* Asked at each stage anew: the stripes are small enough to stay in the nearest cache. */
static const struct ps_row_stripe *stripe_at(const struct look_up *look, uint32_t at)
{
    return &look->table->stripes[ps_row_stripe_of(look->hashes[at])];
}

static struct ps_row_line *home_at(const struct look_up *look, uint32_t at)
{
    const struct ps_row_index *index = &stripe_at(look, at)->index;
    return &index->lines[ps_row_home(index, look->hashes[at])];
}

/* The first and the last byte lie in different lines where a row begins in the midst of one. */
static void ask_lines(const uint8_t *row, size_t bytes)
{
    PS_PREFETCH(row);
    for (size_t i = LINE_BYTES; i + 1 < bytes && i < (size_t)ROW_LINES_MAX * LINE_BYTES;
         i += LINE_BYTES)
        PS_PREFETCH(row + i);
    PS_PREFETCH(row + bytes - 1);
}

/* First stage. A stripe without rows may have no line and no page. */
static void ask_home(struct look_up *look, uint32_t at)
{
    if (stripe_at(look, at)->rows == 0) {
        look->rows[at] = NULL;
        return;
    }
    look->rows[at] = (uint8_t *)home_at(look, at);
    PS_PREFETCH(look->rows[at]);
}

/* Second stage: the row of the first place with the tag. Where there is no such place, another row
 * stands in until the last stage: no branch may hang on a line that has perhaps not come, since a
 * wrong guess would wait for it. */
static void take_number(struct look_up *look, uint32_t at)
{
    look->numbers[at] = PS_ROW_NONE;
    if (look->rows[at] == NULL)
        return;
    const struct ps_row_line *line = (const struct ps_row_line *)(const void *)look->rows[at];
    uint32_t found = ps_row_line_match(line, ps_row_tag(look->hashes[at]));
    uint32_t place = (uint32_t)__builtin_ctz(found | 1u << (PS_ROW_LINE_ROWS - 1));
    uint32_t row = ps_row_line_number(line, place);
    look->numbers[at] = row;
    look->tagged[at % TAGS_KEPT] = found != 0;
    PS_PREFETCH(&stripe_at(look, at)->pages[row >> look->table->shape.page_bits]);
}

/* Third stage. The address is kept: to ask the list of pages once more at the last stage would cost
 * as much as all the others. */
static void ask_row(struct look_up *look, uint32_t at)
{
    if (look->numbers[at] == PS_ROW_NONE)
        return;
    look->rows[at] = ps_row_at(&look->table->shape, stripe_at(look, at), look->numbers[at]);
    ask_lines(look->rows[at], look->bytes);
}

/* Last stage: nineteen of twenty end here. A row that only stands in may be one that went, and
 * still have the key. */
static void check_row(struct look_up *look, uint32_t at)
{
    if (look->rows[at] == NULL)
        return;
    if (((ps_row_key(look->rows[at]) == look->keys[at]) & look->tagged[at % TAGS_KEPT]) != 0) {
        copy_row(look, at);
        return;
    }
    if (look->aside_count == ASIDE_MAX)
        find_aside(look);
    PS_ASSERT(look->aside_count < ASIDE_MAX);
    look->aside[look->aside_count++] = at;
}

/* While the memory is at work on the keys that follow: a loop of copies behind the look-up has it
 * idle, and takes a twentieth longer in all. */
static void copy_row(const struct look_up *look, uint32_t at)
{
    const struct ps_row_copies *copies = look->copies;
    if (copies == NULL)
        return;
    PS_ASSERT(look->rows[at] != NULL);
    ps_row_copy(copies->to + copies->order[at] * copies->size, look->rows[at] + copies->offset,
                copies->size);
}

/* Asks for the rows of a line that have the key's tag; says whether the key may be in the next. */
static bool ask_rows(const struct look_up *look, uint32_t at, const struct ps_row_line *line)
{
    const struct ps_row_stripe *stripe = stripe_at(look, at);
    uint32_t found = ps_row_line_match(line, ps_row_tag(look->hashes[at]));
    for (; found != 0; found &= found - 1) {
        uint32_t row = ps_row_line_number(line, (uint32_t)__builtin_ctz(found));
        PS_PREFETCH(ps_row_at(&look->table->shape, stripe, row));
    }
    return line->past > 0;
}

/* Where rows go that find no place at home. */
static const struct ps_row_line *second_at(const struct look_up *look, uint32_t at)
{
    const struct ps_row_index *index = &stripe_at(look, at)->index;
    return &index->lines[ps_row_line_after(index, ps_row_home(index, look->hashes[at]))];
}

/* Rounds over those put aside: all second lines are asked for, then the rows of both lines, then
 * each is looked up in full, and at last copied. Keys farther than that are rare. */
static void find_aside(struct look_up *look)
{
    for (uint32_t i = 0; i < look->aside_count; i++)
        if (ask_rows(look, look->aside[i], home_at(look, look->aside[i])))
            PS_PREFETCH(second_at(look, look->aside[i]));
    for (uint32_t i = 0; i < look->aside_count; i++)
        if (home_at(look, look->aside[i])->past > 0)
            (void)ask_rows(look, look->aside[i], second_at(look, look->aside[i]));
    for (uint32_t i = 0; i < look->aside_count; i++) {
        uint32_t at = look->aside[i];
        uint32_t number =
            ps_row_stripe_find(look->table, stripe_at(look, at), look->keys[at], look->hashes[at]);
        look->numbers[at] = number;
        look->rows[at] = NULL;
        if (number == PS_ROW_NONE)
            continue;
        look->rows[at] = ps_row_at(&look->table->shape, stripe_at(look, at), number);
        ask_lines(look->rows[at], look->bytes);
    }
    for (uint32_t i = 0; i < look->aside_count; i++)
        if (look->rows[look->aside[i]] != NULL)
            copy_row(look, look->aside[i]);
    /* The list is used again for the keys that follow. */
    look->aside_count = 0;
}
