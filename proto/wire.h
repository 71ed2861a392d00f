/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format over a view: fields one after the other, nothing copied, nothing
 * allocated, no recursion.
 *
 *     ps_wire_reader_init(&reader, view, error);
 *     while (ps_wire_next(&reader, &field)) {
 *         switch (field.number) { ... }
 *     }
 *     return reader.status;
 *
 * Wire types that proto3 never writes (groups) are refused, as is a known field with the wrong
 * wire type; fields that the caller does not look at are skipped.
 *
 * Threads:  a reader belongs to one thread.
 * Blocking: never.
 * Errors:   the first one stops the reader: ps_wire_next says false, `status` says
 *           PS_ERR_BAD_INPUT and the error has the text.
 * Memory:   borrowed from the view.
 */
#ifndef PS_PROTO_WIRE_H
#define PS_PROTO_WIRE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum ps_wire_type {
    PS_WIRE_VARINT = 0,
    PS_WIRE_FIXED64 = 1,
    PS_WIRE_BYTES = 2,
    PS_WIRE_FIXED32 = 5
};

/* Bytes inside a view: where they begin and how many. All zero: none. */
struct ps_wire_range {
    struct ps_view_cursor begin;
    size_t size;
};

struct ps_wire_field {
    uint32_t number;
    enum ps_wire_type type;
    uint64_t value;             /* of a varint or fixed field */
    struct ps_wire_range bytes; /* of a PS_WIRE_BYTES field */
};

struct ps_wire_reader {
    struct ps_view_cursor cursor;
    size_t left;            /* bytes of the message not consumed yet */
    size_t unread;          /* of those, bytes of the last field, skipped by the next call */
    enum ps_status status;  /* PS_OK until something is wrong */
    struct ps_error *error; /* borrowed; may be NULL */
};

/* ---- Reading ---- */

void ps_wire_reader_init(struct ps_wire_reader *reader, struct ps_view view,
                         struct ps_error *error);

/* Reads the message that a PS_WIRE_BYTES field holds. */
void ps_wire_reader_nested(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                           struct ps_error *error);

/* False at the end of the message and after the first error. */
bool ps_wire_next(struct ps_wire_reader *reader, struct ps_wire_field *field);

/* Stops the reader: the message is malformed in the way that the text says. */
PS_PRINTF(2, 3) void ps_wire_refuse(struct ps_wire_reader *reader, const char *format, ...);

/* The next number of a repeated field that is packed, by a nested reader of its bytes. False at the
 * end and after the first error. */
bool ps_wire_next_packed(struct ps_wire_reader *reader, uint64_t *value);

/* The value of a varint field; refuses another wire type and a value above `value_max`. `what` is
 * the field's name for people. */
uint64_t ps_wire_uint(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      uint64_t value_max, const char *what);

/* The value of a float field; refuses another wire type, and what is not a finite number: no
 * reader of ours has a use for one, and a weight that is not a number would spoil a model. */
float ps_wire_float(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                    const char *what);

/* The bytes of a PS_WIRE_BYTES field; refuses another wire type and more than `size_max` bytes. */
struct ps_wire_range ps_wire_bytes(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                                   size_t size_max, const char *what);

/* True when `bytes` are UTF-8 and contain no NUL. Nothing at all is text, too. */
bool ps_wire_is_text(struct ps_bytes bytes);

/* True when the range lies in one piece, which `*run` then is. An empty range does. */
bool ps_wire_range_in_one(const struct ps_wire_range *range, struct ps_bytes *run);

/* Copies the whole range. */
void ps_wire_range_copy(const struct ps_wire_range *range, void *destination);

/* How many non-empty pieces the range has, and these; `pieces` has room for that many. */
size_t ps_wire_range_piece_count(const struct ps_wire_range *range);
void ps_wire_range_pieces(const struct ps_wire_range *range, struct ps_bytes *pieces);

/* ---- Writing: as proto3 does, a zero or empty field is left out ---- */

/* Bytes that the varint of `value` takes: 1 to 10. */
size_t ps_wire_varint_size(uint64_t value);

void ps_wire_put_uint(struct ps_buffer *buffer, uint32_t number, uint64_t value);
void ps_wire_put_double(struct ps_buffer *buffer, uint32_t number, double value);
void ps_wire_put_float(struct ps_buffer *buffer, uint32_t number, float value);
void ps_wire_put_bytes(struct ps_buffer *buffer, uint32_t number, struct ps_bytes bytes);
void ps_wire_put_text(struct ps_buffer *buffer, uint32_t number, const char *text);

/* One number of a packed field, behind its head; never left out. */
void ps_wire_put_packed(struct ps_buffer *buffer, uint64_t value);

/* Tag and length of a field of `size` bytes which the caller writes next; never left out. */
void ps_wire_put_head(struct ps_buffer *buffer, uint32_t number, size_t size);

#endif
