/* SPDX-License-Identifier: Apache-2.0 */
/* The host's clock around the emulator's work. */
#include "gpu_clock.h"

#include "base/clock.h"

#include <stdlib.h>

struct gpu_clock {
    const struct ps_driver *driver;
    struct ps_driver_stream *stream;
    struct ps_driver_event *event;
    uint64_t begin;
};

static void finish(struct gpu_clock *clock)
{
    const struct ps_driver *driver = clock->driver;
    if (driver->record(driver->self, clock->event, clock->stream) != 0 ||
        driver->event_synchronize(driver->self, clock->event) != 0)
        exit(EXIT_FAILURE);
}

struct gpu_clock *gpu_clock_open(const struct ps_driver *driver, struct ps_driver_stream *stream)
{
    struct gpu_clock *clock = calloc(1, sizeof *clock);
    if (clock == NULL || driver->event_create(driver->self, &clock->event) != 0)
        exit(EXIT_FAILURE);
    clock->driver = driver;
    clock->stream = stream;
    return clock;
}

void gpu_clock_close(struct gpu_clock *clock)
{
    clock->driver->event_destroy(clock->driver->self, clock->event);
    free(clock);
}

void gpu_clock_start(struct gpu_clock *clock)
{
    finish(clock);
    clock->begin = ps_clock_precise_ns();
}

double gpu_clock_stop(struct gpu_clock *clock)
{
    finish(clock);
    return (double)(ps_clock_precise_ns() - clock->begin) / 1e9;
}

uint32_t gpu_multiprocessors(void)
{
    return 1;
}
