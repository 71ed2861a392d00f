/* How many blocks a launch gets. */
#include "optimizer/cuda/device.cuh"

/* Blocks for each place that a multiprocessor has for one: as places become free, the slower
 * multiprocessors get fewer of them, and the end of a launch is not theirs alone. */
#define BLOCKS_EACH 4

#ifdef PS_EMULATOR

/* Eight blocks, whatever they are of. */
static unsigned places(const void *kernel)
{
    (void)kernel;
    return 8 / BLOCKS_EACH;
}

#else

/* Blocks of this kernel that the current device runs at the same time. */
static unsigned places(const void *kernel)
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

unsigned ps_cuda_blocks(uint64_t wanted, uint32_t limit, const void *kernel)
{
    uint64_t most = limit > 0 ? limit : places(kernel) * BLOCKS_EACH;
    return (unsigned)(wanted < most ? wanted : most);
}
