/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that refuses the n-th allocation and counts what is alive, for sweeping every refused
 * allocation of a function (STYLE.md, rule 53).
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   NULL for the refused one.
 * Memory:   from the C library.
 */
#ifndef PS_TESTS_SUPPORT_FAULT_HEAP_H
#define PS_TESTS_SUPPORT_FAULT_HEAP_H

#include "base/alloc.h"

#include <stdint.h>

struct fault_heap {
    int64_t refuse_at; /* 0-based number of the allocation to refuse; -1: none */
    int64_t seen;      /* allocations asked for so far */
    int64_t live;      /* given out and not released */
};

/* An allocator over `heap`, which it borrows. */
struct ps_allocator fault_heap_allocator(struct fault_heap *heap);

#endif
