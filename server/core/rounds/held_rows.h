/* SPDX-License-Identifier: Apache-2.0 */
/* A contribution of rows that waits for its round: different keys, and behind them a gradient for
 * each, as the content of a push has them.
 *
 * Nothing can be reserved for it when a table is configured, since a table has no size: it counts
 * with the rows of its shard (values/row_room.h) while it is held, and so does what its round may
 * have to make of it.
 *
 * Threads:  made and counted by one thread; released by any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   one allocation of the content's size; references keep it.
 */
#ifndef PS_SERVER_CORE_HELD_ROWS_H
#define PS_SERVER_CORE_HELD_ROWS_H

#include "server/core/values/parameter_spec.h"

#include <stdatomic.h>

struct ps_held_rows {
    struct ps_parameter_spec *spec; /* a reference of its own */
    struct ps_bytes content;        /* borrowed from what follows */
    uint64_t counted;               /* bytes in the spec's row_room */
    uint64_t rows;                  /* different keys */
    _Atomic uint64_t references;
    uint8_t bytes[]; /* aligned for numbers of 8 bytes */
};

/* Returns room for so many rows, to be filled in `bytes`, and counts it; NULL when memory is
 * refused. A reference to `spec`, which is a table's, is taken. */
struct ps_held_rows *ps_held_rows_create(struct ps_parameter_spec *spec, uint64_t rows);

/* Counts so many bytes more until the last release. Before it is shared. */
void ps_held_rows_count(struct ps_held_rows *held, uint64_t bytes);

struct ps_held_rows *ps_held_rows_acquire(struct ps_held_rows *held);

/* NULL is allowed. */
void ps_held_rows_release(struct ps_held_rows *held);

#endif
