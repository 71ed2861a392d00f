/* Nothing in the header is believed before it was compared with the file. */
#include "tools/psckpt/plain_reader.h"

#include "base/hash.h"
#include "checkpoint/header_writer.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <string.h>

#define METADATA "__metadata__"

struct plain_input {
    const struct ps_files *files;
    struct ps_file file;
    const char *path;
    uint64_t bytes; /* of the file */
    uint64_t data;  /* where the arrays begin */
};

static enum ps_status read_file(struct shard_state *state, struct plain_input *input,
                                struct progress *progress, struct ps_error *error);
static enum ps_status read_header(const struct plain_input *input,
                                  const struct ps_allocator *memory, size_t size,
                                  struct ps_json **header, struct ps_error *error);
static enum ps_status read_tensors(struct shard_state *state, const struct plain_input *input,
                                   const struct ps_json *header, struct progress *progress,
                                   struct ps_error *error);
static enum ps_status read_tensor(struct shard_state *state, const struct plain_input *input,
                                  const struct ps_json *tensor, struct ps_error *error);
static enum ps_status parse_tensor(const struct plain_input *input, const struct ps_json *tensor,
                                   struct ps_checkpoint_parameter *row, uint64_t *begin,
                                   struct ps_error *error);
static bool read_shape(const struct ps_json *shape, uint64_t *count);

enum ps_status plain_reader_read(struct shard_state *state, const struct ps_files *files,
                                 const char *path, struct progress *progress,
                                 struct ps_error *error)
{
    struct plain_input input = {.files = files, .path = path};
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &input.file, error));
    enum ps_status status = read_file(state, &input, progress, error);
    progress_end(progress);
    files->close(files->self, input.file);
    return status == PS_OK ? shard_state_seal(state, error) : status;
}

static enum ps_status read_file(struct shard_state *state, struct plain_input *input,
                                struct progress *progress, struct ps_error *error)
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
    progress_begin(progress, input->path, input->bytes);
    enum ps_status status = read_tensors(state, input, header, progress, error);
    ps_json_destroy(header);
    return status;
}

static enum ps_status read_header(const struct plain_input *input,
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

static enum ps_status read_tensors(struct shard_state *state, const struct plain_input *input,
                                   const struct ps_json *header, struct progress *progress,
                                   struct ps_error *error)
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
        progress_add(progress, state->parameters[state->count - 1].values.size);
    }
    return PS_OK;
}

static enum ps_status read_tensor(struct shard_state *state, const struct plain_input *input,
                                  const struct ps_json *tensor, struct ps_error *error)
{
    struct ps_checkpoint_parameter row = {.name = ps_bytes_of_text(ps_json_key(tensor))};
    uint64_t begin = 0;
    PS_TRY(parse_tensor(input, tensor, &row, &begin, error));
    size_t size = (size_t)row.count * ps_dtype_size(row.dtype);
    uint8_t *bytes = shard_state_room(state, size, 1, error);
    struct ps_bytes *piece = shard_state_room(state, 1, sizeof *piece, error);
    row.name = shard_state_copy(state, row.name, error);
    if (bytes == NULL || piece == NULL || row.name.data == NULL)
        return PS_ERR_NO_MEMORY;
    size_t got = 0;
    PS_TRY(input->files->read(input->files->self, input->file, begin, bytes, size, &got, error));
    if (got < size)
        return ps_fail(error, PS_ERR_CORRUPT, "%.150s has become shorter", input->path);
    *piece = (struct ps_bytes){bytes, size};
    row.values = ps_view_of(piece);
    row.id = ps_hash_fnv1a32(row.name);
    state->parameters[state->count++] = row;
    return PS_OK;
}

static enum ps_status parse_tensor(const struct plain_input *input, const struct ps_json *tensor,
                                   struct ps_checkpoint_parameter *row, uint64_t *begin,
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
        !read_shape(ps_json_member(tensor, "shape"), &row->count))
        return ps_fail(error, PS_ERR_CORRUPT, "tensor %.100s is not described as it should be",
                       name);
    if (!ps_dtype_from_label(label, &row->dtype))
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "tensor %.100s is of type %.20s: parameters are I32, U32, I64, U64, F32 or "
                       "F64",
                       name, label);
    if (row->count == 0)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "tensor %.100s has no element", name);
    uint64_t room = input->bytes - input->data;
    if (*begin > end || end > room || row->count > room / ps_dtype_size(row->dtype) ||
        end - *begin != row->count * ps_dtype_size(row->dtype))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "tensor %.100s: bytes %" PRIu64 " to %" PRIu64 " do not fit its shape or "
                       "the file",
                       name, *begin, end);
    *begin += input->data;
    return PS_OK;
}

/* The product of the dimensions; of none: 1. False when it is not a list of numbers, or
 * overflows. */
static bool read_shape(const struct ps_json *shape, uint64_t *count)
{
    if (!ps_json_is_array(shape))
        return false;
    *count = 1;
    for (const struct ps_json *at = ps_json_first(shape); at != NULL; at = ps_json_next(at)) {
        uint64_t dimension = 0;
        if (!ps_json_uint_of(at, &dimension))
            return false;
        if (dimension != 0 && *count > UINT64_MAX / dimension)
            return false;
        *count *= dimension;
    }
    return true;
}
