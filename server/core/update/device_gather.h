/* SPDX-License-Identifier: Apache-2.0 */
/* Small gradients on their way to a device, gathered so that they go there in one copy and one
 * launch: a push of a few KiB costs the device less than the asking.
 *
 * Whatever is gathered is pushed in its order, when the room is used up, when somebody waits for a
 * part of it, or before anything else is asked of one of its parameters. Gathers are numbered.
 *
 * Threads:  any. For one parameter calls come one after another (the parameter's lock).
 * Blocking: a flush may wait for the device when that is far behind.
 * Errors:   PS_ERR_UNAVAILABLE: the device is dead; what was gathered is dropped.
 * Memory:   fixed after open.
 */
#ifndef PS_SERVER_CORE_DEVICE_GATHER_H
#define PS_SERVER_CORE_DEVICE_GATHER_H

#include "base/thread.h"
#include "optimizer/device.h"

/* Larger gradients go by themselves. */
#define PS_GATHER_GRADIENT_BYTES (64u << 10)

#define PS_GATHER_BYTES (1u << 20)
#define PS_GATHER_PUSHES 256

struct ps_gathered; /* one of them */

struct ps_device_gather {
    const struct ps_device_plugin *plugin; /* borrowed; outlives this */
    struct ps_device *device;              /* borrowed; outlives this */
    struct ps_mutex lock;                  /* PS_RANK_GATHER; guards what follows */
    struct ps_gathered *entries;           /* PS_GATHER_PUSHES */
    uint8_t *bytes;                        /* PS_GATHER_BYTES, the gradients one after another */
    size_t count;
    size_t used;
    uint64_t number;                /* of the gather that is open; the first is 1 */
    struct ps_device_ticket newest; /* of the last flush */
    struct ps_error failure;        /* of the first flush that failed: from then on all do */
};

/* PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_device_gather_open(struct ps_device_gather *gather,
                                                 const struct ps_device_plugin *plugin,
                                                 struct ps_device *device, struct ps_error *error);

/* Drops what is left. Accepts a zeroed one. */
void ps_device_gather_close(struct ps_device_gather *gather);

/* Takes a copy of a push whose gradient is small. `*number` is that of the gather it is in. */
PS_MUST_USE enum ps_status ps_device_gather_put(struct ps_device_gather *gather,
                                                const struct ps_device_push *push, uint64_t *number,
                                                struct ps_error *error);

/* Returns when gather `number` has been pushed, and its ticket, or that of a later one. */
PS_MUST_USE enum ps_status ps_device_gather_flush(struct ps_device_gather *gather, uint64_t number,
                                                  struct ps_device_ticket *ticket,
                                                  struct ps_error *error);

#endif
