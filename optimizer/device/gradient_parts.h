/* SPDX-License-Identifier: Apache-2.0 */
/* How an encoded gradient is cut into runs of elements that each fit in a slot, and how the bytes
 * of a run are laid out there: elements first, then what belongs to them.
 *
 * Threads:  pure but for the destination.
 * Blocking: never.
 * Errors:   none; sizes have been checked by whoever took the push.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_OPTIMIZER_DEVICE_GRADIENT_PARTS_H
#define PS_OPTIMIZER_DEVICE_GRADIENT_PARTS_H

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "optimizer/cuda/launch.h"

#include <stddef.h>
#include <stdint.h>

struct ps_gradient_source {
    struct ps_view content;
    enum ps_encoding encoding;
    enum ps_dtype dtype; /* of the parameter */
    uint64_t count;      /* elements of the parameter */
};

/* One run of it, as it lies in a slot. */
struct ps_gradient_part {
    uint64_t first;
    uint64_t count;
    size_t bytes;     /* in the slot, a multiple of 256 */
    size_t extra;     /* where the scales or indices begin */
    uint64_t listed;  /* TOP_K: entries of this part ... */
    uint64_t skipped; /* ... and of those before it */
};

/* Bytes that a gradient of this kind must have; TOP_K: 0, since any multiple of 8 is right. */
uint64_t ps_gradient_source_bytes(const struct ps_gradient_source *source);

/* The part that follows `before` (a zeroed one at the beginning) and takes at most `room` bytes, a
 * multiple of 64 KiB. A count of 0 says that there is none left. Parts begin at multiples of 4,096
 * elements. */
struct ps_gradient_part ps_gradient_part_next(const struct ps_gradient_source *source,
                                              const struct ps_gradient_part *before, size_t room);

/* Bytes of the part's elements as they lie in the content, of encodings that have one kind of data
 * alone. */
size_t ps_gradient_part_bytes(const struct ps_gradient_source *source,
                              const struct ps_gradient_part *part);

/* Writes the part's bytes to `destination`. */
void ps_gradient_part_copy(const struct ps_gradient_source *source,
                           const struct ps_gradient_part *part, uint8_t *destination);

/* What the kernels are told about a part that lies at `place` on the device. */
struct ps_cuda_gradient ps_gradient_part_at(const struct ps_gradient_source *source,
                                            const struct ps_gradient_part *part,
                                            const uint8_t *place);

#endif
