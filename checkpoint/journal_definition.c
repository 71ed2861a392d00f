/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at fixed places, little-endian, and zeros up to a multiple of 8: the values behind the
 * head are aligned in a file as a gradient's are. Equal definitions are equal bytes. */
#include "checkpoint/journal_definition.h"

#include "base/assert.h"
#include "checkpoint/little_endian.h"

/* Where the numbers stand. Whether a shape is given is said apart from its rank: a scalar has a
 * shape without lengths. */
enum { HEAD_BYTES_AT = 0, CONFIG_BYTES_AT = 4, RANK_AT = 8, GIVEN_AT = 12, LENGTHS_AT = 16 };

/* Up to where the values begin. The sum is small: both parts are bounded by whoever asks. */
static size_t head_bytes_of(uint32_t rank, size_t config_size)
{
    size_t size = LENGTHS_AT + 8 * (size_t)rank + config_size;
    return (size + 7) / 8 * 8;
}

/* Zeroed first, so that the bytes behind the configuration say nothing. */
size_t ps_definition_head_write(const struct ps_definition *definition,
                                uint8_t to[PS_DEFINITION_HEAD_BYTES_MAX])
{
    const struct ps_shape *shape = &definition->shape;
    uint32_t rank = shape->is_given ? shape->rank : 0;
    PS_ASSERT(rank <= PS_SHAPE_RANK_MAX && definition->config.size <= PS_CONFIG_BYTES_MAX);
    size_t size = head_bytes_of(rank, definition->config.size);
    memset(to, 0, size);
    ps_little_put(to + HEAD_BYTES_AT, 4, (uint32_t)size);
    ps_little_put(to + CONFIG_BYTES_AT, 4, (uint32_t)definition->config.size);
    ps_little_put(to + RANK_AT, 4, rank);
    ps_little_put(to + GIVEN_AT, 4, shape->is_given ? 1 : 0);
    /* The lengths before the configuration, so that they are aligned whatever its size. */
    for (uint32_t i = 0; i < rank; i++)
        ps_little_put(to + LENGTHS_AT + 8 * (size_t)i, 8, shape->lengths[i]);
    if (definition->config.size > 0)
        memcpy(to + LENGTHS_AT + 8 * (size_t)rank, definition->config.data,
               definition->config.size);
    PS_ASSERT(size <= PS_DEFINITION_HEAD_BYTES_MAX);
    return size;
}

/* A right checksum says that these are the bytes which were written, and not that they make sense:
 * each number is held to its bound before it is used. */
enum ps_status ps_definition_read(struct ps_bytes content, struct ps_definition *definition,
                                  struct ps_error *error)
{
    if (content.size < LENGTHS_AT)
        return ps_fail(error, PS_ERR_CORRUPT, "a definition of %zu bytes", content.size);
    /* The size of the head is said and could be computed: a later version may put more into it, and
     * this one then refuses the record instead of taking that for values. */
    uint32_t size = (uint32_t)ps_little_take(content.data + HEAD_BYTES_AT, 4);
    uint32_t config_size = (uint32_t)ps_little_take(content.data + CONFIG_BYTES_AT, 4);
    uint32_t rank = (uint32_t)ps_little_take(content.data + RANK_AT, 4);
    uint32_t given = (uint32_t)ps_little_take(content.data + GIVEN_AT, 4);
    /* The sizes say what the head must be; a head that says otherwise was not written here. */
    bool is_possible = config_size <= PS_CONFIG_BYTES_MAX && rank <= PS_SHAPE_RANK_MAX &&
                       given <= 1 && (given == 1 || rank == 0);
    if (!is_possible || size != head_bytes_of(rank, config_size) || size > content.size)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "a definition whose head of %u bytes has a shape of %u dimensions and a "
                       "configuration of %u bytes",
                       size, rank, config_size);
    /* From here on everything lies within the content. */
    const uint8_t *at = content.data + LENGTHS_AT;
    struct ps_definition read = {.shape = {.is_given = given == 1, .rank = rank}};
    /* Whether their product is the number of values is asked by whoever builds the parameter. */
    for (uint32_t i = 0; i < rank; i++, at += 8)
        read.shape.lengths[i] = ps_little_take(at, 8);
    read.config = (struct ps_bytes){at, config_size};
    read.values = (struct ps_bytes){content.data + size, content.size - size};
    *definition = read;
    return PS_OK;
}
