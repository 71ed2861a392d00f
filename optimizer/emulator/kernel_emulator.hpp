/* What a kernel file finds instead of CUDA when the emulator compiles it.
 *
 * Threads:  the indices are those of the CUDA thread that is running.
 * Blocking: a barrier lets the block's other threads run.
 * Errors:   see kernel_emulator.h.
 * Memory:   see kernel_emulator.h.
 */
#ifndef PS_OPTIMIZER_KERNEL_EMULATOR_HPP
#define PS_OPTIMIZER_KERNEL_EMULATOR_HPP

#include "optimizer/emulator/kernel_emulator.h"

#include <cstdint>
#include <cstdlib>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* One block runs at a time, so its shared memory can be static. */
#define PS_SHARED static
#define PS_UNROLL
#define PS_LAUNCH(kernel, grid, stream, ...) \
    ps_kernels_launch((grid), PS_THREADS, (stream), kernel, __VA_ARGS__)

struct ps_kernels_index {
    unsigned x;
};
extern struct ps_kernels_index threadIdx, blockIdx, blockDim, gridDim;

void ps_kernels_barrier();

/* One bit from each thread of the warp; all of them have to come. */
unsigned ps_kernels_ballot(bool bit);

void ps_kernels_start(unsigned grid, unsigned block, const std::function<void()> &thread);

/* Arguments are copied, as they are for a GPU. */
template <class... Parameters, class... Arguments>
static int ps_kernels_launch(unsigned grid, unsigned block, void *stream,
                             void (*kernel)(Parameters...), Arguments... arguments)
{
    (void)stream;
    ps_kernels_start(grid, block, [=] { kernel(arguments...); });
    return 0;
}

static inline void __syncthreads()
{
    ps_kernels_barrier();
}

static inline unsigned __ballot_sync(unsigned mask, bool bit)
{
    if (mask != 0xffffffffu)
        abort();
    return ps_kernels_ballot(bit);
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

static inline unsigned long long atomicMin(unsigned long long *place, unsigned long long other)
{
    unsigned long long before = *place;
    *place = other < before ? other : before;
    return before;
}

#endif
