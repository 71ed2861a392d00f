/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a flat message. A call that an operator makes once in a while needs no codec that is fast,
 * and a struct of its own would be four functions more for each of them. */
#include "proto/fields.h"

#include "proto/wire.h"

#include <string.h>

static void take_text(struct ps_wire_reader *reader, const struct ps_wire_field *field, char *text);

/* `*fields` is written only when the whole message was well formed. */
enum ps_status ps_fields_read(struct ps_view message, struct ps_fields *fields,
                              struct ps_error *error)
{
    struct ps_fields read;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    memset(&read, 0, sizeof read);
    ps_wire_reader_init(&reader, message, error);
    while (ps_wire_next(&reader, &field)) {
        /* A newer program may have more fields: those that nobody here knows are no fault. */
        if (field.number >= PS_FIELDS_MAX)
            continue;
        if (field.type == PS_WIRE_BYTES)
            take_text(&reader, &field, read.text[field.number]);
        else
            read.number[field.number] = field.value;
    }
    if (reader.status == PS_OK)
        memcpy(fields, &read, sizeof read);
    return reader.status;
}

/* Of a field that comes twice the last holds, as protobuf says. */
static void take_text(struct ps_wire_reader *reader, const struct ps_wire_field *field, char *text)
{
    struct ps_wire_range range =
        ps_wire_bytes(reader, field, PS_FIELD_TEXT_BYTES_MAX - 1, "a text");
    if (reader->status != PS_OK)
        return;
    memset(text, 0, PS_FIELD_TEXT_BYTES_MAX);
    ps_wire_range_copy(&range, text);
    if (!ps_wire_is_text((struct ps_bytes){(const uint8_t *)text, range.size}))
        ps_wire_refuse(reader, "field %u: not UTF-8", (unsigned)field->number);
}
