/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing in the header is believed before it was compared with the file. The file comes from
 * somewhere else, so every number in it is compared with the size of the file before memory is
 * taken or a byte is read by it. The fuzz target fuzz_tensor_reader runs over this file. */
#include "tools/psckpt/tensor_reader.h"

#include "base/hash.h"
#include "checkpoint/header_format.h"
#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/tensor_type.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <string.h>

/* Elements that are widened at once; none that is has more than two bytes in the file. */
#define WIDENED_ELEMENTS 4096

/* The one member of the header that is not a tensor. */
#define METADATA "__metadata__"

/* The facts about the file that are known before its header is believed. */
struct tensor_input {
    const struct ps_files *files;
    struct progress *progress;
    struct ps_file file;
    const char *path;
    uint64_t bytes; /* of the file */
    uint64_t data;  /* where the arrays begin */
    uint64_t taken; /* bytes of the arrays that were read */
};

static enum ps_status read_file(struct shard_state *state, struct tensor_input *input,
                                struct ps_error *error);
static enum ps_status read_header(const struct tensor_input *input,
                                  const struct ps_allocator *memory, size_t size,
                                  struct ps_json **header, struct ps_error *error);
static enum ps_status read_tensors(struct shard_state *state, struct tensor_input *input,
                                   const struct ps_json *header, struct ps_error *error);
static enum ps_status read_tensor(struct shard_state *state, struct tensor_input *input,
                                  const struct ps_json *tensor, struct ps_error *error);
static enum ps_status take_bytes(struct tensor_input *input, uint64_t bytes,
                                 struct ps_error *error);
static enum ps_status read_elements(const struct tensor_input *input,
                                    const struct tensor_type *type, uint64_t begin,
                                    const struct parameter_room *room, struct ps_error *error);
static enum ps_status parse_tensor(const struct tensor_input *input, const struct ps_json *tensor,
                                   struct ps_checkpoint_parameter *row,
                                   const struct tensor_type **type, uint64_t *begin,
                                   struct ps_error *error);
static bool read_shape(const struct ps_json *list, struct ps_checkpoint_parameter *row);

/* The parameters are sealed at the end: sorted, and refused when a name is there twice, which JSON
 * allows and a server does not. Values are copied into rooms of the state, so the file is closed
 * before anything else happens. */
enum ps_status tensor_reader_read(struct shard_state *state, const struct toolbox *box,
                                  const char *path, struct ps_error *error)
{
    const struct ps_files *files = box->files;
    struct tensor_input input = {.files = files, .progress = box->progress, .path = path};
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &input.file, error));
    enum ps_status status = read_file(state, &input, error);
    progress_end(box->progress);
    files->close(files->self, input.file);
    return status == PS_OK ? shard_state_seal(state, error) : status;
}

/* The first eight bytes are the header's length, little-endian. The bound on it is that of our own
 * headers: no real model has more names than that, and a random file has a random length here. The
 * comparison with the file's size is written so that no sum can wrap. */
static enum ps_status read_file(struct shard_state *state, struct tensor_input *input,
                                struct ps_error *error)
{
    const struct ps_files *files = input->files;
    uint8_t first[PS_HEADER_LENGTH_BYTES] = {0};
    size_t got = 0;
    PS_TRY(files->size(files->self, input->file, &input->bytes, error));
    PS_TRY(files->read(files->self, input->file, 0, first, sizeof first, &got, error));
    uint64_t length = 0;
    for (size_t i = 0; i < sizeof first; i++)
        length |= (uint64_t)first[i] << 8 * i;
    if (got < sizeof first || length > PS_HEADER_BYTES_MAX || length > input->bytes - sizeof first)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "%.150s is not a safetensors file: its length is wrong", input->path);
    input->data = sizeof first + length;
    struct ps_json *header = NULL;
    PS_TRY(read_header(input, state->memory, (size_t)length, &header, error));
    progress_begin(input->progress, input->path, input->bytes);
    enum ps_status status = read_tensors(state, input, header, error);
    ps_json_destroy(header);
    return status;
}

/* JSON that is not an object is refused as a damaged file, whatever the parser thinks of it; only a
 * refusal of memory keeps its own status, because there the file is not to blame. The text is
 * released before the arrays are read; the parsed header is all that is needed. At most
 * PS_HEADER_BYTES_MAX bytes, which the caller has checked. */
static enum ps_status read_header(const struct tensor_input *input,
                                  const struct ps_allocator *memory, size_t size,
                                  struct ps_json **header, struct ps_error *error)
{
    uint8_t *text = ps_plain(memory, size);
    size_t got = 0;
    struct ps_error why = {0};
    if (text == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a header of %zu bytes", size);
    enum ps_status status = input->files->read(input->files->self, input->file,
                                               PS_HEADER_LENGTH_BYTES, text, size, &got, error);
    if (status == PS_OK) {
        status = ps_json_parse((struct ps_bytes){text, got}, PS_HEADER_BYTES_MAX, header, &why);
        if (status == PS_OK && !ps_json_is_object(*header)) {
            ps_json_destroy(*header);
            status = PS_ERR_BAD_INPUT;
            (void)ps_fail(&why, status, "it is not an object");
        }
        if (status != PS_OK) {
            status = status == PS_ERR_NO_MEMORY ? status : PS_ERR_CORRUPT;
            (void)ps_fail(error, status, "%.100s: its header: %.120s", input->path, why.text);
        }
    }
    ps_release(memory, text);
    return status;
}

/* A checkpoint of ours is a safetensors file, too. Importing one would lose optimizer state and
 * versions without a word, so it is refused by its mark in the metadata. Counting first gives the
 * list its exact room; the metadata member wastes one row. Tensors are read in the order of the
 * header, which is mostly that of the file. */
static enum ps_status read_tensors(struct shard_state *state, struct tensor_input *input,
                                   const struct ps_json *header, struct ps_error *error)
{
    size_t count = 0;
    const struct ps_json *metadata = ps_json_member(header, METADATA);
    if (ps_json_member(metadata, "ps.format") != NULL)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "%.150s is a checkpoint already", input->path);
    for (const struct ps_json *at = ps_json_first(header); at != NULL; at = ps_json_next(at))
        count++;
    state->parameters = shard_state_room(state, count, sizeof *state->parameters, error);
    if (state->parameters == NULL)
        return PS_ERR_NO_MEMORY;
    for (const struct ps_json *at = ps_json_first(header); at != NULL; at = ps_json_next(at)) {
        if (strcmp(ps_json_key(at), METADATA) == 0)
            continue;
        PS_TRY(read_tensor(state, input, at, error));
        progress_add(input->progress, state->parameters[state->count - 1].values.size);
    }
    return PS_OK;
}

/* A thousand names for the same bytes would make a thousand copies of them: all arrays together are
 * no longer than the file. */
static enum ps_status take_bytes(struct tensor_input *input, uint64_t bytes, struct ps_error *error)
{
    uint64_t left = input->bytes - input->data - input->taken;
    if (bytes > left)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "%.150s: its arrays overlap: together they are longer than the file",
                       input->path);
    input->taken += bytes;
    return PS_OK;
}

/* Name and place are checked before room is made: the room has exactly the size that the shape
 * says, and the file was proved to hold so many bytes. The id is computed as InitParam does it,
 * from the name. The name is copied, since the parsed header goes. */
static enum ps_status read_tensor(struct shard_state *state, struct tensor_input *input,
                                  const struct ps_json *tensor, struct ps_error *error)
{
    struct ps_checkpoint_parameter row = {.name = ps_bytes_of_text(ps_json_key(tensor))};
    const struct tensor_type *type = NULL;
    uint64_t begin = 0;
    PS_TRY(parse_tensor(input, tensor, &row, &type, &begin, error));
    PS_TRY(take_bytes(input, row.count * type->size, error));
    struct parameter_room room;
    PS_TRY(parameter_room_make(&room, state, &row, error));
    PS_TRY(read_elements(input, type, begin, &room, error));
    row.id = ps_hash_fnv1a32(row.name);
    return parameter_room_add(&room, state, &row, error);
}

/* Elements of a parameter's type go straight to their place. What is widened goes piece by piece
 * through a buffer on the stack: the narrow form of a large tensor is never in memory whole. A file
 * that became shorter since its size was asked gives fewer bytes, which must not stay zeros. */
static enum ps_status read_elements(const struct tensor_input *input,
                                    const struct tensor_type *type, uint64_t begin,
                                    const struct parameter_room *room, struct ps_error *error)
{
    uint8_t narrow[WIDENED_ELEMENTS * 2];
    size_t width = ps_dtype_size(type->dtype);
    for (size_t at = 0; at < room->size;) {
        size_t got = 0;
        size_t count = (room->size - at) / width;
        if (type->widen != NULL && count > WIDENED_ELEMENTS)
            count = WIDENED_ELEMENTS;
        void *to = type->widen != NULL ? narrow : room->arrays[0] + at;
        PS_TRY(input->files->read(input->files->self, input->file, begin, to, count * type->size,
                                  &got, error));
        if (got < count * type->size)
            return ps_fail(error, PS_ERR_CORRUPT, "%.150s has become shorter", input->path);
        if (type->widen != NULL)
            type->widen(narrow, count, room->arrays[0] + at);
        begin += got;
        at += count * width;
    }
    return PS_OK;
}

/* Three kinds of refusal: what the format forbids is damage, what a parameter cannot be (an element
 * type that is not in the table) is unsupported, and numbers that contradict each other or the file
 * are damage again. A tensor without elements may be a table's without rows, which is known when
 * all of them were read. The division keeps the product from overflowing. The name is a text of the
 * JSON document and may hold anything that UTF-8 can; servers take it as bytes. The label is looked
 * up in the table of types. */
static enum ps_status parse_tensor(const struct tensor_input *input, const struct ps_json *tensor,
                                   struct ps_checkpoint_parameter *row,
                                   const struct tensor_type **type, uint64_t *begin,
                                   struct ps_error *error)
{
    const char *name = (const char *)row->name.data;
    const char *label = ps_json_string(ps_json_member(tensor, "dtype"));
    const struct ps_json *offsets = ps_json_member(tensor, "data_offsets");
    uint64_t end = 0;
    if (row->name.size == 0 || row->name.size > PS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "a tensor's name has %zu bytes, 1 to %d go",
                       row->name.size, PS_NAME_BYTES_MAX);
    if (label == NULL || ps_json_count(offsets) != 2 ||
        !ps_json_uint_of(ps_json_at(offsets, 0), begin) ||
        !ps_json_uint_of(ps_json_at(offsets, 1), &end) ||
        !read_shape(ps_json_member(tensor, "shape"), row))
        return ps_fail(error, PS_ERR_CORRUPT, "tensor %.100s is not described as it should be",
                       name);
    *type = tensor_type_find(label);
    if (*type == NULL)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "tensor %.60s is of type %.20s: what can be imported is " TENSOR_TYPES, name,
                       label);
    row->dtype = (*type)->dtype;
    uint64_t room = input->bytes - input->data;
    if (*begin > end || end > room || row->count > room / (*type)->size ||
        end - *begin != row->count * (*type)->size)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "tensor %.100s: bytes %" PRIu64 " to %" PRIu64 " do not fit its shape or "
                       "the file",
                       name, *begin, end);
    *begin += input->data;
    return PS_OK;
}

/* One form of each shape, as servers have it: the digest of an imported job is then that of one
 * which a trainer has initialised. A dimension of 0 makes an empty tensor. False when it is not a
 * list of numbers, has more of them than a parameter may have, or its product overflows. */
static bool read_shape(const struct ps_json *list, struct ps_checkpoint_parameter *row)
{
    struct ps_shape *shape = &row->shape;
    const struct ps_json *length = ps_json_first(list);
    if (!ps_json_is_array(list) || ps_json_count(list) > PS_SHAPE_RANK_MAX)
        return false;
    shape->is_given = true;
    for (; length != NULL; length = ps_json_next(length))
        if (!ps_json_uint_of(length, &shape->lengths[shape->rank++]))
            return false;
    if (!ps_shape_product(shape, &row->count))
        return false;
    ps_shape_settle(shape, row->count);
    return true;
}
