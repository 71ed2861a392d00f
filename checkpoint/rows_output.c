/* SPDX-License-Identifier: Apache-2.0 */
/* A table that fits into what is free of the output's buffer is put there, array by array: a model
 * may have ten thousand small ones, and a write for each array of each would take longer than all
 * of their bytes. All others are written side by side (file_runs.h).
 *
 * Array by array all of a table's memory would be gone through once for each of them, a line or two
 * of every row, and every row would be held until the last array is read. */
#include "checkpoint/rows_output.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"
#include "checkpoint/file_runs.h"

/* Rows that are read at a time have so many bytes in all their arrays: the next array finds them in
 * the processor's second cache, and so do the sums. A few in the simulator, whose pushes come in
 * between. */
#ifndef PS_ROWS_STEP_BYTES
#define PS_ROWS_STEP_BYTES ((uint64_t)256 << 10)
#endif

/* Most of a table that is put into the buffer. Less than all of that in the simulator alone, whose
 * tables are small ones. */
#ifndef PS_ROWS_TOGETHER_BYTES
#define PS_ROWS_TOGETHER_BYTES SIZE_MAX
#endif

_Static_assert(PS_CHECKPOINT_ARRAYS_MAX <= PS_FILE_RUNS_MAX, "a run for every array");

/* The arrays that are written together: of one width, so that nothing stands between them in the
 * file. What is counted in rows is the same for all of them. */
struct group {
    const struct ps_checkpoint_parameter *parameter; /* borrowed */
    size_t index;
    const struct ps_checkpoint_watcher *watcher; /* borrowed; may be NULL */
    uint32_t *crc32c;                            /* borrowed; by the number of an array */
    size_t count;
    uint32_t arrays[PS_CHECKPOINT_ARRAYS_MAX];
    uint64_t row_bytes[PS_CHECKPOINT_ARRAYS_MAX];
    uint64_t sizes[PS_CHECKPOINT_ARRAYS_MAX];
    uint32_t crc32[PS_CHECKPOINT_ARRAYS_MAX]; /* of what each array has in the file */
    uint64_t row_bytes_of_all;
    uint64_t bytes;
};

static void collect(struct group *group, bool wide);
static enum ps_status write_together(struct ps_summed_output *output, struct group *group,
                                     struct ps_error *error);
static enum ps_status write_side_by_side(struct ps_summed_output *output, struct group *group,
                                         struct ps_error *error);

enum ps_status ps_rows_output_write(struct ps_summed_output *output,
                                    const struct ps_checkpoint_parameter *parameter, size_t index,
                                    bool wide, const struct ps_checkpoint_watcher *watcher,
                                    uint32_t *crc32c, struct ps_error *error)
{
    struct group group = {
        .parameter = parameter, .index = index, .watcher = watcher, .crc32c = crc32c};
    size_t room = 0;
    PS_ASSERT(parameter->is_table && parameter->source.read != NULL);
    collect(&group, wide);
    if (group.bytes == 0)
        return PS_OK;
    (void)ps_block_output_room(output->blocks, &room);
    room = room < PS_ROWS_TOGETHER_BYTES ? room : PS_ROWS_TOGETHER_BYTES;
    return group.bytes <= room ? write_together(output, &group, error)
                               : write_side_by_side(output, &group, error);
}

/* In the order of the file. Only keys that went may stand behind them, which are no array of the
 * table itself. */
static void collect(struct group *group, bool wide)
{
    const struct ps_checkpoint_parameter *parameter = group->parameter;
    for (uint32_t array = 0; array < ps_array_count(parameter); array++) {
        if (ps_array_is_wide(parameter, array) != wide)
            continue;
        group->arrays[group->count] = array;
        group->row_bytes[group->count] = ps_array_row_bytes(parameter, array);
        group->sizes[group->count] = ps_array_bytes(parameter, array);
        group->row_bytes_of_all += group->row_bytes[group->count];
        group->bytes += group->sizes[group->count++];
    }
    /* Keys and clock have a row for each row, also where the state is one element of it. */
    PS_ASSERT(group->bytes == parameter->rows * group->row_bytes_of_all);
}

/* What was read of an array, from its beginning on, will not be read again. Whoever is told may
 * take its time, so that pushes have theirs. */
static void tell(const struct group *group, size_t i, uint64_t rows)
{
    PS_ASSERT(i < group->count && rows <= group->parameter->rows);
    if (group->watcher != NULL)
        group->watcher->written(group->watcher->self, group->index, group->arrays[i],
                                rows * group->row_bytes[i]);
}

/* All of them have room: only the last can fill the buffer, and have it written. */
static enum ps_status write_together(struct ps_summed_output *output, struct group *group,
                                     struct ps_error *error)
{
    const struct ps_checkpoint_source *source = &group->parameter->source;
    for (size_t i = 0; i < group->count; i++) {
        size_t room = 0;
        struct ps_bytes made = {ps_block_output_room(output->blocks, &room),
                                (size_t)group->sizes[i]};
        PS_ASSERT(made.size <= room);
        PS_TRY(source->read(source->self, group->arrays[i], 0, (uint8_t *)(uintptr_t)made.data,
                            made.size, error));
        PS_TRY(ps_summed_output_made(output, made, &group->crc32c[group->arrays[i]], error));
        tell(group, i, group->parameter->rows);
    }
    return PS_OK;
}

/* So many rows are read next: as many as a step has, or as there are left, or as have room in every
 * run. 0: none, before a turn. */
static uint64_t rows_of_step(const struct group *group, const struct ps_file_runs *runs,
                             uint64_t rows_left)
{
    uint64_t rows = PS_ROWS_STEP_BYTES / group->row_bytes_of_all;
    rows = rows > 0 ? rows : 1;
    rows = rows < rows_left ? rows : rows_left;
    PS_ASSERT(rows_left > 0);
    for (size_t i = 0; i < group->count; i++) {
        size_t room = 0;
        (void)ps_file_runs_room(runs, i, &room);
        rows = rows < room / group->row_bytes[i] ? rows : room / group->row_bytes[i];
    }
    return rows;
}

/* The same rows of every array. They are summed while they are near, and by themselves for the file
 * as well, since what stands before them there may not be known yet. */
static enum ps_status write_step(struct group *group, struct ps_file_runs *runs, uint64_t first,
                                 uint64_t rows, struct ps_error *error)
{
    const struct ps_checkpoint_source *source = &group->parameter->source;
    for (size_t i = 0; i < group->count; i++) {
        size_t room = 0;
        size_t size = (size_t)(rows * group->row_bytes[i]);
        uint32_t array = group->arrays[i];
        uint8_t *to = ps_file_runs_room(runs, i, &room);
        PS_ASSERT(size <= room);
        PS_TRY(source->read(source->self, array, first * group->row_bytes[i], to, size, error));
        group->crc32c[array] =
            ps_checksum_crc32c(group->crc32c[array], (struct ps_bytes){to, size});
        group->crc32[i] = ps_checksum_crc32(group->crc32[i], (struct ps_bytes){to, size});
        ps_file_runs_made(runs, i, size);
    }
    /* Behind the last array: rows are let go when all of them have been read. */
    for (size_t i = 0; i < group->count; i++)
        tell(group, i, first + rows);
    return PS_OK;
}

/* A turn each time that a run has no room for a row more: the writing of what was made goes on
 * beside the reading of the next rows. The sum of the file is joined from those of the arrays, in
 * the order in which they stand there. */
static enum ps_status write_side_by_side(struct ps_summed_output *output, struct group *group,
                                         struct ps_error *error)
{
    struct ps_file_runs runs;
    PS_TRY(ps_file_runs_begin(&runs, output->blocks, group->sizes, group->row_bytes, group->count,
                              error));
    for (uint64_t first = 0; first < group->parameter->rows;) {
        uint64_t rows = rows_of_step(group, &runs, group->parameter->rows - first);
        if (rows == 0)
            PS_TRY(ps_file_runs_turn(&runs, error));
        else
            PS_TRY(write_step(group, &runs, first, rows, error));
        first += rows;
    }
    PS_TRY(ps_file_runs_end(&runs, error));
    for (size_t i = 0; i < group->count; i++)
        output->crc32 = ps_checksum_crc32_join(output->crc32, group->crc32[i], group->sizes[i]);
    output->bytes += group->bytes;
    return PS_OK;
}
