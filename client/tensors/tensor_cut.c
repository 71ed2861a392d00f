/* SPDX-License-Identifier: Apache-2.0 */
/* Every part but the last has the full size, so that a server which keeps parts as they came never
 * keeps many small ones. */
#include "client/tensors/tensor_cut.h"

#include "base/assert.h"

_Static_assert(PS_TENSOR_RANGE_BYTES >= PS_TENSOR_PART_BYTES_MIN, "servers take such parts");

size_t ps_tensor_cut_count(uint64_t size)
{
    PS_ASSERT(size <= SIZE_MAX);
    if (size <= PS_TENSOR_RANGE_BYTES)
        return 1;
    return (size_t)((size - 1) / PS_TENSOR_RANGE_BYTES) + 1;
}

struct ps_tensor_part ps_tensor_cut_part(uint64_t size, size_t i)
{
    uint64_t offset = i * PS_TENSOR_RANGE_BYTES;
    PS_ASSERT(i < ps_tensor_cut_count(size));
    uint64_t left = size - offset;
    return (struct ps_tensor_part){offset,
                                   left < PS_TENSOR_RANGE_BYTES ? left : PS_TENSOR_RANGE_BYTES};
}
