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

void *ps_slab_take(void)
{
    /* Twice as much has an aligned slab within; what is around it goes back at once. Untouched
     * address space costs nothing. */
    void *mapped = mmap(NULL, (size_t)2 * PS_SLAB_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    uintptr_t begin = (uintptr_t)mapped;
    uintptr_t slab = (begin + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES;
    unmap(begin, slab);
    unmap(slab + PS_SLAB_BYTES, begin + (uintptr_t)2 * PS_SLAB_BYTES);
    /* A wish. Where large pages are switched off or none can be found, small pages do the same,
     * only with 512 faults instead of one. */
    (void)madvise((void *)slab, PS_SLAB_BYTES, MADV_HUGEPAGE);
    return (void *)slab;
}

void ps_slab_give(void *slab)
{
    if (slab == NULL)
        return;
    PS_ASSERT((uintptr_t)slab % PS_SLAB_BYTES == 0);
    unmap((uintptr_t)slab, (uintptr_t)slab + PS_SLAB_BYTES);
}
