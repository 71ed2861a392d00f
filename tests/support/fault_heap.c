/* SPDX-License-Identifier: Apache-2.0 */
/* The refusing heap. */
#include "tests/support/fault_heap.h"

#include <stdbool.h>
#include <stdlib.h>

static bool refused(struct fault_heap *heap)
{
    return heap->seen++ == heap->refuse_at;
}

static void *fault_zeroed(void *self, size_t size)
{
    struct fault_heap *heap = self;
    if (refused(heap))
        return NULL;
    heap->live++;
    return calloc(1, size > 0 ? size : 1);
}

static void *fault_plain(void *self, size_t size)
{
    struct fault_heap *heap = self;
    if (refused(heap))
        return NULL;
    heap->live++;
    return malloc(size > 0 ? size : 1);
}

static void fault_release(void *self, void *memory)
{
    struct fault_heap *heap = self;
    if (memory == NULL)
        return;
    heap->live--;
    free(memory);
}

struct ps_allocator fault_heap_allocator(struct fault_heap *heap)
{
    return (struct ps_allocator){fault_zeroed, fault_plain, fault_release, heap};
}
