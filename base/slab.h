/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in slabs of 2 MiB, each aligned to its size and in one large page where the system gives
 * large pages to those who ask: one page fault instead of 512, and one TLB entry.
 *
 * Threads:  any.
 * Blocking: for the kernel, which may have to find a large page; the first touch clears it.
 * Errors:   NULL when memory is refused.
 * Memory:   what take gave goes back by give; it is not heap memory.
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

#endif
