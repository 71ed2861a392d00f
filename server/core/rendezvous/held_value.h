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
    struct ps_held_value *parts; /* owned, by their offsets; then `content` has no pieces */
    uint64_t offset;             /* of a part, in its value */
    uint64_t arrived;            /* bytes of all parts; does not change once the value is whole */
};

/* A value with one reference. The content is kept by `hold`, or copied where that cannot be or is
 * not worth it. */
struct ps_held_value *ps_held_value_create(const struct ps_allocator *memory,
                                           const struct ps_value_facts *facts,
                                           struct ps_view content, const struct ps_hold *hold);

/* A value of `size` bytes whose parts are still to come. Until it is whole it is its one
 * owner's. */
struct ps_held_value *ps_held_value_create_parted(const struct ps_allocator *memory,
                                                  const struct ps_value_facts *facts,
                                                  uint64_t size);

/* The part's place in the value is free: takes it, and returns true. False: nothing is taken;
 * `*is_repeat` says that bytes of this place and length came before, otherwise the part overlaps
 * another one. Only while nobody else has the value. */
bool ps_held_value_add(struct ps_held_value *value, struct ps_held_value *part, uint64_t offset,
                       bool *is_repeat);

/* Have all of its bytes come? Of a value that came as one: yes. */
bool ps_held_value_is_whole(const struct ps_held_value *value);

/* Hands `count` bytes from `offset` on to `take`, piece by piece; `holder` is what has the piece: a
 * reference to it keeps the bytes, also when the value itself has gone. The range is within the
 * value. */
void ps_held_value_walk(struct ps_held_value *value, uint64_t offset, uint64_t count,
                        void (*take)(void *self, struct ps_held_value *holder,
                                     struct ps_bytes piece),
                        void *self);

/* One more reference. Returns `value`. */
struct ps_held_value *ps_held_value_acquire(struct ps_held_value *value);

/* NULL is allowed. */
void ps_held_value_release(struct ps_held_value *value);

#endif
