/* SPDX-License-Identifier: Apache-2.0 */
/* Each call goes on to the real driver, with its own `self`, and is counted on the way. */
#include "optimizer/device/driver_calls.h"

#include "base/assert.h"

/* A call that gives a number, of one kind: its parameters, and what the real driver gets of them
 * behind its own `self`.
 * A macro, since there are two dozen of them which differ in nothing else. */
#define CALL(name, kind, parameters, ...)          \
    static int name parameters                     \
    {                                              \
        struct ps_driver_calls *calls = self;      \
        atomic_fetch_add(&calls->counts[kind], 1); \
        return calls->real.name(__VA_ARGS__);      \
    }
#define REAL calls->real.self

/* What opening takes, memory, and questions, of which a thread asks as many as it has patience
 * for. */
CALL(enter, PS_CALLS_OTHER, (void *self), REAL)
CALL(facts, PS_CALLS_OTHER, (void *self, struct ps_device_facts *facts), REAL, facts)
CALL(memory_free, PS_CALLS_OTHER, (void *self, uint64_t *bytes), REAL, bytes)
CALL(device_acquire, PS_CALLS_OTHER, (void *self, size_t size, void **memory), REAL, size, memory)
CALL(device_release, PS_CALLS_OTHER, (void *self, void *memory), REAL, memory)
CALL(host_acquire, PS_CALLS_OTHER, (void *self, size_t size, void **memory), REAL, size, memory)
CALL(host_release, PS_CALLS_OTHER, (void *self, void *memory), REAL, memory)
CALL(host_register, PS_CALLS_OTHER, (void *self, void *memory, size_t size), REAL, memory, size)
CALL(host_unregister, PS_CALLS_OTHER, (void *self, void *memory), REAL, memory)
CALL(import, PS_CALLS_OTHER, (void *self, const struct ps_device_share *share, void **memory), REAL,
     share, memory)
CALL(unimport, PS_CALLS_OTHER, (void *self, void *memory), REAL, memory)
CALL(stream_create, PS_CALLS_OTHER, (void *self, struct ps_driver_stream **stream), REAL, stream)
CALL(event_create, PS_CALLS_OTHER, (void *self, struct ps_driver_event **event), REAL, event)
CALL(event_query, PS_CALLS_OTHER, (void *self, struct ps_driver_event *event), REAL, event)
CALL(event_synchronize, PS_CALLS_OTHER, (void *self, struct ps_driver_event *event), REAL, event)

/* What a push is made of. That a stream is to clear memory is a kernel, too: the real driver
 * launches one. */
CALL(record, PS_CALLS_RECORDS,
     (void *self, struct ps_driver_event *event, struct ps_driver_stream *stream), REAL, event,
     stream)
CALL(stream_wait, PS_CALLS_ORDERS,
     (void *self, struct ps_driver_stream *stream, struct ps_driver_event *event), REAL, stream,
     event)
CALL(copy, PS_CALLS_COPIES,
     (void *self, void *to, const void *from, size_t size, enum ps_driver_copy kind,
      struct ps_driver_stream *stream),
     REAL, to, from, size, kind, stream)
CALL(zero, PS_CALLS_KERNELS,
     (void *self, void *memory, size_t size, struct ps_driver_stream *stream), REAL, memory, size,
     stream)
CALL(fill, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_fill *fill, struct ps_driver_stream *stream), REAL, fill,
     stream)
CALL(apply, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_apply *apply, struct ps_driver_stream *stream), REAL, apply,
     stream)
CALL(table, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_table *table, struct ps_driver_stream *stream), REAL, table,
     stream)
CALL(verdict_open, PS_CALLS_KERNELS,
     (void *self, struct ps_cuda_verdict *verdict, struct ps_driver_stream *stream), REAL, verdict,
     stream)
CALL(scan, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_scan *scan, struct ps_driver_stream *stream), REAL, scan,
     stream)
CALL(judge, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_judge *judge, struct ps_driver_stream *stream), REAL, judge,
     stream)
CALL(rows, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_rows *rows, struct ps_driver_stream *stream), REAL, rows,
     stream)
CALL(bodies, PS_CALLS_KERNELS,
     (void *self, const struct ps_cuda_bodies *bodies, struct ps_driver_stream *stream), REAL,
     bodies, stream)
#undef REAL
#undef CALL

/* Three calls give nothing back. */
static void stream_destroy(void *self, struct ps_driver_stream *stream)
{
    const struct ps_driver_calls *calls = self;
    calls->real.stream_destroy(calls->real.self, stream);
}

static void event_destroy(void *self, struct ps_driver_event *event)
{
    const struct ps_driver_calls *calls = self;
    calls->real.event_destroy(calls->real.self, event);
}

/* The numbers stay: whoever closes a device may still show them. */
static void close_driver(void *self)
{
    const struct ps_driver_calls *calls = self;
    calls->real.close(calls->real.self);
}

/* The same table of functions for every driver: what it leads to is in `self`. */
void ps_driver_calls_open(struct ps_driver_calls *calls, struct ps_driver *driver)
{
    PS_ASSERT(calls->real.enter ==
              NULL); /* Once: a driver that counted itself would call itself. */
    PS_ASSERT(driver->enter != NULL && driver->close != NULL);
    calls->real = *driver;
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
        .import = import,
        .unimport = unimport,
        .stream_create = stream_create,
        .event_create = event_create,
        .event_query = event_query,
        .event_synchronize = event_synchronize,
        .record = record,
        .stream_wait = stream_wait,
        .copy = copy,
        .zero = zero,
        .fill = fill,
        .apply = apply,
        .table = table,
        .verdict_open = verdict_open,
        .scan = scan,
        .judge = judge,
        .rows = rows,
        .bodies = bodies,
        .stream_destroy = stream_destroy,
        .event_destroy = event_destroy,
        .close = close_driver,
        .self = calls,
    };
    PS_ASSERT(driver->self != calls->real.self);
}
