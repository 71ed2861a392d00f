/* The first touch of memory, slab by slab. A server that recovers has to find memory for the whole
 * shard before it can fill it. On a virtual machine the first touch of each page may go down to the
 * host and cost more than reading the same bytes from a file; without this reference a slow
 * recovery would be blamed on the server. */
#include "tools/psbench/psbench_memory.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/slab.h"

#include <inttypes.h>
#include <stddef.h>

/* The smallest that a system has. */
#define PAGE_BYTES 4096

/* volatile, or the compiler would leave the write out: nobody reads it. */
static void touch(uint8_t *slab)
{
    for (size_t at = 0; at < PS_SLAB_BYTES; at += PAGE_BYTES)
        *(volatile uint8_t *)(slab + at) = 1;
}

/* Slabs are taken as a server takes them, with large pages where the system has some, and given
 * back afterwards. */
enum ps_status ps_bench_memory_touch(uint64_t bytes, uint64_t *taken_ns, struct ps_error *error)
{
    size_t count = (size_t)((bytes + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES);
    uint8_t **slabs = ps_zeroed_array(ps_allocator_heap(), count, sizeof slabs[0]);
    if (slabs == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of %zu slabs", count);
    uint64_t started_ns = ps_clock_precise_ns();
    size_t taken = 0;
    while (taken < count && (slabs[taken] = ps_slab_take()) != NULL)
        touch(slabs[taken++]);
    *taken_ns = ps_clock_precise_ns() - started_ns;
    for (size_t i = 0; i < taken; i++)
        ps_slab_give(slabs[i]);
    ps_release(ps_allocator_heap(), slabs);
    if (taken < count)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %" PRIu64 " bytes", bytes);
    return PS_OK;
}
