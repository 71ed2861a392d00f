/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks a launch gets. */
#include "optimizer/cuda/device.cuh"

/* Blocks for each place that a multiprocessor has for one: as places become free, the slower
 * multiprocessors get fewer of them, and the end of a launch is not theirs alone. */
#define BLOCKS_EACH 4

#ifdef PS_EMULATOR

/* Eight blocks, whatever they are of. */
static unsigned ask(const void *kernel)
{
    (void)kernel;
    return 8 / BLOCKS_EACH;
}

#else

/* Blocks of this kernel that the current device runs at the same time. */
static unsigned ask(const void *kernel)
{
    int device = 0;
    int count = 0;
    int each = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, PS_THREADS, 0) != cudaSuccess)
        return 1;
    return count > 0 && each > 0 ? (unsigned)count * (unsigned)each : 1;
}

#endif

/* Threads that come first at the same time hear the same. */
static unsigned kept(const void *kernel, unsigned *places)
{
    unsigned count = __atomic_load_n(places, __ATOMIC_RELAXED);
    if (count == 0) {
        count = ask(kernel);
        __atomic_store_n(places, count, __ATOMIC_RELAXED);
    }
    return count;
}

unsigned ps_cuda_blocks(uint64_t wanted, uint32_t limit, const void *kernel, unsigned *places)
{
    uint64_t most = limit > 0 ? limit : kept(kernel, places) * BLOCKS_EACH;
    return (unsigned)(wanted < most ? wanted : most);
}
