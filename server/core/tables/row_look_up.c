/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline. For each key it takes the first row of the home line that has the key's tag, which
 * is the right one for 19 of 20. The others are put aside and looked at together: each of them
 * waits for two or three lines that nobody has asked for, as long as a dozen of the quick ones
 * take.
 *
 * Keys go through in groups, and each stage is a loop of its own over a group. A prefetch whose
 * address is in no translation buffer is not done before the address is translated, and holds up
 * the instructions behind it, of which a processor looks at some three hundred at once. A loop of
 * ten instructions has the translations of thirty keys under way; all stages of one key after those
 * of another, a hundred instructions and more, have those of two or three.
 *
 * Measured with ten million rows of 16 floats, on two shared cores: 65 to 90 nanoseconds a key,
 * and 120 to 160 key by key. A plain array, whose rows are one line each and need no looking up, is
 * read in 20.
 */
#include "server/core/tables/row_look_up.h"

#include "base/assert.h"

/* Keys of a group: with 16 the translations are not all under way, and more than 32 gain
 * nothing. */
#define GROUP 32

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
    uint32_t count;
    size_t bytes;
    uint32_t aside_count;
    uint32_t aside[ASIDE_MAX];
};

/* Keys from `begin` to before `end`. */
struct group {
    uint32_t begin;
    uint32_t end;
    bool tagged[GROUP]; /* the row has the key's tag */
};

static struct group group_at(const struct look_up *look, uint32_t begin);
static void ask_homes(const struct look_up *look, const struct group *group);
static void take_rows(struct look_up *look, struct group *group);
static void ask_group(const struct look_up *look, const struct group *group);
static void check_rows(struct look_up *look, const struct group *group);
static void find_aside(struct look_up *look);

/* Three groups are under way: the lines of one have been asked for while the rows of the one before
 * are taken from theirs, and the rows of that one while those of the first are looked at. */
void ps_row_look_up(const struct ps_row_table *table, const uint64_t *hashes, const uint64_t *keys,
                    uint32_t count, size_t bytes, uint8_t **rows, uint32_t *numbers)
{
    struct look_up look = {.table = table,
                           .hashes = hashes,
                           .keys = keys,
                           .rows = rows,
                           .numbers = numbers,
                           .count = count,
                           .bytes = bytes};
    PS_ASSERT(bytes > 0 && bytes <= table->shape.stride);
    PS_ASSERT(count <= UINT32_MAX - 3 * GROUP);
    struct group first = {0};
    struct group second = {0};
    /* Two rounds more than groups: the last ones go through without others behind them. */
    for (uint32_t begin = 0; begin < count + 2 * GROUP; begin += GROUP) {
        const struct group third = group_at(&look, begin);
        ask_homes(&look, &third);
        take_rows(&look, &second);
        ask_group(&look, &second);
        check_rows(&look, &first);
        first = second;
        second = third;
    }
    find_aside(&look);
}

/* Behind the last key it is empty. */
static struct group group_at(const struct look_up *look, uint32_t begin)
{
    struct group group = {.begin = begin, .end = begin + GROUP};
    if (group.end > look->count)
        group.end = look->count;
    if (group.begin > group.end)
        group.begin = group.end;
    PS_ASSERT(group.end - group.begin <= GROUP);
    return group;
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
static void ask_homes(const struct look_up *look, const struct group *group)
{
    for (uint32_t at = group->begin; at < group->end; at++)
        if (stripe_at(look, at)->index.lines != NULL)
            PS_PREFETCH(home_at(look, at));
}

/* The row of the first place with the tag. Where there is no such place, another row stands in
 * until the last stage: no branch may hang on a line that has perhaps not come, since a wrong guess
 * would wait for it. */
static void take_row(struct look_up *look, struct group *group, uint32_t at)
{
    const struct ps_row_stripe *stripe = stripe_at(look, at);
    look->rows[at] = NULL;
    look->numbers[at] = PS_ROW_NONE;
    if (stripe->rows == 0)
        return;
    const struct ps_row_line *line = home_at(look, at);
    uint32_t found = ps_row_line_match(line, ps_row_tag(look->hashes[at]));
    uint32_t row = line->rows[__builtin_ctz(found | 1u << (PS_ROW_LINE_ROWS - 1))];
    look->numbers[at] = row;
    look->rows[at] = ps_row_at(&look->table->shape, stripe, row);
    group->tagged[at - group->begin] = found != 0;
}

/* Second stage. The addresses are kept: to ask the list of pages once more at the last stage would
 * cost as much as all the others. */
static void take_rows(struct look_up *look, struct group *group)
{
    for (uint32_t at = group->begin; at < group->end; at++)
        take_row(look, group, at);
}

/* Third stage, and nothing else in the loop. */
static void ask_group(const struct look_up *look, const struct group *group)
{
    for (uint32_t at = group->begin; at < group->end; at++)
        if (look->rows[at] != NULL)
            ask_lines(look->rows[at], look->bytes);
}

/* Last stage: nineteen of twenty end here. */
static void check_rows(struct look_up *look, const struct group *group)
{
    for (uint32_t at = group->begin; at < group->end; at++) {
        /* A row that only stands in may be one that went, and still have the key. */
        if (look->rows[at] == NULL || ((ps_row_key(look->rows[at]) == look->keys[at]) &
                                       group->tagged[at - group->begin]) != 0)
            continue;
        if (look->aside_count == ASIDE_MAX)
            find_aside(look);
        PS_ASSERT(look->aside_count < ASIDE_MAX);
        look->aside[look->aside_count++] = at;
    }
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
