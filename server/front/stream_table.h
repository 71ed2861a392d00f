/* SPDX-License-Identifier: Apache-2.0 */
/* The open streams of one HTTP/2 connection, by their numbers.
 *
 * Threads:  the caller serialises calls.
 * Blocking: never.
 * Errors:   add returns NULL when memory is refused.
 * Memory:   grows with the streams that are open at once, 32 bytes each at most; kept until fini.
 */
#ifndef PS_SERVER_FRONT_STREAM_TABLE_H
#define PS_SERVER_FRONT_STREAM_TABLE_H

#include "base/alloc.h"

#include <stdint.h>

/* The credit of a stream of which nothing more is expected. */
#define PS_STREAM_SETTLED UINT32_MAX

struct ps_stream {
    uint32_t id;     /* 0: an empty place */
    uint32_t credit; /* bytes of patience left with its request (frame_inspector.h) */
    uint64_t bytes;  /* of its request, until that is whole */
};

struct ps_stream_table {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_stream *places;          /* owned; NULL until the first stream */
    uint32_t capacity;                 /* a power of two, or 0 */
    uint32_t count;
};

void ps_stream_table_init(struct ps_stream_table *table, const struct ps_allocator *memory);
void ps_stream_table_fini(struct ps_stream_table *table);

/* NULL when the stream is not open. What is returned stays valid until the next add or remove. */
struct ps_stream *ps_stream_table_find(const struct ps_stream_table *table, uint32_t id);

/* Adds a stream that is not there yet, with nothing counted; NULL when memory is refused. */
struct ps_stream *ps_stream_table_add(struct ps_stream_table *table, uint32_t id);

void ps_stream_table_remove(struct ps_stream_table *table, struct ps_stream *stream);

#endif
