/* The JSON header of a checkpoint file to facts and parameters, believing nothing. */
#include "checkpoint/header_reader.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/header_writer.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* No parameter takes fewer bytes in a header: its tensor entry and its entry in ps.parameters.
 * So the memory for parameters is bounded by the header that describes them. */
#define PARAMETER_BYTES_MIN 100

/* One pass over the header. */
struct pass {
    struct ps_header *header;
    const struct ps_json *tensor; /* the next top-level member */
    size_t texts_used;
    size_t texts_size;
    uint64_t offset; /* where the next array begins in the file */
    uint64_t file_bytes;
    struct ps_error *error;
};

static enum ps_status check_checksum(struct ps_bytes head, struct ps_error *error);
static enum ps_status read_document(struct pass *pass, const struct ps_json *document);
static enum ps_status read_facts(struct pass *pass, const struct ps_json *metadata);
static enum ps_status read_parameters(struct pass *pass, const struct ps_json *metadata);
static enum ps_status read_list(struct pass *pass, const struct ps_json *list, size_t text_size);
static enum ps_status read_parameter(struct pass *pass, const struct ps_json *entry,
                                     struct ps_header_parameter *parameter);
static enum ps_status read_name(struct pass *pass, const struct ps_json *entry,
                                struct ps_checkpoint_parameter *about);
static enum ps_status read_config(struct pass *pass, const struct ps_json *entry,
                                  struct ps_checkpoint_parameter *about);
static enum ps_status read_checksums(struct pass *pass, const struct ps_json *entry,
                                     struct ps_header_parameter *parameter);
static enum ps_status read_sessions_checksum(struct pass *pass, const struct ps_json *metadata);
static enum ps_status read_sessions(struct pass *pass);
static enum ps_status read_tensors(struct pass *pass, struct ps_header_parameter *parameter);
static enum ps_status read_tensor(struct pass *pass, struct ps_header_parameter *parameter,
                                  int32_t state);
static enum ps_status read_shape(struct pass *pass, const struct ps_json *tensor,
                                 enum ps_dtype *dtype, uint64_t *count);
static enum ps_status read_count(struct pass *pass, const struct ps_json *tensor, size_t width,
                                 uint64_t *count);
static enum ps_status read_offsets(struct pass *pass, const struct ps_json *tensor, uint64_t bytes);
static enum ps_status check_order(const struct ps_header *header, struct ps_error *error);
static const char *metadata_text(const struct ps_json *metadata, const char *key);
static bool metadata_number(const struct ps_json *metadata, const char *key, uint64_t *number);
static bool checksum_of(const char *text, uint32_t *checksum);
static char *keep_text(struct pass *pass, const char *text, size_t size);
static enum ps_status corrupt(struct ps_error *error, const char *reason);

enum ps_status ps_header_length(struct ps_bytes first, uint64_t file_bytes, size_t *length,
                                struct ps_error *error)
{
    PS_ASSERT(length != NULL);
    if (first.size != PS_HEADER_LENGTH_BYTES || file_bytes < PS_HEADER_LENGTH_BYTES)
        return corrupt(error, "the file is shorter than the length of a header");
    uint64_t stated = 0;
    for (size_t i = 0; i < PS_HEADER_LENGTH_BYTES; i++)
        stated |= (uint64_t)first.data[i] << (8 * i);
    if (stated > PS_HEADER_BYTES_MAX)
        return corrupt(error, "the header's length is beyond every limit");
    if (stated > file_bytes - PS_HEADER_LENGTH_BYTES)
        return corrupt(error, "the file ends within its header");
    *length = (size_t)stated;
    return PS_OK;
}

enum ps_status ps_header_init(struct ps_header *header, struct ps_bytes head, uint64_t file_bytes,
                              const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(header != NULL && memory != NULL);
    PS_ASSERT(head.size >= PS_HEADER_LENGTH_BYTES && head.size <= file_bytes);
    *header = (struct ps_header){.memory = memory};
    PS_TRY(check_checksum(head, error));
    struct pass pass = {.header = header,
                        .texts_size = head.size,
                        .offset = head.size,
                        .file_bytes = file_bytes,
                        .error = error};
    header->texts = ps_plain(memory, head.size);
    if (header->texts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a header");

    struct ps_json *document = NULL;
    struct ps_bytes json = {head.data + PS_HEADER_LENGTH_BYTES, head.size - PS_HEADER_LENGTH_BYTES};
    enum ps_status status = ps_json_parse(json, PS_HEADER_BYTES_MAX, &document, error);
    if (status == PS_ERR_BAD_INPUT)
        status = corrupt(error, "the header is not JSON");
    if (status == PS_OK)
        status = read_document(&pass, document);
    ps_json_destroy(document);
    if (status != PS_OK)
        ps_header_fini(header);
    return status;
}

void ps_header_fini(struct ps_header *header)
{
    if (header == NULL || header->memory == NULL)
        return;
    ps_release(header->memory, header->parameters);
    ps_release(header->memory, header->texts);
    *header = (struct ps_header){.memory = header->memory};
}

/* The checksum stands at a fixed place, so that it is verified before anything is parsed. */
static enum ps_status check_checksum(struct ps_bytes head, struct ps_error *error)
{
    size_t after = PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS;
    if (head.size < after || memcmp(head.data + PS_HEADER_LENGTH_BYTES, PS_HEADER_START,
                                    sizeof PS_HEADER_START - 1) != 0)
        return corrupt(error, "the header does not begin like one of this system");
    char digits[PS_HEADER_CHECKSUM_DIGITS + 1] = {0};
    memcpy(digits, head.data + PS_HEADER_CHECKSUM_AT, PS_HEADER_CHECKSUM_DIGITS);
    uint32_t stated = 0;
    if (!checksum_of(digits, &stated) || stated != ps_header_checksum(head))
        return corrupt(error, "the header's checksum differs");
    if (head.size % PS_HEADER_ALIGNMENT != 0)
        return corrupt(error, "the header is not padded");
    return PS_OK;
}

static enum ps_status read_document(struct pass *pass, const struct ps_json *document)
{
    const struct ps_json *metadata = ps_json_first(document);
    if (!ps_json_is_object(document) || !ps_json_is_object(metadata))
        return corrupt(pass->error, "the header is not an object with metadata");
    pass->tensor = ps_json_next(metadata);
    PS_TRY(read_facts(pass, metadata));
    PS_TRY(read_sessions_checksum(pass, metadata));
    PS_TRY(read_parameters(pass, metadata));
    PS_TRY(read_sessions(pass));
    if (pass->tensor != NULL)
        return corrupt(pass->error, "the header has a tensor that no parameter owns");
    if (pass->offset != pass->file_bytes)
        return corrupt(pass->error, "the file is longer or shorter than its arrays");
    return check_order(pass->header, pass->error);
}

static enum ps_status read_facts(struct pass *pass, const struct ps_json *metadata)
{
    struct ps_checkpoint_facts *facts = &pass->header->facts;
    const char *format = metadata_text(metadata, "ps.format");
    if (format == NULL)
        return corrupt(pass->error, "the header has no ps.format");
    if (strcmp(format, PS_HEADER_FORMAT) != 0)
        return ps_fail(pass->error, PS_ERR_CORRUPT,
                       PS_CHECKPOINT_CORRUPT "format %.20s is unknown to this version", format);

    const char *uuid = metadata_text(metadata, "ps.uuid");
    if (uuid == NULL || !ps_checkpoint_uuid_valid(uuid))
        return corrupt(pass->error, "ps.uuid is missing or malformed");
    memcpy(facts->uuid, uuid, strlen(uuid) + 1);
    const char *job = metadata_text(metadata, "ps.job");
    if (job == NULL)
        return corrupt(pass->error, "ps.job is missing or malformed");
    facts->job = keep_text(pass, job, strlen(job));

    uint64_t index = 0;
    uint64_t shard_count = 0;
    bool whole = metadata_number(metadata, "ps.index", &index) &&
                 metadata_number(metadata, "ps.shard_count", &shard_count) &&
                 metadata_number(metadata, "ps.epoch", &facts->epoch) &&
                 metadata_number(metadata, "ps.position", &facts->position) &&
                 metadata_number(metadata, "ps.unix_ns", &facts->unix_ns);
    if (!whole || index > UINT32_MAX || shard_count > UINT32_MAX)
        return corrupt(pass->error, "a number of the metadata is missing or malformed");
    facts->index = (uint32_t)index;
    facts->shard_count = (uint32_t)shard_count;
    return PS_OK;
}

/* The parameters are described by a second document, held as text in the first. */
static enum ps_status read_parameters(struct pass *pass, const struct ps_json *metadata)
{
    const char *text = metadata_text(metadata, "ps.parameters");
    if (text == NULL)
        return corrupt(pass->error, "ps.parameters is missing or no text");
    struct ps_bytes bytes = ps_bytes_of_text(text);
    struct ps_json *list = NULL;
    enum ps_status status = ps_json_parse(bytes, PS_HEADER_BYTES_MAX, &list, pass->error);
    if (status == PS_ERR_BAD_INPUT)
        status = corrupt(pass->error, "ps.parameters is not JSON");
    if (status == PS_OK)
        status = read_list(pass, list, bytes.size);
    ps_json_destroy(list);
    return status;
}

static enum ps_status read_list(struct pass *pass, const struct ps_json *list, size_t text_size)
{
    struct ps_header *header = pass->header;
    if (!ps_json_is_array(list))
        return corrupt(pass->error, "ps.parameters is not an array");
    size_t count = ps_json_count(list);
    if (count > (pass->texts_size + text_size) / PARAMETER_BYTES_MIN)
        return corrupt(pass->error, "ps.parameters has more entries than can be whole");
    header->parameters = ps_zeroed_array(header->memory, count, sizeof *header->parameters);
    if (header->parameters == NULL)
        return ps_fail(pass->error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu parameters",
                       count);
    const struct ps_json *entry = ps_json_first(list);
    for (; entry != NULL; entry = ps_json_next(entry)) {
        PS_ASSERT(header->count < count);
        PS_TRY(read_parameter(pass, entry, &header->parameters[header->count]));
        header->count++;
    }
    return PS_OK;
}

static enum ps_status read_parameter(struct pass *pass, const struct ps_json *entry,
                                     struct ps_header_parameter *parameter)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    if (!ps_json_is_object(entry))
        return corrupt(pass->error, "an entry of ps.parameters is not an object");
    PS_TRY(read_name(pass, entry, about));
    PS_TRY(read_config(pass, entry, about));
    PS_TRY(read_checksums(pass, entry, parameter));
    if (!ps_json_uint_of(ps_json_member(entry, "id"), &about->id) ||
        !ps_json_uint_of(ps_json_member(entry, "version"), &about->version) ||
        !ps_json_uint_of(ps_json_member(entry, "step"), &about->step))
        return corrupt(pass->error, "a number of ps.parameters is missing or malformed");
    return read_tensors(pass, parameter);
}

static enum ps_status read_name(struct pass *pass, const struct ps_json *entry,
                                struct ps_checkpoint_parameter *about)
{
    const char *name = ps_json_string(ps_json_member(entry, "name"));
    size_t size = name != NULL ? strlen(name) : 0;
    if (size == 0 || size > PS_NAME_BYTES_MAX || ps_header_name_reserved(ps_bytes_of_text(name)) ||
        !ps_utf8_valid(ps_bytes_of_text(name)))
        return corrupt(pass->error, "a parameter's name is missing or malformed");
    about->name = (struct ps_bytes){(const uint8_t *)keep_text(pass, name, size), size};
    return PS_OK;
}

static enum ps_status read_config(struct pass *pass, const struct ps_json *entry,
                                  struct ps_checkpoint_parameter *about)
{
    const char *text = ps_json_string(ps_json_member(entry, "config"));
    struct ps_bytes encoded = ps_bytes_of_text(text);
    PS_ASSERT(encoded.size <= pass->texts_size - pass->texts_used);
    uint8_t *config = (uint8_t *)pass->header->texts + pass->texts_used;
    size_t size = 0;
    if (text == NULL || encoded.size > ps_base64_encoded_size(PS_CONFIG_BYTES_MAX) ||
        !ps_base64_decode(encoded, config, &size))
        return corrupt(pass->error, "a parameter's configuration is missing or malformed");
    pass->texts_used += size;
    about->config = (struct ps_bytes){config, size};
    return PS_OK;
}

static enum ps_status read_checksums(struct pass *pass, const struct ps_json *entry,
                                     struct ps_header_parameter *parameter)
{
    const struct ps_json *list = ps_json_member(entry, "crc32c");
    size_t count = ps_json_count(list);
    if (!ps_json_is_array(list) || count < 1 || count > 1 + PS_STATES_MAX)
        return corrupt(pass->error, "a parameter's checksums are missing or too many");
    const struct ps_json *sum = ps_json_first(list);
    for (size_t array = 0; array < count; array++, sum = ps_json_next(sum)) {
        if (!checksum_of(ps_json_string(sum), &parameter->crc32c[array]))
            return corrupt(pass->error, "a parameter's checksum is malformed");
    }
    parameter->about.state_count = (uint32_t)count - 1;
    return PS_OK;
}

/* Without a checksum there are no sessions. */
static enum ps_status read_sessions_checksum(struct pass *pass, const struct ps_json *metadata)
{
    struct ps_header *header = pass->header;
    const char *text = metadata_text(metadata, PS_HEADER_SESSIONS_CHECKSUM);
    header->has_sessions = ps_json_member(metadata, PS_HEADER_SESSIONS_CHECKSUM) != NULL;
    if (header->has_sessions && !checksum_of(text, &header->sessions_crc32c))
        return corrupt(pass->error, "the checksum of the sessions is malformed");
    return PS_OK;
}

/* They stand behind all parameters. */
static enum ps_status read_sessions(struct pass *pass)
{
    struct ps_header *header = pass->header;
    const struct ps_json *tensor = pass->tensor;
    const char *key = ps_json_key(tensor);
    if (!header->has_sessions)
        return PS_OK;
    if (key == NULL || strcmp(key, PS_HEADER_SESSIONS) != 0)
        return corrupt(pass->error, "the sessions are missing or out of order");
    const char *label = ps_json_string(ps_json_member(tensor, "dtype"));
    if (label == NULL || strcmp(label, PS_HEADER_SESSIONS_LABEL) != 0)
        return corrupt(pass->error, "the sessions have another element type");
    header->sessions_offset = pass->offset;
    PS_TRY(read_count(pass, tensor, 1, &header->sessions_bytes));
    PS_TRY(read_offsets(pass, tensor, header->sessions_bytes));
    pass->tensor = ps_json_next(tensor);
    return PS_OK;
}

static enum ps_status read_tensors(struct pass *pass, struct ps_header_parameter *parameter)
{
    parameter->offset = pass->offset;
    for (int32_t state = -1; state < (int32_t)parameter->about.state_count; state++)
        PS_TRY(read_tensor(pass, parameter, state));
    return PS_OK;
}

/* The next tensor of the header must be exactly this array. */
static enum ps_status read_tensor(struct pass *pass, struct ps_header_parameter *parameter,
                                  int32_t state)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    const struct ps_json *tensor = pass->tensor;
    char name[PS_HEADER_TENSOR_NAME_BYTES];
    (void)ps_header_tensor_name(about->name, state, name);
    const char *key = ps_json_key(tensor);
    if (key == NULL || strcmp(key, name) != 0)
        return corrupt(pass->error, "a tensor is missing or out of order");
    enum ps_dtype dtype = PS_F32;
    uint64_t count = 0;
    PS_TRY(read_shape(pass, tensor, &dtype, &count));
    if (state >= 0 && (dtype != about->dtype || count != about->count))
        return corrupt(pass->error, "optimizer state has another shape than its parameter");
    about->dtype = dtype;
    about->count = count;
    parameter->array_bytes = count * ps_dtype_size(dtype);
    PS_TRY(read_offsets(pass, tensor, parameter->array_bytes));
    pass->tensor = ps_json_next(tensor);
    return PS_OK;
}

static enum ps_status read_shape(struct pass *pass, const struct ps_json *tensor,
                                 enum ps_dtype *dtype, uint64_t *count)
{
    const char *label = ps_json_string(ps_json_member(tensor, "dtype"));
    if (label == NULL || !ps_dtype_from_label(label, dtype))
        return corrupt(pass->error, "a tensor has an unknown element type");
    return read_count(pass, tensor, ps_dtype_size(*dtype), count);
}

static enum ps_status read_count(struct pass *pass, const struct ps_json *tensor, size_t width,
                                 uint64_t *count)
{
    const struct ps_json *shape = ps_json_member(tensor, "shape");
    if (!ps_json_is_array(shape) || ps_json_count(shape) != 1 ||
        !ps_json_uint_of(ps_json_first(shape), count))
        return corrupt(pass->error, "a tensor's shape is not one length");
    if (*count > (pass->file_bytes - pass->offset) / width)
        return corrupt(pass->error, "a tensor reaches beyond the end of the file");
    return PS_OK;
}

static enum ps_status read_offsets(struct pass *pass, const struct ps_json *tensor, uint64_t bytes)
{
    const struct ps_json *offsets = ps_json_member(tensor, "data_offsets");
    const struct ps_json *first = ps_json_first(offsets);
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!ps_json_is_array(offsets) || ps_json_count(offsets) != 2 ||
        !ps_json_uint_of(first, &begin) || !ps_json_uint_of(ps_json_next(first), &end))
        return corrupt(pass->error, "a tensor's offsets are malformed");
    /* Offsets count from the end of the head; without gaps there can be no overlap. */
    uint64_t data_start = pass->texts_size;
    if (begin != pass->offset - data_start || end < begin || end - begin != bytes)
        return corrupt(pass->error, "a tensor overlaps another, leaves a gap or has a wrong size");
    pass->offset += bytes;
    return PS_OK;
}

/* Parameters stand in their order, so that no name can be there twice: not within the wide ones,
 * not within the narrow ones, and not in both. */
static enum ps_status check_order(const struct ps_header *header, struct ps_error *error)
{
    size_t wide = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct ps_checkpoint_parameter *about = &header->parameters[i].about;
        wide += ps_dtype_size(about->dtype) == 8;
        if (i == 0)
            continue;
        const struct ps_checkpoint_parameter *before = &header->parameters[i - 1].about;
        if (ps_header_order(before->dtype, before->name, about->dtype, about->name) >= 0)
            return corrupt(error, "parameters are out of order");
    }
    size_t narrow = wide;
    for (size_t i = 0; i < wide && narrow < header->count;) {
        int order = ps_bytes_compare(header->parameters[i].about.name,
                                     header->parameters[narrow].about.name);
        if (order == 0)
            return corrupt(error, "a parameter is there twice");
        i += order < 0;
        narrow += order > 0;
    }
    return PS_OK;
}

/* The text under `key`, when it is there exactly once. */
static const char *metadata_text(const struct ps_json *metadata, const char *key)
{
    const struct ps_json *found = NULL;
    const struct ps_json *member = ps_json_first(metadata);
    for (; member != NULL; member = ps_json_next(member)) {
        const char *name = ps_json_key(member);
        if (name == NULL || strcmp(name, key) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = member;
    }
    return ps_json_string(found);
}

static bool metadata_number(const struct ps_json *metadata, const char *key, uint64_t *number)
{
    const char *text = metadata_text(metadata, key);
    if (text == NULL)
        return false;
    return ps_json_uint_of(ps_json_member(metadata, key), number);
}

/* Eight lower-case hexadecimal digits. */
static bool checksum_of(const char *text, uint32_t *checksum)
{
    static const char digits[] = "0123456789abcdef";
    if (text == NULL || strlen(text) != PS_HEADER_CHECKSUM_DIGITS)
        return false;
    uint32_t value = 0;
    for (size_t i = 0; i < PS_HEADER_CHECKSUM_DIGITS; i++) {
        const char *digit = strchr(digits, text[i]);
        if (digit == NULL)
            return false;
        value = value << 4 | (uint32_t)(digit - digits);
    }
    *checksum = value;
    return true;
}

/* Copies a text behind the ones before it. Decoded texts are never longer than the header that
 * they were read from, quotes included, so there is always room. */
static char *keep_text(struct pass *pass, const char *text, size_t size)
{
    PS_ASSERT(size < pass->texts_size - pass->texts_used);
    char *kept = pass->header->texts + pass->texts_used;
    memcpy(kept, text, size);
    kept[size] = '\0';
    pass->texts_used += size + 1;
    return kept;
}

static enum ps_status corrupt(struct ps_error *error, const char *reason)
{
    return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s", reason);
}
