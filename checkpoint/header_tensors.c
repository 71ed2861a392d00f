/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint's header: each must be exactly the array that follows in the file.
 *
 * Names, types, counts and offsets follow from the parameters and from what was read before, so
 * nothing is looked up: the next tensor of the header is compared with the one that has to be
 * there. Without gaps there can be no overlap, and no byte of the file without a checksum. */
#include "checkpoint/header_pass.h"

#include "checkpoint/header_writer.h"
#include "json/json_reader.h"

#include <string.h>

static enum ps_status read_tensor(struct ps_header_pass *pass,
                                  struct ps_header_parameter *parameter, int32_t state);
static enum ps_status read_type(struct ps_header_pass *pass, const struct ps_json *tensor,
                                enum ps_dtype *dtype);
static enum ps_status read_shape(struct ps_header_pass *pass, const struct ps_json *list,
                                 struct ps_shape *shape, uint64_t *count);
static enum ps_status check_count(struct ps_header_pass *pass, uint64_t count, size_t width);
static enum ps_status read_offsets(struct ps_header_pass *pass, const struct ps_json *tensor,
                                   uint64_t bytes);

/* The sessions stand behind all parameters, as a tensor of bytes, so that other programs can read
 * the file. */
enum ps_status ps_header_read_sessions(struct ps_header_pass *pass)
{
    struct ps_header *header = pass->header;
    const struct ps_json *tensor = pass->tensor;
    const char *key = ps_json_key(tensor);
    if (!header->has_sessions)
        return PS_OK;
    if (key == NULL || strcmp(key, PS_HEADER_SESSIONS) != 0)
        return ps_header_corrupt(pass->error, "the sessions are missing or out of order");
    const char *label = ps_json_string(ps_json_member(tensor, "dtype"));
    if (label == NULL || strcmp(label, PS_HEADER_SESSIONS_LABEL) != 0)
        return ps_header_corrupt(pass->error, "the sessions have another element type");
    /* The sessions lie behind everything that the parameters have taken. */
    header->sessions_offset = pass->offset;
    struct ps_shape shape;
    PS_TRY(read_shape(pass, ps_json_member(tensor, "shape"), &shape, &header->sessions_bytes));
    if (shape.is_given)
        return ps_header_corrupt(pass->error, "the sessions' shape is not one length");
    /* Sessions are bytes, one for each element of their tensor. */
    PS_TRY(check_count(pass, header->sessions_bytes, 1));
    PS_TRY(read_offsets(pass, tensor, header->sessions_bytes));
    pass->tensor = ps_json_next(tensor);
    return PS_OK;
}

enum ps_status ps_header_read_tensors(struct ps_header_pass *pass,
                                      struct ps_header_parameter *parameter)
{
    /* Where the values begin; the states' places follow from it. */
    parameter->offset = pass->offset;
    for (int32_t state = -1; state < (int32_t)parameter->about.state_count; state++)
        PS_TRY(read_tensor(pass, parameter, state));
    return PS_OK;
}

/* The next tensor of the header must be exactly this array. The values' type and count are learned
 * from it; those of the states must be the same, as the optimizer steps through all of them at
 * once. */
static enum ps_status read_tensor(struct ps_header_pass *pass,
                                  struct ps_header_parameter *parameter, int32_t state)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    const struct ps_json *tensor = pass->tensor;
    char name[PS_HEADER_TENSOR_NAME_BYTES];
    (void)ps_header_tensor_name(about->name, state, name);
    const char *key = ps_json_key(tensor);
    if (key == NULL || strcmp(key, name) != 0)
        return ps_header_corrupt(pass->error, "a tensor is missing or out of order");
    enum ps_dtype dtype = PS_F32;
    uint64_t count = 0;
    struct ps_shape shape;
    PS_TRY(read_type(pass, tensor, &dtype));
    PS_TRY(read_shape(pass, ps_json_member(tensor, "shape"), &shape, &count));
    PS_TRY(check_count(pass, count, ps_dtype_size(dtype)));
    /* The order of the loop makes the values come first, so the type to compare with is known. */
    if (state >= 0 &&
        (dtype != about->dtype || count != about->count || !ps_shape_equal(&shape, &about->shape)))
        return ps_header_corrupt(pass->error,
                                 "optimizer state has another shape than its parameter");
    about->dtype = dtype;
    about->count = count;
    about->shape = shape;
    parameter->array_bytes = count * ps_dtype_size(dtype);
    PS_TRY(read_offsets(pass, tensor, parameter->array_bytes));
    pass->tensor = ps_json_next(tensor);
    return PS_OK;
}

/* A type that this version does not know cannot be skipped: the file would have a parameter
 * less. */
static enum ps_status read_type(struct ps_header_pass *pass, const struct ps_json *tensor,
                                enum ps_dtype *dtype)
{
    const char *label = ps_json_string(ps_json_member(tensor, "dtype"));
    if (label == NULL || !ps_dtype_from_label(label, dtype))
        return ps_header_corrupt(pass->error, "a tensor has an unknown element type");
    return PS_OK;
}

/* One length is the count, and stands for no shape. The number of lengths is compared with the room
 * for them before one is read, and the product is formed without overflow. */
static enum ps_status read_shape(struct ps_header_pass *pass, const struct ps_json *list,
                                 struct ps_shape *shape, uint64_t *count)
{
    const struct ps_json *length = ps_json_first(list);
    *shape = (struct ps_shape){.is_given = true};
    if (!ps_json_is_array(list) || ps_json_count(list) > PS_SHAPE_RANK_MAX)
        return ps_header_corrupt(pass->error, "a shape is missing or has too many dimensions");
    for (; length != NULL; length = ps_json_next(length))
        if (!ps_json_uint_of(length, &shape->lengths[shape->rank++]))
            return ps_header_corrupt(pass->error, "a shape's length is not a number");
    if (!ps_shape_product(shape, count))
        return ps_header_corrupt(pass->error, "a shape is beyond every file");
    ps_shape_settle(shape, *count);
    return PS_OK;
}

/* What no writer makes is refused: the shape of a whole beside a tensor that has a shape of its
 * own, or one of no more elements than the range itself has. Whether the name is a range's is asked
 * by recovery, which knows names; a checkpoint is read by tools as well. */
enum ps_status ps_header_read_whole_shape(struct ps_header_pass *pass, const struct ps_json *entry,
                                          struct ps_checkpoint_parameter *about)
{
    const struct ps_json *list = ps_json_member(entry, PS_HEADER_WHOLE_SHAPE);
    uint64_t count = 0;
    if (list == NULL)
        return PS_OK;
    struct ps_shape shape;
    PS_TRY(read_shape(pass, list, &shape, &count));
    if (about->shape.is_given || count <= about->count)
        return ps_header_corrupt(pass->error, "a range has a shape that is not that of the whole");
    about->shape = shape;
    return PS_OK;
}

/* The count is bounded by what is left of the file, by a division, so the product with the width
 * cannot wrap later. */
static enum ps_status check_count(struct ps_header_pass *pass, uint64_t count, size_t width)
{
    if (count > (pass->file_bytes - pass->offset) / width)
        return ps_header_corrupt(pass->error, "a tensor reaches beyond the end of the file");
    return PS_OK;
}

static enum ps_status read_offsets(struct ps_header_pass *pass, const struct ps_json *tensor,
                                   uint64_t bytes)
{
    const struct ps_json *offsets = ps_json_member(tensor, "data_offsets");
    const struct ps_json *first = ps_json_first(offsets);
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!ps_json_is_array(offsets) || ps_json_count(offsets) != 2 ||
        !ps_json_uint_of(first, &begin) || !ps_json_uint_of(ps_json_next(first), &end))
        return ps_header_corrupt(pass->error, "a tensor's offsets are malformed");
    /* Offsets count from the end of the head; without gaps there can be no overlap. */
    uint64_t data_start = pass->texts_size;
    if (begin != pass->offset - data_start || end < begin || end - begin != bytes)
        return ps_header_corrupt(pass->error,
                                 "a tensor overlaps another, leaves a gap or has a wrong size");
    pass->offset += bytes;
    return PS_OK;
}
