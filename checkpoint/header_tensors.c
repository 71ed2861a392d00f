/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a checkpoint's header: each must be exactly the array that follows in the file.
 *
 * Names, types, counts and offsets follow from the parameters and from what was read before, so
 * nothing is looked up: the next tensor of the header is compared with the one that has to be
 * there. Without gaps there can be no overlap, and no byte of the file without a checksum. */
#include "checkpoint/header_pass.h"

#include "checkpoint/header_format.h"
#include "checkpoint/section.h"
#include "json/json_reader.h"

#include <string.h>

static enum ps_status read_bytes_tensor(struct ps_header_pass *pass, const char *name,
                                        uint64_t *bytes);
static enum ps_status fail_bytes(struct ps_header_pass *pass, const char *name, const char *reason);
static enum ps_status read_wide(struct ps_header_pass *pass, struct ps_header_parameter *parameter);
static enum ps_status read_narrow(struct ps_header_pass *pass,
                                  struct ps_header_parameter *parameter);
static bool wide_values_are_next(const struct ps_header_pass *pass,
                                 const struct ps_checkpoint_parameter *about);
static enum ps_status read_elements(struct ps_header_pass *pass,
                                    struct ps_header_parameter *parameter);
static enum ps_status read_array(struct ps_header_pass *pass, struct ps_header_parameter *parameter,
                                 uint32_t array);
static enum ps_status learn_values(struct ps_header_pass *pass,
                                   struct ps_header_parameter *parameter,
                                   const struct ps_shape *shape, uint64_t count);
static enum ps_status learn_table(struct ps_header_pass *pass,
                                  struct ps_header_parameter *parameter, uint32_t array,
                                  const struct ps_shape *shape, uint64_t count);
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
    if (!header->has_sessions)
        return PS_OK;
    /* The sessions lie behind everything that the parameters have taken. */
    header->sessions_offset = pass->offset;
    return read_bytes_tensor(pass, PS_HEADER_SESSIONS, &header->sessions_bytes);
}

/* A section without bytes is not written, so a file that has one was not made by a server; with it
 * a reader could not tell whether there is one. */
enum ps_status ps_header_read_sections(struct ps_header_pass *pass,
                                       const bool has[PS_CHECKPOINT_SECTION_COUNT])
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++) {
        struct ps_header_range *range = &pass->header->sections[i];
        if (!has[i])
            continue;
        /* Behind sessions or parameters, wherever those have ended: sections are not aligned. */
        range->offset = pass->offset;
        PS_TRY(read_bytes_tensor(pass, ps_section_name(i), &range->bytes));
        if (range->bytes == 0)
            return ps_header_corrupt(pass->error, "a section is empty");
    }
    return PS_OK;
}

/* The next tensor must be this one, of bytes and of one dimension. */
static enum ps_status read_bytes_tensor(struct ps_header_pass *pass, const char *name,
                                        uint64_t *bytes)
{
    const struct ps_json *tensor = pass->tensor;
    const char *key = ps_json_key(tensor);
    if (key == NULL || strcmp(key, name) != 0)
        return fail_bytes(pass, name, "is missing or out of order");
    const char *label = ps_json_string(ps_json_member(tensor, "dtype"));
    if (label == NULL || strcmp(label, PS_HEADER_BYTES_LABEL) != 0)
        return fail_bytes(pass, name, "has another element type");
    struct ps_shape shape;
    PS_TRY(read_shape(pass, ps_json_member(tensor, "shape"), &shape, bytes));
    if (shape.is_given)
        return fail_bytes(pass, name, "has a shape that is not one length");
    /* One byte for each element: the bound of the file is that of the count. */
    PS_TRY(check_count(pass, *bytes, 1));
    PS_TRY(read_offsets(pass, tensor, *bytes));
    pass->tensor = ps_json_next(tensor);
    return PS_OK;
}

/* With the name of the tensor, since there are several of the sort. */
static enum ps_status fail_bytes(struct ps_header_pass *pass, const char *name, const char *reason)
{
    return ps_fail(pass->error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s %s", name, reason);
}

/* As the file has them: first all arrays of 8-byte elements, then all others. A parameter of the
 * first sort is known by its values' tensor, and every tensor must be where one sort or the other
 * has it, so that no array is read twice or not at all. */
enum ps_status ps_header_read_tensors(struct ps_header_pass *pass)
{
    struct ps_header *header = pass->header;
    for (size_t i = 0; i < header->count; i++)
        PS_TRY(read_wide(pass, &header->parameters[i]));
    for (size_t i = 0; i < header->count; i++)
        PS_TRY(read_narrow(pass, &header->parameters[i]));
    return PS_OK;
}

/* Keys are of 8 bytes whatever the values are. */
static enum ps_status read_wide(struct ps_header_pass *pass, struct ps_header_parameter *parameter)
{
    const struct ps_checkpoint_parameter *about = &parameter->about;
    /* Of the base's nothing stands here. */
    if (about->carry == PS_CARRY_AS_BASE)
        return PS_OK;
    if (wide_values_are_next(pass, about))
        PS_TRY(read_elements(pass, parameter));
    if (about->is_table)
        PS_TRY(read_array(pass, parameter, ps_array_of_keys(about)));
    return about->removed.size > 0 ? read_array(pass, parameter, ps_array_count(about)) : PS_OK;
}

/* What the first walk has left: the elements of most parameters, and the clocks of all tables. */
static enum ps_status read_narrow(struct ps_header_pass *pass,
                                  struct ps_header_parameter *parameter)
{
    const struct ps_checkpoint_parameter *about = &parameter->about;
    if (about->carry == PS_CARRY_AS_BASE)
        return PS_OK;
    if (parameter->offset[0] == 0) {
        PS_TRY(read_elements(pass, parameter));
        /* Its place was before the narrow ones. */
        if (ps_array_is_wide(about, 0))
            return ps_header_corrupt(pass->error, "parameters are out of order");
    }
    return about->is_table ? read_array(pass, parameter, ps_array_of_keys(about) + 1) : PS_OK;
}

/* Looks, and takes nothing: a tensor that is not as it should be is refused where it is read. */
static bool wide_values_are_next(const struct ps_header_pass *pass,
                                 const struct ps_checkpoint_parameter *about)
{
    const char *key = ps_json_key(pass->tensor);
    const char *label = ps_json_string(ps_json_member(pass->tensor, "dtype"));
    enum ps_dtype dtype = PS_F32;
    return key != NULL && strcmp(key, (const char *)about->name.data) == 0 && label != NULL &&
           ps_dtype_from_label(label, &dtype) && ps_dtype_size(dtype) == 8;
}

/* The values, whose type and count are learned from their tensor, and the states behind them. */
static enum ps_status read_elements(struct ps_header_pass *pass,
                                    struct ps_header_parameter *parameter)
{
    for (uint32_t array = 0; array <= parameter->about.state_count; array++)
        PS_TRY(read_array(pass, parameter, array));
    return PS_OK;
}

/* The next tensor of the header must be exactly this array. Its type and its count are compared
 * with what the arrays before it have said of the parameter, as the optimizer steps through all of
 * them at once. */
static enum ps_status read_array(struct ps_header_pass *pass, struct ps_header_parameter *parameter,
                                 uint32_t array)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    const struct ps_json *tensor = pass->tensor;
    char name[PS_ARRAY_NAME_BYTES];
    (void)ps_array_name(about, array, name);
    const char *key = ps_json_key(tensor);
    if (key == NULL || strcmp(key, name) != 0)
        return ps_header_corrupt(pass->error, "a tensor is missing or out of order");
    enum ps_dtype dtype = PS_F32;
    uint64_t count = 0;
    struct ps_shape shape;
    PS_TRY(read_type(pass, tensor, &dtype));
    PS_TRY(read_shape(pass, ps_json_member(tensor, "shape"), &shape, &count));
    PS_TRY(check_count(pass, count, ps_dtype_size(dtype)));
    /* Of a table that is narrow the keys were read before: their type does not depend on it. */
    if (array == 0)
        about->dtype = dtype;
    /* Of keys that went the entry has said how many there are; rows are not counted by them. */
    if (array < ps_array_count(about) && about->is_table)
        PS_TRY(learn_table(pass, parameter, array, &shape, count));
    else if (array == 0)
        PS_TRY(learn_values(pass, parameter, &shape, count));
    struct ps_shape expected = ps_array_shape(about, array);
    if (dtype != ps_array_dtype(about, array) || count != ps_array_elements(about, array) ||
        !ps_shape_equal(&shape, &expected))
        return ps_header_corrupt(pass->error,
                                 array <= about->state_count
                                     ? "optimizer state has another shape than its parameter"
                                     : "a table's keys, clock or removed keys have another size");
    parameter->offset[array] = pass->offset;
    PS_TRY(read_offsets(pass, tensor, ps_array_bytes(about, array)));
    pass->tensor = ps_json_next(tensor);
    return PS_OK;
}

/* What no writer makes is refused: the shape of a whole beside a tensor that has a shape of its
 * own, or one of no more elements than the range itself has. Whether the name is a range's is asked
 * by recovery, which knows names; a checkpoint is read by tools as well. */
static enum ps_status learn_values(struct ps_header_pass *pass,
                                   struct ps_header_parameter *parameter,
                                   const struct ps_shape *shape, uint64_t count)
{
    parameter->about.count = count;
    if (!parameter->has_whole)
        parameter->about.shape = *shape;
    else if (shape->is_given || parameter->whole_count <= count)
        return ps_header_corrupt(pass->error, "a range has a shape that is not that of the whole");
    return PS_OK;
}

/* The rows from the array that comes first, which are the keys where values are narrow; and of each
 * state whether it is of elements or of rows. The caller compares the rest. */
static enum ps_status learn_table(struct ps_header_pass *pass,
                                  struct ps_header_parameter *parameter, uint32_t array,
                                  const struct ps_shape *shape, uint64_t count)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    /* Values and states have two dimensions, whatever their lengths are; keys and clock have one,
     * so that a table cannot be taken for one of another width. */
    bool is_matrix = shape->is_given && shape->rank == 2;
    if (is_matrix != (array <= about->state_count))
        return ps_header_corrupt(pass->error, "an array of a table has another shape");
    /* Every other array must agree with the first that was read, whichever that is. */
    bool is_first = true;
    for (size_t i = 0; i < PS_ARRAYS_CARRIED_MAX; i++)
        is_first = is_first && parameter->offset[i] == 0;
    if (is_first)
        about->rows = is_matrix ? shape->lengths[0] : count;
    /* A bound on the rows alone would let the product with the width wrap. */
    if (about->rows > pass->file_bytes || about->rows > UINT64_MAX / 8 / about->width)
        return ps_header_corrupt(pass->error, "a table has more rows than its file");
    about->count = about->rows * about->width;
    /* Of width 1 both sorts of state are the same, and the file need not be asked. */
    if (is_matrix && array > 0)
        about->state_is_one[array - 1] = about->width > 1 && shape->lengths[1] == 1;
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

/* Its product is compared with the tensor, which is read later. */
enum ps_status ps_header_read_whole_shape(struct ps_header_pass *pass, const struct ps_json *entry,
                                          struct ps_header_parameter *parameter)
{
    const struct ps_json *list = ps_json_member(entry, PS_HEADER_WHOLE_SHAPE);
    if (list == NULL)
        return PS_OK;
    if (parameter->about.is_table)
        return ps_header_corrupt(pass->error, "a table has the shape of a range");
    parameter->has_whole = true;
    return read_shape(pass, list, &parameter->about.shape, &parameter->whole_count);
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
