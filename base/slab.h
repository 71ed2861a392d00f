/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in slabs of 2 MiB, each aligned to its size and in one large page where the system gives
 * large pages to those who ask: one page fault instead of 512, and one TLB entry.
 *
 * Slabs are cut from regions of address space, which cost nothing before they are touched. To ask
 * the kernel for address space is to wait for whoever has the process's memory map, and a thread
 * that touches memory ahead has it for as long as the host takes to find a page, some milliseconds
 * for each. So a thread that must not wait asks once for 64 slabs, and not at all where the one
 * that touches ahead has prepared the next region (base/touch_ahead.h).
 *
 * Threads:  any.
 * Blocking: for the kernel, once for a region, if none was prepared; the first touch clears a page.
 * Errors:   NULL when memory is refused.
 * Memory:   what take gave goes back by give, to the kernel; it is not heap memory. Address space
 *           of two regions at most is kept beside what was taken.
 */
#ifndef PS_BASE_SLAB_H
#define PS_BASE_SLAB_H

#define PS_SLAB_BYTES (2 * 1024 * 1024)

#include <stddef.h>

/* PS_SLAB_BYTES of zeroed memory; give it back with ps_slab_give. */
void *ps_slab_take(void);
void ps_slab_give(void *slab);

/* The same for `count` slabs, one behind the other. */
void *ps_slabs_take(size_t count);
void ps_slabs_give(void *slabs, size_t count);

/* Has the next region ready when less than half of one is left, for a take that must not wait. Does
 * nothing where there is one. */
void ps_slabs_prepare(void);

#endif
