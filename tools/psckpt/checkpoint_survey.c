/* SPDX-License-Identifier: Apache-2.0 */
/* Every damaged array is listed, not only the first: people decide by it what can be saved. A
 * recovery stops at the first bad byte, because then it knows enough; this reader goes on to the
 * end. The file is read front to back in parts of 1 MiB, which keeps both the memory small and the
 * disk busy with long reads. */
#include "tools/psckpt/checkpoint_survey.h"

#include "checkpoint/checksum.h"

#include <string.h>

/* Large enough that a seek costs nothing beside the reading, small enough to stay in a core's cache
 * while it is summed. */
#define PART_BYTES ((size_t)1 << 20)

/* The file while it is read. The part is taken once and used for header and arrays alike. */
struct reading {
    const struct toolbox *box;
    struct ps_file file;
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
static enum ps_status survey_sections(struct checkpoint_survey *survey, struct reading *reading,
                                      struct ps_error *error);
static enum ps_status survey_sessions(struct checkpoint_survey *survey, struct reading *reading,
                                      struct ps_error *error);
static enum ps_status judge(struct checkpoint_survey *survey, struct reading *reading,
                            struct ps_bytes tensor, uint64_t begin, uint64_t end, uint32_t crc32c,
                            struct ps_error *error);
static enum ps_status sum_range(struct reading *reading, uint64_t begin, uint64_t end,
                                uint32_t *crc32c, struct ps_error *error);
static void note(struct checkpoint_survey *survey, struct ps_bytes tensor, uint64_t begin,
                 uint64_t end);

/* PS_OK means that the file was read, not that it is good: whoever asks "is it whole?" looks at
 * damage_count. The distinction lets a caller treat a bad disk and a bad file differently. */
enum ps_status checkpoint_survey_init(struct checkpoint_survey *survey, const struct toolbox *box,
                                      const char *path, bool arrays, struct ps_error *error)
{
    const struct ps_files *files = box->files;
    struct reading reading = {.box = box};
    *survey = (struct checkpoint_survey){0};
    PS_TRY(files->open(files->self, path, PS_FILE_READ, &reading.file, error));
    enum ps_status status = survey_file(survey, &reading, path, arrays, error);
    progress_end(box->progress);
    ps_release(box->memory, reading.part);
    files->close(files->self, reading.file);
    if (status != PS_OK)
        checkpoint_survey_fini(survey);
    return status;
}

/* A survey without a header owns nothing. */
void checkpoint_survey_fini(struct checkpoint_survey *survey)
{
    if (survey->has_header)
        ps_header_fini(&survey->header);
    survey->has_header = false;
}

/* The size is asked once, at the beginning. A file that a server is still writing has another name
 * (.tmp), so a size that changes meanwhile is damage. */
static enum ps_status survey_file(struct checkpoint_survey *survey, struct reading *reading,
                                  const char *path, bool arrays, struct ps_error *error)
{
    const struct ps_files *files = reading->box->files;
    PS_TRY(files->size(files->self, reading->file, &survey->bytes, error));
    reading->part = ps_plain(reading->box->memory, PART_BYTES);
    if (reading->part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read %s", path);
    PS_TRY(survey_header(survey, reading, error));
    if (!arrays || !survey->has_header)
        return PS_OK;
    progress_begin(reading->box->progress, path, survey->bytes);
    return survey_arrays(survey, reading, error);
}

/* A damaged header is a finding; what the disk or the memory refuses is a failure. Nothing in the
 * header can be believed before its own checksum fits, so a damaged header is one finding over its
 * whole length and the arrays are not looked at: their places are unknown. After a damaged header
 * the caller still gets PS_OK, the size of the file, and the reason in `why`. */
static enum ps_status survey_header(struct checkpoint_survey *survey, struct reading *reading,
                                    struct ps_error *error)
{
    const struct ps_files *files = reading->box->files;
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
    /* A header that claims to be longer than the file is noted up to the file's end. */
    if (status == PS_ERR_CORRUPT)
        note(survey, (struct ps_bytes){NULL, 0}, 0, end < survey->bytes ? end : survey->bytes);
    else if (status != PS_OK)
        return ps_fail(error, status, "%s", survey->why.text);
    return PS_OK;
}

/* The header may be larger than a part, so it gets memory of its own. Its length was checked
 * against the file before, so a flipped bit in the length cannot ask for gigabytes. */
static enum ps_status parse_head(struct checkpoint_survey *survey, struct reading *reading,
                                 size_t size, struct ps_error *error)
{
    const struct ps_files *files = reading->box->files;
    uint8_t *head = ps_plain(reading->box->memory, size);
    if (head == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a header of %zu bytes", size);
    size_t got = 0;
    enum ps_status status = files->read(files->self, reading->file, 0, head, size, &got, error);
    if (status == PS_OK && got < size)
        status = ps_fail(error, PS_ERR_CORRUPT, "the file has become shorter");
    if (status == PS_OK)
        status = ps_header_init(&survey->header, (struct ps_bytes){head, size}, survey->bytes,
                                reading->box->memory, error);
    survey->has_header = status == PS_OK;
    /* The reason stays: it is damage. But which arrays are lost only their places say. */
    if (status == PS_ERR_CORRUPT && got == size)
        survey->has_header = ps_header_init_cut(&survey->header, (struct ps_bytes){head, size},
                                                reading->box->memory, NULL) == PS_OK;
    ps_release(reading->box->memory, head);
    return status;
}

/* Each array has a checksum of its own, so that damage is named by tensor: of a table, its keys and
 * its clock count as well as its values, and the keys that went since its base. What the file
 * leaves to a base is not in it, and its base's own survey finds damage there. Every array is read,
 * also after damage was found: the list is the point. */
static enum ps_status survey_arrays(struct checkpoint_survey *survey, struct reading *reading,
                                    struct ps_error *error)
{
    for (size_t i = 0; i < survey->header.count; i++) {
        const struct ps_header_parameter *parameter = &survey->header.parameters[i];
        for (uint32_t array = 0; array < ps_array_carried(&parameter->about); array++) {
            uint64_t begin = parameter->offset[array];
            char name[PS_ARRAY_NAME_BYTES];
            PS_TRY(judge(survey, reading, ps_array_name(&parameter->about, array, name), begin,
                         begin + ps_array_bytes(&parameter->about, array), parameter->crc32c[array],
                         error));
        }
    }
    return survey_sessions(survey, reading, error);
}

/* The table of clients has its own checksum, because losing it
 * means other things than losing values: repeats can no longer be told from new requests. */
static enum ps_status survey_sessions(struct checkpoint_survey *survey, struct reading *reading,
                                      struct ps_error *error)
{
    const struct ps_header *header = &survey->header;
    if (!header->has_sessions)
        return survey_sections(survey, reading, error);
    PS_TRY(judge(survey, reading, ps_bytes_of_text(PS_HEADER_SESSIONS), header->sessions_offset,
                 header->sessions_offset + header->sessions_bytes, header->sessions_crc32c, error));
    return survey_sections(survey, reading, error);
}

/* By their own checksums, under the names that the file gives them. Losing one means that workers
 * have to contribute, or clocks to be set, again: an operator wants to know of it apart from the
 * values. */
static enum ps_status survey_sections(struct checkpoint_survey *survey, struct reading *reading,
                                      struct ps_error *error)
{
    /* A file of before there were sections has none, and nothing is read for them. */
    static const char *names[PS_CHECKPOINT_SECTION_COUNT] = {PS_HEADER_ROUNDS, PS_HEADER_CLOCKS,
                                                             PS_HEADER_CANDIDATES};
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++) {
        const struct ps_header_range *range = &survey->header.sections[i];
        if (range->bytes > 0)
            PS_TRY(judge(survey, reading, ps_bytes_of_text(names[i]), range->offset,
                         range->offset + range->bytes, range->crc32c, error));
    }
    return PS_OK;
}

/* What a file that was cut off does not have any more is not read: it may be much. Its place is
 * told all the same, so that its length says how far a copy would have had to go on. */
static enum ps_status judge(struct checkpoint_survey *survey, struct reading *reading,
                            struct ps_bytes tensor, uint64_t begin, uint64_t end, uint32_t crc32c,
                            struct ps_error *error)
{
    bool is_there = end <= survey->bytes;
    uint32_t found = 0;
    if (is_there)
        PS_TRY(sum_range(reading, begin, end, &found, error));
    if (!is_there || found != crc32c)
        note(survey, tensor, begin, end);
    return PS_OK;
}

/* `begin` and `end` come from a
 * header whose checksum fits, and were checked against the file's size. */
static enum ps_status sum_range(struct reading *reading, uint64_t begin, uint64_t end,
                                uint32_t *crc32c, struct ps_error *error)
{
    const struct ps_files *files = reading->box->files;
    while (begin < end) {
        size_t size = end - begin < PART_BYTES ? (size_t)(end - begin) : PART_BYTES;
        size_t got = 0;
        PS_TRY(files->read(files->self, reading->file, begin, reading->part, size, &got, error));
        *crc32c = ps_checksum_crc32c(*crc32c, (struct ps_bytes){reading->part, got});
        progress_add(reading->box->progress, size);
        begin += size;
    }
    return PS_OK;
}

/* Beyond the room the places are only counted, so the verdict stays right. The name was written
 * into the caller's buffer and is copied; NUL is there from the zeroed row. */
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
