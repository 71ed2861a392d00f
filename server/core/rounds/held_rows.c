/* SPDX-License-Identifier: Apache-2.0 */
/* One block with everything in it: a snapshot may hold it longer than its round does. */
#include "server/core/rounds/held_rows.h"

#include "base/assert.h"
#include "server/core/values/row_room.h"

#include <stddef.h>

/* Keys, and rows of floats behind them, are read where they lie. */
_Static_assert(offsetof(struct ps_held_rows, bytes) % sizeof(uint64_t) == 0, "keys are aligned");

/* Rows that were read from a message are fewer than 32 bits count, so that the product is none that
 * wraps. The spec of a table counts the elements of one row. */
struct ps_held_rows *ps_held_rows_create(struct ps_parameter_spec *spec, uint64_t rows)
{
    PS_ASSERT(ps_parameter_spec_is_table(spec) && rows <= UINT32_MAX);
    size_t size = (size_t)rows * (sizeof(uint64_t) + ps_parameter_spec_bytes(spec));
    struct ps_held_rows *held = ps_plain(spec->memory, sizeof *held + size);
    if (held == NULL)
        return NULL;
    held->spec = ps_parameter_spec_acquire(spec);
    held->content = (struct ps_bytes){held->bytes, size};
    held->counted = 0;
    held->rows = rows;
    atomic_init(&held->references, 1);
    ps_held_rows_count(held, sizeof *held + size);
    return held;
}

/* Counted in the room of the shard, which pushes to other tables ask as well: what waits for a slow
 * worker is memory like any other. Tables of a test may have no room to count in. */
void ps_held_rows_count(struct ps_held_rows *held, uint64_t bytes)
{
    PS_ASSERT(atomic_load(&held->references) == 1);
    if (held->spec->row_room == NULL)
        return;
    held->counted += bytes;
    atomic_fetch_add(&held->spec->row_room->bytes, bytes);
}

/* A checkpoint writes for longer than a round may last, and reads what nobody changes any more. */
struct ps_held_rows *ps_held_rows_acquire(struct ps_held_rows *held)
{
    uint64_t before = atomic_fetch_add(&held->references, 1);
    PS_ASSERT(before > 0);
    return held;
}

/* By whichever thread is done with it last: the end of a round, or a checkpoint. */
void ps_held_rows_release(struct ps_held_rows *held)
{
    if (held == NULL)
        return;
    uint64_t before = atomic_fetch_sub(&held->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    /* Both are read before the spec may go. */
    const struct ps_allocator *memory = held->spec->memory;
    if (held->spec->row_room != NULL)
        atomic_fetch_sub(&held->spec->row_room->bytes, held->counted);
    ps_parameter_spec_release(held->spec);
    ps_release(memory, held);
}
