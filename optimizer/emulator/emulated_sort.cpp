// SPDX-License-Identifier: Apache-2.0
/* Stands in for cuda/sort.cu: a stable sort of the standard library's, in the stream. */
#include "optimizer/cuda/launch.h"
#include "optimizer/emulator/kernel_emulator.hpp"

#include "base/assert.h"

#include <algorithm>

extern "C" size_t ps_cuda_sort_scratch(uint64_t count, uint32_t bits)
{
    (void)bits;
    return (size_t)count * sizeof(uint32_t);
}

/* Only the lowest `bits` bits count, as on a GPU. */
static uint64_t key(uint64_t row, uint32_t bits)
{
    return bits < 64 ? row & (((uint64_t)1 << bits) - 1) : row;
}

static void sort_rows(struct ps_cuda_sort sort)
{
    uint32_t *arrival = sort.arrival;
    for (uint64_t i = 0; i < sort.count; i++)
        arrival[i] = (uint32_t)i;
    std::stable_sort(arrival, arrival + sort.count, [&sort](uint32_t left, uint32_t right) {
        return key(sort.rows[left], sort.bits) < key(sort.rows[right], sort.bits);
    });
    for (uint64_t i = 0; i < sort.count; i++)
        sort.sorted[i] = sort.rows[arrival[i]];
}

extern "C" int ps_cuda_launch_sort(const struct ps_cuda_sort *sort, void *stream)
{
    if (sort->count == 0)
        return 0;
    PS_ASSERT(sort->count < (uint64_t)1 << 31);
    PS_ASSERT(sort->bits <= 64);
    PS_ASSERT(sort->scratch_bytes >= ps_cuda_sort_scratch(sort->count, sort->bits));
    return ps_kernels_launch(1, 1, stream, sort_rows, *sort);
}
