/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format, read from a view whose pieces may end anywhere, also within a number.
 *
 * The reader keeps one cursor and one count of the bytes that are left, and every length is
 * compared with that count before it is used, so no field can reach beyond its message. Nothing is
 * allocated and nothing copied: the value of a bytes field is a range, a place to read from. The
 * bytes behind it are skipped when the next field is asked for and not before, which makes it free
 * to look at them.
 *
 * The first thing that is wrong is remembered in the reader's status and ends the loop of the
 * caller; everything read before it is to be thrown away. Groups (wire types 3 and 4) are refused:
 * proto3 has none, and skipping them needs a depth limit. */
#include "proto/wire.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool read_tag(struct ps_wire_reader *reader, struct ps_wire_field *field);
static bool read_value(struct ps_wire_reader *reader, struct ps_wire_field *field);
static bool read_fixed(struct ps_wire_reader *reader, size_t size, uint64_t *value);
static bool read_varint(struct ps_wire_reader *reader, uint64_t *value);
static void skip(struct ps_view_cursor *cursor, size_t size);

/* Takes the next byte; the caller has checked that there is one. Nearly every byte lies in the
 * piece of the one before it, so that case costs no call: decoding small fields is the larger part
 * of decoding a message. */
static inline uint8_t take_byte(struct ps_view_cursor *cursor)
{
    const struct ps_bytes *piece = &cursor->view.pieces[cursor->piece];
    if (cursor->offset < piece->size)
        return piece->data[cursor->offset++];
    struct ps_bytes byte = ps_view_next(cursor, 1);
    PS_ASSERT(byte.size == 1);
    return byte.data[0];
}

/* `error` may be NULL; the reader's status is kept in any case. */
void ps_wire_reader_init(struct ps_wire_reader *reader, struct ps_view view, struct ps_error *error)
{
    PS_ASSERT(reader != NULL);
    *reader = (struct ps_wire_reader){
        .cursor = {.view = view}, .left = view.size, .status = PS_OK, .error = error};
}

/* A message within a message is read by a reader of its own, bounded by the range. Nesting is as
 * deep as our functions call each other, never as deep as the sender likes. */
void ps_wire_reader_nested(struct ps_wire_reader *reader, const struct ps_wire_range *range,
                           struct ps_error *error)
{
    PS_ASSERT(reader != NULL && range != NULL);
    *reader = (struct ps_wire_reader){
        .cursor = range->begin, .left = range->size, .status = PS_OK, .error = error};
}

/* False means the end or a failure: loops of callers need one condition, and they ask for the
 * status once behind the loop. */
bool ps_wire_next(struct ps_wire_reader *reader, struct ps_wire_field *field)
{
    if (reader->status != PS_OK)
        return false;
    PS_ASSERT(reader->unread <= reader->left);
    /* The value of the last field may not have been looked at. It is skipped by pieces, not by
     * bytes, so an unknown field of many megabytes costs a few steps. */
    skip(&reader->cursor, reader->unread);
    reader->left -= reader->unread;
    reader->unread = 0;
    if (reader->left == 0)
        return false;
    /* A number has no bytes and bytes have no number; neither is left over from the field
     * before. */
    *field = (struct ps_wire_field){0};
    return read_tag(reader, field) && read_value(reader, field);
}

static bool read_tag(struct ps_wire_reader *reader, struct ps_wire_field *field)
{
    uint64_t tag;
    if (!read_varint(reader, &tag))
        return false;
    /* Field numbers have 29 bits, with the wire type 32. Number 0 is reserved as an error in the
     * format; zeroed memory that is sent by mistake is noticed here. */
    if (tag > UINT32_MAX || tag >> 3 == 0) {
        ps_wire_refuse(reader, "malformed message: no field has this tag");
        return false;
    }
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum ps_wire_type)(tag & 7);
    return true;
}

/* Numbers are read at once, whatever their meaning. Bytes are left where they are: the field gets a
 * cursor to them, and `unread` remembers how far the next field lies behind. */
static bool read_value(struct ps_wire_reader *reader, struct ps_wire_field *field)
{
    switch (field->type) {
    case PS_WIRE_VARINT:
        return read_varint(reader, &field->value);
    case PS_WIRE_FIXED64:
        return read_fixed(reader, 8, &field->value);
    case PS_WIRE_FIXED32:
        return read_fixed(reader, 4, &field->value);
    case PS_WIRE_BYTES:
        break;
    default:
        ps_wire_refuse(reader, "malformed message: field %u has wire type %u", field->number,
                       (unsigned)field->type);
        return false;
    }
    /* A length is compared with what is left before it is believed; nobody allocates by it. */
    uint64_t size;
    if (!read_varint(reader, &size))
        return false;
    if (size > reader->left) {
        ps_wire_refuse(reader, "malformed message: field %u ends after the message", field->number);
        return false;
    }
    field->bytes = (struct ps_wire_range){.begin = reader->cursor, .size = (size_t)size};
    reader->unread = (size_t)size;
    return true;
}

/* Numbers of a packed field stand one behind the other without tags. */
bool ps_wire_next_packed(struct ps_wire_reader *reader, uint64_t *value)
{
    return reader->status == PS_OK && reader->left > 0 && read_varint(reader, value);
}

/* Little-endian by shifts, so that the machine's own order does not matter. */
static bool read_fixed(struct ps_wire_reader *reader, size_t size, uint64_t *value)
{
    if (size > reader->left) {
        ps_wire_refuse(reader, "malformed message: it ends inside a number");
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)take_byte(&reader->cursor) << (8 * i);
    reader->left -= size;
    return true;
}

/* Seven bits a byte, the lowest first, at most ten bytes. The tenth byte has room for one bit:
 * anything more would be shifted out, and two different byte sequences would be one number. Longer
 * forms with leading zeros (0x80 0x00) are valid protobuf and are accepted. */
static bool read_varint(struct ps_wire_reader *reader, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (reader->left == 0) {
            ps_wire_refuse(reader, "malformed message: it ends inside a number");
            return false;
        }
        uint8_t byte = take_byte(&reader->cursor);
        reader->left--;
        if (shift == 63 && byte > 1)
            break;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        /* The highest bit says that another byte follows. */
        if (byte < 0x80)
            return true;
    }
    ps_wire_refuse(reader, "malformed message: a number has more than 64 bits");
    return false;
}

static void skip(struct ps_view_cursor *cursor, size_t size)
{
    while (size > 0) {
        struct ps_bytes run = ps_view_next(cursor, size);
        PS_ASSERT(run.size > 0);
        size -= run.size;
    }
}

void ps_wire_refuse(struct ps_wire_reader *reader, const char *format, ...)
{
    /* Formatted here because ps_fail takes its own arguments; sizeof does not evaluate, so a NULL
     * error is fine. */
    char text[sizeof reader->error->text];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    reader->status = ps_fail(reader->error, PS_ERR_BAD_INPUT, "%s", text);
}

/* A value beyond its maximum is refused here, at the border: enums and indices are then in range
 * everywhere behind it. The 0 that comes back is never used, since the reader has failed. */
uint64_t ps_wire_uint(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                      uint64_t value_max, const char *what)
{
    if (field->type != PS_WIRE_VARINT) {
        ps_wire_refuse(reader, "malformed message: %s is not a number", what);
        return 0;
    }
    if (field->value > value_max) {
        ps_wire_refuse(reader, "%s: there is no %llu", what, (unsigned long long)field->value);
        return 0;
    }
    return field->value;
}

/* Nothing that is not finite helps any reader: it is refused where it comes in. */
float ps_wire_float(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                    const char *what)
{
    uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (field->type == PS_WIRE_FIXED32 && isfinite(value))
        return value;
    ps_wire_refuse(reader, "malformed message: %s is not a finite float", what);
    return 0;
}

/* The bound is checked before the range is handed out; what is copied later (names, ids) goes into
 * arrays of exactly these bounds. */
struct ps_wire_range ps_wire_bytes(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                                   size_t size_max, const char *what)
{
    if (field->type != PS_WIRE_BYTES) {
        ps_wire_refuse(reader, "malformed message: %s is a number", what);
        return (struct ps_wire_range){0};
    }
    if (field->bytes.size > size_max) {
        ps_wire_refuse(reader, "%s: %zu bytes are too long, %zu are allowed", what,
                       field->bytes.size, size_max);
        return (struct ps_wire_range){0};
    }
    return field->bytes;
}

/* Names become C strings in logs and in cJSON; a NUL in one would make two names look like the
 * same. */
bool ps_wire_is_text(struct ps_bytes bytes)
{
    if (bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL)
        return false;
    return ps_utf8_valid(bytes);
}

/* A range of 0 bytes is in one piece: ps_view_next gives an empty run, wherever the cursor
 * stands. */
bool ps_wire_range_in_one(const struct ps_wire_range *range, struct ps_bytes *run)
{
    struct ps_view_cursor cursor = range->begin;
    struct ps_bytes first = ps_view_next(&cursor, range->size);
    if (first.size < range->size)
        return false;
    *run = first;
    return true;
}

/* The range's own cursor is copied first, so a range can be read any number of times. */
void ps_wire_range_copy(const struct ps_wire_range *range, void *destination)
{
    struct ps_view_cursor cursor = range->begin;
    uint8_t *to = destination;
    size_t left = range->size;
    while (left > 0) {
        struct ps_bytes run = ps_view_next(&cursor, left);
        PS_ASSERT(run.size > 0);
        memcpy(to, run.data, run.size);
        to += run.size;
        left -= run.size;
    }
}

/* Counted first and filled by ps_wire_range_pieces, so that the caller allocates exactly once. Both
 * walk alike, and therefore agree. */
size_t ps_wire_range_piece_count(const struct ps_wire_range *range)
{
    struct ps_view_cursor cursor = range->begin;
    size_t count = 0;
    size_t left = range->size;
    while (left > 0) {
        struct ps_bytes run = ps_view_next(&cursor, left);
        PS_ASSERT(run.size > 0);
        left -= run.size;
        count++;
    }
    return count;
}

/* The pieces are runs of the view's own slices: nothing is copied. */
void ps_wire_range_pieces(const struct ps_wire_range *range, struct ps_bytes *pieces)
{
    struct ps_view_cursor cursor = range->begin;
    size_t left = range->size;
    for (size_t i = 0; left > 0; i++) {
        pieces[i] = ps_view_next(&cursor, left);
        PS_ASSERT(pieces[i].size > 0);
        left -= pieces[i].size;
    }
}

/* For lengths that must be known before what they are the length of is written. */
size_t ps_wire_varint_size(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

/* Ten bytes of seven bits hold 64 bits; a tag is a number of 32 bits, for which five are enough. */
enum { VARINT_BYTES_MAX = 10, TAG_BYTES_MAX = 5 };

/* The shortest form, which every encoder writes: equal messages are equal bytes. */
static size_t write_varint(uint64_t value, uint8_t *bytes)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (uint8_t)(value | 0x80);
    bytes[size++] = (uint8_t)value;
    return size;
}

static size_t write_tag(uint32_t number, enum ps_wire_type type, uint8_t *bytes)
{
    return write_varint((uint64_t)number << 3 | (uint64_t)type, bytes);
}

/* A tag and a varint, in one append: either both are in the buffer or neither is. */
static void put_pair(struct ps_buffer *buffer, uint32_t number, enum ps_wire_type type,
                     uint64_t value)
{
    uint8_t bytes[TAG_BYTES_MAX + VARINT_BYTES_MAX];
    size_t size = write_tag(number, type, bytes);
    size += write_varint(value, bytes + size);
    ps_buffer_append(buffer, (struct ps_bytes){bytes, size});
}

/* proto3 leaves fields out that have their default, and so do the other put functions. A reader
 * that needs to know whether a field was given adds 1 to it (see ps_pull_request.version). */
void ps_wire_put_uint(struct ps_buffer *buffer, uint32_t number, uint64_t value)
{
    if (value != 0)
        put_pair(buffer, number, PS_WIRE_VARINT, value);
}

/* Wire types differ by size, and protobuf converts none into another: a float is not a double that
 * is short, and a reader of one refuses the other.
 *
 * A number that is not whole is written by its bits, lowest byte first, whatever the machine's
 * order. By bits and not by value: -0.0 is not the default and is written. */
static void put_fixed(struct ps_buffer *buffer, uint32_t number, enum ps_wire_type type,
                      uint64_t bits, size_t bits_size)
{
    uint8_t bytes[TAG_BYTES_MAX + sizeof bits];
    PS_ASSERT(bits_size <= sizeof bits);
    if (bits == 0)
        return;
    size_t size = write_tag(number, type, bytes);
    for (size_t i = 0; i < bits_size; i++)
        bytes[size++] = (uint8_t)(bits >> (8 * i));
    ps_buffer_append(buffer, (struct ps_bytes){bytes, size});
}

/* The eight bytes of a double: for what people set, where every digit counts. */
void ps_wire_put_double(struct ps_buffer *buffer, uint32_t number, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_fixed(buffer, number, PS_WIRE_FIXED64, bits, sizeof bits);
}

/* The four bytes of a float: for what comes with every push. */
void ps_wire_put_float(struct ps_buffer *buffer, uint32_t number, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_fixed(buffer, number, PS_WIRE_FIXED32, bits, sizeof bits);
}

void ps_wire_put_bytes(struct ps_buffer *buffer, uint32_t number, struct ps_bytes bytes)
{
    if (bytes.size == 0)
        return;
    ps_wire_put_head(buffer, number, bytes.size);
    ps_buffer_append(buffer, bytes);
}

void ps_wire_put_text(struct ps_buffer *buffer, uint32_t number, const char *text)
{
    ps_wire_put_bytes(buffer, number, ps_bytes_of_text(text));
}

/* Also a number of 0: here it is an element and not a default. */
void ps_wire_put_packed(struct ps_buffer *buffer, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES_MAX];
    ps_buffer_append(buffer, (struct ps_bytes){bytes, write_varint(value, bytes)});
}

/* Also for a size of 0: a nested message that is present but empty differs from an absent one. */
void ps_wire_put_head(struct ps_buffer *buffer, uint32_t number, size_t size)
{
    put_pair(buffer, number, PS_WIRE_BYTES, size);
}
