/* SPDX-License-Identifier: Apache-2.0 */
/* Every number here may come from outside: a product is formed only when it cannot overflow.
 *
 * Ranges are why a shape is not simply compared with a count. To a server a range of a cut
 * parameter is a parameter like any other, whose elements are a part of a larger shape; the name
 * alone tells that, so the name is asked wherever a shape is judged. */
#include "base/shape.h"

#include "base/assert.h"
#include "base/json_writer.h"
#include "base/range_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The bound is checked before a length is copied: callers hand over lists that others made. */
enum ps_status ps_shape_make(struct ps_shape *shape, const uint64_t *lengths, size_t rank,
                             struct ps_error *error)
{
    if (rank > PS_SHAPE_RANK_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a shape of %zu dimensions; at most %d are allowed",
                       rank, PS_SHAPE_RANK_MAX);
    PS_ASSERT(rank == 0 || lengths != NULL);
    *shape = (struct ps_shape){.is_given = true, .rank = (uint32_t)rank};
    for (size_t i = 0; i < rank; i++)
        shape->lengths[i] = lengths[i];
    return PS_OK;
}

/* A length of 0 ends the product, however long the others are: such a shape has no element, and is
 * refused by whoever wants one, in other words than a shape that is beyond every memory. */
bool ps_shape_product(const struct ps_shape *shape, uint64_t *product)
{
    PS_ASSERT(shape->is_given && shape->rank <= PS_SHAPE_RANK_MAX);
    *product = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->lengths[i] == 0)
            *product = 0;
    for (uint32_t i = 0; i<shape->rank && * product> 0; i++) {
        if (*product > UINT64_MAX / shape->lengths[i])
            return false;
        *product *= shape->lengths[i];
    }
    return true;
}

/* A product that overflows is that of no number of elements. */
bool ps_shape_is_of(const struct ps_shape *shape, uint64_t count)
{
    uint64_t product = 0;
    return shape->is_given && ps_shape_product(shape, &product) && product == count;
}

/* The name is cut in the texts, so that the shape has room behind it. */
enum ps_status ps_shape_check(const struct ps_shape *shape, struct ps_bytes name, uint64_t count,
                              struct ps_error *error)
{
    uint64_t product = 0;
    char text[PS_SHAPE_TEXT_BYTES];
    struct ps_bytes base;
    uint32_t k, n;
    /* No rule of the arithmetic asks for a shape: what has none is right. */
    int width = name.size < 64 ? (int)name.size : 64;
    if (!shape->is_given)
        return PS_OK;
    if (!ps_shape_product(shape, &product) || product == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a parameter cannot have the shape %.120s", width,
                       (const char *)name.data, ps_shape_text(shape, count, text));
    /* A range whose product were its own count would hide the whole's shape, but is a shape. */
    if (product == count || (product > count && ps_range_name_split(name, &base, &k, &n)))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %.*s, the shape %.120s is that of %" PRIu64 " elements; there are "
                   "%" PRIu64,
                   width, (const char *)name.data, ps_shape_text(shape, count, text), product,
                   count);
}

/* Two forms of one shape would be two states to whoever compares bits: digests, fingerprints and
 * the bytes of checkpoints. */
void ps_shape_settle(struct ps_shape *shape, uint64_t count)
{
    if (shape->rank == 1 && shape->lengths[0] == count)
        *shape = (struct ps_shape){0};
}

/* Lengths behind the rank are 0 in both, so that all of them may be compared. */
bool ps_shape_equal(const struct ps_shape *one, const struct ps_shape *other)
{
    PS_ASSERT(one->rank <= PS_SHAPE_RANK_MAX && other->rank <= PS_SHAPE_RANK_MAX);
    return one->is_given == other->is_given && one->rank == other->rank &&
           memcmp(one->lengths, other->lengths, sizeof one->lengths) == 0;
}

/* What has no shape is written as the one dimension that it stands for: readers of a document need
 * not know of any other form. */
void ps_shape_json(const struct ps_shape *shape, uint64_t count, struct ps_json_writer *json,
                   const char *key)
{
    ps_json_begin_array(json, key);
    if (!shape->is_given)
        ps_json_uint(json, NULL, count);
    for (uint32_t i = 0; i < shape->rank; i++)
        ps_json_uint(json, NULL, shape->lengths[i]);
    ps_json_end_array(json);
}

/* In a file the shape must be that of the bytes, which of a range are fewer. */
struct ps_shape ps_shape_of_tensor(const struct ps_shape *shape, uint64_t count)
{
    return ps_shape_is_of(shape, count) ? *shape : (struct ps_shape){0};
}

/* Without spaces: in a table a shape is one word. */
const char *ps_shape_text(const struct ps_shape *shape, uint64_t count,
                          char text[PS_SHAPE_TEXT_BYTES])
{
    size_t size = 1;
    if (!shape->is_given) {
        (void)snprintf(text, PS_SHAPE_TEXT_BYTES, "[%" PRIu64 "]", count);
        return text;
    }
    PS_ASSERT(shape->rank <= PS_SHAPE_RANK_MAX);
    text[0] = '[';
    for (uint32_t i = 0; i < shape->rank; i++)
        size += (size_t)snprintf(text + size, PS_SHAPE_TEXT_BYTES - size, "%s%" PRIu64,
                                 i > 0 ? "," : "", shape->lengths[i]);
    (void)snprintf(text + size, PS_SHAPE_TEXT_BYTES - size, "]");
    return text;
}
