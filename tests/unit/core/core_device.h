/* SPDX-License-Identifier: Apache-2.0 */
/* A device for a core_world: the emulator's, whose kernels run on the CPU.
 *
 * Threads:  one.
 * Blocking: while kernels run.
 * Errors:   asserted.
 * Memory:   in place; core_device_close after the worlds that use it have ended.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_DEVICE_H
#define PS_TESTS_UNIT_CORE_CORE_DEVICE_H

#include "server/core/update/device_store.h"
#include "tests/unit/core/core_world.h"

struct core_device {
    struct ps_device_store store;
    int deaths;
};

/* `fail` is what goes wrong (optimizer/emulator/emulator.h); NULL: nothing. */
void core_device_open(struct core_device *device, uint64_t budget, const char *fail);

/* The same with a ring of `ring_bytes` (two slots of 64 KiB at least) instead of eight slots. */
void core_device_open_ring(struct core_device *device, uint64_t budget, const char *fail,
                           uint64_t ring_bytes);
void core_device_close(struct core_device *device);

struct ps_device_stats core_device_stats(const struct core_device *device);

/* A world that owns shard 0 of 1 under `epoch`, still STARTING, whose parameters live on the device
 * where they can; `device` may be NULL. It saves, and `journals` if asked to. */
void core_device_world(struct core_world *world, struct core_device *device, uint64_t epoch,
                       bool journals, uint64_t bytes_max);

#endif
