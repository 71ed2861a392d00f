// SPDX-License-Identifier: Apache-2.0
/* Which elements each thread of a grid works on, where counts do not fit in 32 bits: the arithmetic
 * alone, for every thread of the grid, without any memory behind it. */
#include "expect.h"

#include "optimizer/cuda/device.cuh"

/* Packs that this thread does. */
static uint64_t packs_of(const struct ps_span &span)
{
    if (span.pack >= span.packs)
        return 0;
    return (span.packs - span.pack - 1) / span.stride + 1;
}

/* All threads of `grid` blocks together do each pack once, and each element of the tail. The first
 * packs of all threads are the numbers from 0 on, once each, and the stride is how many there are:
 * so no pack is done twice. */
static void a_grid_does_all(struct expect *expect, uint64_t count, uint64_t width, unsigned grid)
{
    uint64_t packs = 0;
    uint64_t tails = 0;
    uint64_t first = 0;
    gridDim.x = grid;
    blockDim.x = PS_THREADS;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < PS_THREADS; threadIdx.x++) {
            const struct ps_span span = span_of_run(count, width);
            packs += packs_of(span);
            tails += span.tail < span.count;
            EXPECT(expect, span.pack == first++);
            EXPECT(expect, span.stride == (uint64_t)grid * PS_THREADS);
            EXPECT(expect, span.end == count && span.count == count);
        }
    }
    EXPECT(expect, packs == count / width);
    EXPECT(expect, tails == count % width);
}

static void grids_do_all_elements_of_large_runs(struct expect *expect)
{
    static const uint64_t counts[] = {(UINT64_C(1) << 31) + 3, (UINT64_C(1) << 32) + 5,
                                      (UINT64_C(1) << 34) + 7, UINT64_C(1) << 40, 5};
    static const unsigned grids[] = {1, 66, 528, 2112};
    for (uint64_t count : counts)
        for (uint64_t width = 2; width <= 8; width *= 2)
            for (unsigned grid : grids)
                a_grid_does_all(expect, count, width, grid);
}

/* One chunk's elements: whole packs, and the tail where it is in this chunk. */
static uint64_t elements_of_chunk(uint64_t count, uint64_t width, uint64_t chunk)
{
    uint64_t elements = 0;
    blockDim.x = PS_THREADS;
    for (threadIdx.x = 0; threadIdx.x < PS_THREADS; threadIdx.x++) {
        const struct ps_span span = span_of_chunk(count, width, chunk, PS_CUDA_CHUNK);
        elements += packs_of(span) * width + (span.tail < span.count ? 1 : 0);
    }
    return elements;
}

static void the_last_chunks_of_a_large_run_end_where_it_ends(struct expect *expect)
{
    static const uint64_t counts[] = {(UINT64_C(1) << 31) + 3, (UINT64_C(1) << 32) + 5,
                                      UINT64_C(1) << 33};
    for (uint64_t count : counts) {
        for (uint64_t width = 2; width <= 8; width *= 2) {
            const uint64_t chunks = count / PS_CUDA_CHUNK;
            EXPECT(expect, elements_of_chunk(count, width, 0) == PS_CUDA_CHUNK);
            EXPECT(expect, elements_of_chunk(count, width, chunks - 1) == PS_CUDA_CHUNK);
            EXPECT(expect, elements_of_chunk(count, width, chunks) == count % PS_CUDA_CHUNK);
            EXPECT(expect, elements_of_chunk(count, width, chunks + 1) == 0);
        }
    }
}

static void a_large_run_has_a_chunk_for_each_part(struct expect *expect)
{
    const uint64_t count = (UINT64_C(1) << 40) + 1;
    EXPECT(expect, ps_cuda_chunks_fill(0, count, NULL) == (UINT64_C(1) << 40) / PS_CUDA_CHUNK + 1);
    EXPECT(expect, ps_cuda_sums(UINT64_C(1) << 36) == (1u << 24) + (1u << 12));
}

static void a_device_is_asked_once_how_many_blocks_it_holds(struct expect *expect)
{
    unsigned places = 0;
    EXPECT(expect, ps_cuda_blocks(100, 5, NULL, &places) == 5);
    EXPECT(expect, places == 0);
    const unsigned all = ps_cuda_blocks(100, 0, NULL, &places);
    EXPECT(expect, places > 0 && all % places == 0);
    places *= 3; /* Whoever asked again would hear the old number. */
    EXPECT(expect, ps_cuda_blocks(100, 0, NULL, &places) == 3 * all);
    EXPECT(expect, ps_cuda_blocks(2, 0, NULL, &places) == 2);
}

int main(void)
{
    struct expect expect = {};
    EXPECT_RUN(&expect, grids_do_all_elements_of_large_runs);
    EXPECT_RUN(&expect, the_last_chunks_of_a_large_run_end_where_it_ends);
    EXPECT_RUN(&expect, a_large_run_has_a_chunk_for_each_part);
    EXPECT_RUN(&expect, a_device_is_asked_once_how_many_blocks_it_holds);
    return expect_end(&expect);
}
