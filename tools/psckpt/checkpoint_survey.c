/* Every damaged array is listed, not only the first: people decide by it what can be saved. */
#include "tools/psckpt/checkpoint_survey.h"

#include "checkpoint/checksum.h"

#include <string.h>

#define PART_BYTES ((size_t)1 << 20)

/* The file while it is read. */
struct reading {
    const struct ps_files *files;
    struct ps_file file;
    const struct ps_allocator *memory;
    struct progress *progress;
    uint8_t *part; /* owned */
};

static enum ps_status survey_file(struct checkpoint_survey *survey, struct reading *reading,
                                  const char *path, bool arrays, struct ps_error *error);
static enum ps_status survey_header(struct checkpoint_survey *survey, struct reading *reading,
                                    struct ps_error *error);
static enum ps_status parse_head(struct checkpoint_survey *survey, struct reading *reading,
                                 size_t size, struct ps_error *error);
static enum ps_status survey_arrays(struct checkpoint_survey *survey, struct reading *reading,
                                    struct ps_error *error);
static enum ps_status survey_sessions(struct checkpoint_survey *survey, struct reading *reading,
                                      struct ps_error *error);
static enum ps_status sum_range(struct reading *reading, uint64_t begin, uint64_t end,
                                uint32_t *crc32c, struct ps_error *error);
static void note(struct checkpoint_survey *survey, struct ps_bytes tensor, uint64_t begin,
                 uint64_t end);

enum ps_status checkpoint_survey_init(struct checkpoint_survey *survey,
                                      const struct ps_files *files, const char *path, bool arrays,
                                      struct progress *progress, const struct ps_allocator *memory,
                                      struct ps_error *error)
{
    *survey = (struct checkpoint_survey){0};
    struct reading reading = {.files = files, .memory = memory, .progress = progress};
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &reading.file, error));
    enum ps_status status = survey_file(survey, &reading, path, arrays, error);
    progress_end(progress);
    ps_release(memory, reading.part);
    files->close(files->self, reading.file);
    if (status != PS_OK)
        checkpoint_survey_fini(survey);
    return status;
}

void checkpoint_survey_fini(struct checkpoint_survey *survey)
{
    if (survey->has_header)
        ps_header_fini(&survey->header);
    survey->has_header = false;
}

static enum ps_status survey_file(struct checkpoint_survey *survey, struct reading *reading,
                                  const char *path, bool arrays, struct ps_error *error)
{
    PS_TRY(reading->files->size(reading->files->self, reading->file, &survey->bytes, error));
    reading->part = ps_plain(reading->memory, PART_BYTES);
    if (reading->part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read %s", path);
    PS_TRY(survey_header(survey, reading, error));
    if (!arrays || !survey->has_header)
        return PS_OK;
    progress_begin(reading->progress, path, survey->bytes);
    return survey_arrays(survey, reading, error);
}

/* A damaged header is a finding; what the disk or the memory refuses is a failure. */
static enum ps_status survey_header(struct checkpoint_survey *survey, struct reading *reading,
                                    struct ps_error *error)
{
    const struct ps_files *files = reading->files;
    size_t got = 0;
    size_t length = 0;
    PS_TRY(files->read(files->self, reading->file, 0, reading->part, PS_HEADER_LENGTH_BYTES, &got,
                       error));
    enum ps_status status = ps_header_length((struct ps_bytes){reading->part, got}, survey->bytes,
                                             &length, &survey->why);
    uint64_t end = PS_HEADER_LENGTH_BYTES;
    if (status == PS_OK) {
        end += length;
        status = parse_head(survey, reading, (size_t)end, &survey->why);
    }
    if (status == PS_OK)
        survey->has_header = true;
    else if (status == PS_ERR_CORRUPT)
        note(survey, (struct ps_bytes){NULL, 0}, 0, end < survey->bytes ? end : survey->bytes);
    else
        return ps_fail(error, status, "%s", survey->why.text);
    return PS_OK;
}

static enum ps_status parse_head(struct checkpoint_survey *survey, struct reading *reading,
                                 size_t size, struct ps_error *error)
{
    uint8_t *head = ps_plain(reading->memory, size);
    if (head == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a header of %zu bytes", size);
    size_t got = 0;
    enum ps_status status =
        reading->files->read(reading->files->self, reading->file, 0, head, size, &got, error);
    if (status == PS_OK && got < size)
        status = ps_fail(error, PS_ERR_CORRUPT, "the file has become shorter");
    if (status == PS_OK)
        status = ps_header_init(&survey->header, (struct ps_bytes){head, size}, survey->bytes,
                                reading->memory, error);
    ps_release(reading->memory, head);
    return status;
}

static enum ps_status survey_arrays(struct checkpoint_survey *survey, struct reading *reading,
                                    struct ps_error *error)
{
    for (size_t i = 0; i < survey->header.count; i++) {
        const struct ps_header_parameter *parameter = &survey->header.parameters[i];
        for (int32_t state = -1; state < (int32_t)parameter->about.state_count; state++) {
            uint64_t begin = parameter->offset + (uint64_t)(state + 1) * parameter->array_bytes;
            uint64_t end = begin + parameter->array_bytes;
            uint32_t crc32c = 0;
            PS_TRY(sum_range(reading, begin, end, &crc32c, error));
            char name[PS_HEADER_TENSOR_NAME_BYTES];
            if (crc32c != parameter->crc32c[state + 1])
                note(survey, ps_header_tensor_name(parameter->about.name, state, name), begin, end);
        }
    }
    return survey_sessions(survey, reading, error);
}

static enum ps_status survey_sessions(struct checkpoint_survey *survey, struct reading *reading,
                                      struct ps_error *error)
{
    const struct ps_header *header = &survey->header;
    if (!header->has_sessions)
        return PS_OK;
    uint64_t end = header->sessions_offset + header->sessions_bytes;
    uint32_t crc32c = 0;
    PS_TRY(sum_range(reading, header->sessions_offset, end, &crc32c, error));
    if (crc32c != header->sessions_crc32c)
        note(survey, ps_bytes_of_text(PS_HEADER_SESSIONS), header->sessions_offset, end);
    return PS_OK;
}

static enum ps_status sum_range(struct reading *reading, uint64_t begin, uint64_t end,
                                uint32_t *crc32c, struct ps_error *error)
{
    while (begin < end) {
        size_t size = end - begin < PART_BYTES ? (size_t)(end - begin) : PART_BYTES;
        size_t got = 0;
        PS_TRY(reading->files->read(reading->files->self, reading->file, begin, reading->part, size,
                                    &got, error));
        *crc32c = ps_checksum_crc32c(*crc32c, (struct ps_bytes){reading->part, got});
        progress_add(reading->progress, size);
        begin += size;
    }
    return PS_OK;
}

static void note(struct checkpoint_survey *survey, struct ps_bytes tensor, uint64_t begin,
                 uint64_t end)
{
    size_t i = survey->damage_count++;
    if (i >= CHECKPOINT_DAMAGES_MAX)
        return;
    survey->damages[i].begin = begin;
    survey->damages[i].end = end;
    if (tensor.size > 0)
        memcpy(survey->damages[i].tensor, tensor.data, tensor.size);
}
