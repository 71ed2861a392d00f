/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a table whose rows are in two files: first the rows of the base that survive, then
 * those that the file itself has (merged_rows.h says which they are).
 *
 * Rows of the base are read as they lie, straight to where they are wanted, as many as there is
 * room for, and those that went are closed over in place: where few went, which is what files that
 * add to another are for, nearly every byte is read once and with large calls. */
#include "checkpoint/checkpoint_reader_state.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"

#include <string.h>

/* One array of a merged table. */
struct source {
    const struct ps_checkpoint_reader *reader; /* of the file, with its base */
    const struct ps_merged_rows *rows;
    uint64_t row_bytes;
    uint64_t base_offset; /* of the array in the base's file */
    uint64_t own_offset;  /* and in the file's own */
    uint64_t own_bytes;
};

static struct source source_of(const struct ps_checkpoint_reader *reader,
                               const struct ps_merged_parameter *merged, uint32_t array);
static enum ps_status fill(const struct source *source, uint64_t offset, uint8_t *to, size_t size,
                           uint32_t *crc32c, struct ps_error *error);
static enum ps_status fill_some(const struct source *source, uint64_t offset, uint8_t *to,
                                size_t size, size_t *got, struct ps_error *error);
static enum ps_status fill_rows(const struct source *source, uint64_t row, uint8_t *to, size_t size,
                                size_t *got, struct ps_error *error);
static uint64_t close_over(const struct source *source, uint64_t first, uint64_t span, uint8_t *to);
static enum ps_status sum_base(const struct source *source, uint8_t *part, uint32_t *base_crc32c,
                               uint32_t *crc32c, struct ps_error *error);
static void sum_survivors(const struct source *source, uint64_t offset, struct ps_bytes part,
                          uint32_t *crc32c);
static enum ps_status sum_own(const struct source *source, uint8_t *part, uint32_t *crc32c,
                              struct ps_error *error);

/* Nothing is kept between calls but what is sealed, so that several threads may read parts of one
 * array, in any order, as they do of arrays that are in one file. */
enum ps_status ps_merged_read_part(const struct ps_checkpoint_reader *reader,
                                   const struct ps_merged_parameter *merged, uint32_t array,
                                   uint64_t offset, const struct ps_checkpoint_piece *pieces,
                                   size_t piece_count, uint32_t *crc32c, struct ps_error *error)
{
    const struct source source = source_of(reader, merged, array);
    uint64_t bytes = ps_array_bytes(&merged->about, array);
    PS_ASSERT(offset <= bytes);
    *crc32c = 0;
    /* The pieces are one run of bytes, wherever each of them lies. */
    for (size_t i = 0; i < piece_count; i++) {
        /* The sizes come from the merged count, which the caller has from this reader. */
        PS_ASSERT(pieces[i].size <= bytes - offset);
        PS_TRY(fill(&source, offset, pieces[i].data, pieces[i].size, crc32c, error));
        offset += pieces[i].size;
    }
    return PS_OK;
}

/* Where things are, found once for each call: the arrays stand at other offsets in each file, but a
 * row has as many bytes in both, since width and states were compared. */
static struct source source_of(const struct ps_checkpoint_reader *reader,
                               const struct ps_merged_parameter *merged, uint32_t array)
{
    PS_ASSERT(merged->about.carry == PS_CARRY_ROWS && reader->base != NULL);
    const struct ps_header_parameter *base = &reader->base->header.parameters[merged->base];
    const struct ps_header_parameter *own = &reader->header.parameters[merged->own];
    return (struct source){.reader = reader,
                           .rows = &merged->rows,
                           .row_bytes = ps_array_row_bytes(&merged->about, array),
                           .base_offset = base->offset[array],
                           .own_offset = own->offset[array],
                           .own_bytes = ps_array_bytes(&own->about, array)};
}

/* Summed where it was put, as everything that is read of a checkpoint: the sum is of the bytes that
 * the caller goes on with, whatever was moved to make them. */
static enum ps_status fill(const struct source *source, uint64_t offset, uint8_t *to, size_t size,
                           uint32_t *crc32c, struct ps_error *error)
{
    while (size > 0) {
        size_t got = 0;
        /* In parts, so that the sum finds the bytes where they were just moved to. */
        size_t room = size < PS_CHECKPOINT_PART_BYTES ? size : PS_CHECKPOINT_PART_BYTES;
        PS_TRY(fill_some(source, offset, to, room, &got, error));
        /* Each turn gets on, or the loop would not end. */
        PS_ASSERT(got > 0 && got <= room);
        *crc32c = ps_checksum_crc32c(*crc32c, (struct ps_bytes){to, got});
        offset += got;
        to += got;
        size -= got;
    }
    return PS_OK;
}

/* As much as lies together, one byte at least: of the file's own rows all that is wanted; of the
 * base's whole rows, or a piece of one, since a caller's part may begin and end within a row. */
static enum ps_status fill_some(const struct source *source, uint64_t offset, uint8_t *to,
                                size_t size, size_t *got, struct ps_error *error)
{
    uint64_t survivor = offset / source->row_bytes;
    uint64_t within = offset % source->row_bytes;
    uint64_t of_base = source->rows->survivors * source->row_bytes;
    /* Behind the last survivor stand the file's own rows, as they stand in it. */
    if (offset >= of_base) {
        *got = size;
        return ps_checkpoint_read_bytes(source->reader, source->own_offset + (offset - of_base), to,
                                        size, error);
    }
    uint64_t row = ps_merged_rows_place(source->rows, survivor);
    if (within == 0 && size >= source->row_bytes)
        return fill_rows(source, row, to, size, got, error);
    /* The end of a row, or its beginning where there is no room for more. */
    uint64_t rest = source->row_bytes - within;
    *got = size < rest ? size : (size_t)rest;
    return ps_checkpoint_read_bytes(source->reader->base,
                                    source->base_offset + row * source->row_bytes + within, to,
                                    *got, error);
}

/* From a row that survives on, so that there is at least one. What is read for rows that went is
 * not wasted where they are few; where they are many each turn is shorter than the one before, and
 * the base's array is still read from its beginning to its end once. */
static enum ps_status fill_rows(const struct source *source, uint64_t row, uint8_t *to, size_t size,
                                size_t *got, struct ps_error *error)
{
    uint64_t left = source->rows->base_rows - row;
    uint64_t span = size / source->row_bytes;
    span = span < left ? span : left;
    /* Not summed here: the bytes of rows that went are none of the array's. */
    PS_TRY(ps_checkpoint_read_bytes(source->reader->base,
                                    source->base_offset + row * source->row_bytes, to,
                                    (size_t)(span * source->row_bytes), error));
    *got = (size_t)(close_over(source, row, span, to) * source->row_bytes);
    return PS_OK;
}

/* Moves rows that survive to where those were that went before them. Returns how many there are.
 * Before the first that went every row is in its place already, and nothing is moved. */
static uint64_t close_over(const struct source *source, uint64_t first, uint64_t span, uint8_t *to)
{
    uint64_t kept = 0;
    size_t row_bytes = (size_t)source->row_bytes;
    for (uint64_t at = 0; at < span;) {
        bool survives = false;
        uint64_t run = ps_merged_rows_run(source->rows, first + at, first + span, &survives);
        if (survives && kept != at)
            memmove(to + kept * row_bytes, to + at * row_bytes, (size_t)run * row_bytes);
        kept += survives ? run : 0;
        at += run;
    }
    return kept;
}

/* One pass over the base's array makes two sums: of all of it, which the base has, and of the rows
 * that survive, which nobody has. That is how the second is known to be right. */
enum ps_status ps_merged_sum(const struct ps_checkpoint_reader *reader,
                             const struct ps_merged_parameter *merged, uint32_t array,
                             uint32_t *crc32c, struct ps_error *error)
{
    const struct source source = source_of(reader, merged, array);
    uint32_t base_crc32c = 0;
    uint32_t own_crc32c = 0;
    struct ps_error why = {.status = PS_OK};
    uint8_t *part = ps_plain(reader->memory, PS_CHECKPOINT_PART_BYTES);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for verifying");
    *crc32c = 0;
    enum ps_status status = sum_base(&source, part, &base_crc32c, crc32c, &why);
    if (status == PS_OK)
        status = ps_checkpoint_check_own(reader->base, merged->base, array, base_crc32c, &why);
    if (status != PS_OK)
        status = ps_checkpoint_fail_base(reader, status, &why, error);
    /* Damage of the file's own is said without a word of the base. */
    if (status == PS_OK)
        status = sum_own(&source, part, &own_crc32c, error);
    if (status == PS_OK)
        status = ps_checkpoint_check_own(reader, merged->own, array, own_crc32c, error);
    *crc32c = ps_checksum_crc32c_join(*crc32c, own_crc32c, source.own_bytes);
    ps_release(reader->memory, part);
    return status;
}

/* The last one to read these bytes, so that the system is told to let go of them here. */
static enum ps_status sum_base(const struct source *source, uint8_t *part, uint32_t *base_crc32c,
                               uint32_t *crc32c, struct ps_error *error)
{
    const struct ps_checkpoint_reader *base = source->reader->base;
    uint64_t bytes = source->rows->base_rows * source->row_bytes;
    for (uint64_t done = 0; done < bytes;) {
        size_t size = bytes - done < PS_CHECKPOINT_PART_BYTES ? (size_t)(bytes - done)
                                                              : PS_CHECKPOINT_PART_BYTES;
        struct ps_checkpoint_piece piece = {part, size};
        PS_TRY(
            ps_checkpoint_read_piece(base, source->base_offset + done, piece, base_crc32c, error));
        /* Callers cannot say it: what they have read is in no place of its own in either file. */
        base->files->forget(base->files->self, base->file, source->base_offset + done, size);
        sum_survivors(source, done, (struct ps_bytes){part, size}, crc32c);
        done += size;
    }
    return PS_OK;
}

/* A part need not begin or end with a row: a row may be longer than a part. */
static void sum_survivors(const struct source *source, uint64_t offset, struct ps_bytes part,
                          uint32_t *crc32c)
{
    uint64_t at = offset;
    uint64_t end = offset + part.size;
    while (at < end) {
        bool survives = false;
        uint64_t row = at / source->row_bytes;
        uint64_t run =
            ps_merged_rows_run(source->rows, row, (end - 1) / source->row_bytes + 1, &survives);
        /* The last row may go on behind the part, and the first have begun before it. */
        uint64_t stop = (row + run) * source->row_bytes;
        stop = stop < end ? stop : end;
        if (survives)
            *crc32c = ps_checksum_crc32c(
                *crc32c, (struct ps_bytes){part.data + (at - offset), (size_t)(stop - at)});
        at = stop;
    }
}

/* Its sum is the file's, and is joined to that of the survivors by arithmetic. */
static enum ps_status sum_own(const struct source *source, uint8_t *part, uint32_t *crc32c,
                              struct ps_error *error)
{
    for (uint64_t done = 0; done < source->own_bytes;) {
        uint64_t left = source->own_bytes - done;
        struct ps_checkpoint_piece piece = {
            part, left < PS_CHECKPOINT_PART_BYTES ? (size_t)left : PS_CHECKPOINT_PART_BYTES};
        PS_TRY(ps_checkpoint_read_piece(source->reader, source->own_offset + done, piece, crc32c,
                                        error));
        done += piece.size;
    }
    return PS_OK;
}
