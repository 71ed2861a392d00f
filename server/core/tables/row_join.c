/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of all parts are sorted together, as those of one push are, and gradients of one key
 * stand in the order of the parts then. Parts have each key once, so that what is summed first of a
 * key is the first of the parts that have it, and no part's own gradients are in between. */
#include "server/core/tables/row_join.h"

#include "server/core/tables/row_evict.h"
#include "server/core/tables/row_look_up.h"
#include "server/core/tables/row_push_parts.h"

#include "base/assert.h"
#include "optimizer/hash_order.h"
#include "optimizer/weighted_sum.h"

/* What is needed while parts are joined. */
struct joining {
    struct ps_row_push *push;
    uint64_t *hashes; /* of all keys, part after part */
    uint64_t *keys;
    uint64_t *sorted; /* scratch of the sort */
    const uint8_t **gradients;
    const struct ps_row_part **parts; /* of each key */
    uint32_t *order;
    double divisor; /* 1: sums stay as they are */
};

static bool open_joining(struct joining *joining, const struct ps_row_part *parts, uint32_t count);
static double sum_of_weights(const struct ps_row_table *table, const struct ps_row_part *parts,
                             uint32_t count);
static void join_keys(struct joining *joining);

/* Keys first, as a message has them: what reads a message reads this, so that a checkpoint needs no
 * form of its own for what waits. The order of the keys, which is that of their hashes, is kept,
 * but nobody relies on it. */
void ps_row_push_keep(const struct ps_row_push *push, void *to)
{
    uint8_t *bytes = to;
    size_t keys = push->unique * sizeof push->keys[0];
    PS_ASSERT(push->unique == 0 || to != NULL);
    if (push->unique == 0)
        return;
    memcpy(bytes, push->keys, keys);
    memcpy(bytes + keys, push->gradients, push->unique * ps_row_push_row_bytes(push));
}

/* The push stays as it was: prepare looks again. */
uint64_t ps_row_push_lacking(struct ps_row_push *push)
{
    uint64_t lacking = 0;
    PS_ASSERT(!push->prepared);
    ps_row_look_up(push->table, push->hashes, push->keys, push->unique, 1, push->rows,
                   push->numbers, NULL);
    /* A row that a sweep takes before the round ends is made anew then, in the room that it has
     * left. */
    for (uint32_t i = 0; i < push->unique; i++)
        lacking += push->numbers[i] == PS_ROW_NONE ? 1 : 0;
    return lacking;
}

/* Twice the line of the index: it doubles when it is full. Pages are counted as if they were full,
 * of which each stripe may have one that is not. */
uint64_t ps_row_table_bytes_of(const struct ps_row_table *table, uint64_t rows)
{
    enum { INDEX_BYTES = 16 };
    PS_ASSERT(rows <= UINT32_MAX);
    return rows * (table->shape.stride + INDEX_BYTES);
}

/* Where rows go for others the limit is that of a group, and all keys may be in one. The share of a
 * group falls by less than a sixteenth (row_evict.h). */
bool ps_row_table_has_room(const struct ps_row_table *table, uint64_t keys)
{
    const struct ps_table_settings *settings = &table->settings;
    PS_ASSERT(keys <= UINT64_MAX / 2);
    if (settings->rows_max == 0)
        return true;
    /* None of them need have a row for this: the rows that they have count twice here. */
    if (settings->full == PS_TABLE_REFUSE)
        return ps_row_table_rows(table) + keys <= settings->rows_max;
    return keys <= ps_row_shares(settings->rows_max).share / 16 * 15;
}

/* Twice the keys in memory for as long as it takes: as they were kept, which stay if the round
 * cannot end for now, and as they are pushed. */
enum ps_status ps_row_push_join(struct ps_row_table *table, const struct ps_row_part *parts,
                                uint32_t count, bool divides, bool is_taken,
                                struct ps_row_push **out, struct ps_error *error)
{
    uint64_t keys = 0;
    size_t each = sizeof(uint64_t) + table->shape.arrays[0].size;
    PS_ASSERT(count > 0);
    for (uint32_t i = 0; i < count; i++)
        keys += parts[i].content.size / each;
    /* As of one message: the pipeline's sums stay within 32 bits. */
    PS_ASSERT(table->shape.layout.width > 0);
    struct joining joining = {.divisor = divides ? sum_of_weights(table, parts, count) : 1};
    if (keys <= UINT32_MAX / 4)
        joining.push = ps_row_push_create(table, (uint32_t)keys);
    if (joining.push == NULL || !open_joining(&joining, parts, count)) {
        ps_row_push_release(joining.push);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to join %zu rows", (size_t)keys);
    }
    ps_hash_order(joining.hashes, joining.push->count, joining.order, joining.sorted);
    join_keys(&joining);
    ps_release(table->memory, joining.hashes);
    joining.push->is_taken = is_taken;
    *out = joining.push;
    return PS_OK;
}

/* As the sum of a dense parameter has it, rounded weight by weight. */
static double sum_of_weights(const struct ps_row_table *table, const struct ps_row_part *parts,
                             uint32_t count)
{
    double weights = 0;
    for (uint32_t i = 0; i < count; i++)
        weights = ps_weighted_sum_weigh(table->shape.layout.dtype, weights, parts[i].weight);
    PS_ASSERT(weights > 0);
    return weights;
}

/* One allocation, the words with 8 bytes first. Gradients stay where they are kept, and are read
 * there in the order of the hashes, in which each part has them already: so many walks forward side
 * by side, which a processor follows by itself. */
static bool open_joining(struct joining *joining, const struct ps_row_part *parts, uint32_t count)
{
    const struct ps_row_table *table = joining->push->table;
    size_t keys = joining->push->count;
    size_t size = table->shape.arrays[0].size;
    size_t words = 4 * sizeof(uint64_t) + 2 * sizeof(void *) + sizeof(uint32_t);
    joining->hashes = ps_plain(table->memory, keys * words);
    if (joining->hashes == NULL)
        return false;
    joining->keys = joining->hashes + keys;
    joining->sorted = joining->keys + keys;
    joining->gradients = (const uint8_t **)(void *)(joining->sorted + 2 * keys);
    joining->parts = (const struct ps_row_part **)(void *)(joining->gradients + keys);
    joining->order = (uint32_t *)(void *)(joining->parts + keys);
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t rows = parts[i].content.size / (sizeof(uint64_t) + size);
        const uint8_t *gradients = parts[i].content.data + rows * sizeof(uint64_t);
        PS_ASSERT(parts[i].content.size % (sizeof(uint64_t) + size) == 0);
        for (size_t k = 0; k < rows; k++, at++) {
            memcpy(&joining->keys[at], parts[i].content.data + k * sizeof(uint64_t),
                   sizeof(uint64_t));
            /* Made again rather than kept: a hash takes less time than to read one from memory. */
            joining->hashes[at] = ps_row_table_hash(table, joining->keys[at]);
            joining->gradients[at] = gradients + k * size;
            joining->parts[at] = &parts[i];
        }
    }
    PS_ASSERT(at == keys);
    return true;
}

/* A gradient of a key that has none yet in the push, or one more. Weights are for sums: an assigned
 * row, or the greatest of several, is what one of the workers said, and no part of it. */
static void join_gradient(const struct ps_row_table *table, void *joined, const uint8_t *gradient,
                          double weight, bool is_first)
{
    const struct ps_row_layout *layout = &table->shape.layout;
    if (table->repeats != PS_ROW_SUM && !is_first)
        ps_row_repeat(table->repeats, layout->dtype, layout->width, joined, gradient);
    else if (table->repeats != PS_ROW_SUM)
        memcpy(joined, gradient, table->shape.arrays[0].size);
    else if (is_first)
        ps_weighted_sum_first(layout->dtype, joined, gradient, layout->width, weight);
    else
        ps_weighted_sum_add(layout->dtype, joined, gradient, layout->width, weight);
}

/* As a push is read (row_push.c), but for the weights and for what the sums are divided by. */
static void join_keys(struct joining *joining)
{
    struct ps_row_push *push = joining->push;
    const struct ps_row_table *table = push->table;
    size_t size = table->shape.arrays[0].size;
    uint32_t stripe = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < push->count; i++) {
        uint32_t from = joining->order[i];
        uint64_t hash = joining->hashes[from];
        bool is_first = i == 0 || hash != last;
        if (is_first) {
            /* Stripes without a key begin where the next one does. */
            while (stripe <= ps_row_stripe_of(hash))
                push->begins[stripe++] = push->unique;
            push->hashes[push->unique] = hash;
            push->keys[push->unique] = joining->keys[from];
            push->firsts[push->unique++] = from;
        }
        last = hash;
        join_gradient(table, push->gradients + (push->unique - 1) * size, joining->gradients[from],
                      joining->parts[from]->weight, is_first);
    }
    while (stripe <= PS_ROW_STRIPES)
        push->begins[stripe++] = push->unique;
    /* Of all gradients at once: where nothing was summed, nothing is divided. */
    if (table->repeats == PS_ROW_SUM && joining->divisor != 1 && push->unique > 0)
        ps_weighted_sum_divide(table->shape.layout.dtype, push->gradients,
                               (size_t)push->unique * table->shape.layout.width, joining->divisor);
}
