/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker says to a program, or a program to a worker: small fields, and content that stays
 * where it was received. It is counted, so that a mailbox, a reply that is on its way and a handler
 * may all have it.
 *
 * Threads:  acquire and release are safe from any thread; a parcel never changes.
 * Blocking: never.
 * Errors:   NULL when memory was refused.
 * Memory:   the last release gives back the bytes.
 */
#ifndef PS_SERVER_CORE_PARCEL_H
#define PS_SERVER_CORE_PARCEL_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "proto/program_messages.h"

#include <stdatomic.h>
#include <stdint.h>

/* Content below this is copied: what holds the network's buffers would be as large. */
#define PS_PARCEL_COPIED_BYTES 4096

struct ps_parcel {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    atomic_uint references;
    struct ps_program_payload payload; /* all of it lies in this block, but for kept content */
    uint64_t bytes;                    /* that it counts for */
    void *kept;                        /* the content's memory; NULL: it is part of this block */
    void (*drop)(void *kept);
};

/* A parcel with one reference. Small fields are copied; the content is kept by `hold`, or copied
 * where that cannot be or is not worth it. */
struct ps_parcel *ps_parcel_create(const struct ps_allocator *memory,
                                   const struct ps_program_payload *payload,
                                   const struct ps_hold *hold);

struct ps_parcel *ps_parcel_acquire(struct ps_parcel *parcel);
/* NULL is allowed. */
void ps_parcel_release(struct ps_parcel *parcel);

#endif
