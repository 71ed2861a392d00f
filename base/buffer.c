/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows by doubling, up to a bound that its owner states.
 *
 * A buffer that has failed once refuses everything after that, so a page is written without a check
 * at each line and asked once at the end (ps_buffer_status). What is in the buffer stays a whole,
 * terminated text at every moment: an append is made in full or not at all. */
#include "base/buffer.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Most texts are keys, paths and log fields, which fit here without a second allocation. */
#define FIRST_CAPACITY 256

static bool make_room(struct ps_buffer *buffer, size_t extra);
static bool grow(struct ps_buffer *buffer, size_t capacity);

void ps_buffer_init(struct ps_buffer *buffer, const struct ps_allocator *memory, size_t size_max)
{
    PS_ASSERT(buffer != NULL && memory != NULL);
    /* Half of the address space leaves room for the NUL and for one more doubling in make_room,
     * neither of which then needs an overflow check of its own. */
    PS_ASSERT(size_max < SIZE_MAX / 2);
    *buffer = (struct ps_buffer){.memory = memory, .size_max = size_max};
}

void ps_buffer_init_fixed(struct ps_buffer *buffer, char *text, size_t capacity)
{
    PS_ASSERT(buffer != NULL && text != NULL);
    PS_ASSERT(capacity > 0);
    text[0] = '\0';
    /* No allocator: make_room never asks a fixed buffer to grow, since its bound is its
     * capacity. */
    *buffer = (struct ps_buffer){.text = text, .capacity = capacity, .size_max = capacity - 1};
}

void ps_buffer_fini(struct ps_buffer *buffer)
{
    if (buffer == NULL)
        return;
    /* A fixed buffer's text belongs to its owner. */
    if (buffer->memory != NULL)
        ps_release(buffer->memory, buffer->text);
    /* A bound of 0 remains, so that an append after the end fails instead of allocating again. */
    *buffer = (struct ps_buffer){.memory = buffer->memory};
}

/* Fields of messages are a few bytes each, and by the thousand: what fits takes no call. */
void ps_buffer_append(struct ps_buffer *buffer, struct ps_bytes bytes)
{
    bool fits = !buffer->failed && bytes.size < buffer->capacity - buffer->size;
    if (!fits && !make_room(buffer, bytes.size))
        return;
    if (bytes.size > 0)
        memcpy(buffer->text + buffer->size, bytes.data, bytes.size);
    buffer->size += bytes.size;
    buffer->text[buffer->size] = '\0';
}

void ps_buffer_append_text(struct ps_buffer *buffer, const char *text)
{
    ps_buffer_append(buffer, ps_bytes_of_text(text));
}

void ps_buffer_append_format(struct ps_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* The length is measured first and printed second, from a copy: a va_list may be walked only
     * once. Printing straight into the rest of the buffer would leave half a text where it does not
     * fit. */
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    PS_ASSERT(length >= 0);
    if (make_room(buffer, (size_t)length)) {
        (void)vsnprintf(buffer->text + buffer->size, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

void ps_buffer_clear(struct ps_buffer *buffer)
{
    ps_buffer_rewind(buffer, 0);
}

/* Rewinding also forgives the failure: what did not fit is given up, and what stood before it is
 * whole. The log relies on that to shorten a field until it fits. */
void ps_buffer_rewind(struct ps_buffer *buffer, size_t size)
{
    PS_ASSERT(buffer != NULL);
    PS_ASSERT(size <= buffer->size);
    buffer->size = size;
    buffer->failed = false;
    if (buffer->text != NULL)
        buffer->text[size] = '\0';
}

enum ps_status ps_buffer_status(const struct ps_buffer *buffer, struct ps_error *error)
{
    PS_ASSERT(buffer != NULL);
    if (!buffer->failed)
        return PS_OK;
    return ps_fail(error, PS_ERR_NO_MEMORY, "text of more than %zu bytes (limit %zu)", buffer->size,
                   buffer->size_max);
}

/* Room for `extra` bytes and a NUL; marks the buffer when there is none. */
static bool make_room(struct ps_buffer *buffer, size_t extra)
{
    PS_ASSERT(buffer != NULL);
    PS_ASSERT(buffer->size <= buffer->size_max);
    /* Once something was dropped, a shorter text that still fits would close the gap silently. */
    if (buffer->failed)
        return false;
    /* Written as a subtraction, because size + extra may wrap for an `extra` from outside. */
    if (extra > buffer->size_max - buffer->size) {
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->size + extra + 1;
    if (needed <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY;
    while (capacity < needed)
        capacity *= 2;
    /* The last doubling stops at the bound, so that a buffer of 64 MiB never takes 128. */
    if (capacity > buffer->size_max + 1)
        capacity = buffer->size_max + 1;
    return grow(buffer, capacity);
}

/* Allocate, copy, release: the allocator interface has no realloc, because few of its test doubles
 * could do more than this with one. Doubling keeps the copying linear in the final size. */
static bool grow(struct ps_buffer *buffer, size_t capacity)
{
    PS_ASSERT(buffer->memory != NULL);
    char *text = ps_plain(buffer->memory, capacity);
    if (text == NULL) {
        buffer->failed = true;
        return false;
    }
    if (buffer->size > 0)
        memcpy(text, buffer->text, buffer->size);
    text[buffer->size] = '\0';
    ps_release(buffer->memory, buffer->text);
    buffer->text = text;
    buffer->capacity = capacity;
    return true;
}
