/* SPDX-License-Identifier: Apache-2.0 */
/* Events of CUDA that keep the time. */
#include "gpu_clock.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>

struct gpu_clock {
    cudaStream_t stream;
    cudaEvent_t begin;
    cudaEvent_t end;
};

static void must(cudaError_t error, const char *action)
{
    if (error == cudaSuccess)
        return;
    (void)fprintf(stderr, "%s: %s (%d)\n", action, cudaGetErrorName(error), (int)error);
    exit(EXIT_FAILURE);
}

struct gpu_clock *gpu_clock_open(const struct ps_driver *driver, struct ps_driver_stream *stream)
{
    (void)driver;
    struct gpu_clock *clock = calloc(1, sizeof *clock);
    if (clock == NULL)
        exit(EXIT_FAILURE);
    clock->stream = (cudaStream_t)(void *)stream;
    must(cudaEventCreate(&clock->begin), "creating an event");
    must(cudaEventCreate(&clock->end), "creating an event");
    return clock;
}

void gpu_clock_close(struct gpu_clock *clock)
{
    must(cudaEventDestroy(clock->begin), "destroying an event");
    must(cudaEventDestroy(clock->end), "destroying an event");
    free(clock);
}

void gpu_clock_start(struct gpu_clock *clock)
{
    must(cudaEventRecord(clock->begin, clock->stream), "recording an event");
}

double gpu_clock_stop(struct gpu_clock *clock)
{
    float milliseconds = 0;
    must(cudaEventRecord(clock->end, clock->stream), "recording an event");
    must(cudaEventSynchronize(clock->end), "waiting for an event");
    must(cudaEventElapsedTime(&milliseconds, clock->begin, clock->end), "reading the time");
    return (double)milliseconds / 1e3;
}

uint32_t gpu_multiprocessors(void)
{
    int device = 0;
    int count = 0;
    must(cudaGetDevice(&device), "asking for the device");
    must(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
         "counting multiprocessors");
    return (uint32_t)count;
}
