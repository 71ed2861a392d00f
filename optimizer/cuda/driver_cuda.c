/* SPDX-License-Identifier: Apache-2.0 */
/* The driver that is a GPU: each call of device/driver.h is one of CUDA's runtime library.
 * Launches report their errors by themselves (launch.h). */
#include "optimizer/cuda/share_cuda.h"
#include "optimizer/device/driver.h"
#include "optimizer/device/fault.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_driver {
    const struct ps_allocator *memory;
    int ordinal;
};

const char ps_driver_name[] = "cuda";

/* Without a driver the count is left as it was: only the number that comes back says anything.
 *
 * The first call to the library. Kernels are loaded with the context: loaded when they are first
 * launched they would need memory that the budget has given to parameters by then. */
int ps_driver_count(uint32_t *count)
{
    int found = 0;
    /* An operator who has set the variable is not overruled. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    int code = (int)cudaGetDeviceCount(&found);
    if (code == 0)
        *count = (uint32_t)found;
    return code == 0 && found == 0 ? PS_FAULT_NO_DEVICE : code;
}

/* The library's own names: they are what a person will search for. */
const char *ps_driver_error_name(int code)
{
    return cudaGetErrorName((enum cudaError)code);
}

/* A thread keeps its device until it chooses another; asking again is cheap. */
static int enter(void *self)
{
    const struct cuda_driver *driver = self;
    return (int)cudaSetDevice(driver->ordinal);
}

/* Names of cards are cut rather than refused: they are for people. */
static int facts(void *self, struct ps_device_facts *facts)
{
    const struct cuda_driver *driver = self;
    /* Large, and read once at the start. */
    struct cudaDeviceProp properties;
    int code = (int)cudaGetDeviceProperties(&properties, driver->ordinal);
    if (code != 0)
        return code;
    (void)snprintf(facts->name, sizeof facts->name, "%.63s", properties.name);
    ps_cuda_write_uuid(&properties, facts->uuid, sizeof facts->uuid);
    facts->capability_major = (uint32_t)properties.major;
    facts->capability_minor = (uint32_t)properties.minor;
    facts->memory_bytes = properties.totalGlobalMem;
    return 0;
}

/* Of all processes on the card: another one may take it in the next moment. */
static int memory_free(void *self, uint64_t *bytes)
{
    (void)self;
    size_t unused = 0;
    /* The library wants a place for it. */
    size_t all = 0;
    int code = (int)cudaMemGetInfo(&unused, &all);
    *bytes = unused;
    return code;
}

/* A refusal is remembered by the library and would be the answer to the next launch: taking it out
 * is part of hearing it. */
static int heard(cudaError_t error)
{
    if (error != cudaSuccess)
        (void)cudaGetLastError();
    return (int)error;
}

/* Refusals are heard: room that is not there is no fault of the card. */
static int device_acquire(void *self, size_t size, void **memory)
{
    (void)self;
    return heard(cudaMalloc(memory, size));
}

/* Waits for all work of the device; device_memory.c keeps pieces so that this is rare. */
static int device_release(void *self, void *memory)
{
    (void)self;
    return (int)cudaFree(memory);
}

/* Pinned, so that copies run beside kernels; the library registers the pages with the card. */
static int host_acquire(void *self, size_t size, void **memory)
{
    (void)self;
    return heard(cudaHostAlloc(memory, size, cudaHostAllocDefault));
}

/* After this the pages are ordinary ones again. */
static int host_release(void *self, void *memory)
{
    (void)self;
    return (int)cudaFreeHost(memory);
}

/* Pages are pinned, and made where nobody has touched them. Refusals are heard: memory that cannot
 * be pinned is copied as other memory is. */
static int host_register(void *self, void *memory, size_t size)
{
    (void)self;
    return heard(cudaHostRegister(memory, size, cudaHostRegisterPortable));
}

static int host_unregister(void *self, void *memory)
{
    (void)self;
    return heard(cudaHostUnregister(memory));
}

/* The handles are CUDA's own; only this file looks behind the names that driver.h gives them. */
static cudaStream_t cuda_stream(struct ps_driver_stream *stream)
{
    return (cudaStream_t)(void *)stream;
}

static cudaEvent_t cuda_event(struct ps_driver_event *event)
{
    return (cudaEvent_t)(void *)event;
}

/* Without an order to the default stream, which other code in the process may use. */
static int stream_create(void *self, struct ps_driver_stream **stream)
{
    (void)self;
    /* The handle is set only where the library made one; destroying NULL is nothing. */
    cudaStream_t made = NULL;
    int code = heard(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    *stream = (struct ps_driver_stream *)(void *)made;
    return code;
}

/* NULL where opening stopped before this one. */
static void stream_destroy(void *self, struct ps_driver_stream *stream)
{
    (void)self;
    if (stream != NULL)
        (void)cudaStreamDestroy(cuda_stream(stream));
}

/* Threads that wait long sleep (device_wait.c): a server has better uses for a processor. */
static int event_create(void *self, struct ps_driver_event **event)
{
    (void)self;
    cudaEvent_t made = NULL;
    int code =
        heard(cudaEventCreateWithFlags(&made, cudaEventDisableTiming | cudaEventBlockingSync));
    *event = (struct ps_driver_event *)(void *)made;
    return code;
}

/* As a stream: NULL where opening stopped before. */
static void event_destroy(void *self, struct ps_driver_event *event)
{
    (void)self;
    if (event != NULL)
        (void)cudaEventDestroy(cuda_event(event));
}

/* An event that is recorded again forgets its former place: what waited for that waits for it
 * still. */
static int record(void *self, struct ps_driver_event *event, struct ps_driver_stream *stream)
{
    (void)self;
    return (int)cudaEventRecord(cuda_event(event), cuda_stream(stream));
}

/* The device waits, not this thread. */
static int stream_wait(void *self, struct ps_driver_stream *stream, struct ps_driver_event *event)
{
    (void)self;
    return (int)cudaStreamWaitEvent(cuda_stream(stream), cuda_event(event), 0);
}

/* That it is not ready is an answer, which the library remembers as an error. */
static int event_query(void *self, struct ps_driver_event *event)
{
    (void)self;
    /* Other errors stay with the library: the next call would say them, too. */
    cudaError_t code = cudaEventQuery(cuda_event(event));
    return code == cudaErrorNotReady ? heard(code) : (int)code;
}

/* Sleeps, as the event was made to; device_wait.c has looked for a moment before. */
static int event_synchronize(void *self, struct ps_driver_event *event)
{
    (void)self;
    return (int)cudaEventSynchronize(cuda_event(event));
}

/* Kinds are named rather than guessed by the library from addresses: a wrong address is then an
 * error and not a slow copy. */
static int copy(void *self, void *to, const void *from, size_t size, enum ps_driver_copy kind,
                struct ps_driver_stream *stream)
{
    static const enum cudaMemcpyKind kinds[] = {
        [PS_DRIVER_TO_DEVICE] = cudaMemcpyHostToDevice,
        [PS_DRIVER_TO_HOST] = cudaMemcpyDeviceToHost,
        /* For snapshots. */
        [PS_DRIVER_ON_DEVICE] = cudaMemcpyDeviceToDevice,
    };
    (void)self;
    return (int)cudaMemcpyAsync(to, from, size, kinds[kind], cuda_stream(stream));
}

/* A kernel of the library, in the order of the stream. */
static int zero(void *self, void *memory, size_t size, struct ps_driver_stream *stream)
{
    (void)self;
    return (int)cudaMemsetAsync(memory, 0, size, cuda_stream(stream));
}

/* From here on the calls of launch.h, which return CUDA's codes as they are. */
static int fill(void *self, const struct ps_cuda_fill *fill, struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_fill(fill, stream);
}

/* The step goes as an argument of the kernel. */
static int apply(void *self, const struct ps_cuda_apply *apply, struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_apply(apply, stream);
}

/* Steps and runs lie in the slot, behind the gradients. */
static int apply_table(void *self, const struct ps_cuda_table *table,
                       struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_table(table, stream);
}

static int verdict_open(void *self, struct ps_cuda_verdict *verdict,
                        struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_open(verdict, stream);
}

static int scan(void *self, const struct ps_cuda_scan *scan, struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_scan(scan, stream);
}

static int judge(void *self, const struct ps_cuda_judge *judge, struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_judge(judge, stream);
}

/* One accumulator for a row is a kernel of its own. */
static int rows(void *self, const struct ps_cuda_rows *rows, struct ps_driver_stream *stream)
{
    (void)self;
    return rows->step->settings->adagrad_row_wise ? ps_cuda_launch_row_wise(rows, stream)
                                                  : ps_cuda_launch_rows(rows, stream);
}

/* Numbers lie in the slot, and the kernel makes addresses of them: the host sends eight bytes for a
 * row, wherever it lies. */
static int bodies(void *self, const struct ps_cuda_bodies *bodies, struct ps_driver_stream *stream)
{
    (void)self;
    return ps_cuda_launch_bodies(bodies, stream);
}

/* The context stays with the process: other parts of it may use the card, and the end of the
 * process ends it. */
static void close_driver(void *self)
{
    struct cuda_driver *driver = self;
    ps_release(driver->memory, driver);
}

/* Entered once before it is handed out, since the context is made by that, and a card that
 * refuses one is better refused now. */
int ps_driver_open(const struct ps_device_options *options, struct ps_driver *driver)
{
    /* Asked again: the number may come from a configuration of yesterday. */
    uint32_t count = 0;
    int code = ps_driver_count(&count);
    if (code != 0)
        return code;
    if (options->ordinal >= count)
        return PS_FAULT_INVALID_DEVICE;
    /* All that the driver knows is which device it is; CUDA keeps the rest. */
    struct cuda_driver *made = ps_zeroed(options->memory, sizeof *made);
    if (made == NULL)
        return PS_FAULT_OUT_OF_MEMORY;
    made->memory = options->memory;
    made->ordinal = (int)options->ordinal;
    /* cudaSetDevice makes the context, as of CUDA 12; before that the first call after it did. */
    code = enter(made);
    if (code != 0) {
        close_driver(made);
        return code;
    }
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
        .import = ps_cuda_import,
        .unimport = ps_cuda_unimport,
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
        .close = close_driver,
        .self = made,
    };
    return 0;
}
