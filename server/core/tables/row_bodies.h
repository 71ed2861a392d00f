/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies (values and states) of rows in a device's memory (optimizer/device.h): the one door
 * between a table and its device. A row that was given a seat there has its body on the device from
 * its next push on; the host keeps room for it in the row's page, and a bit says that what lies in
 * that room is stale. Whoever wants rows as they are calls them home first (call, fetch) and then
 * reads them as those of any table; answers to pulls alone come from the device directly. Which
 * rows there are, their keys and versions are the host's affair, so that nothing else depends on
 * seats: not a replay, not a checkpoint, not a digest.
 *
 * Rows get seats with their pushes until the device has no more room; the others are stepped on
 * the host, with the same bits.
 *
 * Threads:  seats, steps and calls with the lock held for writing; a pull holds it for reading from
 *           the look-up of its rows until the device has been asked for them. It is taken before
 *           the locks of stripes, and a stripe's bits and seats change under both.
 * Blocking: expect for the device's memory; fetch and what reads wait for the device.
 * Errors:   PS_ERR_UNAVAILABLE: the device is dead, and the bodies that were there are lost.
 * Memory:   everything is allocated by create and expect; nothing else fails for want of it.
 */
#ifndef PS_SERVER_CORE_ROW_BODIES_H
#define PS_SERVER_CORE_ROW_BODIES_H

#include "base/log.h"
#include "optimizer/device.h"
#include "server/core/tables/row_push.h"
#include "server/core/tables/row_stripes.h"

/* Rows that are called home together, at most. */
#define PS_ROW_BODIES_CALLED 512

struct ps_row_called {
    uint32_t stripe;
    uint32_t row;
};

struct ps_row_bodies {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_row_device at;           /* what it borrows outlives the table */
    struct ps_optimizer_settings settings;
    enum ps_dtype dtype;
    uint32_t width;
    char name[64];
    struct ps_device_body body;
    struct ps_rwlock lock; /* PS_RANK_BODIES */
    /* Guarded by the lock. */
    struct ps_device_rows *rows; /* owned; NULL until the table is large enough */
    uint64_t seats;              /* that the device has room for */
    uint64_t seated;             /* given out at least once: all below */
    uint32_t *free;              /* owned; those of rows that went. Room for all seats */
    uint64_t free_count;
    bool is_full; /* the device has refused more seats: it is not asked again */
    size_t called;
    struct ps_row_called calls[PS_ROW_BODIES_CALLED];
    uint64_t numbers[PS_ROW_BODIES_CALLED];
    uint8_t *packed; /* owned; bodies on their way to the device */
    size_t packed_max;
    /* Of the last push; the pushing thread's, and whoever has the parameter's lock. */
    struct ps_device_ticket newest;
    _Atomic uint64_t bytes;       /* of lists */
    _Atomic uint64_t seats_taken; /* for who shows it */
};

/* `*bodies` is NULL without a device, and, with a line in the log, where it cannot have such rows.
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_row_bodies_create(const struct ps_row_table_options *options,
                                                struct ps_row_bodies **bodies,
                                                struct ps_error *error);
void ps_row_bodies_destroy(struct ps_row_bodies *bodies); /* NULL is allowed */

/* What the host keeps beside the rows. */
uint64_t ps_row_bodies_bytes(const struct ps_row_bodies *bodies);

/* In prepare: sees to seats for the push's rows, of which it makes some, as far as the device has
 * room. Takes the lock. */
PS_MUST_USE enum ps_status ps_row_bodies_expect(struct ps_row_push *push, struct ps_error *error);

/* In apply, under the locks of bodies and stripe: rows of the push in this stripe get seats. Those
 * without one are stepped at once, here; the others are noted in the push. */
void ps_row_bodies_take(struct ps_row_push *push, uint32_t stripe,
                        const struct ps_optimizer_step *step);

/* In apply, under the lock alone: queues the step for all rows that were noted. */
PS_MUST_USE enum ps_status ps_row_bodies_step(struct ps_row_push *push,
                                              const struct ps_optimizer_step *step,
                                              struct ps_error *error);

/* The row goes, and its seat is free: under the locks of bodies and stripe. */
void ps_row_bodies_leave(struct ps_row_table *table, struct ps_row_stripe *stripe, uint32_t row);

/* Calls a row home, if it is stale. With the lock, and no stripe's. */
PS_MUST_USE enum ps_status ps_row_bodies_call(struct ps_row_table *table, uint32_t stripe,
                                              uint32_t row, struct ps_error *error);

/* Those that were called are home: their bytes on the host are those of their last push. */
PS_MUST_USE enum ps_status ps_row_bodies_fetch(struct ps_row_table *table, struct ps_error *error);

/* All rows of a stripe, with the lock. */
PS_MUST_USE enum ps_status ps_row_bodies_fetch_stripe(struct ps_row_table *table, uint32_t stripe,
                                                      struct ps_error *error);

/* The values of `count` rows by their seats, each to its place in `to`. The lock is held for
 * reading, and given back here, as soon as the device has been asked for the last of them. */
PS_MUST_USE enum ps_status ps_row_bodies_get(struct ps_row_table *table, const uint64_t *seats,
                                             const uint32_t *places, uint32_t count, uint8_t *to,
                                             struct ps_error *error);

static inline bool ps_row_is_stale(const struct ps_row_stripe *stripe, uint32_t row)
{
    return stripe->stale != NULL && (stripe->stale[row / 64] & ps_row_bit(row)) != 0;
}

#endif
