/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device that one process hands to another: what the process that has it needs a plugin
 * for. It knows nothing of parameters: a trainer that shares its
 * gradients opens no device of optimizer/device.h, and takes no memory for one.
 *
 * What is named is always a whole piece, as the device's allocator gave it out; a tensor lies
 * somewhere in it. (So it is with CUDA's handles, cudaIpcGetMemHandle: they open at the piece's
 * start, wherever in it they were asked for.)
 *
 * Threads:  any.
 * Blocking: copy, until the bytes are there; acquire and release, while the driver works.
 * Errors:   PS_ERR_UNAVAILABLE no driver; PS_ERR_UNSUPPORTED memory that cannot be named;
 *           PS_ERR_NO_MEMORY.
 * Memory:   a piece is its maker's. Whoever has opened it by its name keeps it from being used for
 *           something else, and must have let go of it before it is given back.
 */
#ifndef PS_OPTIMIZER_DEVICE_SHARING_H
#define PS_OPTIMIZER_DEVICE_SHARING_H

#include "base/device_share.h"
#include "base/status.h"

#include <stddef.h>

enum ps_device_copy { PS_DEVICE_COPY_TO_HOST, PS_DEVICE_COPY_FROM_HOST };

struct ps_device_sharing {
    /* Names the piece that `memory` lies in; `*base` is where that begins, in this process. */
    PS_MUST_USE enum ps_status (*name)(const void *memory, struct ps_device_share *share,
                                       uint8_t **base, struct ps_error *error);

    /* Between this process's own memory of a device and of the host, after all that was queued on
     * the device's default stream; returns when the bytes are there. */
    PS_MUST_USE enum ps_status (*copy)(void *to, const void *from, size_t size,
                                       enum ps_device_copy way, struct ps_error *error);

    /* A piece of the first device's memory, with undefined content, for programs that have no other
     * allocator of such. `release` takes what `acquire` gave; NULL is allowed. */
    PS_MUST_USE enum ps_status (*acquire)(size_t size, void **memory, struct ps_error *error);
    void (*release)(void *memory);
};

#endif
