/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one checkpoint file.
 *
 * One pass over the arrays, and over the rows of a table (rows_output.h), past the system's cache:
 * they are copied piece by piece into a buffer and summed there while they are in the processor's
 * cache, while the buffer before is written (block_output.h). The header, which stands first,
 * carries their checksums: its place is left empty and filled in the end, so a file that never got
 * so far is not a checkpoint. */
#include "checkpoint/checkpoint.h"

#include "base/assert.h"
#include "checkpoint/block_output.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/checkpoint_spare.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_writer.h"
#include "checkpoint/parameter_check.h"
#include "checkpoint/rows_output.h"
#include "checkpoint/section.h"
#include "checkpoint/summed_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The watcher is told in steps of this, and may rest behind each: a server that has pushes to
 * answer gives them two thirds of the time (server/save_task.c). */
#define PIECE_BYTES ((size_t)1 << 20)

/* Everything about one file, so that helpers take one argument. */
struct job {
    const struct ps_files *files;
    const struct ps_allocator *memory;
    const struct ps_checkpoint_facts *facts;
    struct ps_header_slot *slots; /* owned, sorted */
    size_t slot_count;
    struct ps_header_section sections[PS_CHECKPOINT_SECTION_COUNT];
    struct ps_buffer head; /* owned */
    struct ps_block_output blocks;
    struct ps_summed_output output;
    struct ps_file_edges edges; /* of `blocks`, where there are large tables */
    struct ps_rows_place *wide; /* owned; by slot; NULL where there is no large table */
    bool over;                  /* the file was another checkpoint */
    const struct ps_checkpoint_setup *setup;          /* borrowed */
    const struct ps_checkpoint_parameter *parameters; /* borrowed */
    char temporary[sizeof((struct ps_checkpoint_place *)NULL)->path];
};

static enum ps_status make_paths(struct job *job, const char *folder,
                                 struct ps_checkpoint_place *place, struct ps_error *error);
static enum ps_status prepare(struct job *job, const struct ps_checkpoint_parameter *parameters,
                              size_t count, struct ps_error *error);
static enum ps_status sort_slots(struct job *job, const struct ps_checkpoint_parameter *parameters,
                                 size_t count, struct ps_error *error);
static enum ps_status prepare_large(struct job *job, struct ps_error *error);
static enum ps_status make_head(struct job *job, struct ps_error *error);
static enum ps_status save(struct job *job, const char *folder, struct ps_checkpoint_place *place,
                           struct ps_error *error);
static enum ps_status open_file(struct job *job, const char *folder, struct ps_file *file,
                                struct ps_error *error);
static enum ps_status write_file(struct job *job, struct ps_checkpoint_place *place,
                                 struct ps_error *error);
static enum ps_status cut_file(const struct job *job, uint64_t bytes, struct ps_error *error);
static enum ps_status write_empty_head(struct job *job, struct ps_error *error);
static enum ps_status write_head(struct job *job, struct ps_checkpoint_place *place,
                                 struct ps_error *error);
static enum ps_status write_slots(struct job *job, bool wide, struct ps_error *error);
static enum ps_status write_large(struct job *job, size_t slot, bool wide, struct ps_error *error);
static enum ps_status write_array(struct job *job, struct ps_header_slot *slot, uint32_t array,
                                  struct ps_error *error);
static enum ps_status write_from_source(struct job *job, struct ps_header_slot *slot,
                                        uint32_t array, struct ps_error *error);
static enum ps_status write_section(struct job *job, enum ps_checkpoint_section section,
                                    struct ps_error *error);
static enum ps_status write_record(struct job *job, enum ps_checkpoint_section section, size_t i,
                                   struct ps_error *error);

enum ps_status ps_checkpoint_write(const struct ps_files *files, const char *folder,
                                   const struct ps_checkpoint_facts *facts,
                                   const struct ps_checkpoint_parameter *parameters,
                                   size_t parameter_count, const struct ps_allocator *memory,
                                   struct ps_checkpoint_place *place, struct ps_error *error)
{
    const struct ps_checkpoint_setup setup = {0};
    return ps_checkpoint_write_as(files, folder, facts, parameters, parameter_count, &setup, memory,
                                  place, error);
}

/* All memory is taken before the file is made, and given back at one place, whatever has failed. */
enum ps_status ps_checkpoint_write_as(const struct ps_files *files, const char *folder,
                                      const struct ps_checkpoint_facts *facts,
                                      const struct ps_checkpoint_parameter *parameters,
                                      size_t parameter_count,
                                      const struct ps_checkpoint_setup *setup,
                                      const struct ps_allocator *memory,
                                      struct ps_checkpoint_place *place, struct ps_error *error)
{
    PS_ASSERT(files != NULL && folder != NULL && facts != NULL && memory != NULL && place != NULL);
    PS_ASSERT(setup != NULL);
    PS_ASSERT(parameters != NULL || parameter_count == 0);
    PS_TRY(ps_checkpoint_check_parameters(facts, parameters, parameter_count, error));
    /* Filled in a local and handed out at the end: the caller publishes `place`, and a half-filled
     * one would name a file that is not there. */
    struct ps_checkpoint_place result = {.position = facts->position,
                                         .epoch = facts->epoch,
                                         .unix_ns = facts->unix_ns,
                                         .history = facts->history};
    memcpy(result.uuid, facts->uuid, sizeof result.uuid);
    struct job job = {
        .files = files, .memory = memory, .facts = facts, .setup = setup, .parameters = parameters};
    PS_TRY(make_paths(&job, folder, &result, error));

    enum ps_status status = prepare(&job, parameters, parameter_count, error);
    if (status == PS_OK)
        status = save(&job, folder, &result, error);
    if (status == PS_OK)
        *place = result;
    ps_block_output_fini(&job.blocks);
    ps_summed_output_fini(&job.output);
    ps_file_edges_fini(&job.edges);
    ps_release(memory, job.wide);
    ps_release(memory, job.slots);
    ps_buffer_fini(&job.head);
    return status;
}

/* The temporary name has its final name's epoch and position, so that a sweep can tell a leftover
 * from a file that is being made (catalog.c). */
static enum ps_status make_paths(struct job *job, const char *folder,
                                 struct ps_checkpoint_place *place, struct ps_error *error)
{
    const struct ps_checkpoint_facts *facts = job->facts;
    char name[PS_CHECKPOINT_NAME_BYTES];
    const char *base = facts->base != NULL ? facts->base : "";
    ps_checkpoint_name_write(facts->epoch, facts->position, facts->uuid, base, PS_CHECKPOINT_SUFFIX,
                             name);
    int length = snprintf(place->path, sizeof place->path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length + sizeof ".tmp" > sizeof job->temporary)
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: the folder's path is too long");
    ps_checkpoint_name_write(facts->epoch, facts->position, facts->uuid, base,
                             PS_CHECKPOINT_TEMPORARY_SUFFIX, name);
    (void)snprintf(job->temporary, sizeof job->temporary, "%s/%s", folder, name);
    return PS_OK;
}

/* Does all that can be refused before the disk is touched. The first head is made with checksums of
 * 0, for its size: the place that is left empty must be exactly as large as the head that fills
 * it. */
static enum ps_status prepare(struct job *job, const struct ps_checkpoint_parameter *parameters,
                              size_t count, struct ps_error *error)
{
    /* Two buffers, however large the shard is. */
    PS_TRY(
        ps_block_output_init(&job->blocks, job->files, job->setup->behind, 0, job->memory, error));
    PS_TRY(sort_slots(job, parameters, count, error));
    PS_TRY(prepare_large(job, error));
    /* The head names the tensors' sizes, so that the place which is left for it is large enough. */
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        job->sections[i].bytes = ps_section_bytes(&job->facts->sections[i]);
    return make_head(job, error);
}

/* What large tables need besides: nothing where there is none. All of it is had before the file is
 * made, as everything else is, so that no checkpoint breaks off half written for want of memory. */
static enum ps_status prepare_large(struct job *job, struct ps_error *error)
{
    size_t large = 0;
    for (size_t i = 0; i < job->slot_count; i++)
        large += ps_rows_output_is_large(job->slots[i].parameter) ? 1 : 0;
    PS_TRY(ps_summed_output_init(&job->output, &job->blocks, large * PS_ROWS_PARTS_EACH,
                                 job->memory, error));
    if (large == 0)
        return PS_OK;
    job->wide = ps_zeroed_array(job->memory, job->slot_count, sizeof *job->wide);
    if (job->wide == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu tables", large);
    PS_TRY(ps_file_edges_init(&job->edges, large * PS_ROWS_EDGES_EACH + PS_ROWS_EDGES_BESIDE,
                              job->files, job->memory, error));
    job->blocks.edges = &job->edges;
    return PS_OK;
}

/* Called twice. Checksums have a fixed number of digits, so the second head, with the right ones,
 * has the length of the first. */
static enum ps_status make_head(struct job *job, struct ps_error *error)
{
    ps_buffer_fini(&job->head);
    ps_buffer_init(&job->head, job->memory, PS_HEADER_LENGTH_BYTES + PS_HEADER_BYTES_MAX);
    return ps_header_write(job->facts, job->sections, job->slots, job->slot_count, job->memory,
                           &job->head, error);
}

/* For qsort, which is not stable; equal slots do not occur (see below). */
static int compare_slots(const void *a, const void *b)
{
    const struct ps_checkpoint_parameter *first = ((const struct ps_header_slot *)a)->parameter;
    const struct ps_checkpoint_parameter *second = ((const struct ps_header_slot *)b)->parameter;
    return ps_header_order(first->dtype, first->name, second->dtype, second->name);
}

/* The order is part of the format: arrays of 8 byte elements first, so that every array is aligned
 * to its elements without gaps, and names in order, so that equal states give equal files. */
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

/* Write, sync, rename, sync the folder. The rename comes after the sync, so that a file under its
 * final name is whole; the folder's sync comes last, so that the name survives a crash before
 * anybody publishes it. Whatever fails, the file is given up and removed: after a failed sync the
 * kernel may have dropped what it could not write, and a second sync would not say so. */
static enum ps_status save(struct job *job, const char *folder, struct ps_checkpoint_place *place,
                           struct ps_error *error)
{
    const struct ps_files *files = job->files;
    struct ps_file file;
    PS_TRY(files->make_folder(files->self, folder, error));
    PS_TRY(open_file(job, folder, &file, error));
    ps_block_output_open(&job->blocks, file);
    enum ps_status status = write_file(job, place, error);
    if (status == PS_OK)
        status = files->sync(files->self, file, error);
    ps_block_output_close(&job->blocks);
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

/* A new file grows with each write, and the disk has its size and its blocks to note as well. What
 * adds to another is short: the spare, which is as long as a whole one, is left to the next. */
static enum ps_status open_file(struct job *job, const char *folder, struct ps_file *file,
                                struct ps_error *error)
{
    const struct ps_files *files = job->files;
    bool is_whole = job->facts->base == NULL || job->facts->base[0] == '\0';
    if (job->setup->over_spare && is_whole)
        PS_TRY(ps_checkpoint_spare_take(files, folder, job->facts->epoch, job->temporary, file,
                                        &job->over, error));
    if (job->over)
        return PS_OK;
    return files->open(files->self, job->temporary, PS_FILE_CREATE_DIRECT, file, error);
}

/* In the order of the file: the head's place, arrays, sessions, sections. The head itself is
 * written over its place at last, when all checksums are known. */
static enum ps_status write_file(struct job *job, struct ps_checkpoint_place *place,
                                 struct ps_error *error)
{
    uint32_t unused = 0;
    PS_TRY(write_empty_head(job, error));
    /* In the order of the header: first what has eight bytes an element. */
    PS_TRY(write_slots(job, true, error));
    PS_TRY(write_slots(job, false, error));
    PS_TRY(ps_summed_output_put(&job->output, job->facts->sessions, &unused, error));
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        PS_TRY(write_section(job, i, error));
    PS_TRY(ps_block_output_end(&job->blocks, error));
    /* The last block of the file, where a large table ends in it. */
    PS_TRY(ps_file_edges_end(&job->edges, job->blocks.file, job->output.bytes, error));
    PS_TRY(cut_file(job, job->output.bytes, error));
    return write_head(job, place, error);
}

/* The file that was there may have been longer. */
static enum ps_status cut_file(const struct job *job, uint64_t bytes, struct ps_error *error)
{
    const struct ps_files *files = job->files;
    uint64_t size = 0;
    if (!job->over)
        return PS_OK;
    PS_TRY(files->size(files->self, job->blocks.file, &size, error));
    PS_ASSERT(size >= bytes);
    return size > bytes ? files->cut(files->self, job->blocks.file, bytes, error) : PS_OK;
}

/* Writes zeros, a length that no header has: a file that is cut off before its head was written is
 * refused by every reader, ours and others' of the safetensors format. The zeros do not belong to
 * the checksum of the file, so it is begun again behind them. */
static enum ps_status write_empty_head(struct job *job, struct ps_error *error)
{
    static const uint8_t zeros[4096] = {0};
    uint32_t unused = 0;
    for (size_t left = job->head.size; left > 0;) {
        struct ps_bytes part = {zeros, left < sizeof zeros ? left : sizeof zeros};
        PS_TRY(ps_summed_output_put(&job->output, part, &unused, error));
        left -= part.size;
    }
    ps_summed_output_begin(&job->output);
    return PS_OK;
}

/* The CRC-32 of the whole file (which the pointer in the store carries) begins with the head, which
 * is written last: the sums of head and rest are joined arithmetically, without a second pass. */
static enum ps_status write_head(struct job *job, struct ps_checkpoint_place *place,
                                 struct ps_error *error)
{
    size_t size = job->head.size;
    PS_TRY(make_head(job, error));
    PS_ASSERT(job->head.size == size);
    struct ps_bytes head = {(const uint8_t *)job->head.text, size};
    place->crc32 = ps_checksum_crc32_join(
        ps_checksum_crc32(0, head), ps_summed_output_crc32(&job->output), job->output.bytes - size);
    place->bytes = job->output.bytes;
    return job->files->write_over(job->files->self, job->blocks.file, 0, head, error);
}

/* The arrays of one width, in the order of the header (array_layout.h). Only tables have arrays of
 * both widths. */
static enum ps_status write_slots(struct job *job, bool wide, struct ps_error *error)
{
    for (size_t i = 0; i < job->slot_count; i++) {
        struct ps_header_slot *slot = &job->slots[i];
        const struct ps_checkpoint_parameter *parameter = slot->parameter;
        uint32_t carried = ps_array_carried(parameter);
        bool is_large = ps_rows_output_is_large(parameter);
        if (is_large)
            PS_TRY(write_large(job, i, wide, error));
        /* Of a large table keys that went are left: they are nobody's memory, and no source has
         * them. They stand behind all that the table has of their width. */
        for (uint32_t array = is_large ? ps_array_count(parameter) : 0; array < carried; array++)
            if (ps_array_is_wide(parameter, array) == wide)
                PS_TRY(write_array(job, slot, array, error));
    }
    return PS_OK;
}

/* The wide arrays are left out where they stand, and written with the narrow ones: of any table the
 * clock is one. */
static enum ps_status write_large(struct job *job, size_t slot, bool wide, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *parameter = job->slots[slot].parameter;
    PS_ASSERT(job->wide != NULL);
    if (wide)
        return ps_rows_output_leave_wide(&job->output, parameter, &job->wide[slot], error);
    return ps_rows_output_write(&job->output, parameter, (size_t)(parameter - job->parameters),
                                &job->wide[slot], job->setup->watcher, job->slots[slot].crc32c,
                                error);
}

/* `watcher` is told how far each array is, so that the snapshot can let go of blocks that are
 * written and pushes need not copy them any more. */
static enum ps_status write_array(struct job *job, struct ps_header_slot *slot, uint32_t array,
                                  struct ps_error *error)
{
    const struct ps_checkpoint_watcher *watcher = job->setup->watcher;
    size_t parameter = (size_t)(slot->parameter - job->parameters);
    /* For keys that went nobody waits. */
    bool is_its_own = array < ps_array_count(slot->parameter);
    if (is_its_own && slot->parameter->source.read != NULL)
        return write_from_source(job, slot, array, error);
    struct ps_view_cursor cursor = {.view = ps_array_view(slot->parameter, array)};
    /* The last piece may be gone as soon as the watcher knows of it: the loop ends by the count,
     * and nothing is asked of the cursor then. */
    for (uint64_t done = 0; done < cursor.view.size;) {
        struct ps_bytes run = ps_view_next(&cursor, PIECE_BYTES);
        PS_TRY(ps_summed_output_put(&job->output, run, &slot->crc32c[array], error));
        done += run.size;
        if (watcher != NULL && is_its_own)
            watcher->written(watcher->self, parameter, array, done);
    }
    return PS_OK;
}

/* What lies on a device, or in the pages of a table that is not large, is read straight into the
 * buffer that is written, as much as it has room for: there is no second buffer, and the host holds
 * no more of an array than one write. */
static enum ps_status write_from_source(struct job *job, struct ps_header_slot *slot,
                                        uint32_t array, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *parameter = slot->parameter;
    const struct ps_checkpoint_source *source = &parameter->source;
    const struct ps_checkpoint_watcher *watcher = job->setup->watcher;
    size_t index = (size_t)(parameter - job->parameters);
    uint64_t size = ps_array_bytes(parameter, array);
    for (uint64_t done = 0; done < size;) {
        size_t room = 0;
        uint8_t *to = ps_block_output_room(&job->blocks, &room);
        room = room < PIECE_BYTES ? room : PIECE_BYTES;
        size_t part = size - done < room ? (size_t)(size - done) : room;
        PS_TRY(source->read(source->self, array, done, to, part, error));
        PS_TRY(ps_summed_output_made(&job->output, (struct ps_bytes){to, part},
                                     &slot->crc32c[array], error));
        done += part;
        if (watcher != NULL)
            watcher->written(watcher->self, index, array, done);
    }
    return PS_OK;
}

/* The size was said before, and readers go by it: records that come to another one are a bug. */
static enum ps_status write_section(struct job *job, enum ps_checkpoint_section section,
                                    struct ps_error *error)
{
    /* Nobody is told how far it is: contributions are held by whoever gives the records, and are
     * small beside the parameters. */
    uint64_t begin = job->output.bytes;
    for (size_t i = 0; i < job->facts->sections[section].count; i++)
        PS_TRY(write_record(job, section, i, error));
    PS_ASSERT(job->output.bytes - begin == job->sections[section].bytes);
    return PS_OK;
}

/* Head, content, zeros, as in a journal, so that one codec reads both. The record is asked for once
 * more here: what was given for the sizes is not kept. */
static enum ps_status write_record(struct job *job, enum ps_checkpoint_section section, size_t i,
                                   struct ps_error *error)
{
    static const uint8_t zeros[PS_JOURNAL_ALIGNMENT] = {0};
    uint8_t head[PS_JOURNAL_HEAD_BYTES_MAX];
    struct ps_record record;
    uint32_t *crc32c = &job->sections[section].crc32c;
    size_t size = ps_section_record(job->facts, section, i, &record, head);
    PS_TRY(ps_summed_output_put(&job->output, (struct ps_bytes){head, size}, crc32c, error));
    /* Pieces as they lie: a contribution is as large as its parameter. */
    for (size_t piece = 0; piece < record.content.piece_count; piece++)
        PS_TRY(ps_summed_output_put(&job->output, record.content.pieces[piece], crc32c, error));
    /* In the checksum of the section, though not in that of the record. */
    struct ps_bytes padding = {zeros, ps_journal_padding(record.content.size)};
    return ps_summed_output_put(&job->output, padding, crc32c, error);
}
