/* SPDX-License-Identifier: Apache-2.0 */
/* Running streams by lot. */
#include "optimizer/emulator/stream_emulator.h"

#include "base/assert.h"
#include "optimizer/device/fault.h"

#include <string.h>

/* For so many pieces of work, on average, one stream is slow. */
#define SLOW_STEPS 64

static bool run_one(struct ps_stream_emulator *emulator);
static struct ps_driver_stream *choose(struct ps_stream_emulator *emulator);
static bool may_run(const struct ps_driver_stream *stream);
static struct ps_stream_work *take(struct ps_driver_stream *stream);
static int run(struct ps_stream_work *work);
static int run_kernel(struct ps_stream_work *work);

/* The seed is all that an order depends on. */
void ps_stream_emulator_init(struct ps_stream_emulator *emulator, const struct ps_allocator *memory,
                             uint64_t seed)
{
    *emulator = (struct ps_stream_emulator){.memory = memory};
    ps_random_init(&emulator->random, seed);
}

/* Work that was never waited for is dropped, as by a process that ends. */
void ps_stream_emulator_fini(struct ps_stream_emulator *emulator)
{
    for (size_t i = 0; i < emulator->stream_count; i++)
        while (emulator->streams[i].first != NULL)
            ps_release(emulator->memory, take(&emulator->streams[i]));
}

/* Streams are few and live as long as the emulator: a place in an array is enough. */
struct ps_driver_stream *ps_stream_emulator_add(struct ps_stream_emulator *emulator)
{
    if (emulator->stream_count == PS_EMULATED_STREAMS_MAX)
        return NULL;
    return &emulator->streams[emulator->stream_count++];
}

/* Nothing runs when work is queued. A record takes the event's next number, and a wait the
 * number that the event has now: later records of the same event are not what it waits for. */
int ps_stream_emulator_put(struct ps_stream_emulator *emulator, struct ps_driver_stream *stream,
                           const struct ps_stream_work *work)
{
    /* As with CUDA, the error of a former piece of work is the answer to every later call. */
    if (emulator->broken != 0)
        return emulator->broken;
    struct ps_stream_work *copy = ps_plain(emulator->memory, sizeof *copy);
    if (copy == NULL)
        return PS_FAULT_UNKNOWN;
    *copy = *work;
    /* A copy, because the caller's struct lies on its stack. */
    copy->next = NULL;
    /* Remembered, so that a queue which cannot go on is told from a wait that was forgotten. */
    emulator->hung = emulator->hung || work->hangs;
    if (work->kind == PS_WORK_RECORD)
        work->event->recorded++;
    if (work->kind == PS_WORK_RECORD || work->kind == PS_WORK_WAIT)
        copy->number = work->event->recorded;
    if (stream->last != NULL)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    return 0;
}

/* Runs what the lot chooses, also work that the event does not wait for, until the event has
 * passed. Nothing left to run with the event open is a piece that hangs, or a wait that can
 * never end, which is a bug. */
int ps_stream_emulator_run_until(struct ps_stream_emulator *emulator,
                                 const struct ps_driver_event *event)
{
    while (emulator->broken == 0 && event->passed < event->recorded) {
        if (run_one(emulator))
            continue;
        PS_ASSERT(emulator->hung);
        return PS_FAULT_NOT_READY;
    }
    return emulator->broken;
}

/* Everything, in whatever order. */
int ps_stream_emulator_finish(struct ps_stream_emulator *emulator)
{
    while (emulator->broken == 0 && run_one(emulator)) {
    }
    return emulator->broken == 0 && emulator->hung ? PS_FAULT_NOT_READY : emulator->broken;
}

/* False when nothing may run: everything is done, or the streams wait for each other.
 * The device of a test: queued work is run one piece at a time, in an order that is drawn by lot
 * among all that CUDA would allow. What goes right in a thousand orders waits for what it needs;
 * what forgets a wait is found by a seed, and found again by it. */
static bool run_one(struct ps_stream_emulator *emulator)
{
    struct ps_driver_stream *stream = choose(emulator);
    if (stream == NULL)
        return false;
    struct ps_stream_work *work = take(stream);
    /* The first error ends everything, as the error of a kernel does on a card. */
    emulator->broken = run(work);
    ps_release(emulator->memory, work);
    return true;
}

/* One stream at a time is slow for a while: it runs only when no other can. Without that, each
 * would be as far as the others on average, and a missing wait between two of them would show
 * too rarely. */
static struct ps_driver_stream *choose(struct ps_stream_emulator *emulator)
{
    struct ps_driver_stream *ready[PS_EMULATED_STREAMS_MAX];
    struct ps_driver_stream *last = NULL;
    size_t count = 0;
    if (ps_random_next(&emulator->random) % SLOW_STEPS == 0)
        emulator->slow =
            &emulator->streams[ps_random_next(&emulator->random) % PS_EMULATED_STREAMS_MAX];
    for (size_t i = 0; i < emulator->stream_count; i++) {
        struct ps_driver_stream *stream = &emulator->streams[i];
        if (!may_run(stream))
            continue;
        /* Kept for when nothing else may run. */
        if (stream == emulator->slow)
            last = stream;
        else
            ready[count++] = stream;
    }
    return count > 0 ? ready[ps_random_next(&emulator->random) % count] : last;
}

/* Work within a stream is in order: only its first piece is looked at. */
static bool may_run(const struct ps_driver_stream *stream)
{
    const struct ps_stream_work *work = stream->first;
    /* What hangs keeps its stream for ever, and with it all that waits for that stream. */
    if (work == NULL || work->hangs)
        return false;
    return work->kind != PS_WORK_WAIT || work->event->passed >= work->number;
}

/* The caller releases it. */
static struct ps_stream_work *take(struct ps_driver_stream *stream)
{
    struct ps_stream_work *work = stream->first;
    stream->first = work->next;
    if (stream->first == NULL)
        stream->last = NULL;
    return work;
}

static int run(struct ps_stream_work *work)
{
    switch (work->kind) {
    case PS_WORK_COPY:
        memcpy(work->to, work->from, work->size);
        return 0;
    case PS_WORK_ZERO:
        memset(work->to, 0, work->size);
        return 0;
    case PS_WORK_RECORD:
        if (work->event->passed < work->number)
            work->event->passed = work->number;
        return 0;
    /* Done by having been chosen: may_run has looked at the event. */
    case PS_WORK_WAIT:
        return 0;
    case PS_WORK_FILL:
    case PS_WORK_APPLY:
    case PS_WORK_TABLE:
    case PS_WORK_OPEN:
    case PS_WORK_SCAN:
    case PS_WORK_ROWS:
    case PS_WORK_BODIES:
    case PS_WORK_JUDGE:
        /* A kernel that breaks has done nothing, which is the kindest of what a real one may do. */
        return work->breaks != 0 ? work->breaks : run_kernel(work);
    }
    PS_ASSERT(0 && "unknown work");
    return PS_FAULT_UNKNOWN;
}

/* Pointers into the work itself are set now, since it was copied when it was queued. */
static int run_kernel(struct ps_stream_work *work)
{
    /* Settings and step lie beside each other in the work. */
    work->step.settings = &work->settings;
    work->apply.step = &work->step;
    work->scan.settings = &work->settings;
    work->judge.settings = &work->settings;
    work->rows.step = &work->step;
    switch (work->kind) {
    case PS_WORK_FILL:
        return ps_cuda_launch_fill(&work->fill, NULL);
    case PS_WORK_TABLE:
        return ps_cuda_launch_table(&work->table, NULL);
    case PS_WORK_OPEN:
        return ps_cuda_launch_open(work->to, NULL);
    case PS_WORK_SCAN:
        return ps_cuda_launch_scan(&work->scan, NULL);
    case PS_WORK_JUDGE:
        return ps_cuda_launch_judge(&work->judge, NULL);
    /* As the driver of CUDA chooses. */
    case PS_WORK_ROWS:
        return work->settings.adagrad_row_wise ? ps_cuda_launch_row_wise(&work->rows, NULL)
                                               : ps_cuda_launch_rows(&work->rows, NULL);
    case PS_WORK_BODIES:
        return ps_cuda_launch_bodies(&work->bodies, NULL);
    default:
        return ps_cuda_launch_apply(&work->apply, NULL);
    }
}
