/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs straight from the kernel, not from the heap: a slab is aligned to its own size, which
 * malloc could provide only by wasting a second slab, and goes back to the kernel when it is given
 * back. */
#include "base/slab.h"

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

static void unmap(uintptr_t begin, uintptr_t end)
{
    PS_ASSERT(begin <= end);
    if (begin < end)
        PS_ASSERT(munmap((void *)begin, end - begin) == 0);
}

void *ps_slabs_take(size_t count)
{
    PS_ASSERT(count > 0 && count < SIZE_MAX / PS_SLAB_BYTES - 1);
    size_t bytes = count * PS_SLAB_BYTES;
    /* One slab more has the aligned ones within; what is around them goes back at once. Untouched
     * address space costs nothing. */
    void *mapped = mmap(NULL, bytes + PS_SLAB_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    uintptr_t begin = (uintptr_t)mapped;
    uintptr_t slab = (begin + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES;
    unmap(begin, slab);
    unmap(slab + bytes, begin + bytes + PS_SLAB_BYTES);
    /* A wish. Where large pages are switched off or none can be found, small pages do the same,
     * only with 512 faults instead of one. */
    (void)madvise((void *)slab, bytes, MADV_HUGEPAGE);
    return (void *)slab;
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
