/* Writes one checkpoint file.
 *
 * Two passes over the arrays: the header, which stands first, carries every array's checksum, so
 * these are computed before anything is written. The second pass writes, and computes them again:
 * an array that changed in between is never saved. */
#include "checkpoint/checkpoint.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Small pieces are gathered into writes of this size; larger ones go out directly, in parts of
 * this size, so that each part is still in the cache when it is written. */
#define OUTPUT_BYTES ((size_t)1 << 20)
#define DIRECT_BYTES (OUTPUT_BYTES / 4)

/* The file being written. */
struct output {
    const struct ps_files *files; /* borrowed */
    struct ps_file file;
    uint8_t *gathered; /* OUTPUT_BYTES, owned by the caller */
    size_t gathered_size;
    uint32_t crc32; /* of everything given to it so far */
    uint64_t bytes;
};

/* Everything about one file, so that helpers take one argument. */
struct job {
    const struct ps_files *files;
    const struct ps_allocator *memory;
    const struct ps_checkpoint_facts *facts;
    struct ps_header_slot *slots; /* owned, sorted */
    size_t slot_count;
    struct ps_buffer head; /* owned */
    uint8_t *gathered;     /* owned */
    char temporary[sizeof((struct ps_checkpoint_place *)NULL)->path];
};

static enum ps_status check_parameters(const struct ps_checkpoint_facts *facts,
                                       const struct ps_checkpoint_parameter *parameters,
                                       size_t count, struct ps_error *error);
static enum ps_status check_name(struct ps_bytes name, struct ps_error *error);
static enum ps_status make_paths(struct job *job, const char *folder,
                                 struct ps_checkpoint_place *place, struct ps_error *error);
static enum ps_status prepare(struct job *job, const struct ps_checkpoint_parameter *parameters,
                              size_t count, struct ps_error *error);
static enum ps_status sort_slots(struct job *job, const struct ps_checkpoint_parameter *parameters,
                                 size_t count, struct ps_error *error);
static void sum_slot(struct ps_header_slot *slot);
static enum ps_status save(struct job *job, const char *folder, struct ps_checkpoint_place *place,
                           struct ps_error *error);
static enum ps_status write_file(struct job *job, struct ps_file file,
                                 struct ps_checkpoint_place *place, struct ps_error *error);
static enum ps_status write_slot(struct output *output, const struct ps_header_slot *slot,
                                 struct ps_error *error);
static enum ps_status output_view(struct output *output, struct ps_view view, uint32_t *crc32c,
                                  struct ps_error *error);
static enum ps_status output_bytes(struct output *output, struct ps_bytes bytes,
                                   struct ps_error *error);
static enum ps_status output_flush(struct output *output, struct ps_error *error);

enum ps_status ps_checkpoint_write(const struct ps_files *files, const char *folder,
                                   const struct ps_checkpoint_facts *facts,
                                   const struct ps_checkpoint_parameter *parameters,
                                   size_t parameter_count, const struct ps_allocator *memory,
                                   struct ps_checkpoint_place *place, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && facts != NULL && memory != NULL && place != NULL);
    PS_ASSERT(parameters != NULL || parameter_count == 0);
    PS_TRY(check_parameters(facts, parameters, parameter_count, error));
    struct ps_checkpoint_place result = {
        .position = facts->position, .epoch = facts->epoch, .unix_ns = facts->unix_ns};
    memcpy(result.uuid, facts->uuid, sizeof result.uuid);
    struct job job = {.files = files, .memory = memory, .facts = facts};
    PS_TRY(make_paths(&job, folder, &result, error));

    enum ps_status status = prepare(&job, parameters, parameter_count, error);
    if (status == PS_OK)
        status = save(&job, folder, &result, error);
    if (status == PS_OK)
        *place = result;
    ps_release(memory, job.gathered);
    ps_release(memory, job.slots);
    ps_buffer_fini(&job.head);
    return status;
}

static enum ps_status check_parameters(const struct ps_checkpoint_facts *facts,
                                       const struct ps_checkpoint_parameter *parameters,
                                       size_t count, struct ps_error *error)
{
    PS_ASSERT(memchr(facts->uuid, '\0', sizeof facts->uuid) != NULL);
    PS_ASSERT(ps_checkpoint_uuid_valid(facts->uuid));
    if (!ps_utf8_valid(ps_bytes_of_text(facts->job)))
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: the job's name is not UTF-8");
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *parameter = &parameters[i];
        uint64_t width = ps_dtype_size(parameter->dtype);
        PS_ASSERT(parameter->state_count <= PS_STATES_MAX);
        PS_ASSERT(parameter->values.size / width == parameter->count);
        PS_ASSERT(parameter->values.size % width == 0);
        for (uint32_t state = 0; state < parameter->state_count; state++)
            PS_ASSERT(parameter->states[state].size == parameter->values.size);
        PS_TRY(check_name(parameter->name, error));
        if (parameter->config.size > PS_CONFIG_BYTES_MAX)
            return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: a configuration of %zu bytes",
                           parameter->config.size);
    }
    return PS_OK;
}

/* What a safetensors file could not hold under this name. */
static enum ps_status check_name(struct ps_bytes name, struct ps_error *error)
{
    if (name.size == 0 || name.size > PS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: a parameter's name has %zu bytes",
                       name.size);
    if (memchr(name.data, '\0', name.size) != NULL || !ps_utf8_valid(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: a parameter's name is not UTF-8 text");
    if (ps_header_name_reserved(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: the parameter name %.*s is reserved",
                       (int)name.size, (const char *)name.data);
    return PS_OK;
}

static enum ps_status make_paths(struct job *job, const char *folder,
                                 struct ps_checkpoint_place *place, struct ps_error *error)
{
    const struct ps_checkpoint_facts *facts = job->facts;
    char name[PS_CHECKPOINT_NAME_BYTES];
    ps_checkpoint_name_write(facts->epoch, facts->position, facts->uuid, PS_CHECKPOINT_SUFFIX,
                             name);
    int length = snprintf(place->path, sizeof place->path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length + sizeof ".tmp" > sizeof job->temporary)
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: the folder's path is too long");
    ps_checkpoint_name_write(facts->epoch, facts->position, facts->uuid,
                             PS_CHECKPOINT_TEMPORARY_SUFFIX, name);
    (void)snprintf(job->temporary, sizeof job->temporary, "%s/%s", folder, name);
    return PS_OK;
}

/* All that can be refused before the disk is touched. */
static enum ps_status prepare(struct job *job, const struct ps_checkpoint_parameter *parameters,
                              size_t count, struct ps_error *error)
{
    ps_buffer_init(&job->head, job->memory, PS_HEADER_LENGTH_BYTES + PS_HEADER_BYTES_MAX);
    job->gathered = ps_plain(job->memory, OUTPUT_BYTES);
    if (job->gathered == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for writing");
    PS_TRY(sort_slots(job, parameters, count, error));
    for (size_t i = 0; i < count; i++)
        sum_slot(&job->slots[i]);
    return ps_header_write(job->facts, job->slots, count, job->memory, &job->head, error);
}

static int compare_slots(const void *a, const void *b)
{
    const struct ps_checkpoint_parameter *first = ((const struct ps_header_slot *)a)->parameter;
    const struct ps_checkpoint_parameter *second = ((const struct ps_header_slot *)b)->parameter;
    return ps_header_order(first->dtype, first->name, second->dtype, second->name);
}

static enum ps_status sort_slots(struct job *job, const struct ps_checkpoint_parameter *parameters,
                                 size_t count, struct ps_error *error)
{
    job->slots = ps_zeroed_array(job->memory, count, sizeof *job->slots);
    if (job->slots == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu parameters", count);
    job->slot_count = count;
    for (size_t i = 0; i < count; i++)
        job->slots[i].parameter = &parameters[i];
    if (count > 0)
        qsort(job->slots, count, sizeof *job->slots, compare_slots);
    /* Names are the keys of the service's table; the same one twice is a bug there. Equal names
     * of different width are found by the reader's own check of every file. */
    for (size_t i = 1; i < count; i++)
        PS_ASSERT(compare_slots(&job->slots[i - 1], &job->slots[i]) < 0);
    return PS_OK;
}

static void sum_slot(struct ps_header_slot *slot)
{
    const struct ps_checkpoint_parameter *parameter = slot->parameter;
    for (uint32_t array = 0; array <= parameter->state_count; array++) {
        struct ps_view view = array == 0 ? parameter->values : parameter->states[array - 1];
        struct ps_view_cursor cursor = {.view = view};
        struct ps_bytes run = ps_view_next(&cursor, OUTPUT_BYTES);
        for (; run.size > 0; run = ps_view_next(&cursor, OUTPUT_BYTES))
            slot->crc32c[array] = ps_checksum_crc32c(slot->crc32c[array], run);
    }
}

/* Write, sync, rename, sync the folder; whatever fails, the file is given up: after a failed sync
 * the kernel may have dropped what it could not write, and a second sync would not say so. */
static enum ps_status save(struct job *job, const char *folder, struct ps_checkpoint_place *place,
                           struct ps_error *error)
{
    const struct ps_files *files = job->files;
    struct ps_file file;
    PS_TRY(files->make_folder(files->self, folder, error));
    PS_TRY(files->open(files->self, job->temporary, PS_FILE_CREATE_NEW, &file, error));
    enum ps_status status = write_file(job, file, place, error);
    if (status == PS_OK)
        status = files->sync(files->self, file, error);
    files->close(files->self, file);
    if (status == PS_OK)
        status = files->rename(files->self, job->temporary, place->path, error);
    if (status != PS_OK) {
        (void)files->remove(files->self, job->temporary, NULL);
        return status;
    }
    status = files->sync_folder(files->self, folder, error);
    if (status != PS_OK)
        (void)files->remove(files->self, place->path, NULL);
    return status;
}

static enum ps_status write_file(struct job *job, struct ps_file file,
                                 struct ps_checkpoint_place *place, struct ps_error *error)
{
    struct output output = {.files = job->files, .file = file, .gathered = job->gathered};
    struct ps_bytes head = {(const uint8_t *)job->head.text, job->head.size};
    PS_TRY(output_bytes(&output, head, error));
    for (size_t i = 0; i < job->slot_count; i++)
        PS_TRY(write_slot(&output, &job->slots[i], error));
    PS_TRY(output_bytes(&output, job->facts->sessions, error));
    PS_TRY(output_flush(&output, error));
    place->crc32 = output.crc32;
    place->bytes = output.bytes;
    return PS_OK;
}

static enum ps_status write_slot(struct output *output, const struct ps_header_slot *slot,
                                 struct ps_error *error)
{
    const struct ps_checkpoint_parameter *parameter = slot->parameter;
    for (uint32_t array = 0; array <= parameter->state_count; array++) {
        struct ps_view view = array == 0 ? parameter->values : parameter->states[array - 1];
        uint32_t crc32c = 0;
        PS_TRY(output_view(output, view, &crc32c, error));
        if (crc32c != slot->crc32c[array])
            return ps_fail(error, PS_ERR_INTERNAL, "checkpoint: %.*s changed while it was written",
                           (int)parameter->name.size, (const char *)parameter->name.data);
    }
    return PS_OK;
}

static enum ps_status output_view(struct output *output, struct ps_view view, uint32_t *crc32c,
                                  struct ps_error *error)
{
    struct ps_view_cursor cursor = {.view = view};
    struct ps_bytes run = ps_view_next(&cursor, OUTPUT_BYTES);
    for (; run.size > 0; run = ps_view_next(&cursor, OUTPUT_BYTES)) {
        *crc32c = ps_checksum_crc32c(*crc32c, run);
        PS_TRY(output_bytes(output, run, error));
    }
    return PS_OK;
}

static enum ps_status output_bytes(struct output *output, struct ps_bytes bytes,
                                   struct ps_error *error)
{
    output->crc32 = ps_checksum_crc32(output->crc32, bytes);
    output->bytes += bytes.size;
    if (bytes.size >= DIRECT_BYTES) {
        PS_TRY(output_flush(output, error));
        return output->files->write(output->files->self, output->file, bytes, error);
    }
    if (bytes.size > OUTPUT_BYTES - output->gathered_size)
        PS_TRY(output_flush(output, error));
    if (bytes.size > 0)
        memcpy(output->gathered + output->gathered_size, bytes.data, bytes.size);
    output->gathered_size += bytes.size;
    return PS_OK;
}

static enum ps_status output_flush(struct output *output, struct ps_error *error)
{
    if (output->gathered_size == 0)
        return PS_OK;
    struct ps_bytes gathered = {output->gathered, output->gathered_size};
    output->gathered_size = 0;
    return output->files->write(output->files->self, output->file, gathered, error);
}
