/* SPDX-License-Identifier: Apache-2.0 */
/* The update with a list of elements (TOP_K) of a rule that changes the others, too: momentum, Adam
 * and all that remember. For each element to look whether it is listed would take a search in
 * memory for each 16 bytes. So a block does some chunks that lie one behind the other: it looks for
 * its place in the list once, puts a chunk's entries where they belong among zeros in shared
 * memory, and goes through the chunk as if its gradient had been sent whole; where the next chunk's
 * entries begin it has seen meanwhile. The list is read once, and nothing is written but the
 * parameter. */
#include "optimizer/cuda/rules.cuh"

/* Elements of a chunk: 16 KiB of shared memory, so that it is not what limits the blocks of a
 * multiprocessor, and four packs for each thread. */
#define SCATTERED 4096

/* A chunk's gradient, and where in the list the next chunk's entries begin. */
struct alignas(16) scattered {
    float element[SCATTERED];
    uint64_t next;
};

/* Puts the entries of [begin, begin + SCATTERED), which stand from `at` on in the list, in their
 * places. Everybody comes here, and is told where the next chunk's stand. */
PS_DEVICE uint64_t scatter(const struct ps_cuda_gradient *gradient, uint64_t begin, uint64_t at,
                           struct scattered *chunk)
{
    const struct pack_f32 none = {};
    if (PS_MUTATED(PS_KERNELS_CHUNK_LATE, false, true))
        __syncthreads(); /* Nobody reads the chunk before any more. */
    for (unsigned i = threadIdx.x; i < SCATTERED / PACK(float); i += blockDim.x)
        store_f32(chunk->element, i, none);
    if (threadIdx.x == 0)
        chunk->next = gradient->kept;
    __syncthreads();
    for (uint64_t i = at + threadIdx.x; i < gradient->kept; i += blockDim.x) {
        const uint64_t place = gradient->indices[i] - begin;
        if (place >= SCATTERED) {
            /* Indices rise: one thread alone sees the first that is too high. */
            if (i == at || gradient->indices[i - 1] - begin < SCATTERED)
                chunk->next = i;
            break;
        }
        chunk->element[place] = ((const float *)gradient->elements)[i];
    }
    if (PS_MUTATED(PS_KERNELS_CHUNK_EARLY, false, true))
        __syncthreads();
    return chunk->next;
}

/* The chunks of one block. They lie one behind the other, and not a grid apart as packs do
 * elsewhere, so that a block knows where its next chunk's entries begin; a block that finds none
 * left has none. */
struct chunks {
    uint64_t chunk;
    uint64_t end;
};

PS_DEVICE struct chunks chunks_of_block(uint64_t count)
{
    const uint64_t all = (count + SCATTERED - 1) / SCATTERED;
    const uint64_t each = (all + gridDim.x - 1) / gridDim.x;
    const uint64_t begin = blockIdx.x * each;
    return {begin, begin + each < all ? begin + each : all};
}

/* A list takes registers, too: a double has none left for a second pack. */
#define AT_ONCE_LISTED(T) (sizeof(T) == 4 ? 2 : 1)

#define SCATTERED_KERNEL(TAG, rule, states_, suffix, T)                                           \
    PS_DEVICE void listed_##rule##_##suffix(                                                      \
        const STEP_##suffix *step, const struct ps_cuda_run *run, const struct ps_span &span,     \
        const struct scattered *chunk, uint64_t i, unsigned n)                                    \
    {                                                                                             \
        struct pack_##suffix gradient[AT_ONCE_MAX];                                               \
        struct held_##suffix held;                                                                \
        fetch_##rule##_##suffix(run, i, span.stride, n, &held);                                   \
        packs_from_f32_##suffix(chunk->element, i - span.begin / PACK(T), span.stride, n,         \
                                gradient);                                                        \
        finish_##rule##_##suffix(step, run, i, span.stride, n, gradient, &held);                  \
    }                                                                                             \
    PS_DEVICE void chunk_##rule##_##suffix(                                                       \
        const STEP_##suffix *step, const struct ps_cuda_run *run, const struct ps_span &span,     \
        const struct scattered *chunk, unsigned n)                                                \
    {                                                                                             \
        uint64_t i = span.pack;                                                                   \
        for (; i + (n - 1) * span.stride < span.packs; i += n * span.stride)                      \
            listed_##rule##_##suffix(step, run, span, chunk, i, n);                               \
        for (; n > 1 && i < span.packs; i += span.stride)                                         \
            listed_##rule##_##suffix(step, run, span, chunk, i, 1);                               \
        if (span.tail < span.count)                                                               \
            element_##rule##_##suffix(                                                            \
                step, run, span.tail,                                                             \
                ps_decode_f32_##suffix(chunk->element[span.tail - span.begin]));                  \
    }                                                                                             \
    PS_WIDE_KERNEL scattered_##rule##_##suffix(                                                   \
        const struct ps_cuda_run run, const struct ps_cuda_verdict *verdict, STEP_##suffix step)  \
    {                                                                                             \
        PS_SHARED struct scattered chunk;                                                         \
        if (!admit(verdict, &step))                                                               \
            return;                                                                               \
        const struct chunks mine = chunks_of_block(run.count);                                    \
        uint64_t at = listed_from(&run.gradient, run.first + mine.chunk * SCATTERED);             \
        for (uint64_t i = mine.chunk; i < mine.end; i++) {                                        \
            at = scatter(&run.gradient, run.first + i * SCATTERED, at, &chunk);                   \
            chunk_##rule##_##suffix(&step, &run, span_of_chunk(run.count, PACK(T), i, SCATTERED), \
                                    &chunk, AT_ONCE_LISTED(T));                                   \
        }                                                                                         \
    }
PS_FLOAT_RULES(SCATTERED_KERNEL, f32, float)
PS_FLOAT_RULES(SCATTERED_KERNEL, f64, double)
#undef SCATTERED_KERNEL

#define LAUNCH_SCATTERED(TAG, rule, states_, suffix, T)                                      \
    case TAG:                                                                                \
        return PS_LAUNCH_MANY(scattered_##rule##_##suffix, apply->run.count / SCATTERED + 1, \
                              apply->grid, stream, apply->run, apply->verdict,               \
                              apply->step->suffix);
#define BY_RULE(suffix, T, f)                                                      \
    static int scattered_##suffix(const struct ps_cuda_apply *apply, void *stream) \
    {                                                                              \
        switch ((int)apply->step->settings->rule) {                                \
            PS_FLOAT_RULES(LAUNCH_SCATTERED, suffix, T)                            \
        }                                                                          \
        PS_NO_SUCH("unknown rule");                                                \
    }
PS_FLOAT_TABLE(BY_RULE)
#undef BY_RULE
#undef LAUNCH_SCATTERED

int ps_cuda_launch_scattered(const struct ps_cuda_apply *apply, void *stream)
{
    PS_ASSERT(apply->run.gradient.encoding == PS_ENCODING_TOP_K);
    if (apply->step->dtype == PS_F32)
        return scattered_f32(apply, stream);
    PS_ASSERT(apply->step->dtype == PS_F64);
    return scattered_f64(apply, stream);
}
