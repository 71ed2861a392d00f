/* SPDX-License-Identifier: Apache-2.0 */
/* What the bench's parts share: a device without the runtime around it, arrays on it, and rows of
 * output. A row is one JSON object in one line of standard output; gpu_report.py makes sense of it.
 *
 * Threads:  one, but for the ring's.
 * Blocking: while measuring.
 * Errors:   whatever fails ends the program with a line on standard error: half a run is none.
 * Memory:   gpu_bench_close gives everything back.
 */
#ifndef PS_TESTS_GPU_BENCH_H
#define PS_TESTS_GPU_BENCH_H

#include "gpu_clock.h"

#include <stdbool.h>
#include <stdint.h>

/* Values, two states, the gradient. */
#define GPU_BENCH_ARRAYS (2 + PS_STATES_MAX)
#define GPU_BENCH_GRADIENT (GPU_BENCH_ARRAYS - 1)

#define GPU_BENCH_SAMPLES_MAX 200

/* Small parameters of one launch. */
#define GPU_BENCH_TENSORS 1000

struct gpu_bench {
    struct ps_driver driver;
    struct ps_driver_stream *stream;
    struct ps_driver_event *event;
    struct gpu_clock *clock;
    uint64_t size_max; /* bytes of the largest parameter: 1 GiB, less for a trial */
    uint32_t samples;
    uint32_t warm_ups;
    uint8_t *arrays[GPU_BENCH_ARRAYS]; /* on the device, size_max bytes and a little more each */
    uint8_t *pinned;                   /* pinned_bytes on the host */
    uint64_t pinned_bytes;
};

/* Ends the program when `code` is not 0. */
void gpu_bench_must(int code, const char *action);
void gpu_bench_fail(const char *text) __attribute__((noreturn));

void gpu_bench_open(struct gpu_bench *bench);
void gpu_bench_close(struct gpu_bench *bench);

/* Waits for everything in the stream. */
void gpu_bench_finish(const struct gpu_bench *bench);

/* Fills all arrays with random numbers of ordinary size: no zeros, no subnormals, states above 0.
 * (IEEE division and roots are slower for special numbers, and memory of zeros may be, too.) */
void gpu_bench_fill(const struct gpu_bench *bench, enum ps_dtype dtype);

/* The gradient alone, in an encoding of two bytes or one. */
void gpu_bench_fill_encoded(const struct gpu_bench *bench, enum ps_encoding encoding);

/* Called once per launch with its number; puts work into the stream. */
typedef void gpu_bench_fn(struct gpu_bench *bench, void *self, uint64_t call);

/* Warms up, then takes bench->samples times of `calls` calls each; seconds of one call. */
void gpu_bench_sample(struct gpu_bench *bench, gpu_bench_fn *run, void *self, uint32_t calls,
                      double *seconds);

/* "seconds":[...]} and the end of the line. */
void gpu_bench_print_seconds(const double *seconds, uint32_t count);

/* ---- The parts ---- */

void gpu_bench_copies(struct gpu_bench *bench);
void gpu_bench_rules(struct gpu_bench *bench);
void gpu_bench_scan(struct gpu_bench *bench);

/* Some updates with other numbers of blocks than the kernels choose. */
void gpu_bench_grids(struct gpu_bench *bench);
void gpu_bench_small(struct gpu_bench *bench);

/* Through the runtime of optimizer/device.h, which opens the device by itself. */
void gpu_bench_ring(uint64_t size_max, uint32_t samples);

/* The same: pulls, many small gradients in one message, gradients in memory that was registered,
 * and what pushes, pulls and snapshots take beside each other. */
void gpu_bench_mixed(uint64_t size_max, uint32_t samples);

/* A process that will have memory of the device. To be made before the driver is spoken to. */
struct gpu_lender {
    int orders, answers; /* pipes */
};
struct gpu_lender gpu_bench_lender(void);

/* Pushes of `size_max` bytes that the other process has on the device, and pulls to there. */
void gpu_bench_shared(const struct gpu_lender *lender, uint64_t size_max, uint32_t samples);

#endif
