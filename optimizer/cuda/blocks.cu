/* How many blocks a launch gets. */
#include "optimizer/cuda/device.cuh"

/* Blocks of 256 threads that keep a multiprocessor's memory system full. */
#define BLOCKS_EACH 8

/* The current device's multiprocessors; the emulator has one. */
static unsigned multiprocessors()
{
#ifdef PS_EMULATOR
    return 1;
#else
    int device = 0;
    int count = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 1;
    return count > 0 ? (unsigned)count : 1;
#endif
}

unsigned ps_cuda_blocks(uint64_t wanted, uint32_t limit)
{
    uint64_t most = limit > 0 ? limit : multiprocessors() * BLOCKS_EACH;
    return (unsigned)(wanted < most ? wanted : most);
}
