/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline. For each key it takes the first row of the home line that has the key's tag, which
 * is the right one for 19 of 20. The others are put aside and looked at together: each of them
 * waits for two or three lines that nobody has asked for, as long as a dozen of the quick ones
 * take.
 *
 * Measured with a million rows of 16 floats, on two shared cores: 45 nanoseconds a key, of which
 * the lines take most. It took 90 while the list of pages was asked once more at the last stage,
 * and no less than 80 where a branch of the second stage hung on the line of the index. A plain
 * array, whose rows are one line each and need no looking up, is read in 12.
 */
#include "server/core/tables/row_look_up.h"

#include "base/assert.h"

/* Keys between two stages. More gain nothing: a processor has some ten to twenty lines under way.
 * */
#define DEPTH 8
#define RING 32
_Static_assert(RING > 2 * DEPTH, "what is under way fits");

/* Keys that are looked at together when the quick way was wrong. */
#define ASIDE_MAX 64

/* Lines of one row that are asked for; the processor goes on by itself in longer ones. */
#define ROW_LINES_MAX 8
#define LINE_BYTES 64

struct look_up {
    const struct ps_row_table *table;
    const uint64_t *hashes;
    const uint64_t *keys;
    uint8_t **rows;
    uint32_t *numbers;
    size_t bytes;
    bool tagged[RING]; /* of what is under way: the row has the key's tag */
    uint32_t aside_count;
    uint32_t aside[ASIDE_MAX];
};

static void run_edge(struct look_up *look, uint32_t at, uint32_t count);
static void ask_line(const struct look_up *look, uint32_t at);
static void ask_page(struct look_up *look, uint32_t at);
static void ask_row(const struct look_up *look, uint32_t at);
static void check_row(struct look_up *look, uint32_t at);
static void find_aside(struct look_up *look);

/* The stages run one behind the other, DEPTH keys apart. */
void ps_row_look_up(const struct ps_row_table *table, const uint64_t *hashes, const uint64_t *keys,
                    uint32_t count, size_t bytes, uint8_t **rows, uint32_t *numbers)
{
    struct look_up look = {.table = table,
                           .hashes = hashes,
                           .keys = keys,
                           .rows = rows,
                           .numbers = numbers,
                           .bytes = bytes};
    PS_ASSERT(bytes > 0 && bytes <= table->shape.stride);
    PS_ASSERT(count <= UINT32_MAX - 3 * DEPTH);
    uint32_t at = 0;
    for (; at < 3 * DEPTH && at < count; at++)
        run_edge(&look, at, count);
    /* All four stages, each for another key: none of them waits for what another has just asked. */
    for (; at < count; at++) {
        ask_line(&look, at);
        ask_page(&look, at - DEPTH);
        ask_row(&look, at - 2 * DEPTH);
        check_row(&look, at - 3 * DEPTH);
    }
    for (; at < count + 3 * DEPTH; at++)
        run_edge(&look, at, count);
    find_aside(&look);
}

/* Near the begin and the end of the keys some stages have none. The loop between goes without these
 * questions. */
static void run_edge(struct look_up *look, uint32_t at, uint32_t count)
{
    PS_ASSERT(at < count + 3 * DEPTH);
    if (at < count)
        ask_line(look, at);
    if (at >= DEPTH && at - DEPTH < count)
        ask_page(look, at - DEPTH);
    if (at >= 2 * DEPTH && at - 2 * DEPTH < count)
        ask_row(look, at - 2 * DEPTH);
    if (at >= 3 * DEPTH)
        check_row(look, at - 3 * DEPTH);
}

/* The last byte, too: a row may begin anywhere in a line. */
static void ask_lines(const uint8_t *row, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < (size_t)ROW_LINES_MAX * LINE_BYTES; i += LINE_BYTES)
        PS_PREFETCH(row + i);
    PS_PREFETCH(row + bytes - 1);
}

/* Asked at each stage anew: the stripes are small enough to stay in the nearest cache. */
static const struct ps_row_stripe *stripe_at(const struct look_up *look, uint32_t at)
{
    return &look->table->stripes[ps_row_stripe_of(look->hashes[at])];
}

static const struct ps_row_line *home_at(const struct look_up *look, uint32_t at)
{
    const struct ps_row_index *index = &stripe_at(look, at)->index;
    return &index->lines[ps_row_home(index, look->hashes[at])];
}

/* First stage. */
static void ask_line(const struct look_up *look, uint32_t at)
{
    if (stripe_at(look, at)->index.lines != NULL)
        PS_PREFETCH(home_at(look, at));
}

/* Takes the row of the first place with the tag. Where there is no such place, another row stands
 * in until the last stage: no branch may hang on a line that has perhaps not come, since a wrong
 * guess would wait for it. */
static void ask_page(struct look_up *look, uint32_t at)
{
    const struct ps_row_stripe *stripe = stripe_at(look, at);
    look->numbers[at] = PS_ROW_NONE;
    if (stripe->rows == 0)
        return;
    const struct ps_row_line *line = home_at(look, at);
    uint32_t found = ps_row_line_match(line, ps_row_tag(look->hashes[at]));
    uint32_t row = line->rows[__builtin_ctz(found | 1u << (PS_ROW_LINE_ROWS - 1))];
    look->numbers[at] = row;
    look->tagged[at % RING] = found != 0;
    PS_PREFETCH(&stripe->pages[row >> look->table->shape.page_bits]);
}

/* The address is kept: to ask the list of pages once more at the last stage would cost as much as
 * all the others. */
static void ask_row(const struct look_up *look, uint32_t at)
{
    look->rows[at] = NULL;
    if (look->numbers[at] == PS_ROW_NONE)
        return;
    uint8_t *row = ps_row_at(&look->table->shape, stripe_at(look, at), look->numbers[at]);
    look->rows[at] = row;
    ask_lines(row, look->bytes);
}

/* Last stage: nineteen of twenty end here. */
static void check_row(struct look_up *look, uint32_t at)
{
    /* A row that only stands in may be one that went, and still have the key. */
    if (look->rows[at] == NULL ||
        ((ps_row_key(look->rows[at]) == look->keys[at]) & look->tagged[at % RING]) != 0)
        return;
    if (look->aside_count == ASIDE_MAX)
        find_aside(look);
    PS_ASSERT(look->aside_count < ASIDE_MAX);
    look->aside[look->aside_count++] = at;
}

/* Asks for the rows of a line that have the key's tag; says whether the key may be in the next. */
static bool ask_rows(const struct look_up *look, uint32_t at, const struct ps_row_line *line)
{
    const struct ps_row_stripe *stripe = stripe_at(look, at);
    uint32_t found = ps_row_line_match(line, ps_row_tag(look->hashes[at]));
    for (; found != 0; found &= found - 1)
        PS_PREFETCH(ps_row_at(&look->table->shape, stripe, line->rows[__builtin_ctz(found)]));
    return line->past > 0;
}

/* Where rows go that find no place at home. */
static const struct ps_row_line *second_at(const struct look_up *look, uint32_t at)
{
    const struct ps_row_index *index = &stripe_at(look, at)->index;
    return &index->lines[ps_row_line_after(index, ps_row_home(index, look->hashes[at]))];
}

/* Three rounds over those put aside: all second lines are asked for, then the rows of both lines,
 * and then each is looked up in full. Keys farther than that are rare. */
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
    /* The list is used again for the keys that follow. */
    look->aside_count = 0;
}
