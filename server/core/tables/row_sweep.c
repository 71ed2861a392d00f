/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over whole tables.
 *
 * A sweep reads all pages once, from one end to the other, at the speed of memory: ten million
 * rows of 16 floats in a tenth of a second, half a millisecond for each stripe. Readers and pushes
 * come in between stripes.
 */
#include "server/core/tables/row_sweep.h"

#include "server/core/tables/row_aside.h"
#include "server/core/tables/row_bodies.h"

#include "base/assert.h"

#define CANDIDATES_SALT 0x9E6C63D0876A9A4Bu

/* The ages are differences in 32 bits, which are right also where versions have gone on from 0.
 * Under one lock for the whole stripe: letting go between would cost more than the rows. */
static uint64_t sweep_stripe(struct ps_row_table *table, uint32_t number, uint64_t age_max,
                             uint64_t now)
{
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint64_t gone = 0;
    ps_mutex_lock(ps_row_lock_of(table, number));
    uint32_t end = stripe->page_count << table->shape.page_bits;
    for (uint32_t row = 0; row < end; row++) {
        if (!ps_row_is_live(&table->shape, stripe, row))
            continue;
        const uint8_t *at = ps_row_at(&table->shape, stripe, row);
        uint32_t age = (uint32_t)now - ps_row_touched(at);
        if (age <= age_max)
            continue;
        PS_ASSERT(gone < UINT32_MAX);
        ps_row_stripe_remove(table, stripe, ps_row_table_hash(table, ps_row_key(at)), row);
        gone++;
    }
    ps_mutex_unlock(ps_row_lock_of(table, number));
    return gone;
}

/* Before rows of a stripe go: what a hold has of them comes home from the device. If that is dead,
 * so is the server. */
static void bring_home(struct ps_row_table *table, uint32_t number, uint64_t age_max, uint64_t now)
{
    const struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t end = stripe->page_count << table->shape.page_bits;
    PS_ASSERT(table->bodies != NULL);
    if (!ps_row_aside_is_held(table))
        return;
    for (uint32_t row = 0; row < end; row++)
        if (ps_row_is_stale(&table->shape, stripe, row) &&
            (uint32_t)now - ps_row_touched(ps_row_at(&table->shape, stripe, row)) > age_max)
            (void)!ps_row_aside_call(table, number, row, NULL);
    (void)!ps_row_bodies_fetch(table, NULL);
}

/* Nothing here may fail or ask the clock: the journal has the record already, and a replay takes
 * the same rows. */
uint64_t ps_row_table_sweep(struct ps_row_table *table, uint64_t before, uint64_t now)
{
    /* The newest push is never swept: what it stepped is as young as can be. */
    PS_ASSERT(before <= now);
    uint64_t gone = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        /* Rows that go leave their seats. */
        if (table->bodies != NULL) {
            ps_rwlock_write(&table->bodies->lock);
            bring_home(table, i, now - before, now);
        }
        gone += sweep_stripe(table, i, now - before, now);
        if (table->bodies != NULL)
            ps_rwlock_unlock(&table->bodies->lock);
    }
    uint64_t rows = atomic_fetch_sub(&table->rows, gone);
    PS_ASSERT(rows >= gone);
    /* Who was counted for as long as that begins anew, too. No row goes with it. */
    if (table->candidates != NULL)
        (void)ps_row_table_sweep(table->candidates, before, now);
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
            if (ps_row_is_live(&table->shape, stripe, row))
                digest += digest_row(&table->shape, ps_row_at(&table->shape, stripe, row));
    }
    /* Mixed, so that a row and a candidate never stand for each other. */
    if (table->candidates != NULL)
        digest += ps_row_hash(ps_row_table_digest(table->candidates), CANDIDATES_SALT);
    return digest;
}
