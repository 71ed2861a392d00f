/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting row numbers with CUB's radix sort, which is stable. The only kernels that are not ours,
 * and the only file that the emulator does not run: emulated_sort.cpp stands in for it. */
#include "optimizer/cuda/launch.h"

#include "base/assert.h"

#include <cub/device/device_radix_sort.cuh>

/* The numbers of arrival, which the sort carries along, lie in front of CUB's own scratch. */
static size_t arrivals_bytes(uint64_t count)
{
    return (size_t)((count * sizeof(uint32_t) + 255) / 256 * 256);
}

static int sort_pairs(const struct ps_cuda_sort *sort, void *scratch, size_t *bytes,
                      const uint32_t *arrivals, cudaStream_t stream)
{
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, sort->rows, sort->sorted, arrivals,
                                           sort->arrival, (int)sort->count, 0, (int)sort->bits,
                                           stream);
}

static __global__ void number(uint32_t *arrivals, uint64_t count)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        arrivals[i] = (uint32_t)i;
}

extern "C" size_t ps_cuda_sort_scratch(uint64_t count, uint32_t bits)
{
    struct ps_cuda_sort sort = {};
    size_t bytes = 0;
    sort.count = count;
    sort.bits = bits;
    if (count == 0 || sort_pairs(&sort, nullptr, &bytes, nullptr, nullptr) != 0)
        return 0;
    return arrivals_bytes(count) + bytes;
}

extern "C" int ps_cuda_launch_sort(const struct ps_cuda_sort *sort, void *stream)
{
    if (sort->count == 0)
        return 0;
    PS_ASSERT(sort->count < (uint64_t)1 << 31);
    PS_ASSERT(sort->bits <= 64);
    PS_ASSERT(sort->scratch_bytes >= arrivals_bytes(sort->count));
    uint32_t *arrivals = (uint32_t *)sort->scratch;
    size_t bytes = sort->scratch_bytes - arrivals_bytes(sort->count);
    number<<<256, 256, 0, (cudaStream_t)stream>>>(arrivals, sort->count);
    int error = cudaGetLastError();
    if (error != 0)
        return error;
    return sort_pairs(sort, (char *)sort->scratch + arrivals_bytes(sort->count), &bytes, arrivals,
                      (cudaStream_t)stream);
}
