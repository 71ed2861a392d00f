/* SPDX-License-Identifier: Apache-2.0 */
/* One memory that a client shares, while anybody uses it. Where the server has a device that copies
 * gradients by itself, the memory can be registered with it: at the first content that gains by
 * that and not before, since all its pages are pinned then and exist, touched or not. Memory may
 * also be the device's own, of a client that trains on it: then nobody here can read it but the
 * device.
 *
 * Threads:  any.
 * Blocking: pin and end, while the device's driver walks through the pages, or uses the memory.
 * Errors:   said at open and import; memory that cannot be registered is copied as other memory is.
 * Memory:   a mapping belongs to shared_memory.c, which counts its users.
 */
#ifndef PS_SERVER_RPC_SHARED_MAPPING_H
#define PS_SERVER_RPC_SHARED_MAPPING_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/device_share.h"
#include "base/shared_segment.h"
#include "base/status.h"
#include "proto/messages.h"

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

/* A device that opens memory of its own which clients name; `import` NULL: there is none. What it
 * gives is an address of the device's: the host reads and writes there through these alone. */
struct ps_shared_devices {
    enum ps_status (*import)(void *self, const struct ps_device_share *share, uint8_t **memory,
                             struct ps_error *error);
    void (*unimport)(void *self, uint8_t *memory); /* returns when the device uses it no more */
    enum ps_status (*read)(void *self, void *to, const uint8_t *from, size_t size,
                           struct ps_error *error);
    enum ps_status (*write)(void *self, uint8_t *to, struct ps_view content,
                            struct ps_error *error);
    void *self;
};

struct ps_shared_mapping {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_shared_memory *owner;    /* borrowed; outlives this */
    struct ps_shared_segment segment;  /* on a device: address and size, and no mapping of ours */
    bool on_device;
    struct ps_shared_devices devices; /* of what is on a device; outlive this */
    uint64_t number;
    atomic_uint references;
    int socket; /* the client's; its end says that nobody uses the memory any more */
    struct ps_shared_pins pins; /* outlive this */
    atomic_int pinned;          /* private: enum in shared_mapping.c; 0: nobody has asked */
};

/* What all mappings of one owner have in common. */
struct ps_shared_mapping_wish {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_shared_memory *owner;    /* borrowed */
    struct ps_shared_pins pins;
    struct ps_shared_devices devices;
};

/* Maps what a client made, or opens a piece of a device's memory (`devices.import` is there), with
 * one reference and without a socket. NULL: refused, and `error` says why. */
struct ps_shared_mapping *ps_shared_mapping_open(const struct ps_shared_mapping_wish *wish,
                                                 uint64_t size, int descriptor,
                                                 struct ps_error *error);
struct ps_shared_mapping *ps_shared_mapping_import(const struct ps_shared_mapping_wish *wish,
                                                   const struct ps_device_share *share,
                                                   struct ps_error *error);

/* Is the range within it, and not empty? False, and `error` says so: PS_ERR_BAD_INPUT. */
bool ps_shared_mapping_has(const struct ps_shared_mapping *mapping,
                           const struct ps_shared_range *range, struct ps_error *error);

/* Content of `size` bytes is about to be read by a device. The first who comes with one that is
 * large enough registers the memory, the others go on meanwhile. */
void ps_shared_mapping_pin(struct ps_shared_mapping *mapping, size_t size);

/* Nobody uses it any more. Once, and before the segment is closed. */
void ps_shared_mapping_unpin(struct ps_shared_mapping *mapping);

/* That, and the memory is unmapped, or let go of by the device. */
void ps_shared_mapping_end(struct ps_shared_mapping *mapping);

#endif
