/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events as CUDA defines them, run one piece of work at a time, and by lot where more
 * than one stream may go on. For some time at a stretch one of them, by lot as well, is slow: it
 * goes on where no other may, so that the rest gets far ahead of it.
 *
 * Threads:  one at a time; the driver's lock sees to it.
 * Blocking: run_until and finish run work.
 * Errors:   0, or the number that broke the device, for ever after.
 * Memory:   each piece of work that waits is one allocation.
 */
#ifndef PS_OPTIMIZER_EMULATOR_STREAM_EMULATOR_H
#define PS_OPTIMIZER_EMULATOR_STREAM_EMULATOR_H

#include "base/alloc.h"
#include "base/random.h"
#include "optimizer/cuda/launch.h"

#define PS_EMULATED_STREAMS_MAX 8

/* How often it was recorded, and how many of those records streams have come past. */
struct ps_driver_event {
    uint64_t recorded;
    uint64_t passed;
};

enum ps_work_kind {
    PS_WORK_COPY,
    PS_WORK_ZERO,
    PS_WORK_FILL, /* from here on kernels ... */
    PS_WORK_APPLY,
    PS_WORK_TABLE,
    PS_WORK_OPEN,
    PS_WORK_SCAN,
    PS_WORK_ROWS,
    PS_WORK_BODIES,
    PS_WORK_JUDGE, /* ... up to here */
    PS_WORK_RECORD,
    PS_WORK_WAIT
};

struct ps_stream_work {
    enum ps_work_kind kind;
    struct ps_stream_work *next;
    int breaks; /* not 0: this kernel ends the device instead */
    bool hangs; /* this kernel never ends */
    void *to;
    const void *from;
    size_t size;
    struct ps_driver_event *event;
    uint64_t number; /* of the record that is made, or waited for */
    struct ps_cuda_fill fill;
    struct ps_cuda_table table;
    struct ps_cuda_apply apply;
    struct ps_cuda_scan scan;
    struct ps_cuda_judge judge;
    struct ps_cuda_rows rows;
    struct ps_cuda_bodies bodies;
    struct ps_optimizer_step step;
    struct ps_optimizer_settings settings;
};

struct ps_driver_stream {
    struct ps_stream_work *first;
    struct ps_stream_work *last;
};

struct ps_stream_emulator {
    const struct ps_allocator *memory;
    struct ps_random random;
    struct ps_driver_stream streams[PS_EMULATED_STREAMS_MAX];
    size_t stream_count;
    const struct ps_driver_stream *slow; /* may be none that is there */
    bool hung;                           /* something was put in that never ends */
    int broken;
};

void ps_stream_emulator_init(struct ps_stream_emulator *emulator, const struct ps_allocator *memory,
                             uint64_t seed);
void ps_stream_emulator_fini(struct ps_stream_emulator *emulator);

/* NULL when there are too many. */
struct ps_driver_stream *ps_stream_emulator_add(struct ps_stream_emulator *emulator);

/* Copies `work` behind what the stream has. */
int ps_stream_emulator_put(struct ps_stream_emulator *emulator, struct ps_driver_stream *stream,
                           const struct ps_stream_work *work);

/* Runs what comes up until the event's newest record has been passed. PS_FAULT_NOT_READY: it never
 * will be. */
int ps_stream_emulator_run_until(struct ps_stream_emulator *emulator,
                                 const struct ps_driver_event *event);

/* Runs everything, or as above. */
int ps_stream_emulator_finish(struct ps_stream_emulator *emulator);

#endif
