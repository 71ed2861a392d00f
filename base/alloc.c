/* SPDX-License-Identifier: Apache-2.0 */
/* The heap behind the allocator interface; the only file that calls malloc.
 *
 * Everything else in the tree receives a struct ps_allocator, so that a test can refuse the n-th
 * allocation and count what is still held at the end. tidy.py bans malloc and its relatives
 * anywhere else; without that ban one forgotten call would make such a test blind to it. */
#include "base/alloc.h"

#include "base/assert.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Eight times the largest message by default (PS_MESSAGE_BYTES_DEFAULT), so that every message
 * buffer is recycled inside the process. */
#define KEEP_BYTES (512 << 20)
/* The largest mapping threshold that older C libraries accept; a larger one is refused as a whole,
 * and each buffer above their default of 128 KiB is then mapped and unmapped again. */
#define KEEP_BYTES_OLD (32 << 20)

/* glibc adapts both thresholds to what a program frees, until the program names one of them itself.
 * Naming only the mapping threshold would therefore freeze the trim threshold at its small default,
 * and the heap's top would go back to the kernel after every large message. */
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

/* calloc(0) and malloc(0) may return NULL, which callers read as "refused". Asking for one byte
 * instead keeps the promise of alloc.h that a size of 0 gives a pointer. */
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
    /* The product is judged before it is formed: wrapped around, it would be a small allocation
     * that the caller takes for a large one. Counts come out of files and messages, so this is not
     * a theoretical case. */
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return ps_zeroed(memory, count * size);
}

char *ps_copy_text(const struct ps_allocator *memory, const void *text, size_t size)
{
    /* The NUL behind the text would make the size 0 here, and memcpy would run over the heap. */
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
