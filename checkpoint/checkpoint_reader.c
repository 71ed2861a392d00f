/* SPDX-License-Identifier: Apache-2.0 */
/* An open checkpoint file: its verified header, and its arrays on demand.
 *
 * Opening reads and verifies the header and the sessions, a small part of the file; arrays are read
 * straight to where they are wanted and summed on the way, so a file of many gigabytes is read
 * once. No byte is handed out as good before its checksum was compared, except by
 * ps_checkpoint_read_part, whose callers compare it themselves when they have all parts.
 *
 * The file may be damaged anywhere and may change under the reader: all sizes come from the
 * verified header, and a short read is reported as damage. */
#include "checkpoint/checkpoint.h"

#include "base/assert.h"
#include "checkpoint/checkpoint_reader_state.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_format.h"

#include <stdio.h>

#define PART_BYTES PS_CHECKPOINT_PART_BYTES

static enum ps_status read_header(struct ps_checkpoint_reader *reader, bool damaged,
                                  struct ps_error *error);
static enum ps_status read_head(struct ps_checkpoint_reader *reader, size_t head_size, bool damaged,
                                struct ps_error *error);
static enum ps_status read_sessions(struct ps_checkpoint_reader *reader, struct ps_error *error);
static enum ps_status verify_arrays(const struct ps_checkpoint_reader *reader, uint8_t *part,
                                    struct ps_error *error);
static enum ps_status verify_sections(const struct ps_checkpoint_reader *reader, uint8_t *part,
                                      struct ps_error *error);
static enum ps_status verify_array(const struct ps_checkpoint_reader *reader, size_t i,
                                   uint32_t array, uint8_t *part, struct ps_error *error);
static enum ps_status verify_base(const struct ps_checkpoint_reader *reader, uint8_t *part,
                                  struct ps_error *error);
static enum ps_status sum_range(const struct ps_checkpoint_reader *reader, uint64_t offset,
                                uint64_t bytes, uint8_t *part, uint32_t *crc32c,
                                struct ps_error *error);
static const struct ps_merged_parameter *merged_of(const struct ps_checkpoint_reader *reader,
                                                   size_t i);
static const struct ps_header_parameter *own_of(const struct ps_checkpoint_reader *reader,
                                                size_t i);

/* The ordinary way: header and sessions are whole, or the file is not opened at all, and recovery
 * goes on with an older one. */
enum ps_status ps_checkpoint_open(const struct ps_files *files, const char *path,
                                  const struct ps_allocator *memory,
                                  struct ps_checkpoint_reader **reader, struct ps_error *error)
{
    struct ps_checkpoint_reader *opened = NULL;
    PS_TRY(ps_checkpoint_open_alone(files, path, false, memory, &opened, error));
    enum ps_status status = read_sessions(opened, error);
    if (status == PS_OK && opened->header.facts.base[0] != '\0')
        status = ps_checkpoint_open_base(opened, path, false, error);
    if (status != PS_OK) {
        ps_checkpoint_close(opened);
        return status;
    }
    *reader = opened;
    return PS_OK;
}

/* For salvage: the parameters may be whole where the sessions are not. Without sessions a state can
 * be looked at and trained on, but pushes that are sent again would be applied twice, which is why
 * the ordinary open refuses. */
enum ps_status ps_checkpoint_open_damaged(const struct ps_files *files, const char *path,
                                          const struct ps_allocator *memory,
                                          struct ps_checkpoint_reader **reader,
                                          bool *sessions_are_whole, struct ps_error *error)
{
    struct ps_checkpoint_reader *opened = NULL;
    PS_TRY(ps_checkpoint_open_alone(files, path, true, memory, &opened, error));
    enum ps_status status = read_sessions(opened, error);
    /* Only damage is let pass. A disk that fails, or memory that is refused, says nothing about the
     * file. */
    *sessions_are_whole = status == PS_OK;
    /* The base as well is damaged as it may be. */
    if ((status == PS_OK || status == PS_ERR_CORRUPT) && opened->header.facts.base[0] != '\0')
        status = ps_checkpoint_open_base(opened, path, true, error);
    if (status != PS_OK && status != PS_ERR_CORRUPT) {
        ps_checkpoint_close(opened);
        return status;
    }
    *reader = opened;
    return PS_OK;
}

/* Before the file is open there is nothing that ps_checkpoint_close could close; after it, close
 * ends everything, whatever was read. */
enum ps_status ps_checkpoint_open_alone(const struct ps_files *files, const char *path,
                                        bool damaged, const struct ps_allocator *memory,
                                        struct ps_checkpoint_reader **reader,
                                        struct ps_error *error)
{
    PS_ASSERT(files != NULL && path != NULL && memory != NULL && reader != NULL);
    struct ps_checkpoint_reader *opened = ps_zeroed(memory, sizeof *opened);
    if (opened == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a reader");
    opened->memory = memory;
    opened->files = files;
    enum ps_status status = files->open(files->self, path, PS_FILE_READ, &opened->file, error);
    if (status != PS_OK) {
        ps_release(memory, opened);
        return status;
    }
    status = read_header(opened, damaged, error);
    if (status != PS_OK) {
        ps_checkpoint_close(opened);
        return status;
    }
    *reader = opened;
    return PS_OK;
}

/* A file that was only read has nothing to lose by closing; there is nothing to report. */
void ps_checkpoint_close(struct ps_checkpoint_reader *reader)
{
    if (reader == NULL)
        return;
    ps_checkpoint_close_base(reader);
    reader->files->close(reader->files->self, reader->file);
    ps_header_fini(&reader->header);
    ps_release(reader->memory, reader->sessions);
    ps_release(reader->memory, reader);
}

/* The file's size first: it bounds the length that the file claims for its header, and with it the
 * memory that is taken for reading. */
static enum ps_status read_header(struct ps_checkpoint_reader *reader, bool damaged,
                                  struct ps_error *error)
{
    uint8_t first[PS_HEADER_LENGTH_BYTES];
    size_t got = 0;
    size_t length = 0;
    PS_TRY(reader->files->size(reader->files->self, reader->file, &reader->file_bytes, error));
    PS_TRY(reader->files->read(reader->files->self, reader->file, 0, first, sizeof first, &got,
                               error));
    /* `got` may be less than 8 for a file of a few bytes, which ps_header_length then refuses. */
    PS_TRY(ps_header_length((struct ps_bytes){first, got}, reader->file_bytes, &length, error));
    return read_head(reader, PS_HEADER_LENGTH_BYTES + length, damaged, error);
}

/* The raw head is needed only while it is read: ps_header_init copies the texts that stay. A file
 * that was cut off in its last array has all others still, which only salvage asks for. */
static enum ps_status read_head(struct ps_checkpoint_reader *reader, size_t head_size, bool damaged,
                                struct ps_error *error)
{
    uint8_t *head = ps_plain(reader->memory, head_size);
    if (head == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a header of %zu bytes",
                       head_size);
    enum ps_status status = ps_checkpoint_read_bytes(reader, 0, head, head_size, error);
    if (status == PS_OK)
        status = ps_header_init(&reader->header, (struct ps_bytes){head, head_size},
                                reader->file_bytes, reader->memory, error);
    if (status == PS_ERR_CORRUPT && damaged)
        status = ps_header_init_cut(&reader->header, (struct ps_bytes){head, head_size},
                                    reader->memory, error);
    ps_release(reader->memory, head);
    return status;
}

/* Kept in memory as one piece, since their decoder wants them whole. Their size is bounded by the
 * file's, which the header was compared with. */
static enum ps_status read_sessions(struct ps_checkpoint_reader *reader, struct ps_error *error)
{
    struct ps_header *header = &reader->header;
    if (!header->has_sessions)
        return PS_OK;
    size_t size = (size_t)header->sessions_bytes;
    uint32_t crc32c = 0;
    /* Only of a file that was cut off; memory is not asked for what is not there. */
    if (header->sessions_offset > reader->file_bytes ||
        size > reader->file_bytes - header->sessions_offset)
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "sessions");
    reader->sessions = ps_plain(reader->memory, size);
    if (reader->sessions == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu bytes of sessions",
                       size);
    struct ps_checkpoint_piece piece = {reader->sessions, size};
    PS_TRY(ps_checkpoint_read_piece(reader, header->sessions_offset, piece, &crc32c, error));
    /* Sessions in which one bit is wrong could let a gradient be applied twice, so they are all or
     * nothing. */
    if (crc32c != header->sessions_crc32c)
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "sessions");
    header->facts.sessions = (struct ps_bytes){reader->sessions, size};
    return PS_OK;
}

/* The size was compared with the file when it was opened; fewer bytes now mean that somebody has
 * cut it since. */
enum ps_status ps_checkpoint_read_bytes(const struct ps_checkpoint_reader *reader, uint64_t offset,
                                        void *to, size_t size, struct ps_error *error)
{
    size_t got = 0;
    PS_TRY(reader->files->read(reader->files->self, reader->file, offset, to, size, &got, error));
    if (got != size)
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "the file has become shorter");
    return PS_OK;
}

/* The facts, names and configurations point into the header's own memory and live as long as the
 * reader. */
const struct ps_checkpoint_facts *
ps_checkpoint_reader_facts(const struct ps_checkpoint_reader *reader)
{
    PS_ASSERT(reader != NULL);
    return &reader->header.facts;
}

/* Of a file that adds to another those that could be merged: all, but where damage was let pass. */
size_t ps_checkpoint_parameter_count(const struct ps_checkpoint_reader *reader)
{
    PS_ASSERT(reader != NULL);
    return reader->merged != NULL ? reader->merged_count : reader->header.count;
}

const struct ps_checkpoint_parameter *
ps_checkpoint_parameter(const struct ps_checkpoint_reader *reader, size_t i)
{
    const struct ps_merged_parameter *merged = merged_of(reader, i);
    return merged != NULL ? &merged->about : &own_of(reader, i)->about;
}

/* Its own header says it, whatever was merged. */
const struct ps_checkpoint_parameter *
ps_checkpoint_parameter_own(const struct ps_checkpoint_reader *reader, size_t i)
{
    return &own_of(reader, i)->about;
}

/* The header alone is asked, so that the answer does not depend on what became of a base. */
size_t ps_checkpoint_named_count(const struct ps_checkpoint_reader *reader)
{
    PS_ASSERT(reader != NULL);
    return reader->header.count;
}

const struct ps_checkpoint_parameter *ps_checkpoint_named(const struct ps_checkpoint_reader *reader,
                                                          size_t i)
{
    PS_ASSERT(reader != NULL && i < reader->header.count);
    return &reader->header.parameters[i].about;
}

/* NULL of a whole file, whose parameters are those of its header. */
static const struct ps_merged_parameter *merged_of(const struct ps_checkpoint_reader *reader,
                                                   size_t i)
{
    PS_ASSERT(i < ps_checkpoint_parameter_count(reader));
    return reader->merged != NULL ? &reader->merged[i] : NULL;
}

/* What the file itself says of the parameter that readers know as `i`. */
static const struct ps_header_parameter *own_of(const struct ps_checkpoint_reader *reader, size_t i)
{
    const struct ps_merged_parameter *merged = merged_of(reader, i);
    return &reader->header.parameters[merged != NULL ? merged->own : i];
}

/* A whole array into any pieces, such as the blocks of a parameter; verified before PS_OK is
 * returned. */
enum ps_status ps_checkpoint_read_array(struct ps_checkpoint_reader *reader, size_t i,
                                        int32_t state, const struct ps_checkpoint_piece *pieces,
                                        size_t piece_count, struct ps_error *error)
{
    uint64_t size = 0;
    uint32_t crc32c = 0;
    for (size_t piece = 0; piece < piece_count; piece++)
        size += pieces[piece].size;
    PS_TRY(ps_checkpoint_read_part(reader, i, state, 0, pieces, piece_count, &crc32c, error));
    /* The caller sized its pieces by the header; another sum is a bug of ours and would be reported
     * as damage of the file. */
    PS_ASSERT(size == ps_array_bytes(ps_checkpoint_parameter(reader, i), (uint32_t)(state + 1)));
    return ps_checkpoint_check_array(reader, i, state, crc32c, error);
}

/* Several threads read parts of one array at once; each sums its own part, and whoever has all sums
 * joins them (ps_checksum_crc32c_join) and asks ps_checkpoint_check_array. */
enum ps_status ps_checkpoint_read_part(struct ps_checkpoint_reader *reader, size_t i, int32_t state,
                                       uint64_t offset, const struct ps_checkpoint_piece *pieces,
                                       size_t piece_count, uint32_t *crc32c, struct ps_error *error)
{
    PS_ASSERT(reader != NULL && state >= -1);
    const struct ps_merged_parameter *merged = merged_of(reader, i);
    uint32_t array = (uint32_t)(state + 1);
    /* The base is whole, so that this goes down one step at most. */
    if (merged != NULL && merged->about.carry == PS_CARRY_AS_BASE)
        return ps_checkpoint_read_part(reader->base, merged->base, state, offset, pieces,
                                       piece_count, crc32c, error);
    if (merged != NULL && merged->about.carry == PS_CARRY_ROWS)
        return ps_merged_read_part(reader, merged, array, offset, pieces, piece_count, crc32c,
                                   error);
    const struct ps_header_parameter *parameter = own_of(reader, i);
    uint64_t begin = parameter->offset[array];
    uint64_t bytes = ps_array_bytes(&parameter->about, array);
    PS_ASSERT(offset <= bytes);
    *crc32c = 0;
    for (size_t piece = 0; piece < piece_count; piece++) {
        /* Reading beyond the array would return the next array's bytes with a plausible checksum
         * for neither. */
        PS_ASSERT(pieces[piece].size <= bytes - offset);
        PS_TRY(ps_checkpoint_read_piece(reader, begin + offset, pieces[piece], crc32c, error));
        offset += pieces[piece].size;
    }
    return PS_OK;
}

/* A hint to the system's cache after a part was copied: recovery reads each byte once. */
void ps_checkpoint_forget_part(const struct ps_checkpoint_reader *reader, size_t i, int32_t state,
                               uint64_t offset, uint64_t bytes)
{
    const struct ps_merged_parameter *merged = merged_of(reader, i);
    uint32_t array = (uint32_t)(state + 1);
    if (merged != NULL && merged->about.carry == PS_CARRY_ROWS) {
        ps_merged_forget(reader, merged, array, offset, bytes);
        return;
    }
    if (merged != NULL && merged->about.carry == PS_CARRY_AS_BASE) {
        ps_checkpoint_forget_part(reader->base, merged->base, state, offset, bytes);
        return;
    }
    const struct ps_header_parameter *parameter = own_of(reader, i);
    uint64_t whole = ps_array_bytes(&parameter->about, array);
    PS_ASSERT(bytes <= whole && offset <= whole - bytes);
    reader->files->forget(reader->files->self, reader->file, parameter->offset[array] + offset,
                          bytes);
}

/* Of rows out of two files nobody has written the sum down. It is made of bytes whose own sums are
 * compared, so that it is as good as one that was. */
enum ps_status ps_checkpoint_check_array(const struct ps_checkpoint_reader *reader, size_t i,
                                         int32_t state, uint32_t crc32c, struct ps_error *error)
{
    const struct ps_merged_parameter *merged = merged_of(reader, i);
    uint32_t array = (uint32_t)(state + 1);
    struct ps_error why = {.status = PS_OK};
    if (merged == NULL)
        return ps_checkpoint_check_own(reader, i, array, crc32c, error);
    switch (merged->about.carry) {
    case PS_CARRY_WHOLE:
        return ps_checkpoint_check_own(reader, merged->own, array, crc32c, error);
    case PS_CARRY_AS_BASE: {
        enum ps_status status =
            ps_checkpoint_check_own(reader->base, merged->base, array, crc32c, &why);
        return status == PS_OK ? PS_OK : ps_checkpoint_fail_base(reader, status, &why, error);
    }
    case PS_CARRY_ROWS:
        break;
    }
    return ps_merged_check(reader, merged, array, crc32c, error);
}

enum ps_status ps_checkpoint_read_piece(const struct ps_checkpoint_reader *reader, uint64_t offset,
                                        struct ps_checkpoint_piece piece, uint32_t *crc32c,
                                        struct ps_error *error)
{
    uint8_t *to = piece.data;
    for (size_t done = 0; done < piece.size;) {
        size_t part = piece.size - done < PART_BYTES ? piece.size - done : PART_BYTES;
        PS_TRY(ps_checkpoint_read_bytes(reader, offset + done, to + done, part, error));
        /* Summed where it was put, not where it came from: what is verified is what will be
         * used. */
        *crc32c = ps_checksum_crc32c(*crc32c, (struct ps_bytes){to + done, part});
        done += part;
    }
    return PS_OK;
}

/* Of the file's own arrays, keys that went among them. */
enum ps_status ps_checkpoint_check_own(const struct ps_checkpoint_reader *reader, size_t i,
                                       uint32_t array, uint32_t crc32c, struct ps_error *error)
{
    PS_ASSERT(i < reader->header.count);
    const struct ps_header_parameter *parameter = &reader->header.parameters[i];
    PS_ASSERT(array < ps_array_carried(&parameter->about));
    return crc32c == parameter->crc32c[array]
               ? PS_OK
               : ps_checkpoint_fail_array(&parameter->about, array, error);
}

/* The message names the array, so that an operator knows what to salvage. The name is followed by a
 * NUL (ps_header_keep_text). */
enum ps_status ps_checkpoint_fail_array(const struct ps_checkpoint_parameter *parameter,
                                        uint32_t array, struct ps_error *error)
{
    const char *name = (const char *)parameter->name.data;
    if (array == 0)
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "values of %s", name);
    if (array <= parameter->state_count)
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "state %u of %s",
                       (unsigned)array - 1, name);
    /* Rows would come back that the model has given up. */
    if (array == ps_array_count(parameter))
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "removed keys of %s", name);
    /* Without its keys a table is lost; without its clock its rows are there, and nobody knows
     * which of them are old. */
    return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s of %s",
                   array == ps_array_of_keys(parameter) ? "keys" : "clock", name);
}

/* One buffer of a part for everything, so a file of any size is verified in a megabyte. */
enum ps_status ps_checkpoint_verify(const struct ps_files *files, const char *path,
                                    const struct ps_allocator *memory, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(files, path, memory, &reader, error));
    enum ps_status status = PS_OK;
    uint8_t *part = ps_plain(memory, PART_BYTES);
    if (part == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for verifying");
    if (status == PS_OK)
        status = verify_arrays(reader, part, error);
    if (status == PS_OK)
        status = verify_sections(reader, part, error);
    if (status == PS_OK && reader->base != NULL)
        status = verify_base(reader, part, error);
    ps_release(memory, part);
    ps_checkpoint_close(reader);
    return status;
}

/* Reads everything and keeps nothing: for `psckpt verify`, and for a server that asks whether a
 * file can be relied on. */
static enum ps_status verify_arrays(const struct ps_checkpoint_reader *reader, uint8_t *part,
                                    struct ps_error *error)
{
    for (size_t i = 0; i < reader->header.count; i++) {
        uint32_t arrays = ps_array_carried(&reader->header.parameters[i].about);
        for (uint32_t array = 0; array < arrays; array++)
            PS_TRY(verify_array(reader, i, array, part, error));
    }
    return PS_OK;
}

/* All of it, its sessions and sections as well: a base is a checkpoint that may be needed alone. */
static enum ps_status verify_base(const struct ps_checkpoint_reader *reader, uint8_t *part,
                                  struct ps_error *error)
{
    struct ps_error why = {.status = PS_OK};
    PS_ASSERT(reader->base->base == NULL);
    /* Opening it for the file's sake has left them out. */
    enum ps_status status = read_sessions(reader->base, &why);
    if (status == PS_OK)
        status = verify_arrays(reader->base, part, &why);
    if (status == PS_OK)
        status = verify_sections(reader->base, part, &why);
    return status == PS_OK ? PS_OK : ps_checkpoint_fail_base(reader, status, &why, error);
}

/* By their sums alone: whether the records make sense is asked by whoever applies them, who has the
 * parameters. A server that looks for a file to fall back to wants to know of damage. */
static enum ps_status verify_sections(const struct ps_checkpoint_reader *reader, uint8_t *part,
                                      struct ps_error *error)
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++) {
        const struct ps_header_range *range = &reader->header.sections[i];
        uint32_t crc32c = 0;
        if (range->bytes == 0)
            continue;
        PS_TRY(sum_range(reader, range->offset, range->bytes, part, &crc32c, error));
        PS_TRY(ps_checkpoint_check_section(reader, i, crc32c, error));
    }
    return PS_OK;
}

static enum ps_status verify_array(const struct ps_checkpoint_reader *reader, size_t i,
                                   uint32_t array, uint8_t *part, struct ps_error *error)
{
    const struct ps_header_parameter *parameter = &reader->header.parameters[i];
    uint32_t crc32c = 0;
    PS_TRY(sum_range(reader, parameter->offset[array], ps_array_bytes(&parameter->about, array),
                     part, &crc32c, error));
    return ps_checkpoint_check_own(reader, i, array, crc32c, error);
}

/* In parts, each read into the same buffer; only the sum is kept. */
static enum ps_status sum_range(const struct ps_checkpoint_reader *reader, uint64_t offset,
                                uint64_t bytes, uint8_t *part, uint32_t *crc32c,
                                struct ps_error *error)
{
    while (bytes > 0) {
        struct ps_checkpoint_piece piece = {part, bytes < PART_BYTES ? (size_t)bytes : PART_BYTES};
        PS_TRY(ps_checkpoint_read_piece(reader, offset, piece, crc32c, error));
        offset += piece.size;
        bytes -= piece.size;
    }
    return PS_OK;
}
