/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of rows from where they lie to a run of them, and back. A thread moves one piece of a body
 * at a time, of 16 bytes where pieces begin at multiples of that, else of 4; neighbours have
 * neighbouring pieces, so that a warp reads and writes whole lines. */
#include "optimizer/cuda/device.cuh"

struct alignas(16) line16 {
    uint32_t words[4];
};

/* Blocks take turns at PS_THREADS pieces. Within a turn 32 bits are enough, in which a GPU divides
 * in a fraction of the time. */
#define MOVE(name, T)                                                                    \
    PS_KERNEL move_##name(const struct ps_cuda_bodies bodies)                            \
    {                                                                                    \
        const uint32_t each = (uint32_t)(bodies.size / sizeof(T));                       \
        const uint64_t all = bodies.count * each;                                        \
        for (uint64_t base = (uint64_t)blockIdx.x * PS_THREADS; base < all;              \
             base += (uint64_t)gridDim.x * PS_THREADS) {                                 \
            const uint64_t piece = base + threadIdx.x;                                   \
            if (piece >= all)                                                            \
                continue;                                                                \
            const uint32_t within = (uint32_t)(base % each) + threadIdx.x;               \
            const uint64_t body = base / each + within / each;                           \
            T *run = (T *)bodies.run + piece;                                            \
            T *at = (T *)((char *)bodies.bodies + bodies.numbers[body] * bodies.stride + \
                          bodies.offset) +                                               \
                    within % each;                                                       \
            if (bodies.to_run)                                                           \
                *run = *at;                                                              \
            else                                                                         \
                *at = *run;                                                              \
        }                                                                                \
    }
MOVE(lines, struct line16)
MOVE(words, uint32_t)
#undef MOVE

int ps_cuda_launch_bodies(const struct ps_cuda_bodies *bodies, void *stream)
{
    if (bodies->count == 0 || bodies->size == 0)
        return 0;
    PS_ASSERT(aligned(bodies->bodies) && aligned(bodies->run));
    PS_ASSERT(bodies->stride % PS_CUDA_ALIGNMENT == 0);
    PS_ASSERT(bodies->size % sizeof(uint32_t) == 0 && bodies->offset % sizeof(uint32_t) == 0);
    PS_ASSERT(bodies->size <= UINT32_MAX - PS_THREADS);
    /* Bodies begin at whole packs; pieces of them need not, and then go word by word, which the
     * copy to the host takes longer than in any case. */
    const bool lines =
        bodies->size % PS_CUDA_ALIGNMENT == 0 && bodies->offset % PS_CUDA_ALIGNMENT == 0;
    const uint64_t pieces =
        bodies->count * (bodies->size / (lines ? sizeof(struct line16) : sizeof(uint32_t)));
    const uint64_t blocks = (pieces + PS_THREADS - 1) / PS_THREADS;
    return lines ? PS_LAUNCH_MANY(move_lines, blocks, bodies->grid, stream, *bodies)
                 : PS_LAUNCH_MANY(move_words, blocks, bodies->grid, stream, *bodies);
}
