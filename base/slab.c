/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs straight from the kernel, not from the heap: a slab is aligned to its own size, which
 * malloc could provide only by wasting a second slab, and goes back to the kernel when it is given
 * back.
 *
 * The region in use is one address, up to which it is taken; its end is the next multiple of a
 * region's size. Taking is one exchange of that address. Nobody gives back what was not taken, so
 * that an address behind which there is room means the same whenever it is seen. */
#include "base/slab.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define REGION_BYTES ((uintptr_t)64 * PS_SLAB_BYTES)

/* 0: there is none. */
static _Atomic uintptr_t region_in_use;
static _Atomic uintptr_t region_prepared;

static void unmap(uintptr_t begin, uintptr_t end)
{
    PS_ASSERT(begin <= end);
    if (begin < end)
        PS_ASSERT(munmap((void *)begin, end - begin) == 0);
}

/* Address space of so many bytes, aligned to that or to a slab's size; 0: refused. */
static uintptr_t map_aligned(uintptr_t bytes, uintptr_t alignment)
{
    /* So much more has the aligned part within; what is around it goes back at once. Untouched
     * address space costs nothing. */
    void *mapped =
        mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return 0;
    uintptr_t begin = (uintptr_t)mapped;
    uintptr_t aligned = (begin + alignment - 1) / alignment * alignment;
    unmap(begin, aligned);
    unmap(aligned + bytes, begin + bytes + alignment);
    /* A wish. Where large pages are switched off or none can be found, small pages do the same,
     * only with 512 faults instead of one. */
    (void)madvise((void *)aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

/* How much of a region there is from here on. */
static uintptr_t room_behind(uintptr_t at)
{
    return at == 0 ? 0 : REGION_BYTES - at % REGION_BYTES;
}

/* For the next one who needs a region; a second one is not kept. */
static void keep_region(uintptr_t region)
{
    uintptr_t none = 0;
    PS_ASSERT(region % REGION_BYTES == 0);
    if (!atomic_compare_exchange_strong(&region_prepared, &none, region))
        unmap(region, region + REGION_BYTES);
}

/* Two threads may both find that one is wanted; the one that comes second gives its own back. */
void ps_slabs_prepare(void)
{
    if (room_behind(atomic_load(&region_in_use)) >= REGION_BYTES / 2 ||
        atomic_load(&region_prepared) != 0)
        return;
    uintptr_t region = map_aligned(REGION_BYTES, REGION_BYTES);
    if (region != 0)
        keep_region(region);
}

/* Takes `bytes` from `at` on, in the region that was `seen` or in a new one, of which the rest is
 * in use then. False: somebody else was faster. */
static bool take_from(uintptr_t seen, uintptr_t at, uintptr_t bytes)
{
    uintptr_t rest = room_behind(at) > bytes ? at + bytes : 0;
    return atomic_compare_exchange_strong(&region_in_use, &seen, rest);
}

/* What is left of a region that is too short for several slabs is lost: address space, and no
 * memory. */
void *ps_slabs_take(size_t count)
{
    PS_ASSERT(count > 0 && count < SIZE_MAX / PS_SLAB_BYTES / 2);
    uintptr_t bytes = count * PS_SLAB_BYTES;
    if (bytes > REGION_BYTES / 2)
        return (void *)map_aligned(bytes, PS_SLAB_BYTES);
    for (;;) {
        uintptr_t seen = atomic_load(&region_in_use);
        if (room_behind(seen) >= bytes) {
            if (take_from(seen, seen, bytes))
                return (void *)seen;
            continue;
        }
        uintptr_t region = atomic_exchange(&region_prepared, 0);
        if (region == 0)
            region = map_aligned(REGION_BYTES, REGION_BYTES);
        /* A system that counts address space may have as much as is needed, and no more. */
        if (region == 0)
            return (void *)map_aligned(bytes, PS_SLAB_BYTES);
        if (take_from(seen, region, bytes))
            return (void *)region;
        keep_region(region);
    }
}

/* All of one call of take at once; the kernel would allow parts, but nobody counts them. */
void ps_slabs_give(void *slabs, size_t count)
{
    PS_ASSERT((uintptr_t)slabs % PS_SLAB_BYTES == 0);
    unmap((uintptr_t)slabs, (uintptr_t)slabs + count * PS_SLAB_BYTES);
}

/* Most users want one. */
void *ps_slab_take(void)
{
    return ps_slabs_take(1);
}

void ps_slab_give(void *slab)
{
    if (slab != NULL)
        ps_slabs_give(slab, 1);
}
