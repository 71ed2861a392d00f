/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over whole tables.
 *
 * A walk reads all pages once, from one end to the other, at the speed of memory: ten million rows
 * of 16 floats in a tenth of a second. It needs no order and no list of rows by their age, which
 * would cost every push something; and since a row keeps its number while it lives, a place in it
 * stays good whatever is pushed between two looks.
 *
 * Looking is apart from removing, so that pushes wait for the rows that go and not for those that
 * stay. What goes is named by its keys: a replay finds it without a walk, wherever it lies there.
 */
#include "server/core/tables/row_sweep.h"

#include "server/core/tables/row_aside.h"
#include "server/core/tables/row_bodies.h"

#include "base/assert.h"

#define CANDIDATES_SALT 0x9E6C63D0876A9A4Bu

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_EXPIRY_CHECK
static const bool age_is_not_asked = true;
#else
static const bool age_is_not_asked = false;
#endif

/* A stripe without rows costs a look something, too. */
#define STRIPE_COST 16

/* Pushes that may be made beside one look, by far: their rows are ahead of its version, and must
 * not seem to be 2^32 versions behind it. */
#define PUSHES_BESIDE ((uint64_t)1 << 20)

/* The ages are differences in 32 bits, which are right also where versions have gone on from 0. A
 * later `now` makes ages and their limit larger alike. */
static bool is_old(const uint8_t *row, uint64_t before, uint64_t now)
{
    /* The newest push is never swept: what it stepped is as young as can be. */
    PS_ASSERT(before <= now);
    uint32_t age = (uint32_t)now - ps_row_touched(row);
    return age > now - before;
}

/* Under the stripe's lock: on to its end, or until the look has had enough. */
static void look_at_stripe(struct ps_row_table *table, struct ps_row_walk *walk, uint64_t now,
                           struct ps_row_found *found)
{
    const struct ps_row_stripe *stripe = &table->stripes[walk->stripe];
    uint32_t end = stripe->page_count << table->shape.page_bits;
    uint32_t begun = walk->row;
    uint32_t most = PS_ROW_LOOKED_MAX - found->looked;
    PS_ASSERT(begun <= end);
    uint32_t until = end - begun > most ? begun + most : end;
    for (; walk->row < until && found->count < PS_ROW_FOUND_MAX; walk->row++) {
        if (!ps_row_is_live(stripe, walk->row))
            continue;
        const uint8_t *row = ps_row_at(&table->shape, stripe, walk->row);
        if (is_old(row, walk->before, now))
            found->keys[found->count++] = ps_row_key(row);
    }
    found->looked += walk->row - begun;
    if (walk->row < end)
        return;
    found->looked += STRIPE_COST;
    walk->stripe++;
    walk->row = 0;
}

/* Rows that come to be meanwhile are young, wherever they lie: a look sees them or not. Rows
 * and counted keys are never in one look, since they go to different tables. */
bool ps_row_table_look(struct ps_row_table *table, struct ps_row_walk *walk, uint64_t now,
                       struct ps_row_found *found)
{
    struct ps_row_table *rows = walk->counts ? table->candidates : table;
    PS_ASSERT(walk->before > 0 && walk->stripe < PS_ROW_STRIPES && rows != NULL);
    found->count = 0;
    found->looked = 0;
    found->counts = walk->counts;
    while (walk->stripe < PS_ROW_STRIPES && found->looked < PS_ROW_LOOKED_MAX &&
           found->count < PS_ROW_FOUND_MAX) {
        struct ps_mutex *lock = ps_row_lock_of(rows, walk->stripe);
        ps_mutex_lock(lock);
        look_at_stripe(rows, walk, now + PUSHES_BESIDE, found);
        ps_mutex_unlock(lock);
    }
    if (walk->stripe == PS_ROW_STRIPES && !walk->counts && table->candidates != NULL) {
        walk->counts = true;
        walk->stripe = 0;
    }
    return walk->stripe < PS_ROW_STRIPES;
}

/* What a hold has of rows that are about to go comes home from the device, with the lock of bodies.
 * If the device is dead, so is the server. */
static void bring_home(struct ps_row_table *table, const struct ps_row_removal *removal,
                       uint64_t now)
{
    PS_ASSERT(table->bodies != NULL);
    if (!ps_row_aside_is_held(table))
        return;
    for (uint32_t i = 0; i < removal->count; i++) {
        uint64_t hash = ps_row_table_hash(table, removal->keys[i]);
        uint32_t number = ps_row_stripe_of(hash);
        const struct ps_row_stripe *stripe = &table->stripes[number];
        uint32_t row = ps_row_stripe_find(table, stripe, removal->keys[i], hash);
        if (row != PS_ROW_NONE && ps_row_is_stale(stripe, row) &&
            is_old(ps_row_at(&table->shape, stripe, row), removal->before, now))
            (void)!ps_row_aside_call(table, number, row, NULL);
    }
    (void)!ps_row_bodies_fetch(table, NULL);
}

/* One key, under its stripe's lock. It may have been pushed to since it was found, or have gone to
 * make room for another: then there is nothing to do, here and in a replay. */
static bool remove_one(struct ps_row_table *table, uint64_t key, uint64_t hash, uint64_t before,
                       uint64_t now)
{
    struct ps_row_stripe *stripe = &table->stripes[ps_row_stripe_of(hash)];
    uint32_t row = ps_row_stripe_find(table, stripe, key, hash);
    if (row == PS_ROW_NONE)
        return false;
    if (!age_is_not_asked && !is_old(ps_row_at(&table->shape, stripe, row), before, now))
        return false;
    ps_row_stripe_remove(table, stripe, hash, row);
    return true;
}

/* Nothing here may fail or ask the clock: the journal has the record already, and a replay takes
 * the same rows. Keys of one look are of one stripe or few, whose locks are taken once. */
uint64_t ps_row_table_remove(struct ps_row_table *table, const struct ps_row_removal *removal,
                             uint64_t now)
{
    struct ps_row_table *rows = removal->counts ? table->candidates : table;
    struct ps_mutex *held = NULL;
    uint64_t gone = 0;
    PS_ASSERT(removal->count <= PS_ROW_FOUND_MAX && rows != NULL);
    /* Rows that go leave their seats. */
    if (rows->bodies != NULL) {
        ps_rwlock_write(&rows->bodies->lock);
        bring_home(rows, removal, now);
    }
    for (uint32_t i = 0; i < removal->count; i++) {
        uint64_t hash = ps_row_table_hash(rows, removal->keys[i]);
        struct ps_mutex *lock = ps_row_lock_of(rows, ps_row_stripe_of(hash));
        if (lock != held && held != NULL)
            ps_mutex_unlock(held);
        if (lock != held)
            ps_mutex_lock(lock);
        held = lock;
        gone += remove_one(rows, removal->keys[i], hash, removal->before, now) ? 1 : 0;
    }
    if (held != NULL)
        ps_mutex_unlock(held);
    if (rows->bodies != NULL)
        ps_rwlock_unlock(&rows->bodies->lock);
    uint64_t before = atomic_fetch_sub(&rows->rows, gone);
    PS_ASSERT(before >= gone);
    /* Of a key that was counted no row goes. */
    return removal->counts ? 0 : gone;
}

/* By the same looks, so that there is one answer to which rows are old. */
uint64_t ps_row_table_sweep(struct ps_row_table *table, uint64_t before, uint64_t now)
{
    struct ps_row_walk walk = {.before = before};
    struct ps_row_found found;
    uint64_t gone = 0;
    bool is_more = before > 0;
    while (is_more) {
        is_more = ps_row_table_look(table, &walk, now, &found);
        const struct ps_row_removal removal = {found.keys, found.count, found.counts, before};
        gone += ps_row_table_remove(table, &removal, now);
    }
    return gone;
}

/* The bytes of a row, without those between its parts. */
static uint64_t digest_row(const struct ps_row_shape *shape, const uint8_t *row)
{
    PS_ASSERT(shape->stride % sizeof(uint32_t) == 0);
    uint64_t digest = 0;
    for (uint32_t k = 0; k < shape->array_count; k++) {
        const uint8_t *part = row + shape->arrays[k].offset;
        for (size_t i = 0; i < shape->arrays[k].size; i += sizeof(uint32_t)) {
            uint32_t word;
            memcpy(&word, part + i, sizeof word);
            digest = ps_row_hash(digest ^ word, k + 1);
        }
    }
    return digest;
}

/* A sum of rows, so that the order in which they lie has no part in it. */
uint64_t ps_row_table_digest(struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    uint64_t digest = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        const struct ps_row_stripe *stripe = &table->stripes[i];
        uint32_t end = stripe->page_count << table->shape.page_bits;
        /* Of a dead device the digest is anything, as all that is read there. */
        if (table->bodies != NULL) {
            ps_rwlock_write(&table->bodies->lock);
            (void)!ps_row_bodies_fetch_stripe(table, i, NULL);
            ps_rwlock_unlock(&table->bodies->lock);
        }
        for (uint32_t row = 0; row < end; row++)
            if (ps_row_is_live(stripe, row))
                digest += digest_row(&table->shape, ps_row_at(&table->shape, stripe, row));
    }
    /* Mixed, so that a row and a candidate never stand for each other. */
    if (table->candidates != NULL)
        digest += ps_row_hash(ps_row_table_digest(table->candidates), CANDIDATES_SALT);
    return digest;
}
