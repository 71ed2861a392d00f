/* The heap behind the allocator interface; the only file that calls malloc. */
#include "base/alloc.h"

#include "base/assert.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES (512 << 20)
/* All that older C libraries take for the first: what is larger they map and unmap each time. */
#define KEEP_BYTES_OLD (32 << 20)

/* Naming one of the two switches off that the C library adapts the other. */
void ps_allocator_keep_freed(void)
{
    if (mallopt(M_MMAP_THRESHOLD, KEEP_BYTES) == 0)
        (void)mallopt(M_MMAP_THRESHOLD, KEEP_BYTES_OLD);
    (void)mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
}

void ps_allocator_give_back(void)
{
    (void)malloc_trim(0);
}

static void *heap_zeroed(void *self, size_t size)
{
    (void)self;
    return calloc(1, size > 0 ? size : 1);
}

static void *heap_plain(void *self, size_t size)
{
    (void)self;
    return malloc(size > 0 ? size : 1);
}

static void heap_release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static const struct ps_allocator heap = {heap_zeroed, heap_plain, heap_release, NULL};

const struct ps_allocator *ps_allocator_heap(void)
{
    return &heap;
}

void *ps_zeroed(const struct ps_allocator *memory, size_t size)
{
    PS_ASSERT(memory != NULL);
    return memory->zeroed(memory->self, size);
}

void *ps_plain(const struct ps_allocator *memory, size_t size)
{
    PS_ASSERT(memory != NULL);
    return memory->plain(memory->self, size);
}

void ps_release(const struct ps_allocator *memory, void *pointer)
{
    PS_ASSERT(memory != NULL);
    memory->release(memory->self, pointer);
}

void *ps_zeroed_array(const struct ps_allocator *memory, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return ps_zeroed(memory, count * size);
}

char *ps_copy_text(const struct ps_allocator *memory, const void *text, size_t size)
{
    if (size == SIZE_MAX)
        return NULL;
    char *copy = ps_plain(memory, size + 1);
    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}
