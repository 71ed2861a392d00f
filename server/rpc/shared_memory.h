/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that clients on this machine share with the server: who may, how much, and which piece is
 * meant. Clients find the socket by the name that a reply's metadata gives them
 * (proto/shared_range.h), hand over sealed memory and are told a number for it. What the number
 * names lasts as long as the client's connection to that socket, and until the last call that uses
 * it is over. Then, and not before, the server closes its end of that connection: a client that has
 * shut its own down and sees this knows that its memory is its own again.
 *
 * Only processes of the server's own user, or of root, are let in. A number is random, and nobody
 * but the client is told it: it is what keeps one client out of another's memory.
 *
 * Threads:  one of its own, from create to destroy. find and release are safe from any.
 * Blocking: destroy, until that thread has ended.
 * Errors:   said at each function.
 * Memory:   mappings of what clients made: at most PS_SHARED_CLIENTS_MAX, of `bytes_max` together.
 */
#ifndef PS_SERVER_RPC_SHARED_MEMORY_H
#define PS_SERVER_RPC_SHARED_MEMORY_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "proto/messages.h"
#include "server/rpc/shared_mapping.h"

#define PS_SHARED_CLIENTS_MAX 256

/* Pieces of a device's memory that one client process may hand over: each takes one of the places
 * above. What they have together is bounded by the device's own size, and takes none of the
 * host's. */
#define PS_SHARED_DEVICE_PIECES_MAX 64

struct ps_shared_memory;

struct ps_shared_memory_options {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_clock *clock;      /* borrowed; outlives this */
    const struct ps_log *log;          /* borrowed; may be NULL */
    struct ps_metrics *metrics;        /* borrowed; may be NULL */
    uint64_t bytes_max;                /* of all clients together */
    struct ps_shared_pins pins;        /* a device that copies from it by itself, if any */
    struct ps_shared_devices devices;  /* one that opens memory of its own, if any */
};

/* Listens under a random name and starts the thread. PS_ERR_IO, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_shared_memory_create(const struct ps_shared_memory_options *options,
                                                   struct ps_shared_memory **shared,
                                                   struct ps_error *error);

/* No call may use any of it any more. NULL is allowed. */
void ps_shared_memory_destroy(struct ps_shared_memory *shared);

/* What clients are told. Lives as long as `shared`. */
const char *ps_shared_memory_name(const struct ps_shared_memory *shared);

/* The bytes that a range names, while they are held. They are shared: the client may change them at
 * any moment, between two reads of one byte, too. On a device `bytes` is an address of its own, and
 * only the device reads and writes there. */
struct ps_shared_hold {
    uint8_t *bytes;
    size_t size;
    struct ps_shared_mapping *mapping; /* private */
};

/* On PS_OK give it back with ps_shared_memory_release.
 *
 * PS_ERR_UNAVAILABLE  no memory has that number, or not any more
 * PS_ERR_BAD_INPUT    the range is empty or leaves the memory
 */
PS_MUST_USE enum ps_status ps_shared_memory_find(struct ps_shared_memory *shared,
                                                 const struct ps_shared_range *range,
                                                 struct ps_shared_hold *hold,
                                                 struct ps_error *error);

/* To be asked by whoever is about to read or write. An empty hold is of nothing. */
static inline bool ps_shared_hold_on_device(const struct ps_shared_hold *hold)
{
    return hold->mapping != NULL && hold->mapping->on_device;
}

/* Accepts a zeroed hold, and one that was released. */
void ps_shared_memory_release(struct ps_shared_hold *hold);

/* Does any client share memory now? Where none does, no request names a range that is known. */
bool ps_shared_memory_is_used(const struct ps_shared_memory *shared);

/* For metrics: content of so many bytes went this way; `copied`: the server copied it. */
void ps_shared_memory_count(struct ps_shared_memory *shared, bool is_push, uint64_t bytes,
                            bool copied);

#endif
