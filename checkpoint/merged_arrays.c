/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a table whose rows are in two files: first the rows of the base that survive, then
 * those that the file itself has (merged_rows.h says which they are).
 *
 * Rows of the base are read as they lie, straight to where they are wanted, as many as there is
 * room for, and those that went are closed over in place: so every byte is read once and with large
 * calls.
 *
 * No file has the sum of what comes of it. So three sums are gathered on the way (merged_sums.h):
 * of the base's array with the rows that went, of the file's own array, and of what was handed out.
 * The first two are compared with the files', and then the third is that of bytes which were good.
 * Rows that went count to the survivor behind them; those behind the last one are read when the
 * sums are compared. */
#include "checkpoint/checkpoint_reader_state.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"

#include <string.h>

/* Where rows that went are read to, if there is less room for what is wanted. */
#define GONE_BYTES 4096

/* One array of a merged table. */
struct source {
    const struct ps_checkpoint_reader *reader; /* of the file, with its base */
    const struct ps_merged_rows *rows;
    struct ps_merged_sums *sums;
    uint64_t row_bytes;
    uint64_t base_offset; /* of the array in the base's file */
    uint64_t base_bytes;
    uint64_t own_offset; /* and in the file's own */
    uint64_t own_bytes;
};

/* Bytes of the merged array that are filled in at once. */
struct turn {
    uint8_t *to;
    size_t size;     /* room */
    size_t got;      /* of it filled in: one byte at least */
    uint32_t crc32c; /* of those, as they were read */
};

static struct source source_of(const struct ps_checkpoint_reader *reader,
                               const struct ps_merged_parameter *merged, uint32_t array);
static enum ps_status fill(const struct source *source, uint64_t offset, uint8_t *to, size_t size,
                           uint32_t *crc32c, struct ps_error *error);
static enum ps_status fill_some(const struct source *source, uint64_t offset, struct turn *turn,
                                struct ps_error *error);
static enum ps_status fill_own(const struct source *source, uint64_t own, struct turn *turn,
                               struct ps_error *error);
static enum ps_status fill_within(const struct source *source, uint64_t at, uint64_t rest,
                                  struct turn *turn, struct ps_error *error);
static enum ps_status fill_rows(const struct source *source, uint64_t row, struct turn *turn,
                                struct ps_error *error);
static void close_over(const struct source *source, uint64_t first, uint64_t span,
                       struct turn *turn);
static uint64_t gone_before(const struct source *source, uint64_t survivor, uint64_t row);
static enum ps_status sum_gone(const struct source *source, uint64_t first, uint64_t end,
                               struct ps_checkpoint_piece room, struct ps_error *error);
static bool was_read_once(const struct source *source, const struct ps_merged_parameter *merged,
                          uint32_t array);
static enum ps_status read_again(const struct source *source,
                                 const struct ps_merged_parameter *merged, uint32_t array,
                                 uint32_t *crc32c, struct ps_error *error);
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
                           .sums = &merged->sums[array],
                           .row_bytes = ps_array_row_bytes(&merged->about, array),
                           .base_offset = base->offset[array],
                           .base_bytes = ps_array_bytes(&base->about, array),
                           .own_offset = own->offset[array],
                           .own_bytes = ps_array_bytes(&own->about, array)};
}

/* Summed where it was put, as everything that is read of a checkpoint: the caller's sum is of the
 * bytes that he goes on with, whatever was moved to make them, and the other of what was read. */
static enum ps_status fill(const struct source *source, uint64_t offset, uint8_t *to, size_t size,
                           uint32_t *crc32c, struct ps_error *error)
{
    uint64_t whole = source->rows->survivors * source->row_bytes + source->own_bytes;
    while (size > 0) {
        /* In parts, so that the sums find the bytes in the processor's cache. */
        struct turn turn = {
            .to = to, .size = size < PS_CHECKPOINT_PART_BYTES ? size : PS_CHECKPOINT_PART_BYTES};
        PS_TRY(fill_some(source, offset, &turn, error));
        /* Each turn gets on, or the loop would not end. */
        PS_ASSERT(turn.got > 0 && turn.got <= turn.size);
        *crc32c = ps_checksum_crc32c(*crc32c, (struct ps_bytes){to, turn.got});
        offset += turn.got;
        ps_merged_sums_add(&source->sums->merged, turn.crc32c, whole - offset);
        atomic_fetch_add_explicit(&source->sums->bytes, turn.got, memory_order_relaxed);
        to += turn.got;
        size -= turn.got;
    }
    return PS_OK;
}

/* As much as lies together, one byte at least: of the file's own rows all that is wanted; of the
 * base's whole rows, or a piece of one, since a caller's part may begin and end within a row. */
static enum ps_status fill_some(const struct source *source, uint64_t offset, struct turn *turn,
                                struct ps_error *error)
{
    uint64_t survivor = offset / source->row_bytes;
    uint64_t within = offset % source->row_bytes;
    uint64_t of_base = source->rows->survivors * source->row_bytes;
    /* Behind the last survivor stand the file's own rows, as they stand in it. */
    if (offset >= of_base)
        return fill_own(source, offset - of_base, turn, error);
    uint64_t row = ps_merged_rows_place(source->rows, survivor);
    /* Whoever takes the first byte of a row takes those that went before it along. */
    if (within == 0)
        PS_TRY(sum_gone(source, gone_before(source, survivor, row), row,
                        (struct ps_checkpoint_piece){turn->to, turn->size}, error));
    if (within == 0 && turn->size >= source->row_bytes)
        return fill_rows(source, row, turn, error);
    return fill_within(source, row * source->row_bytes + within, source->row_bytes - within, turn,
                       error);
}

/* Nothing went of these, so that one sum serves for the file and for what is handed out. */
static enum ps_status fill_own(const struct source *source, uint64_t own, struct turn *turn,
                               struct ps_error *error)
{
    struct ps_checkpoint_piece piece = {turn->to, turn->size};
    PS_TRY(ps_checkpoint_read_piece(source->reader, source->own_offset + own, piece, &turn->crc32c,
                                    error));
    turn->got = turn->size;
    ps_merged_sums_add(&source->sums->own, turn->crc32c, source->own_bytes - own - turn->got);
    return PS_OK;
}

/* The end of a row, or its beginning where there is no room for more: `rest` bytes at most, from
 * byte `at` of the base's array on. */
static enum ps_status fill_within(const struct source *source, uint64_t at, uint64_t rest,
                                  struct turn *turn, struct ps_error *error)
{
    turn->got = turn->size < rest ? turn->size : (size_t)rest;
    /* A row is not moved by a part of it: what is read is what is handed out. */
    struct ps_checkpoint_piece piece = {turn->to, turn->got};
    PS_TRY(ps_checkpoint_read_piece(source->reader->base, source->base_offset + at, piece,
                                    &turn->crc32c, error));
    ps_merged_sums_add(&source->sums->base, turn->crc32c, source->base_bytes - at - turn->got);
    return PS_OK;
}

/* From a row that survives on up to one that survives, so that there is at least one. Rows that
 * went in between are read with the others: where they are many each turn is shorter than the one
 * before, and the base's array is still read from its beginning to its end once. */
static enum ps_status fill_rows(const struct source *source, uint64_t row, struct turn *turn,
                                struct ps_error *error)
{
    uint64_t left = source->rows->base_rows - row;
    uint64_t span = turn->size / source->row_bytes;
    span = span < left ? span : left;
    /* The next turn takes those along, with more room. */
    while (!ps_merged_rows_has(source->rows, row + span - 1))
        span--;
    struct ps_checkpoint_piece piece = {turn->to, (size_t)(span * source->row_bytes)};
    PS_TRY(ps_checkpoint_read_piece(source->reader->base,
                                    source->base_offset + row * source->row_bytes, piece,
                                    &turn->crc32c, error));
    ps_merged_sums_add(&source->sums->base, turn->crc32c,
                       source->base_bytes - (row + span) * source->row_bytes);
    close_over(source, row, span, turn);
    return PS_OK;
}

/* Moves rows that survive to where those were that went before them. Before the first that went
 * every row is in its place already, and nothing is moved. Each run is summed where it was read to,
 * so that a fault in moving it is found as one of the disk would be. */
static void close_over(const struct source *source, uint64_t first, uint64_t span,
                       struct turn *turn)
{
    uint64_t kept = 0;
    uint32_t crc32c = 0;
    size_t row_bytes = (size_t)source->row_bytes;
    for (uint64_t at = 0; at < span;) {
        bool survives = false;
        uint64_t run = ps_merged_rows_run(source->rows, first + at, first + span, &survives);
        struct ps_bytes read = {turn->to + at * row_bytes, (size_t)run * row_bytes};
        /* Of all rows it is known already. */
        if (survives)
            crc32c = run == span ? turn->crc32c : ps_checksum_crc32c(crc32c, read);
        if (survives && kept != at)
            memmove(turn->to + kept * row_bytes, read.data, read.size);
        kept += survives ? run : 0;
        at += run;
    }
    turn->crc32c = crc32c;
    turn->got = (size_t)kept * row_bytes;
}

/* The first of the rows that went and stand right before `row`, which is that survivor; `row` when
 * there is none. */
static uint64_t gone_before(const struct source *source, uint64_t survivor, uint64_t row)
{
    if (row == 0 || ps_merged_rows_has(source->rows, row - 1))
        return row;
    return survivor == 0 ? 0 : ps_merged_rows_place(source->rows, survivor - 1) + 1;
}

/* Rows that nobody wants, read for the sum of the base's array alone, to where others will be. */
static enum ps_status sum_gone(const struct source *source, uint64_t first, uint64_t end,
                               struct ps_checkpoint_piece room, struct ps_error *error)
{
    uint8_t small[GONE_BYTES];
    uint32_t crc32c = 0;
    uint64_t stop = end * source->row_bytes;
    if (first == end)
        return PS_OK;
    /* Of a row that is longer than what is wanted of it there may be a byte of room. */
    if (room.size < sizeof small)
        room = (struct ps_checkpoint_piece){small, sizeof small};
    for (uint64_t at = first * source->row_bytes; at < stop;) {
        struct ps_checkpoint_piece piece = {room.data, stop - at < room.size ? (size_t)(stop - at)
                                                                             : room.size};
        PS_TRY(ps_checkpoint_read_piece(source->reader->base, source->base_offset + at, piece,
                                        &crc32c, error));
        at += piece.size;
    }
    ps_merged_sums_add(&source->sums->base, crc32c, source->base_bytes - stop);
    return PS_OK;
}

/* From the row of the part's first byte to that of its last: others may read the other bytes of
 * these two rows again, which is a hint that was wrong and nothing worse. */
void ps_merged_forget(const struct ps_checkpoint_reader *reader,
                      const struct ps_merged_parameter *merged, uint32_t array, uint64_t offset,
                      uint64_t bytes)
{
    const struct source source = source_of(reader, merged, array);
    const struct ps_files *files = reader->files;
    uint64_t of_base = source.rows->survivors * source.row_bytes;
    uint64_t end = offset + bytes;
    PS_ASSERT(end <= of_base + source.own_bytes);
    if (offset < end && offset < of_base) {
        uint64_t last = (end < of_base ? end : of_base) - 1;
        uint64_t from = ps_merged_rows_place(source.rows, offset / source.row_bytes);
        uint64_t to = ps_merged_rows_place(source.rows, last / source.row_bytes) + 1;
        files->forget(files->self, reader->base->file, source.base_offset + from * source.row_bytes,
                      (to - from) * source.row_bytes);
    }
    uint64_t own = offset > of_base ? offset : of_base;
    if (own < end)
        files->forget(files->self, reader->file, source.own_offset + (own - of_base), end - own);
}

/* Good is only what all three sums agree on. Whatever else there may be, parts that were read twice
 * or never, or damage, is decided by reading the array once more, which also tells which of the
 * files is damaged. */
enum ps_status ps_merged_check(const struct ps_checkpoint_reader *reader,
                               const struct ps_merged_parameter *merged, uint32_t array,
                               uint32_t crc32c, struct ps_error *error)
{
    const struct source source = source_of(reader, merged, array);
    uint32_t expected = 0;
    enum ps_status status = PS_OK;
    if (was_read_once(&source, merged, array))
        expected = atomic_load(&source.sums->merged);
    else
        status = read_again(&source, merged, array, &expected, error);
    /* Who reads the array another time begins anew. */
    ps_merged_sums_clear(source.sums);
    if (status != PS_OK || crc32c == expected)
        return status;
    return ps_checkpoint_fail_array(&merged->about, array, error);
}

/* Behind the last survivor rows may have gone that nobody has read: all of them, where none
 * survives. */
static bool was_read_once(const struct source *source, const struct ps_merged_parameter *merged,
                          uint32_t array)
{
    const struct ps_merged_rows *rows = source->rows;
    uint64_t last = rows->survivors;
    uint64_t gone = last > 0 ? ps_merged_rows_place(rows, last - 1) + 1 : 0;
    if (atomic_load(&source->sums->bytes) != last * source->row_bytes + source->own_bytes)
        return false;
    struct ps_checkpoint_piece room = {.data = NULL};
    if (gone < rows->base_rows)
        room.data = ps_plain(source->reader->memory, PS_CHECKPOINT_PART_BYTES);
    /* Without memory with less of it. What goes wrong goes wrong once more, and is said then. */
    room.size = room.data != NULL ? PS_CHECKPOINT_PART_BYTES : 0;
    enum ps_status status = sum_gone(source, gone, rows->base_rows, room, NULL);
    ps_release(source->reader->memory, room.data);
    if (status != PS_OK)
        return false;
    return ps_checkpoint_check_own(source->reader->base, merged->base, array,
                                   atomic_load(&source->sums->base), NULL) == PS_OK &&
           ps_checkpoint_check_own(source->reader, merged->own, array,
                                   atomic_load(&source->sums->own), NULL) == PS_OK;
}

/* One pass over the base's array makes two sums: of all of it, which the base has, and of the rows
 * that survive, which nobody has. That is how the second is known to be right. */
static enum ps_status read_again(const struct source *source,
                                 const struct ps_merged_parameter *merged, uint32_t array,
                                 uint32_t *crc32c, struct ps_error *error)
{
    const struct ps_checkpoint_reader *reader = source->reader;
    uint32_t base_crc32c = 0;
    uint32_t own_crc32c = 0;
    struct ps_error why = {.status = PS_OK};
    uint8_t *part = ps_plain(reader->memory, PS_CHECKPOINT_PART_BYTES);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for verifying");
    *crc32c = 0;
    enum ps_status status = sum_base(source, part, &base_crc32c, crc32c, &why);
    if (status == PS_OK)
        status = ps_checkpoint_check_own(reader->base, merged->base, array, base_crc32c, &why);
    if (status != PS_OK)
        status = ps_checkpoint_fail_base(reader, status, &why, error);
    /* Damage of the file's own is said without a word of the base. */
    if (status == PS_OK)
        status = sum_own(source, part, &own_crc32c, error);
    if (status == PS_OK)
        status = ps_checkpoint_check_own(reader, merged->own, array, own_crc32c, error);
    *crc32c = ps_checksum_crc32c_join(*crc32c, own_crc32c, source->own_bytes);
    ps_release(reader->memory, part);
    return status;
}

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
