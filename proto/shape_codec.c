/* SPDX-License-Identifier: Apache-2.0 */
/* Whether lengths and elements fit is for the service to judge, which knows how many there are.
 * Here stands what no shape can be, so that no reader meets more lengths than there is room for.
 *
 * A scalar needs a field of its own: an empty repeated field is no field at all on the wire, and
 * would be read as "no shape". */
#include "proto/shape_codec.h"

#include "base/assert.h"

/* A shape that is given and has no length is a scalar. */
static void add_length(struct ps_wire_reader *reader, struct ps_shape *shape, uint64_t length)
{
    if (shape->is_given && shape->rank == 0)
        ps_wire_refuse(reader, "shape: a scalar has no dimensions");
    else if (shape->rank == PS_SHAPE_RANK_MAX)
        ps_wire_refuse(reader, "shape: more than %d dimensions", PS_SHAPE_RANK_MAX);
    else
        shape->lengths[shape->rank++] = length;
    shape->is_given = true;
}

/* Packed is how proto3 writes it; old encoders write a field for each, and a reader has to take
 * both. What comes behind the first failure is not read. */
void ps_shape_read_lengths(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                           struct ps_shape *shape)
{
    struct ps_wire_reader nested;
    uint64_t length = 0;
    if (field->type == PS_WIRE_VARINT) {
        add_length(reader, shape, field->value);
        return;
    }
    struct ps_wire_range packed = ps_wire_bytes(reader, field, SIZE_MAX, "shape");
    ps_wire_reader_nested(&nested, &packed, reader->error);
    while (reader->status == PS_OK && ps_wire_next_packed(&nested, &length))
        add_length(reader, shape, length);
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* In either order of the two fields: protobuf leaves the order to the writer. */
void ps_shape_read_scalar(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_shape *shape)
{
    if (ps_wire_uint(reader, field, UINT64_MAX, "scalar") == 0)
        return;
    if (shape->rank > 0)
        ps_wire_refuse(reader, "shape: a scalar has no dimensions");
    shape->is_given = true;
}

/* Packed, in the shortest form: equal shapes are equal bytes. The size stands before the numbers
 * and is therefore summed up first. */
void ps_shape_put(struct ps_buffer *head, uint32_t lengths_number, uint32_t scalar_number,
                  const struct ps_shape *shape)
{
    size_t size = 0;
    PS_ASSERT(shape->rank <= PS_SHAPE_RANK_MAX);
    for (uint32_t i = 0; i < shape->rank; i++)
        size += ps_wire_varint_size(shape->lengths[i]);
    if (size > 0)
        ps_wire_put_head(head, lengths_number, size);
    for (uint32_t i = 0; i < shape->rank; i++)
        ps_wire_put_packed(head, shape->lengths[i]);
    ps_wire_put_uint(head, scalar_number, shape->is_given && shape->rank == 0);
}
