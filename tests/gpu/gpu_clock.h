/* SPDX-License-Identifier: Apache-2.0 */
/* How long the work of a stream takes: by the device's own events, or, for the emulator, by the
 * host's clock.
 *
 * Threads:  one.
 * Blocking: gpu_clock_stop waits for the work.
 * Errors:   what fails ends the program with a line.
 * Memory:   gpu_clock_close gives everything back.
 */
#ifndef PS_TESTS_GPU_CLOCK_H
#define PS_TESTS_GPU_CLOCK_H

#include "optimizer/device/driver.h"

struct gpu_clock;

/* Of work in `stream`, which the driver made; both outlive the clock. */
struct gpu_clock *gpu_clock_open(const struct ps_driver *driver, struct ps_driver_stream *stream);
void gpu_clock_close(struct gpu_clock *clock);

/* From here in the stream ... */
void gpu_clock_start(struct gpu_clock *clock);

/* ... to here; in seconds. */
double gpu_clock_stop(struct gpu_clock *clock);

/* How many the present device has; the emulator: one. */
uint32_t gpu_multiprocessors(void);

#endif
