/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows: for JSON documents, metrics pages and other output of unknown length.
 *
 * Threads:  a buffer belongs to one thread.
 * Blocking: never.
 * Errors:   an allocation that fails, or a text beyond the bound, marks the buffer; later appends
 *           do nothing, so that only the end has to be checked.
 * Memory:   owned by the buffer until ps_buffer_fini.
 */
#ifndef PS_BASE_BUFFER_H
#define PS_BASE_BUFFER_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"

struct ps_buffer {
    const struct ps_allocator *memory; /* borrowed; outlives this; NULL: over the caller's memory */
    char *text;                        /* owned; NUL-terminated once anything was appended */
    size_t size;                       /* without the NUL */
    size_t capacity;
    size_t size_max;
    bool failed;
};

/* An empty buffer that never grows beyond `size_max` bytes. */
void ps_buffer_init(struct ps_buffer *buffer, const struct ps_allocator *memory, size_t size_max);
void ps_buffer_fini(struct ps_buffer *buffer);

/* An empty buffer in `capacity` bytes (not 0) at `text`, which is borrowed. It never allocates and
 * holds one byte less, for the NUL. ps_buffer_fini is allowed and releases nothing. */
void ps_buffer_init_fixed(struct ps_buffer *buffer, char *text, size_t capacity);

void ps_buffer_append(struct ps_buffer *buffer, struct ps_bytes bytes);
void ps_buffer_append_text(struct ps_buffer *buffer, const char *text);
PS_PRINTF(2, 3) void ps_buffer_append_format(struct ps_buffer *buffer, const char *format, ...);

/* Forgets the content and the failure, keeps the memory. */
void ps_buffer_clear(struct ps_buffer *buffer);

/* Forgets the failure and what was appended after the buffer had `size` bytes. */
void ps_buffer_rewind(struct ps_buffer *buffer, size_t size);

/* PS_ERR_NO_MEMORY when an append was refused since the last clear. */
PS_MUST_USE enum ps_status ps_buffer_status(const struct ps_buffer *buffer, struct ps_error *error);

#endif
