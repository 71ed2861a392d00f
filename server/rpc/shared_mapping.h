/* SPDX-License-Identifier: Apache-2.0 */
/* One memory that a client shares, while anybody uses it. Where the server has a device that copies
 * gradients by itself, the memory can be registered with it: at the first content that gains by
 * that and not before, since all its pages are pinned then and exist, touched or not.
 *
 * Threads:  any.
 * Blocking: pin and unpin, while the device's driver walks through the pages.
 * Errors:   none: memory that cannot be registered is copied as other memory is.
 * Memory:   a mapping belongs to shared_memory.c, which counts its users.
 */
#ifndef PS_SERVER_RPC_SHARED_MAPPING_H
#define PS_SERVER_RPC_SHARED_MAPPING_H

#include "base/alloc.h"
#include "base/shared_segment.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Content of less than this is copied by the processor as fast. */
#define PS_SHARED_PIN_BYTES_MIN (256u << 10)

struct ps_shared_memory;

/* A device that copies from registered memory; `pin` NULL: there is none. */
struct ps_shared_pins {
    bool (*pin)(void *self, void *memory, size_t size); /* false: refused */
    void (*unpin)(void *self, void *memory);            /* what was pinned, before it is unmapped */
    void *self;
};

struct ps_shared_mapping {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_shared_memory *owner;    /* borrowed; outlives this */
    struct ps_shared_segment segment;
    uint64_t number;
    atomic_uint references;
    int socket; /* the client's; its end says that nobody uses the memory any more */
    struct ps_shared_pins pins; /* outlive this */
    atomic_int pinned;          /* private: enum in shared_mapping.c; 0: nobody has asked */
};

/* Content of `size` bytes is about to be read by a device. The first who comes with one that is
 * large enough registers the memory, the others go on meanwhile. */
void ps_shared_mapping_pin(struct ps_shared_mapping *mapping, size_t size);

/* Nobody uses it any more. Once, and before the segment is closed. */
void ps_shared_mapping_unpin(struct ps_shared_mapping *mapping);

#endif
