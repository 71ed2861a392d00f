/* SPDX-License-Identifier: Apache-2.0 */
/* What a value is, as its fields say it: under the same numbers in a request that brings a value
 * and in an answer that tells one, so that there is one reader and one writer. */
#include "proto/value_facts_codec.h"

#include "base/assert.h"

/* Numbers of the fields, as in rendezvous.proto. */
enum { DTYPE = 5, ELEMENT_SIZE, SHAPE, DEAD };

/* Whoever reads a message asks here for every field that it does not know itself. */
bool ps_value_facts_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct ps_value_facts *facts)
{
    if (field->number == DTYPE)
        facts->dtype = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "dtype");
    else if (field->number == ELEMENT_SIZE)
        facts->element_size = (uint32_t)ps_wire_uint(reader, field, UINT32_MAX, "element_size");
    else if (field->number == SHAPE)
        ps_value_shape_read(reader, field, facts);
    else if (field->number == DEAD)
        facts->dead = ps_wire_uint(reader, field, UINT64_MAX, "dead") != 0;
    else
        return false;
    return true;
}

/* More dimensions than there may be are refused and not cut: a shape that is cut is another one.
 * */
static void add_extent(struct ps_wire_reader *reader, struct ps_value_facts *facts, uint64_t extent)
{
    if (facts->rank == PS_VALUE_RANK_MAX)
        ps_wire_refuse(reader, "shape: more than %d dimensions", PS_VALUE_RANK_MAX);
    else
        facts->extents[facts->rank++] = extent;
}

/* Packed, or a field for each: old encoders write the latter, and readers take both. */
void ps_value_shape_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                         struct ps_value_facts *facts)
{
    struct ps_wire_reader nested;
    uint64_t extent = 0;
    if (field->type == PS_WIRE_VARINT) {
        add_extent(reader, facts, field->value);
        return;
    }
    /* Bounded by the number of dimensions, and not by the bytes. */
    struct ps_wire_range packed = ps_wire_bytes(reader, field, SIZE_MAX, "shape");
    ps_wire_reader_nested(&nested, &packed, reader->error);
    while (reader->status == PS_OK && ps_wire_next_packed(&nested, &extent))
        add_extent(reader, facts, extent);
    if (reader->status == PS_OK)
        reader->status = nested.status;
}

/* Whoever receives makes an array of these facts, and fills it with these bytes: the two agree, or
 * the sender is told. Elements without a size, such as texts, have any number of bytes; and a dead
 * value need not have any. */
enum ps_status ps_value_facts_check(const struct ps_value_facts *facts, uint64_t size,
                                    struct ps_error *error)
{
    /* A scalar has no dimensions, and one element. */
    uint64_t bytes = facts->element_size;
    /* Texts have elements of any size: for them there is nothing to compare. */
    if (facts->element_size == 0 || (facts->dead && size == 0))
        return PS_OK;
    for (uint32_t i = 0; i < facts->rank; i++) {
        /* Compared before it is multiplied: a product that wraps could be any size. */
        if (facts->extents[i] != 0 && bytes > UINT64_MAX / facts->extents[i])
            return ps_fail(error, PS_ERR_BAD_INPUT, "the shape of a value is too large");
        bytes *= facts->extents[i];
    }
    if (bytes == size)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "a value of %llu bytes by its shape has %llu bytes of content",
                   (unsigned long long)bytes, (unsigned long long)size);
}

/* The sizes of the extents are summed up first: a packed list has its length before it. */
void ps_value_facts_put(const struct ps_value_facts *facts, struct ps_buffer *head)
{
    size_t size = 0;
    /* A scalar has no shape at all, and no list. */
    PS_ASSERT(facts->rank <= PS_VALUE_RANK_MAX);
    ps_wire_put_uint(head, DTYPE, facts->dtype);
    ps_wire_put_uint(head, ELEMENT_SIZE, facts->element_size);
    for (uint32_t i = 0; i < facts->rank; i++)
        size += ps_wire_varint_size(facts->extents[i]);
    if (size > 0)
        ps_wire_put_head(head, SHAPE, size);
    for (uint32_t i = 0; i < facts->rank; i++)
        ps_wire_put_packed(head, facts->extents[i]);
    ps_wire_put_uint(head, DEAD, facts->dead);
}
