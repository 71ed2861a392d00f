/* SPDX-License-Identifier: Apache-2.0 */
/* Seats are given out in order, and those of rows that went before new ones. The device's room for
 * them doubles with the table, or is had at once where a row limit says how many there may be: to
 * move a table within the device takes room for both of its places.
 *
 * A push sends its rows' seats and gradients once, and one launch steps them. Gradients of one key
 * are one by then (optimizer/repeats.h), so rows of a push have nothing to do with each other, and
 * each gets the bits that row_step.h would give it. A row that has its seat since this push is sent
 * before, whole, as it was made on the host or lay there. */
#include "server/core/tables/row_bodies.h"

#include "server/core/tables/row_push_parts.h"
#include "server/core/tables/row_step.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>

/* Seats that a table begins with, at least. */
/* So that the first pushes of a table do not each move it. */
#define SEATS_FIRST 1024

/* Bytes of bodies that are packed together. */
#define PACKED_BYTES ((size_t)256 << 10)

/* In a push's list: the row has its seat since this push. */
#define FRESH (UINT64_C(1) << 63)

static bool has_seats(struct ps_row_bodies *bodies, uint64_t wanted, struct ps_error *error,
                      enum ps_status *status);
static enum ps_status upload(struct ps_row_push *push, struct ps_error *error);

/* Rows that stay on the host, `seats` of them aside: said once for a table. */
static void tell(const struct ps_row_device *at, uint64_t seats, const struct ps_error *reason)
{
    PS_ASSERT(reason != NULL);
    PS_LOG(at->log, PS_LOG_WARN, "device", "rows of a table stay on the cpu",
           PS_FIELD_TEXT("name", at->name), PS_FIELD_UINT("rows_on_device", seats),
           PS_FIELD_ERROR(reason));
}

/* Nothing of the device is asked for: a table without rows needs none of it. */
enum ps_status ps_row_bodies_create(const struct ps_row_table_options *options,
                                    struct ps_row_bodies **created, struct ps_error *error)
{
    const struct ps_row_device *at = &options->device;
    struct ps_device_body body;
    *created = NULL;
    if (at->plugin == NULL)
        return PS_OK;
    const struct ps_device_rows_wish wish = {
        .settings = at->settings, .dtype = options->layout.dtype, .width = options->layout.width};
    PS_ASSERT(at->settings != NULL);
    struct ps_error reason = {0};
    if (at->plugin->rows_support(&wish, &body, &reason) != PS_OK) {
        tell(at, 0, &reason);
        return PS_OK;
    }
    PS_ASSERT(body.array_count == 1 + options->layout.state_count);
    /* The handle alone: no seat, no list, nothing on the device. Tables are many, and most of them
     * small. */
    struct ps_row_bodies *bodies = ps_zeroed(options->memory, sizeof *bodies);
    if (bodies == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a table on a device");
    size_t packed = PACKED_BYTES / body.stride > 0 ? PACKED_BYTES / body.stride : 1;
    *bodies = (struct ps_row_bodies){
        .memory = options->memory,
        .at = *at,
        .settings = *at->settings,
        .dtype = wish.dtype,
        .width = wish.width,
        .body = body,
        .packed_max = packed < PS_ROW_BODIES_CALLED ? packed : PS_ROW_BODIES_CALLED};
    /* The parameter's specification may go before a hold of its rows does: what is needed of it
     * later is copied. */
    (void)snprintf(bodies->name, sizeof bodies->name, "%s", at->name != NULL ? at->name : "");
    bodies->at.settings = &bodies->settings;
    bodies->at.name = bodies->name;
    /* Writers first: a push does not wait for one pull after another. */
    ps_rwlock_init(&bodies->lock, PS_RANK_BODIES);
    *created = bodies;
    return PS_OK;
}

/* With the table, which goes with its last hold: nobody is left who could read. What the device has
 * queued of these rows it does before it gives the memory to anybody. */
void ps_row_bodies_destroy(struct ps_row_bodies *bodies)
{
    if (bodies == NULL)
        return;
    const struct ps_allocator *memory = bodies->memory;
    bodies->at.plugin->rows_destroy(bodies->rows);
    ps_rwlock_fini(&bodies->lock);
    ps_release(memory, bodies->free);
    ps_release(memory, bodies->packed);
    ps_release(memory, bodies);
}

/* Beside what lies in the lists of stripes, which count with them. Asked for the metrics, by
 * anybody. */
uint64_t ps_row_bodies_bytes(const struct ps_row_bodies *bodies)
{
    PS_ASSERT(bodies != NULL);
    return sizeof *bodies + atomic_load(&bodies->bytes);
}

/* Seats for the rows that the push makes, and for those it has that are without one: of a table
 * that was loaded, of one that was small, or for which there was no room before a row went. The
 * pushing thread alone changes seats, and reads them without a lock. */
static uint64_t seats_wanted(const struct ps_row_push *push)
{
    uint64_t wanted = push->made;
    PS_ASSERT(push->begins[PS_ROW_STRIPES] == push->unique);
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        const struct ps_row_stripe *stripe = &push->table->stripes[i];
        for (uint32_t k = push->begins[i]; k < push->begins[i + 1]; k++)
            wanted += push->rows[k] != NULL && stripe->seats[push->numbers[k]] == PS_ROW_NONE;
    }
    return wanted;
}

/* A table whose rows take less than what is put on a device stays where it is: a push of a few
 * rows takes less time on the host than asking the device. */
static bool is_small(const struct ps_row_push *push)
{
    const struct ps_row_bodies *bodies = push->table->bodies;
    uint64_t rows = ps_row_table_rows(push->table) + push->made;
    PS_ASSERT(bodies->body.stride > 0);
    return bodies->rows == NULL && rows * bodies->body.stride < bodies->at.min_bytes;
}

/* The number of seats that is asked for first: all that there may be, or twice as many. */
static uint64_t seats_at_best(const struct ps_row_table *table, uint64_t least)
{
    const struct ps_row_bodies *bodies = table->bodies;
    uint64_t rows_max = table->settings.rows_max;
    uint64_t twice = 2 * bodies->seats > SEATS_FIRST ? 2 * bodies->seats : SEATS_FIRST;
    /* Only for the first time: whoever raises the limit later pays for the move as others do. */
    if (bodies->rows == NULL && rows_max >= least && rows_max < PS_ROW_NONE)
        return rows_max;
    return twice > least ? twice : least;
}

/* A refusal is no failure: those rows stay on the host. Nor does it matter to anybody but the clock
 * whether a row has a seat, so that a replay need not come to the same seats.
 *
 * The lock is for readers, who have asked the device for bodies that are about to move: they have
 * queued it by then, and the move comes behind. */
enum ps_status ps_row_bodies_expect(struct ps_row_push *push, struct ps_error *error)
{
    struct ps_row_table *table = push->table;
    struct ps_row_bodies *bodies = table->bodies;
    enum ps_status status = PS_OK;
    /* Most pushes end here, or a few lines further: seats are asked for when the table doubles. */
    if (bodies->is_full || is_small(push))
        return PS_OK;
    /* Of rows that go for this push the seats are not free yet: a few more are asked for than will
     * be needed. */
    uint64_t wanted = seats_wanted(push);
    uint64_t left = bodies->seats - bodies->seated + bodies->free_count;
    if (wanted <= left)
        return PS_OK;
    uint64_t least = bodies->seats + (wanted - left);
    uint64_t best = seats_at_best(table, least);
    struct ps_error reason = {0};
    PS_ASSERT(best >= least);
    ps_rwlock_write(&bodies->lock);
    /* Where twice the room is too much, a little more than this push needs may not be. */
    bool enough = has_seats(bodies, best, &reason, &status) ||
                  (status == PS_OK && has_seats(bodies, least + least / 8, &reason, &status));
    bodies->is_full = !enough;
    ps_rwlock_unlock(&bodies->lock);
    if (status != PS_OK)
        return ps_fail(error, status, "%s", reason.text);
    if (!enough)
        tell(&bodies->at, bodies->seats, &reason);
    return PS_OK;
}

/* So many seats in all, on the device and in the list of those that are free. `*status` is not
 * PS_OK only where the device is dead. */
static bool has_seats(struct ps_row_bodies *bodies, uint64_t wanted, struct ps_error *error,
                      enum ps_status *status)
{
    const struct ps_device_plugin *plugin = bodies->at.plugin;
    const struct ps_device_rows_wish wish = {
        .settings = &bodies->settings, .dtype = bodies->dtype, .width = bodies->width};
    /* A seat is known by 32 bits, one of which means none. */
    if (wanted >= PS_ROW_NONE)
        return false;
    /* The host's memory first: with it the step behind cannot fail. */
    if (bodies->packed == NULL)
        bodies->packed = ps_plain(bodies->memory, bodies->packed_max * bodies->body.stride);
    uint32_t *freed = ps_plain(bodies->memory, wanted * sizeof *freed);
    if (bodies->packed == NULL || freed == NULL) {
        ps_release(bodies->memory, freed);
        (void)ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of seats");
        return false;
    }
    enum ps_status got = bodies->rows == NULL ? plugin->rows_create(bodies->at.device, &wish,
                                                                    wanted, &bodies->rows, error)
                                              : plugin->rows_grow(bodies->rows, wanted, error);
    if (got != PS_OK) {
        ps_release(bodies->memory, freed);
        *status = got == PS_ERR_UNAVAILABLE ? got : PS_OK;
        return false;
    }
    /* The new list takes what the old one has: seats of rows that went, below the old end. */
    if (bodies->free_count > 0)
        memcpy(freed, bodies->free, bodies->free_count * sizeof *freed);
    ps_release(bodies->memory, bodies->free);
    bodies->free = freed;
    bodies->seats = wanted;
    atomic_store(&bodies->bytes, wanted * sizeof *freed + bodies->packed_max * bodies->body.stride);
    return true;
}

/* PS_ROW_NONE when all are taken. Those of rows that went first: what was used last is likeliest to
 * be near, and a table that has as many rows as ever needs no more room. */
static uint32_t take_seat(struct ps_row_bodies *bodies)
{
    PS_ASSERT(bodies->seated <= bodies->seats);
    if (bodies->free_count == 0 && bodies->seated == bodies->seats)
        return PS_ROW_NONE;
    atomic_fetch_add_explicit(&bodies->seats_taken, 1, memory_order_relaxed);
    return bodies->free_count > 0 ? bodies->free[--bodies->free_count] : (uint32_t)bodies->seated++;
}

/* Rows of the host are stepped in runs, as they stand in the push: a table has rows of both kinds
 * only where the device is full, and then they come mixed.
 *
 * A row with a seat is stale from here on, though the device has been asked for nothing yet: nobody
 * reads bodies before the lock is let go, which is behind the step. */
void ps_row_bodies_take(struct ps_row_push *push, uint32_t number,
                        const struct ps_optimizer_step *step)
{
    struct ps_row_table *table = push->table;
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t end = push->begins[number + 1];
    size_t size = ps_row_push_row_bytes(push);
    PS_ASSERT(push->seats != NULL);
    for (uint32_t i = push->begins[number], run = i; i < end; i++) {
        uint32_t row = push->numbers[i];
        uint32_t *seat = &stripe->seats[row];
        push->seats[i] = *seat == PS_ROW_NONE ? FRESH : 0;
        if (*seat == PS_ROW_NONE)
            *seat = take_seat(table->bodies);
        bool is_seated = *seat != PS_ROW_NONE;
        /* Without a seat it says so, fresh or not. */
        push->seats[i] |= *seat;
        if (is_seated)
            stripe->stale[row / 64] |= ps_row_bit(row);
        /* The run goes up to before a row that has a seat, or to the end. */
        uint32_t run_end = is_seated ? i : i + 1;
        if (run_end > run && (is_seated || i + 1 == end))
            ps_row_step(&table->shape, step, push->rows + run, run_end - run,
                        push->gradients + run * size);
        if (is_seated)
            run = i + 1;
    }
}

/* Everything of the row, as the device has it. */
static void pack_row(const struct ps_row_table *table, const uint8_t *row, uint8_t *packed)
{
    const struct ps_device_body *body = &table->bodies->body;
    for (uint32_t i = 0; i < body->array_count; i++) {
        PS_ASSERT(body->sizes[i] == table->shape.arrays[i].size);
        ps_row_copy(packed + body->offsets[i], row + table->shape.arrays[i].offset, body->sizes[i]);
    }
}

/* The list is empty afterwards, sent or not: behind a failure the device is dead. */
static enum ps_status send_packed(struct ps_row_bodies *bodies, size_t *count,
                                  struct ps_error *error)
{
    size_t some = *count;
    PS_ASSERT(some <= bodies->packed_max);
    *count = 0;
    return some == 0 ? PS_OK
                     : bodies->at.plugin->rows_write(bodies->rows, bodies->numbers, some,
                                                     bodies->packed, error);
}

/* Rows that have their seats since this push: as they were before it, since the host has not
 * stepped them. Without the locks of stripes, for the device's ring may be full: nobody else
 * writes a body of these rows, on the host or there, as long as the lock is held. */
static enum ps_status upload(struct ps_row_push *push, struct ps_error *error)
{
    struct ps_row_bodies *bodies = push->table->bodies;
    size_t count = 0;
    PS_ASSERT(bodies->called == 0);
    for (uint32_t i = 0; i < push->unique; i++) {
        if ((push->seats[i] & FRESH) == 0 || (uint32_t)push->seats[i] == PS_ROW_NONE)
            continue;
        /* Packed one behind the other, so that a thousand rows are a few copies. */
        pack_row(push->table, push->rows[i], bodies->packed + count * bodies->body.stride);
        bodies->numbers[count++] = (uint32_t)push->seats[i];
        if (count == bodies->packed_max)
            PS_TRY(send_packed(bodies, &count, error));
    }
    return send_packed(bodies, &count, error);
}

/* Rows of the host are out of the way then: seats and gradients of the others close up. */
enum ps_status ps_row_bodies_step(struct ps_row_push *push, const struct ps_optimizer_step *step,
                                  struct ps_error *error)
{
    struct ps_row_bodies *bodies = push->table->bodies;
    size_t size = ps_row_push_row_bytes(push);
    uint32_t count = 0;
    PS_TRY(upload(push, error));
    for (uint32_t i = 0; i < push->unique; i++) {
        uint32_t seat = (uint32_t)push->seats[i];
        if (seat == PS_ROW_NONE)
            continue;
        if (count != i)
            ps_row_copy(push->gradients + count * size, push->gradients + i * size, size);
        /* Without the mark of a fresh one: the device knows numbers. */
        push->seats[count++] = seat;
    }
    /* Of a table that is small, or on a device that had no room at all. */
    if (count == 0)
        return PS_OK;
    PS_ASSERT(bodies->rows != NULL);
    return bodies->at.plugin->rows_push(bodies->rows, push->seats, count, push->gradients, step,
                                        &bodies->newest, error);
}

/* The seat may be another row's with this same push: what the device does for that row it does
 * behind all that was asked for this one. There is room in the list for every seat. */
void ps_row_bodies_leave(struct ps_row_table *table, struct ps_row_stripe *stripe, uint32_t row)
{
    struct ps_row_bodies *bodies = table->bodies;
    uint32_t *seat = &stripe->seats[row];
    if (*seat == PS_ROW_NONE)
        return;
    PS_ASSERT(bodies->free_count < bodies->seated);
    bodies->free[bodies->free_count++] = *seat;
    *seat = PS_ROW_NONE;
    stripe->stale[row / 64] &= ~ps_row_bit(row);
    atomic_fetch_sub_explicit(&bodies->seats_taken, 1, memory_order_relaxed);
}

/* A row that is called twice comes twice, which does no harm. A full list is fetched before the
 * row is looked at again, so that what is in it is stale. */
enum ps_status ps_row_bodies_call(struct ps_row_table *table, uint32_t stripe, uint32_t row,
                                  struct ps_error *error)
{
    struct ps_row_bodies *bodies = table->bodies;
    PS_ASSERT(stripe < PS_ROW_STRIPES);
    if (!ps_row_is_stale(&table->stripes[stripe], row))
        return PS_OK;
    if (bodies->called == PS_ROW_BODIES_CALLED)
        PS_TRY(ps_row_bodies_fetch(table, error));
    bodies->numbers[bodies->called] = table->stripes[stripe].seats[row];
    bodies->calls[bodies->called++] = (struct ps_row_called){stripe, row};
    return PS_OK;
}

/* Under the lock of its stripe, since others read the row's page, and this one's bit says whether
 * they may. The row was live and seated when it was called, and the lock of bodies has been held
 * since. */
static void come_home(struct ps_row_table *table, struct ps_row_called called, const uint8_t *piece)
{
    const struct ps_row_shape *shape = &table->shape;
    const struct ps_device_body *body = &table->bodies->body;
    struct ps_row_stripe *stripe = &table->stripes[called.stripe];
    ps_mutex_lock(ps_row_lock_of(table, called.stripe));
    uint8_t *row = ps_row_at(shape, stripe, called.row);
    PS_ASSERT(ps_row_is_live(stripe, called.row));
    for (uint32_t i = 0; i < body->array_count; i++)
        ps_row_copy(row + shape->arrays[i].offset, piece + body->offsets[i], body->sizes[i]);
    stripe->stale[called.row / 64] &= ~ps_row_bit(called.row);
    ps_mutex_unlock(ps_row_lock_of(table, called.stripe));
}

/* In parts that go into a slot of the device's ring. The lock is held while the device works: a
 * push must not write over these rows between their reading and their coming home. That is a round
 * trip and a few hundred kilobytes. */
enum ps_status ps_row_bodies_fetch(struct ps_row_table *table, struct ps_error *error)
{
    struct ps_row_bodies *bodies = table->bodies;
    const struct ps_device_plugin *plugin = bodies->at.plugin;
    size_t count = bodies->called;
    enum ps_status status = PS_OK;
    bodies->called = 0;
    PS_ASSERT(count == 0 || bodies->rows != NULL);
    for (size_t done = 0; status == PS_OK && done < count;) {
        size_t most = plugin->rows_read_max(bodies->rows, bodies->body.stride);
        size_t some = count - done < most ? count - done : most;
        struct ps_device_rows_reading reading = {0};
        const uint8_t *pieces = NULL;
        status = plugin->rows_read_begin(bodies->rows, bodies->numbers + done, some, 0,
                                         bodies->body.stride, &reading, error);
        if (status == PS_OK)
            status = plugin->rows_read_end(&reading, &pieces, error);
        for (size_t i = 0; status == PS_OK && i < some; i++)
            come_home(table, bodies->calls[done + i], pieces + i * bodies->body.stride);
        plugin->rows_read_release(&reading);
        done += some;
    }
    return status;
}

/* In the order of their pages, as whoever reads them next goes through them. */
enum ps_status ps_row_bodies_fetch_stripe(struct ps_row_table *table, uint32_t number,
                                          struct ps_error *error)
{
    const struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t end = stripe->page_count << table->shape.page_bits;
    PS_ASSERT(number < PS_ROW_STRIPES);
    for (uint32_t row = 0; row < end; row++)
        PS_TRY(ps_row_bodies_call(table, number, row, error));
    return ps_row_bodies_fetch(table, error);
}

/* A slot holds some ten thousand rows of 64 floats: most answers are one reading, and the lock is
 * free while it is waited for. What was queued before the lock is let go has the rows as they were
 * looked up: a push that takes the lock then, and may give a seat to another row, is queued behind
 * it. */
enum ps_status ps_row_bodies_get(struct ps_row_table *table, const uint64_t *seats,
                                 const uint32_t *places, uint32_t count, uint8_t *to,
                                 struct ps_error *error)
{
    struct ps_row_bodies *bodies = table->bodies;
    const struct ps_device_plugin *plugin = bodies->at.plugin;
    size_t size = table->shape.arrays[0].size;
    enum ps_status status = PS_OK;
    size_t most = count > 0 ? plugin->rows_read_max(bodies->rows, size) : 0;
    uint32_t done = 0;
    do {
        struct ps_device_rows_reading reading = {0};
        const uint8_t *pieces = NULL;
        uint32_t some = count - done < most ? count - done : (uint32_t)most;
        if (some > 0)
            status =
                plugin->rows_read_begin(bodies->rows, seats + done, some, 0, size, &reading, error);
        /* The last reading is on its way, or none will be. */
        if (status != PS_OK || done + some == count)
            ps_rwlock_unlock(&bodies->lock);
        if (status == PS_OK && some > 0)
            status = plugin->rows_read_end(&reading, &pieces, error);
        for (uint32_t i = 0; status == PS_OK && i < some; i++)
            ps_row_copy(to + places[done + i] * size, pieces + i * size, size);
        plugin->rows_read_release(&reading);
        done += some;
    } while (status == PS_OK && done < count);
    return status;
}
