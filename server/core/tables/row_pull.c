/* SPDX-License-Identifier: Apache-2.0 */
/* Reading. The keys are put in the order of their stripes, so that a lock is taken once for all
 * that are behind it; under the lock they are looked up together and copied to where they were
 * asked.
 *
 * The keys of a lock are few, 300 of ten thousand. That is enough for the look-up to have the
 * memory at work all the time, and little enough for a push that waits for the lock: a reader
 * holds it for some ten microseconds. A reader may see one row from before a push and another one
 * from behind it; who wants all of a clock's pushes asks for that clock, and is answered when they
 * are there.
 */
#include "server/core/tables/row_pull.h"

#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_look_up.h"
#include "server/core/tables/row_order.h"

#include "base/assert.h"
#include "optimizer/first_values.h"

struct pull {
    struct ps_row_table *table;
    uint32_t count;
    uint8_t *to;
    /* In the order of their stripes. */
    uint64_t *keys;
    uint64_t *hashes;
    uint8_t **rows;
    uint32_t *order;   /* where a key was asked */
    uint32_t *numbers; /* of its row */
    uint64_t *asked;   /* the keys as they came, and their hashes; then seats, and what is next */
    uint32_t *places;  /* where the row of a seat was asked */
    uint32_t seated;   /* rows that a device has */
    uint32_t begins[PS_ROW_STRIPES + 1];
};

static bool alloc_pull(struct pull *pull);
static enum ps_status take_keys(struct pull *pull, struct ps_view keys, struct ps_error *error);
static void walk_all(struct pull *pull);
static void walk_lock(struct pull *pull, uint32_t lock);

/* What can be refused is refused before the first row is copied, so that a caller who is told of an
 * error has not waited for locks. */
enum ps_status ps_row_table_get(struct ps_row_table *table, struct ps_view keys, void *to,
                                struct ps_error *error)
{
    if (keys.size % sizeof(uint64_t) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "keys of 8 bytes each do not make %zu bytes",
                       keys.size);
    if (keys.size / sizeof(uint64_t) > UINT32_MAX / 2)
        return ps_fail(error, PS_ERR_BAD_INPUT, "too many keys");
    struct pull pull = {
        .table = table, .count = (uint32_t)(keys.size / sizeof(uint64_t)), .to = to};
    if (pull.count == 0)
        return PS_OK;
    PS_ASSERT(to != NULL);
    if (!alloc_pull(&pull))
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to look up %u keys", pull.count);
    enum ps_status status = take_keys(&pull, keys, error);
    if (status == PS_OK && table->bodies != NULL) {
        /* What is not stale is copied in the walk; the rest comes from the device behind it. */
        ps_rwlock_read(&table->bodies->lock);
        walk_all(&pull);
        status = ps_row_bodies_get(table, pull.asked, pull.places, pull.seated, to, error);
    } else if (status == PS_OK) {
        walk_all(&pull);
    }
    ps_release(table->memory, pull.keys);
    return status;
}

/* One allocation. It is large for the stack, and too large to be kept by a table for each lane. */
static bool alloc_pull(struct pull *pull)
{
    PS_ASSERT(pull->count > 0);
    size_t count = pull->count;
    pull->keys = ps_plain(pull->table->memory, count * (4 * sizeof(uint64_t) + sizeof(uint8_t *) +
                                                        2 * sizeof(uint32_t)));
    if (pull->keys == NULL)
        return false;
    pull->hashes = pull->keys + count;
    pull->asked = pull->hashes + count;
    /* Keys and hashes as they came are not needed once they are in order. */
    pull->places = (uint32_t *)(void *)(pull->asked + count);
    pull->rows = (uint8_t **)(void *)(pull->asked + 2 * count);
    pull->order = (uint32_t *)(void *)(pull->rows + count);
    pull->numbers = pull->order + count;
    return true;
}

/* Keys and hashes are moved into the order of their stripes: the look-up goes over both several
 * times, and would else jump about in them. */
static enum ps_status take_keys(struct pull *pull, struct ps_view keys, struct ps_error *error)
{
    PS_ASSERT(keys.size == pull->count * sizeof(uint64_t));
    uint64_t *asked = pull->asked;
    uint64_t *hashes = pull->asked + pull->count;
    ps_view_copy(keys, 0, asked, keys.size);
    for (uint32_t i = 0; i < pull->count; i++) {
        PS_TRY(ps_row_table_check_key(pull->table, asked[i], error));
        hashes[i] = ps_row_table_hash(pull->table, asked[i]);
    }
    ps_row_order_by_stripe(hashes, pull->count, pull->order, pull->begins);
    for (uint32_t i = 0; i < pull->count; i++) {
        pull->keys[i] = asked[pull->order[i]];
        pull->hashes[i] = hashes[pull->order[i]];
    }
    return PS_OK;
}

/* Two walks that began at the same lock would meet at each: one would go at the other's pace. */
static void walk_all(struct pull *pull)
{
    uint32_t turn = atomic_fetch_add_explicit(&pull->table->turn, 1, memory_order_relaxed);
    PS_ASSERT(pull->begins[PS_ROW_STRIPES] == pull->count);
    uint32_t first = turn * (PS_ROW_LOCKS * 5 / 8 + 1);
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++)
        walk_lock(pull, (first + i) % PS_ROW_LOCKS);
}

/* A row that a device has is fetched from there behind the walk. Others are those of the host, and
 * those that were called home since their last push. */
static void note_elsewhere(struct pull *pull, uint32_t i)
{
    const struct ps_row_table *table = pull->table;
    if (table->bodies == NULL)
        return;
    const struct ps_row_stripe *stripe = &table->stripes[ps_row_stripe_of(pull->hashes[i])];
    PS_ASSERT(pull->numbers[i] != PS_ROW_NONE);
    if (!ps_row_is_stale(stripe, pull->numbers[i]))
        return;
    /* Written over keys that are in order elsewhere by now. */
    pull->asked[pull->seated] = stripe->seats[pull->numbers[i]];
    pull->places[pull->seated++] = pull->order[i];
}

/* The rows are copied under the lock: a page may be replaced, and its room be used again, as soon
 * as the lock is let go. Of a row that a device has, what the host has of it is copied, too, and is
 * written over behind the walk: there are few tables of that kind, and all others ask nothing. */
static void walk_lock(struct pull *pull, uint32_t lock)
{
    struct ps_row_table *table = pull->table;
    const struct ps_row_shape *shape = &table->shape;
    uint32_t begin = pull->begins[lock * PS_ROW_LOCK_STRIPES];
    uint32_t end = pull->begins[(lock + 1) * PS_ROW_LOCK_STRIPES];
    if (begin == end)
        return;
    PS_ASSERT(begin < end && end <= pull->count);
    const struct ps_row_copies copies = {.to = pull->to,
                                         .order = pull->order + begin,
                                         .offset = shape->arrays[0].offset,
                                         .size = shape->arrays[0].size};
    ps_mutex_lock(&table->locks[lock]);
    ps_row_look_up(table, pull->hashes + begin, pull->keys + begin, end - begin,
                   copies.offset + copies.size, pull->rows + begin, pull->numbers + begin, &copies);
    for (uint32_t i = begin; i < end; i++) {
        /* What a push would begin with, and no row: readers leave no trace. */
        if (pull->rows[i] == NULL)
            ps_first_values(&table->settings, shape->layout.dtype, pull->keys[i],
                            shape->layout.width, pull->to + pull->order[i] * copies.size);
        else
            note_elsewhere(pull, i);
    }
    ps_mutex_unlock(&table->locks[lock]);
}
