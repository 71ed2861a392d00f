/* SPDX-License-Identifier: Apache-2.0 */
/* What every kernel file stands on: one spelling for nvcc and for the emulator, sixteen bytes of
 * elements as one thing to load and store, and which elements a thread works on.
 *
 * A kernel file includes nothing of CUDA but this, and launches through PS_LAUNCH alone; that is
 * how the emulator can run it.
 *
 * Threads:  those of a kernel.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_CUDA_DEVICE_CUH
#define PS_OPTIMIZER_CUDA_DEVICE_CUH

#include "base/assert.h"
#include "optimizer/cuda/launch.h"
#include "optimizer/rule.h"

#ifdef PS_EMULATOR
#include "optimizer/emulator/kernel_emulator.hpp"
#else
#define PS_SHARED __shared__
#define PS_UNROLL _Pragma("unroll")
#define PS_LAUNCH(kernel, grid, stream, ...) \
    (kernel<<<(grid), PS_THREADS, 0, (cudaStream_t)(stream)>>>(__VA_ARGS__), cudaGetLastError())
#endif

/* Errors put in on purpose, so that the tests can show that they find them. */
#ifdef PS_KERNEL_MUTATIONS
#define PS_MUTATED(which, wrong, right) (ps_kernels_mutation() == (which) ? (wrong) : (right))
#else
#define PS_MUTATED(which, wrong, right) (right)
#endif

/* Threads of a block, everywhere. */
#define PS_THREADS 256
#define PS_WARP 32

#define PS_KERNEL static __global__ void __launch_bounds__(PS_THREADS)

/* The same, with four blocks a multiprocessor in mind: left alone, ptxas squeezes some kernels into
 * 32 registers and spills. For compute capability 10 it needs more registers for the same and spills
 * with 64 of them: three blocks there, with 80. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define PS_BLOCKS 3
#else
#define PS_BLOCKS 4
#endif
#define PS_WIDE_KERNEL static __global__ void __launch_bounds__(PS_THREADS, PS_BLOCKS)
#define PS_DEVICE static __device__ __forceinline__

/* The numbers of a step, by suffix, and where a table's entry has them. */
#define FLOAT_STEP(suffix, T, f)                                                \
    using STEP_##suffix = struct ps_step_##suffix;                              \
    PS_DEVICE STEP_##suffix step_of_##suffix(const struct ps_cuda_entry *entry) \
    {                                                                           \
        return entry->step.suffix;                                              \
    }
#define WHOLE_STEP(suffix)                                                      \
    using STEP_##suffix = struct ps_step_whole;                                 \
    PS_DEVICE STEP_##suffix step_of_##suffix(const struct ps_cuda_entry *entry) \
    {                                                                           \
        return entry->step.whole;                                               \
    }
#define SIGNED_STEP(suffix, T, U, least, greatest) WHOLE_STEP(suffix)
#define UNSIGNED_STEP(suffix, T, twin, TWIN, greatest) WHOLE_STEP(suffix)
PS_FLOAT_TABLE(FLOAT_STEP)
PS_SIGNED_TABLE(SIGNED_STEP)
PS_UNSIGNED_TABLE(UNSIGNED_STEP)
#undef FLOAT_STEP
#undef WHOLE_STEP
#undef SIGNED_STEP
#undef UNSIGNED_STEP

/* Elements of one 16-byte access. */
#define PACK(T) (16 / sizeof(T))

/* Packs that a thread has on their way at once, at most. */
#define AT_ONCE_MAX 4

#define PACKS(TAG, suffix, T, SUM, label)                                                     \
    struct alignas(16) pack_##suffix {                                                        \
        T element[PACK(T)];                                                                   \
    };                                                                                        \
    PS_DEVICE struct pack_##suffix load_##suffix(const void *array, uint64_t pack)            \
    {                                                                                         \
        return ((const struct pack_##suffix *)array)[pack];                                   \
    }                                                                                         \
    PS_DEVICE void store_##suffix(void *array, uint64_t pack, const struct pack_##suffix &it) \
    {                                                                                         \
        ((struct pack_##suffix *)array)[pack] = it;                                           \
    }
PS_DTYPE_TABLE(PACKS)
#undef PACKS

/* The elements that one thread works on: packs from `pack` on, every `stride`, below `packs`; and
 * perhaps one of the last few elements, which fill no pack. */
struct ps_span {
    uint64_t pack;
    uint64_t packs;
    uint64_t stride;
    uint64_t tail; /* below `count`: that element, too */
    uint64_t count;
    uint64_t begin; /* all threads together: elements [begin, end); this is thread `thread` */
    uint64_t end;
    uint64_t thread;
};

/* A run's packs and elements, as they are when no error has been put in. */
PS_DEVICE uint64_t whole_packs(uint64_t packs)
{
    return packs - PS_MUTATED(PS_KERNELS_LAST_SKIPPED, packs > 0, 0);
}

PS_DEVICE uint64_t whole_count(uint64_t count)
{
    return count + PS_MUTATED(PS_KERNELS_TAIL_LONG, 1, 0) -
           PS_MUTATED(PS_KERNELS_TAIL_SHORT, count > 0, 0);
}

PS_DEVICE uint64_t whole_stride(uint64_t stride)
{
    return stride + PS_MUTATED(PS_KERNELS_WRONG_STRIDE, 1, 0);
}

/* Of a whole run, shared by all blocks. */
PS_DEVICE struct ps_span span_of_run(uint64_t count, uint64_t width)
{
    struct ps_span span;
    uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    span.begin = 0;
    span.end = count;
    span.thread = thread;
    span.pack = thread;
    span.packs = whole_packs(count / width);
    span.stride = whole_stride((uint64_t)gridDim.x * blockDim.x);
    span.tail = count / width * width + thread;
    span.count = whole_count(count);
    return span;
}

/* Of one chunk of a run, `each` elements that one block does alone. */
PS_DEVICE struct ps_span span_of_chunk(uint64_t count, uint64_t width, uint64_t chunk,
                                       uint64_t each)
{
    struct ps_span span;
    uint64_t packs = count / width;
    uint64_t end = (chunk + 1) * (each / width);
    span.begin = chunk * each;
    span.end = count < span.begin + each ? count : span.begin + each;
    span.thread = threadIdx.x;
    span.pack = chunk * (each / width) + threadIdx.x;
    span.packs = end < packs ? end : whole_packs(packs);
    span.stride = whole_stride(blockDim.x);
    span.tail = packs * width / each == chunk ? packs * width + threadIdx.x : UINT64_MAX;
    span.count = whole_count(count);
    return span;
}

PS_DEVICE bool forbids(const struct ps_cuda_verdict *verdict)
{
    if (PS_MUTATED(PS_KERNELS_NO_VERDICT, true, false))
        return false;
    return verdict != NULL && (verdict->skip != 0 || verdict->overflow_index != UINT64_MAX);
}

/* May this push be applied? Takes the verdict's scale into the step. */
PS_DEVICE bool admit(const struct ps_cuda_verdict *verdict, struct ps_step_f32 *step)
{
    if (verdict != NULL)
        step->scale = (float)verdict->scale;
    return !forbids(verdict);
}

PS_DEVICE bool admit(const struct ps_cuda_verdict *verdict, struct ps_step_f64 *step)
{
    if (verdict != NULL)
        step->scale = verdict->scale;
    return !forbids(verdict);
}

PS_DEVICE bool admit(const struct ps_cuda_verdict *verdict, struct ps_step_whole *step)
{
    (void)step;
    return !forbids(verdict);
}

/* How many blocks of `kernel` to start for `wanted` blocks' worth of work: at most `limit`, or as
 * many as keep the device busy where that is 0. What the device says to that is kept in `*places`,
 * 0 at the beginning: a process has one device. */
unsigned ps_cuda_blocks(uint64_t wanted, uint32_t limit, const void *kernel, unsigned *places);

/* One for each place in the source, and so for each kernel. */
#define PS_PLACES               \
    ([]() {                     \
        static unsigned places; \
        return &places;         \
    }())

#define PS_LAUNCH_MANY(kernel, wanted, limit, stream, ...)                                  \
    PS_LAUNCH(kernel, ps_cuda_blocks((wanted), (limit), (const void *)(kernel), PS_PLACES), \
              stream, __VA_ARGS__)

/* What ps_cuda_launch_apply does with a list of elements where the rule changes the others, too. */
int ps_cuda_launch_scattered(const struct ps_cuda_apply *apply, void *stream);

/* Ends a switch over an enum of which every value has been dealt with. */
#define PS_NO_SUCH(what) ps_assert_failed(what, __FILE__, __LINE__)

/* What the kernels require of an address. */
static inline bool aligned(const void *address)
{
    return (uintptr_t)address % PS_CUDA_ALIGNMENT == 0;
}

#endif
