/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one JSON document (RFC 8259) into a buffer, without spaces.
 *
 *     ps_json_begin_object(&writer, NULL);
 *     ps_json_text(&writer, "uuid", ps_bytes_of_text(uuid));
 *     ps_json_uint(&writer, "timestamp", now);
 *     ps_json_end_object(&writer);
 *
 * Inside an object every call takes a key; inside an array the key is NULL.
 *
 * Threads:  a writer belongs to one thread.
 * Blocking: never.
 * Errors:   those of the buffer; nesting beyond 16 levels or a missing key asserts.
 * Memory:   all in the buffer, which is borrowed.
 */
#ifndef PS_BASE_JSON_WRITER_H
#define PS_BASE_JSON_WRITER_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_JSON_DEPTH_MAX 16

struct ps_json_writer {
    struct ps_buffer *buffer; /* borrowed; outlives this */
    uint32_t depth;
    bool in_object[PS_JSON_DEPTH_MAX];
    bool not_first[PS_JSON_DEPTH_MAX];
};

void ps_json_writer_init(struct ps_json_writer *writer, struct ps_buffer *buffer);

void ps_json_begin_object(struct ps_json_writer *writer, const char *key);
void ps_json_end_object(struct ps_json_writer *writer);
void ps_json_begin_array(struct ps_json_writer *writer, const char *key);
void ps_json_end_array(struct ps_json_writer *writer);

/* Bytes that are not UTF-8 are written as U+FFFD, so that the document is always valid. */
void ps_json_text(struct ps_json_writer *writer, const char *key, struct ps_bytes text);
void ps_json_uint(struct ps_json_writer *writer, const char *key, uint64_t value);
void ps_json_int(struct ps_json_writer *writer, const char *key, int64_t value);
/* As many digits as reading it back exactly needs; NaN and infinities become null. */
void ps_json_real(struct ps_json_writer *writer, const char *key, double value);
void ps_json_bool(struct ps_json_writer *writer, const char *key, bool value);

/* A quoted and escaped string, without any writer: for logs. */
void ps_json_append_quoted(struct ps_buffer *buffer, struct ps_bytes text);

#endif
