/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory comes from: an interface, so that tests can refuse the n-th allocation.
 *
 * Threads:  the heap is safe from any thread; other implementations say so themselves.
 * Blocking: never.
 * Errors:   NULL when refused.
 * Memory:   what an allocator gave goes back to the same allocator.
 */
#ifndef PS_BASE_ALLOC_H
#define PS_BASE_ALLOC_H

#include <stddef.h>

struct ps_allocator {
    void *(*zeroed)(void *self, size_t size);  /* all bytes 0; NULL when refused */
    void *(*plain)(void *self, size_t size);   /* content undefined; NULL when refused */
    void (*release)(void *self, void *memory); /* NULL is allowed */
    void *self;
};

/* The C library's heap. Static; lives for ever. */
const struct ps_allocator *ps_allocator_heap(void);

/* From now on freed memory stays in the process, to be had again without the kernel: giving the
 * buffers of each message back costs a large message more than half its speed. At the start of a
 * program, before there are threads; a library has no business to decide this for its host. */
void ps_allocator_keep_freed(void);

/* Gives freed memory back all the same: after something large that does not come again. What is
 * needed of it is had from the kernel again. May take some milliseconds. */
void ps_allocator_give_back(void);

/* Shorthands. A size of 0 gives a pointer that may be released like any other. */
void *ps_zeroed(const struct ps_allocator *memory, size_t size);
void *ps_plain(const struct ps_allocator *memory, size_t size);
void ps_release(const struct ps_allocator *memory, void *pointer);

/* `count * size` zeroed bytes; NULL when refused or when the product overflows. */
void *ps_zeroed_array(const struct ps_allocator *memory, size_t count, size_t size);

/* A copy of `size` bytes and a NUL after them. NULL when refused. */
char *ps_copy_text(const struct ps_allocator *memory, const void *text, size_t size);

#endif
