/* SPDX-License-Identifier: Apache-2.0 */
/* One value of the rendezvous: what it is, and its bytes, which stay where they were received. It
 * is counted, so that a reply that is being sent and the queue that it lies in may both have it.
 *
 * Threads:  acquire and release are safe from any thread; a value never changes.
 * Blocking: never.
 * Errors:   NULL when memory was refused.
 * Memory:   the last release gives back the bytes.
 */
#ifndef PS_SERVER_CORE_HELD_VALUE_H
#define PS_SERVER_CORE_HELD_VALUE_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "proto/rendezvous_messages.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Content below this is copied: what holds the network's buffers would be as large. */
#define PS_HELD_COPIED_BYTES 4096

struct ps_held_value {
    struct ps_held_value *next, *prev; /* in a queue of the rendezvous, under its lock */
    const struct ps_allocator *memory; /* borrowed; outlives this */
    atomic_uint references;
    struct ps_value_facts facts;
    struct ps_view content; /* its pieces are part of this struct */
    uint64_t bytes;         /* that it counts for */
    void *kept;             /* the network's buffers; NULL: the bytes are part of this struct */
    void (*drop)(void *kept);
};

/* A value with one reference. The content is kept by `hold`, or copied where that cannot be or is
 * not worth it. */
struct ps_held_value *ps_held_value_create(const struct ps_allocator *memory,
                                           const struct ps_value_facts *facts,
                                           struct ps_view content, const struct ps_hold *hold);

/* One more reference. Returns `value`. */
struct ps_held_value *ps_held_value_acquire(struct ps_held_value *value);

/* NULL is allowed. */
void ps_held_value_release(struct ps_held_value *value);

#endif
