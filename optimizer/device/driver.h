/* SPDX-License-Identifier: Apache-2.0 */
/* The few things that the runtime asks of a device's driver. CUDA answers them in the plugin
 * (optimizer/cuda/driver_cuda.c), and an emulator with streams that run late and in random order in
 * the tests (optimizer/emulator/driver_emulator.c).
 *
 * Every function gives 0 or the number of a CUDA error (fault.h). Streams, events and launches
 * behave as CUDA's: work of one stream runs in order, a wait for an event that was never recorded
 * is none, recording an event again replaces the earlier record.
 *
 * Threads:  any; `enter` first in each.
 * Blocking: the event_synchronize and memory functions.
 * Errors:   numbers; an error of work that was queued shows at a later call.
 * Memory:   as said at each function.
 */
#ifndef PS_OPTIMIZER_DEVICE_DRIVER_H
#define PS_OPTIMIZER_DEVICE_DRIVER_H

#include "optimizer/cuda/launch.h"
#include "optimizer/device.h"

struct ps_driver_stream;
struct ps_driver_event;

enum ps_driver_copy { PS_DRIVER_TO_DEVICE, PS_DRIVER_TO_HOST, PS_DRIVER_ON_DEVICE };

struct ps_driver {
    int (*enter)(void *self); /* this thread speaks to the device from now on */
    int (*facts)(void *self, struct ps_device_facts *facts);
    int (*memory_free)(void *self, uint64_t *bytes);

    int (*device_acquire)(void *self, size_t size, void **memory);
    int (*device_release)(void *self, void *memory); /* waits for the device */
    int (*host_acquire)(void *self, size_t size, void **memory);
    int (*host_release)(void *self, void *memory);
    /* Ordinary memory of whole pages: from now on copies to the device run beside the host. */
    int (*host_register)(void *self, void *memory, size_t size);
    int (*host_unregister)(void *self, void *memory);
    /* Another process's piece, which is at least as large as its name says. */
    int (*import)(void *self, const struct ps_device_share *share, void **memory);
    int (*unimport)(void *self, void *memory);

    int (*stream_create)(void *self, struct ps_driver_stream **stream);
    void (*stream_destroy)(void *self, struct ps_driver_stream *stream); /* NULL is allowed */
    int (*event_create)(void *self, struct ps_driver_event **event);
    void (*event_destroy)(void *self, struct ps_driver_event *event); /* NULL is allowed */

    int (*record)(void *self, struct ps_driver_event *event, struct ps_driver_stream *stream);
    int (*stream_wait)(void *self, struct ps_driver_stream *stream, struct ps_driver_event *event);
    int (*event_query)(void *self, struct ps_driver_event *event); /* PS_FAULT_NOT_READY: not yet */
    int (*event_synchronize)(void *self, struct ps_driver_event *event);

    int (*copy)(void *self, void *to, const void *from, size_t size, enum ps_driver_copy kind,
                struct ps_driver_stream *stream);
    int (*zero)(void *self, void *memory, size_t size, struct ps_driver_stream *stream);

    /* The kernels (optimizer/cuda/launch.h); the structs are copied before the call returns. */
    int (*fill)(void *self, const struct ps_cuda_fill *fill, struct ps_driver_stream *stream);
    int (*apply)(void *self, const struct ps_cuda_apply *apply, struct ps_driver_stream *stream);
    int (*table)(void *self, const struct ps_cuda_table *table, struct ps_driver_stream *stream);
    int (*verdict_open)(void *self, struct ps_cuda_verdict *verdict,
                        struct ps_driver_stream *stream);
    int (*scan)(void *self, const struct ps_cuda_scan *scan, struct ps_driver_stream *stream);
    int (*judge)(void *self, const struct ps_cuda_judge *judge, struct ps_driver_stream *stream);
    int (*rows)(void *self, const struct ps_cuda_rows *rows, struct ps_driver_stream *stream);
    int (*bodies)(void *self, const struct ps_cuda_bodies *bodies, struct ps_driver_stream *stream);

    /* Frees what `self` points to. Everything above has ended. */
    void (*close)(void *self);
    void *self;
};

/* The driver that a plugin is linked with. */
extern const char ps_driver_name[];
int ps_driver_count(uint32_t *count);
int ps_driver_open(const struct ps_device_options *options, struct ps_driver *driver);
const char *ps_driver_error_name(int code);

/* The other side of import, without a driver that was opened: as in optimizer/device_sharing.h. */
int ps_driver_share_name(const void *memory, struct ps_device_share *share, uint8_t **base);
int ps_driver_share_copy(void *to, const void *from, size_t size, enum ps_device_copy way);
int ps_driver_share_acquire(size_t size, void **memory);
int ps_driver_share_release(void *memory);

#endif
