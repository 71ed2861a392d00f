/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator as a driver: memory, faults, and the calls that queue work (stream_emulator.c runs
 * it). */
#include "optimizer/device/driver.h"
#include "optimizer/device/fault.h"
#include "optimizer/emulator/emulated_share.h"
#include "optimizer/emulator/emulator.h"
#include "optimizer/emulator/stream_emulator.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In front of each piece of the device's memory; keeps what follows aligned for any kernel. */
#define HEAD_BYTES 256

struct piece {
    struct piece *next;
    struct piece **link; /* what points here */
    size_t size;
};
_Static_assert(sizeof(struct piece) <= HEAD_BYTES, "the head has room");

/* What memory is full of that nobody has written yet: as a float, a small negative number. */
#define GARBAGE 0xa5

struct emulator {
    struct ps_mutex lock; /* PS_RANK_LEAF; guards all that follows */
    /* Nobody signals it: what hangs hangs until the process ends. */
    struct ps_condition never;
    const struct ps_allocator *memory;
    struct ps_stream_emulator streams;
    struct ps_emulator_fault fault;
    struct piece *pieces; /* of the device's memory that are given out */
    uint64_t memory_bytes;
    uint64_t used_bytes;
    uint64_t memory_count;
    uint64_t copy_count;
};

const char ps_driver_name[] = "emu";

static uint64_t number_of(const char *variable, uint64_t fallback);
static int refuse_memory(struct emulator *emulator, uint64_t size);
static void release_piece(struct emulator *emulator, struct piece *piece);
static int queue_work(struct emulator *emulator, struct ps_driver_stream *stream,
                      const struct ps_stream_work *work);

/* No device is a case to be tested, too. */
int ps_driver_count(uint32_t *count)
{
    *count = (uint32_t)number_of("PS_EMULATOR_DEVICES", 1);
    return *count > 0 ? 0 : PS_FAULT_NO_DEVICE;
}

/* Never the name of a real error: a log of a test is not to be taken for one of a card. */
const char *ps_driver_error_name(int code)
{
    return code == PS_FAULT_OUT_OF_MEMORY ? "emulated refusal of memory" : "emulated error";
}

/* A device that broke is broken for every thread. */
static int enter(void *self)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    int code = emulator->streams.broken;
    ps_mutex_unlock(&emulator->lock);
    return code;
}

static int facts(void *self, struct ps_device_facts *facts)
{
    const struct emulator *emulator = self;
    (void)snprintf(facts->name, sizeof facts->name, "emulator");
    /* One device after the other has the same: nothing depends on it. */
    (void)snprintf(facts->uuid, sizeof facts->uuid, "%s", PS_EMULATED_UUID);
    /* The least that the runtime takes. */
    facts->capability_major = 8;
    facts->memory_bytes = emulator->memory_bytes;
    return 0;
}

/* Nobody else uses this card: what is not given out is free. */
static int memory_free(void *self, uint64_t *bytes)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    *bytes = emulator->memory_bytes - emulator->used_bytes;
    ps_mutex_unlock(&emulator->lock);
    return 0;
}

/* Garbage in new memory finds whoever reads before writing; on a card it would be zeros most of
 * the time. */
static int device_acquire(void *self, size_t size, void **memory)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    /* The count goes up also for a request that is refused. */
    int code = refuse_memory(emulator, size);
    struct piece *piece = code == 0 ? ps_plain(emulator->memory, HEAD_BYTES + size) : NULL;
    if (code == 0 && piece == NULL)
        code = PS_FAULT_OUT_OF_MEMORY;
    if (code == 0) {
        *piece = (struct piece){.next = emulator->pieces, .link = &emulator->pieces, .size = size};
        /* The head is in front of the memory; a list of them shows at the end what was never
         * given back. */
        if (piece->next != NULL)
            piece->next->link = &piece->next;
        emulator->pieces = piece;
        *memory = (uint8_t *)piece + HEAD_BYTES;
        memset(*memory, GARBAGE, size);
        emulator->used_bytes += size;
    }
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* The n-th request is refused, or all that do not fit; both count, so that a test can sweep over
 * every request. */
static int refuse_memory(struct emulator *emulator, uint64_t size)
{
    emulator->memory_count++;
    if (emulator->streams.broken != 0)
        return emulator->streams.broken;
    bool refused = emulator->fault.memory_at > 0 && --emulator->fault.memory_at == 0;
    if (refused || size > emulator->memory_bytes - emulator->used_bytes)
        return PS_FAULT_OUT_OF_MEMORY;
    return 0;
}

/* Under the lock. */
static void release_piece(struct emulator *emulator, struct piece *piece)
{
    PS_ASSERT(emulator->used_bytes >= piece->size);
    /* The piece is out of the list before its memory goes. */
    emulator->used_bytes -= piece->size;
    *piece->link = piece->next;
    if (piece->next != NULL)
        piece->next->link = piece->link;
    ps_release(emulator->memory, piece);
}

/* Whoever waits for what never ends waits for ever, without the lock. */
static void hang(struct emulator *emulator, int code)
{
    while (code == PS_FAULT_NOT_READY)
        (void)ps_condition_wait(&emulator->never, &emulator->lock, PS_DEADLINE_NEVER);
}

/* As cudaFree does, this waits for everything. */
static int device_release(void *self, void *memory)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    int code = ps_stream_emulator_finish(&emulator->streams);
    hang(emulator, code);
    release_piece(emulator, (struct piece *)((uint8_t *)memory - HEAD_BYTES));
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* Pinned memory does not count as the device's, but its requests can be refused.
 * The size is not taken from the device's memory: 0 asks only whether this request is to be
 * refused. */
static int host_acquire(void *self, size_t size, void **memory)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    int code = refuse_memory(emulator, 0);
    void *piece = code == 0 ? ps_plain(emulator->memory, size) : NULL;
    if (code == 0 && piece == NULL)
        code = PS_FAULT_OUT_OF_MEMORY;
    if (code == 0) {
        memset(piece, GARBAGE, size);
        *memory = piece;
    }
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* Waits for everything, as CUDA does: work that is queued may still copy from it. */
static int host_release(void *self, void *memory)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    int code = ps_stream_emulator_finish(&emulator->streams);
    hang(emulator, code);
    ps_release(emulator->memory, memory);
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* The emulator reaches any memory, and what a card's driver does to pages has no effect that a
 * program could see. That it may be refused is all there is to emulate: a piece is asked for, and
 * given back. */
static int host_register(void *self, void *memory, size_t size)
{
    void *piece = NULL;
    int code = host_acquire(self, size > 0 ? 1 : 0, &piece);
    (void)memory;
    return code != 0 ? code : host_release(self, piece);
}

/* A device that broke says so here, too. */
static int host_unregister(void *self, void *memory)
{
    (void)memory;
    return enter(self);
}

/* More than the runtime makes are refused: it would be a leak. */
static int stream_create(void *self, struct ps_driver_stream **stream)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    *stream = ps_stream_emulator_add(&emulator->streams);
    ps_mutex_unlock(&emulator->lock);
    return *stream != NULL ? 0 : PS_FAULT_OUT_OF_MEMORY;
}

/* Streams go with the emulator. */
static void stream_destroy(void *self, struct ps_driver_stream *stream)
{
    (void)self;
    (void)stream;
}

/* Each event is memory of its own, so that a sanitizer sees one that is used after its end. */
static int event_create(void *self, struct ps_driver_event **event)
{
    struct emulator *emulator = self;
    *event = ps_zeroed(emulator->memory, sizeof **event);
    return *event != NULL ? 0 : PS_FAULT_OUT_OF_MEMORY;
}

/* Work in the queues points to it. */
static void event_destroy(void *self, struct ps_driver_event *event)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    (void)ps_stream_emulator_finish(&emulator->streams);
    ps_mutex_unlock(&emulator->lock);
    ps_release(emulator->memory, event);
}

/* From here on everything is queued, and nothing is done: what runs, and when, is the lot's
 * affair. */
static int record(void *self, struct ps_driver_event *event, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_RECORD, .event = event};
    return queue_work(self, stream, &work);
}

static int stream_wait(void *self, struct ps_driver_stream *stream, struct ps_driver_event *event)
{
    const struct ps_stream_work work = {.kind = PS_WORK_WAIT, .event = event};
    return queue_work(self, stream, &work);
}

/* Nothing runs by being looked at. */
static int event_query(void *self, struct ps_driver_event *event)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    int code = emulator->streams.broken;
    if (code == 0 && event->passed < event->recorded)
        code = PS_FAULT_NOT_READY;
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* The only calls that make work run are those that wait for it. */
static int event_synchronize(void *self, struct ps_driver_event *event)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    int code = ps_stream_emulator_run_until(&emulator->streams, event);
    hang(emulator, code);
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* The kind is not needed: all memory is the host's. */
static int copy(void *self, void *to, const void *from, size_t size, enum ps_driver_copy kind,
                struct ps_driver_stream *stream)
{
    (void)kind;
    const struct ps_stream_work work = {.kind = PS_WORK_COPY, .to = to, .from = from, .size = size};
    return queue_work(self, stream, &work);
}

/* Queued like a kernel, since cudaMemsetAsync is one. */
static int zero(void *self, void *memory, size_t size, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_ZERO, .to = memory, .size = size};
    return queue_work(self, stream, &work);
}

/* Arguments of kernels are copied when the call is made, as CUDA copies them. */
static int fill(void *self, const struct ps_cuda_fill *fill, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_FILL, .fill = *fill};
    return queue_work(self, stream, &work);
}

/* The step is read when the kernel is launched, as CUDA takes its arguments then. */
static int apply(void *self, const struct ps_cuda_apply *apply, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_APPLY,
                                        .apply = *apply,
                                        .step = *apply->step,
                                        .settings = *apply->step->settings};
    return queue_work(self, stream, &work);
}

/* Entries lie in the device's memory and are read when the kernel runs, as on a card. */
static int apply_table(void *self, const struct ps_cuda_table *table,
                       struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_TABLE, .table = *table};
    return queue_work(self, stream, &work);
}

/* Written on the device: the host's copy of the verdict says nothing until it is read back. */
static int verdict_open(void *self, struct ps_cuda_verdict *verdict,
                        struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_OPEN, .to = verdict};
    return queue_work(self, stream, &work);
}

/* Settings are copied: the caller's end before the work runs. */
static int scan(void *self, const struct ps_cuda_scan *scan, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {
        .kind = PS_WORK_SCAN, .scan = *scan, .settings = *scan->settings};
    return queue_work(self, stream, &work);
}

/* The verdict is written when the work runs. */
static int judge(void *self, const struct ps_cuda_judge *judge, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {
        .kind = PS_WORK_JUDGE, .judge = *judge, .settings = *judge->settings};
    return queue_work(self, stream, &work);
}

static int rows(void *self, const struct ps_cuda_rows *rows, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_ROWS,
                                        .rows = *rows,
                                        .step = *rows->step,
                                        .settings = *rows->step->settings};
    return queue_work(self, stream, &work);
}

static int bodies(void *self, const struct ps_cuda_bodies *bodies, struct ps_driver_stream *stream)
{
    const struct ps_stream_work work = {.kind = PS_WORK_BODIES, .bodies = *bodies};
    return queue_work(self, stream, &work);
}

/* Faults hit kernels, since a copy that fails is seen by its own code. */
static bool is_launch(enum ps_work_kind kind)
{
    return kind >= PS_WORK_FILL && kind <= PS_WORK_JUDGE;
}

/* Counts down to the fault that was asked for; the piece itself carries it until it runs. */
static int queue_work(struct emulator *emulator, struct ps_driver_stream *stream,
                      const struct ps_stream_work *work)
{
    ps_mutex_lock(&emulator->lock);
    struct ps_stream_work copy = *work;
    ps_emulated_find(&copy);
    emulator->copy_count += work->kind == PS_WORK_COPY;
    if (is_launch(work->kind) && emulator->fault.launch_at > 0 && --emulator->fault.launch_at == 0)
        copy.breaks = emulator->fault.launch_code;
    /* A kernel that never ends: what a driver's bug, or a broken card, looks like from outside. */
    if (is_launch(work->kind) && emulator->fault.hang_at > 0 && --emulator->fault.hang_at == 0)
        copy.hangs = true;
    int code = ps_stream_emulator_put(&emulator->streams, stream, &copy);
    ps_mutex_unlock(&emulator->lock);
    return code;
}

/* Work that is still queued belongs to a device that died, or was never waited for. */
static void close_emulator(void *self)
{
    struct emulator *emulator = self;
    /* A device that died takes its memory with it; of any other everything was given back. */
    PS_ASSERT(emulator->pieces == NULL || emulator->streams.broken != 0);
    while (emulator->pieces != NULL)
        release_piece(emulator, emulator->pieces);
    ps_stream_emulator_fini(&emulator->streams);
    ps_condition_fini(&emulator->never);
    ps_mutex_fini(&emulator->lock);
    ps_release(emulator->memory, emulator);
}

/* Everything that a test may choose comes from the environment, because the server that it tests
 * is another process: seed, memory, faults, and how many devices there are. */
int ps_driver_open(const struct ps_device_options *options, struct ps_driver *driver)
{
    uint32_t count = 0;
    /* The numbers of CUDA, so that the runtime's texts are tested, too. */
    if (ps_driver_count(&count) != 0 || options->ordinal >= count)
        return PS_FAULT_INVALID_DEVICE;
    struct emulator *emulator = ps_zeroed(options->memory, sizeof *emulator);
    if (emulator == NULL)
        return PS_FAULT_OUT_OF_MEMORY;
    ps_mutex_init(&emulator->lock, PS_RANK_LEAF);
    ps_condition_init(&emulator->never);
    emulator->memory = options->memory;
    /* Two gibibytes where nobody says: a test that fills it is still possible. */
    emulator->memory_bytes = number_of("PS_EMULATOR_MEMORY", UINT64_C(2) << 30);
    ps_stream_emulator_init(&emulator->streams, options->memory, number_of("PS_EMULATOR_SEED", 1));
    /* Armed before the first call, so that also opening can be made to fail. */
    ps_emulator_fault_read(&emulator->fault);
    *driver = (struct ps_driver){
        .enter = enter,
        .facts = facts,
        .memory_free = memory_free,
        .device_acquire = device_acquire,
        .device_release = device_release,
        .host_acquire = host_acquire,
        .host_release = host_release,
        .host_register = host_register,
        .host_unregister = host_unregister,
        .import = ps_emulated_import,
        .unimport = ps_emulated_unimport,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .record = record,
        .stream_wait = stream_wait,
        .event_query = event_query,
        .event_synchronize = event_synchronize,
        .copy = copy,
        .zero = zero,
        .fill = fill,
        .apply = apply,
        .table = apply_table,
        .verdict_open = verdict_open,
        .scan = scan,
        .judge = judge,
        .rows = rows,
        .bodies = bodies,
        .close = close_emulator,
        .self = emulator,
    };
    return 0;
}

/* What is no number counts as 0, which no test sets by mistake. */
static uint64_t number_of(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

/* For tests in the same process: a fault from now on. */
void ps_emulator_arm(void *self, const struct ps_emulator_fault *fault)
{
    struct emulator *emulator = self;
    ps_mutex_lock(&emulator->lock);
    emulator->fault = *fault;
    ps_mutex_unlock(&emulator->lock);
}

/* Under the lock: the device's threads may be at work. */
static uint64_t read_counter(struct emulator *emulator, const uint64_t *counter)
{
    ps_mutex_lock(&emulator->lock);
    uint64_t count = *counter;
    ps_mutex_unlock(&emulator->lock);
    return count;
}

uint64_t ps_emulator_memory_count(void *self)
{
    return read_counter(self, &((struct emulator *)self)->memory_count);
}

uint64_t ps_emulator_copy_count(void *self)
{
    return read_counter(self, &((struct emulator *)self)->copy_count);
}

uint64_t ps_emulator_memory_used(void *self)
{
    return read_counter(self, &((struct emulator *)self)->used_bytes);
}
