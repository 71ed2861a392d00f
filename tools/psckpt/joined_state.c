/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts all stored parameters so that ranges of one stand side by side, and strings their pieces
 * together. A client cuts a large parameter into ranges and stores each under a name of its own,
 * "w#1/3" for the second of three (docs/placement.md). To read a job back as its trainers see it,
 * the ranges have to be put together again. Nothing is copied: a joined parameter is a view over
 * the pieces that the shards' states own, so joining a model of 100 GB costs a few pointers. */
#include "tools/psckpt/joined_state.h"

#include "base/hash.h"
#include "base/range_name.h"
#include "tools/psckpt/table_shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One stored parameter: a whole one (n 0), a range, or what a shard has of a table (n 0). */
struct part {
    const struct ps_checkpoint_parameter *row;
    const struct ps_checkpoint_facts *facts; /* of its shard */
    struct ps_bytes base;
    uint32_t k;
    uint32_t n;
};

static enum ps_status join_all(struct shard_state *joined, struct part *parts, size_t count,
                               size_t *uneven, struct ps_error *error);
static bool is_table(const struct part *parts, size_t count);
static enum ps_status join_table(struct shard_state *joined, const struct part *parts, size_t count,
                                 struct ps_error *error);
static enum ps_status check_parts(const struct part *parts, size_t count, struct ps_error *error);
static enum ps_status join(struct shard_state *joined, const struct part *parts, size_t count,
                           size_t *uneven, struct ps_error *error);
static enum ps_status join_array(struct shard_state *joined, const struct part *parts, size_t count,
                                 int32_t state, struct ps_view *view, struct ps_error *error);
static void settle_shape(struct ps_checkpoint_parameter *row);
static int compare_parts(const void *a, const void *b);

/* The parts are sorted by base name, then by cut, then by range, so that everything about one
 * parameter stands together and in order: one pass over neighbours checks and joins it. All memory
 * is in the rooms of the joined state and goes with it; a failure leaves nothing to release
 * here. */
enum ps_status joined_state_make(const struct shard_state *states, size_t state_count,
                                 struct shard_state *joined, size_t *uneven, struct ps_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < state_count; i++)
        count += states[i].count;
    /* The parts are needed during this call only, but a room is the simplest place, and small
     * beside the arrays. */
    struct part *parts = shard_state_room(joined, count, sizeof *parts, error);
    joined->parameters = shard_state_room(joined, count, sizeof *joined->parameters, error);
    if (parts == NULL || joined->parameters == NULL)
        return PS_ERR_NO_MEMORY;
    size_t at = 0;
    for (size_t i = 0; i < state_count; i++) {
        for (size_t p = 0; p < states[i].count; p++) {
            struct part *part = &parts[at++];
            part->row = &states[i].parameters[p];
            part->facts = &states[i].facts;
            if (part->row->is_table ||
                !ps_range_name_split(part->row->name, &part->base, &part->k, &part->n))
                part->base = part->row->name;
        }
    }
    if (count > 0)
        qsort(parts, count, sizeof *parts, compare_parts);
    *uneven = 0;
    PS_TRY(join_all(joined, parts, count, uneven, error));
    return shard_state_seal(joined, error);
}

/* The number of ranges comes before the range, so that two cuts of one parameter do not interleave
 * and are recognised as such. Unsigned numbers are compared, not subtracted. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *left = a;
    const struct part *right = b;
    int names = ps_bytes_compare(left->base, right->base);
    if (names != 0)
        return names;
    if (left->n != right->n)
        return left->n < right->n ? -1 : 1;
    if (left->k != right->k)
        return left->k < right->k ? -1 : 1;
    return (left->facts->index > right->facts->index) - (left->facts->index < right->facts->index);
}

/* One group of equal base names after the other. */
static enum ps_status join_all(struct shard_state *joined, struct part *parts, size_t count,
                               size_t *uneven, struct ps_error *error)
{
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && ps_bytes_equal(parts[end].base, parts[i].base))
            end++;
        /* A table beside a parameter of its name is refused as a name that is there twice. */
        if (is_table(parts + i, end - i)) {
            PS_TRY(join_table(joined, parts + i, end - i, error));
        } else {
            PS_TRY(check_parts(parts + i, end - i, error));
            PS_TRY(join(joined, parts + i, end - i, uneven, error));
        }
        i = end;
    }
    return PS_OK;
}

/* On one shard alone a table is whole only where the job has no other shard; it is joined all the
 * same, so that rows of other shards' keys are left out. */
static bool is_table(const struct part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!parts[i].row->is_table)
            return false;
    return true;
}

/* The index comes behind the name in the order of the parts, so two of one shard are neighbours:
 * that is the same folder given twice, or a folder that somebody has copied into another. A
 * shard without a part has no rows of it: whoever defined the table did not come as far. */
static enum ps_status join_table(struct shard_state *joined, const struct part *parts, size_t count,
                                 struct ps_error *error)
{
    const struct ps_checkpoint_parameter *first = parts[0].row;
    int size = (int)(first->name.size < 100 ? first->name.size : 100);
    struct table_part *own = shard_state_room(joined, count, sizeof *own, error);
    if (own == NULL)
        return PS_ERR_NO_MEMORY;
    /* Versions and steps are not compared: each shard counts the pushes that had keys of its
     * own. */
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *row = parts[i].row;
        own[i] = (struct table_part){row, parts[i].facts->index};
        if (i > 0 && parts[i].facts->index == parts[i - 1].facts->index)
            return ps_fail(error, PS_ERR_CORRUPT, "parameter %.*s is there twice", size,
                           (const char *)first->name.data);
        if (row->dtype != first->dtype || row->width != first->width ||
            row->state_count != first->state_count ||
            memcmp(row->state_is_one, first->state_is_one, sizeof row->state_is_one) != 0 ||
            !ps_bytes_equal(row->config, first->config))
            return ps_fail(
                error, PS_ERR_CORRUPT,
                "table %.*s: shards %" PRIu32 " and %" PRIu32 " differ in type, width or optimizer",
                size, (const char *)first->name.data, parts[0].facts->index, parts[i].facts->index);
    }
    PS_TRY(table_join(joined, own, count, parts[0].facts->shard_count,
                      &joined->parameters[joined->count], error));
    joined->count++;
    return PS_OK;
}

/* All parts of one name: one whole parameter, or each range of one cut once. Each wrong combination
 * has its own sentence, because each means another mistake: the same folder given twice, shards of
 * two different jobs, a shard that is missing, an optimizer that was changed on some shards only.
 * The first range decides how many there have to be; a group that is too short at its end is found
 * after the loop. */
static enum ps_status check_parts(const struct part *parts, size_t count, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *first = parts[0].row;
    int size = (int)(parts[0].base.size < 100 ? parts[0].base.size : 100);
    const char *name = (const char *)parts[0].base.data;
    if (parts[0].n == 0 && count > 1)
        return ps_fail(error, PS_ERR_CORRUPT, "parameter %.*s is there twice", size, name);
    for (size_t i = 0; i < count && parts[0].n > 0; i++) {
        const struct ps_checkpoint_parameter *row = parts[i].row;
        if (parts[i].n != parts[0].n || (i > 0 && parts[i].k == parts[i - 1].k))
            return ps_fail(error, PS_ERR_CORRUPT, "parameter %.*s is cut in more than one way",
                           size, name);
        /* Ranges are sorted, so the first one that is not its own number is the one that is
         * missing. */
        if (parts[i].k != i)
            return ps_fail(error, PS_ERR_CORRUPT,
                           "parameter %.*s: range %zu of %" PRIu32 " is missing", size, name, i,
                           parts[0].n);
        if (row->dtype != first->dtype || row->state_count != first->state_count ||
            !ps_bytes_equal(row->config, first->config) ||
            !ps_shape_equal(&row->shape, &first->shape))
            return ps_fail(error, PS_ERR_CORRUPT,
                           "parameter %.*s: ranges 0 and %zu differ in type, shape or optimizer",
                           size, name, i);
    }
    if (parts[0].n > count)
        return ps_fail(error, PS_ERR_CORRUPT, "parameter %.*s: range %zu of %" PRIu32 " is missing",
                       size, name, count, parts[0].n);
    return PS_OK;
}

/* Ranges of one parameter live on different shards, which acknowledge independently, so their
 * versions may differ by what was under way in a crash. The joined one gets the lowest: its
 * promise, "at least so many updates are in every element", is then true. Configuration and type
 * were compared before, so those of the first range hold for all. */
static enum ps_status join(struct shard_state *joined, const struct part *parts, size_t count,
                           size_t *uneven, struct ps_error *error)
{
    struct ps_checkpoint_parameter *row = &joined->parameters[joined->count];
    bool differ = false;
    *row = *parts[0].row;
    row->name = parts[0].base;
    for (size_t i = 1; i < count; i++) {
        const struct ps_checkpoint_parameter *other = parts[i].row;
        differ |= other->version != parts[0].row->version || other->step != parts[0].row->step;
        row->version = other->version < row->version ? other->version : row->version;
        row->step = other->step < row->step ? other->step : row->step;
        row->count += other->count;
    }
    settle_shape(row);
    *uneven += differ;
    if (count > 1) {
        PS_TRY(join_array(joined, parts, count, -1, &row->values, error));
        for (uint32_t state = 0; state < row->state_count; state++)
            PS_TRY(join_array(joined, parts, count, (int32_t)state, &row->states[state], error));
    }
    joined->count++;
    return PS_OK;
}

/* Every range says the shape of the whole. A shape that does not fit what was joined (a raw client
 * may have named its parameters like ranges) is of no use to anybody, and no reason to give up the
 * values. */
static void settle_shape(struct ps_checkpoint_parameter *row)
{
    if (row->shape.is_given && !ps_shape_is_of(&row->shape, row->count))
        row->shape = (struct ps_shape){0};
    ps_shape_settle(&row->shape, row->count);
}

/* The values are array -1, as everywhere in this folder. */
static struct ps_view array_of(const struct part *part, int32_t state)
{
    return state < 0 ? part->row->values : part->row->states[state];
}

/* The piece lists of the ranges are strung together in the order of the ranges, which is the order
 * of the elements. The count of pieces is taken first, so that one room holds them all. */
static enum ps_status join_array(struct shard_state *joined, const struct part *parts, size_t count,
                                 int32_t state, struct ps_view *view, struct ps_error *error)
{
    struct ps_view result = {0};
    for (size_t i = 0; i < count; i++)
        result.piece_count += array_of(&parts[i], state).piece_count;
    struct ps_bytes *pieces = shard_state_room(joined, result.piece_count, sizeof *pieces, error);
    if (pieces == NULL)
        return PS_ERR_NO_MEMORY;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct ps_view part = array_of(&parts[i], state);
        result.size += part.size;
        for (size_t piece = 0; piece < part.piece_count; piece++)
            pieces[at++] = part.pieces[piece];
    }
    result.pieces = pieces;
    *view = result;
    return PS_OK;
}

/* Whoever knows the classic rule only says nothing of it. Shards by two rules are of two jobs, or
 * of two initialisations of one: some parameters would be there twice, and others not at all. */
static bool is_same_rule(uint64_t left, uint64_t right)
{
    return left == right || (left <= PS_PLACEMENT_CLASSIC && right <= PS_PLACEMENT_CLASSIC);
}

/* Asked before anything is joined for export or reshard: the ranges of a parameter may all be there
 * although a shard with whole parameters is missing. The quadratic search is over shards, of which
 * there are at most a few thousand. All of one job, all of one count, each index once, none
 * missing: four sentences, because an operator who mixed up folders has to learn which. */
enum ps_status joined_state_complete(const struct shard_state *states, size_t state_count,
                                     struct ps_error *error)
{
    if (state_count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "there is no shard");
    uint32_t shards = states[0].facts.shard_count;
    for (size_t i = 0; i < state_count; i++) {
        if (states[i].facts.shard_count != shards)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "shards of %" PRIu32 " and of %" PRIu32 " do not belong together",
                           shards, states[i].facts.shard_count);
        if (strcmp(states[i].facts.job, states[0].facts.job) != 0)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "shards of the jobs \"%.60s\" and \"%.60s\": name the folder of one",
                           states[0].facts.job, states[i].facts.job);
        if (!is_same_rule(states[i].facts.placement, states[0].facts.placement))
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "shards of placement %" PRIu64 " and of %" PRIu64
                           " do not belong together",
                           states[0].facts.placement, states[i].facts.placement);
        for (size_t other = 0; other < i; other++)
            if (states[other].facts.index == states[i].facts.index)
                return ps_fail(error, PS_ERR_BAD_INPUT, "shard %" PRIu32 " is there twice",
                               states[i].facts.index);
    }
    for (uint32_t index = 0; index < shards; index++) {
        bool found = false;
        for (size_t i = 0; i < state_count; i++)
            found |= states[i].facts.index == index;
        if (!found)
            return ps_fail(error, PS_ERR_BAD_INPUT, "shard %" PRIu32 " of %" PRIu32 " is missing",
                           index, shards);
    }
    return PS_OK;
}
