/* SPDX-License-Identifier: Apache-2.0 */
/* A driver between the runtime and the real one, which counts what is asked of it. What a push
 * costs beside its bytes is how often the device is spoken to: each launch, copy and event takes
 * the host microseconds, and small parameters are nothing but that. So the numbers are shown
 * (metrics), stated (docs/gpu.md) and held to (test_driver_calls).
 *
 * Threads:  any; the numbers are atomic.
 * Blocking: as the real driver.
 * Errors:   those of the real driver.
 * Memory:   the counting driver is its own `self`: it stays where it is until the driver is closed.
 */
#ifndef PS_OPTIMIZER_DEVICE_DRIVER_CALLS_H
#define PS_OPTIMIZER_DEVICE_DRIVER_CALLS_H

#include "optimizer/device/driver.h"

#include <stdatomic.h>

enum ps_driver_call {
    PS_CALLS_OTHER,   /* opening, memory, questions */
    PS_CALLS_KERNELS, /* launches of all kinds */
    PS_CALLS_COPIES,  /* over the bus and on the device */
    PS_CALLS_ORDERS,  /* one stream is to wait for another */
    PS_CALLS_RECORDS, /* of events */
    PS_CALLS_COUNT
};

struct ps_driver_calls {
    struct ps_driver real;
    _Atomic uint64_t counts[PS_CALLS_COUNT];
};

/* `driver` was opened; from now on it counts in `calls`, which was zeroed. */
void ps_driver_calls_open(struct ps_driver_calls *calls, struct ps_driver *driver);

#endif
