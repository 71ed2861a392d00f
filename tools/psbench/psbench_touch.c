/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs are held until all of them have been touched, since the kernel would hand the same one out
 * again and again otherwise. The second round is what a machine gives that has its memory already,
 * and is timed. */
#include "tools/psbench/psbench_touch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/slab.h"

#include <stddef.h>

static struct ps_bench_touch touch_all(void **slabs, size_t count);

/* A host that takes free memory back gets all of this in the seconds behind it, and the machine
 * stands still meanwhile: whoever measures pauses waits first (psbench_witness.h). */
struct ps_bench_touch ps_bench_touch_memory(double bytes)
{
    size_t count = (size_t)(bytes / PS_SLAB_BYTES) + 1;
    struct ps_bench_touch touch = {0};
    void **slabs = ps_zeroed_array(ps_allocator_heap(), count, sizeof *slabs);
    for (int round = 0; round < 2 && slabs != NULL; round++)
        touch = touch_all(slabs, count);
    ps_release(ps_allocator_heap(), slabs);
    return touch;
}

/* One byte makes the kernel clear a large page; where there are none it clears 4 KiB, and the rest
 * of the slab is touched byte by byte of each page. */
static struct ps_bench_touch touch_all(void **slabs, size_t count)
{
    enum { PAGE_BYTES = 4096 };
    struct ps_bench_touch touch = {0};
    uint64_t sum_ns = 0;
    size_t taken = 0;
    for (; taken < count && (slabs[taken] = ps_slab_take()) != NULL; taken++) {
        volatile char *slab = slabs[taken];
        uint64_t start_ns = ps_clock_precise_ns();
        for (size_t i = 0; i < PS_SLAB_BYTES; i += PAGE_BYTES)
            slab[i] = 1;
        uint64_t spent_ns = ps_clock_precise_ns() - start_ns;
        sum_ns += spent_ns;
        if ((double)spent_ns / 1e3 > touch.longest_us)
            touch.longest_us = (double)spent_ns / 1e3;
    }
    for (size_t i = 0; i < taken; i++)
        ps_slab_give(slabs[i]);
    if (taken > 0)
        touch.mean_us = (double)sum_ns / 1e3 / (double)taken;
    return touch;
}
