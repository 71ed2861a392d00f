/* SPDX-License-Identifier: Apache-2.0 */
/* Array by array all of a table's memory would be gone through once for each of them, a line or two
 * of every row, and every row would be held until the last array is read. So the arrays are written
 * side by side (file_runs.h), though some stand far before the others.
 *
 * For a server this is the difference between a checkpoint that needs three quarters of the table's
 * memory more, beside pushes to all rows, and one that needs an eighth
 * (docs/performance-tables.md, "A table's rows read once for a checkpoint"). */
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

/* Most of a table that is not large. Less in the simulator alone, whose tables are small ones: what
 * can go wrong between two steps of a large one would be looked at by nobody.
 *
 * Whoever is told of a step there lets pushes come, and they write over rows that the next step is
 * about to read: as the threads of a server do at any time. */
#ifndef PS_ROWS_TOGETHER_BYTES
#define PS_ROWS_TOGETHER_BYTES PS_BLOCK_OUTPUT_BYTES
#endif

_Static_assert(PS_CHECKPOINT_ARRAYS_MAX <= PS_FILE_RUNS_MAX, "a run for every array");
_Static_assert(PS_ROWS_EDGES_BESIDE > PS_FILE_RUNS_MAX,
               "an edge between all runs, and at the ends");

/* The arrays that are written together. What is counted in rows is the same for all of them. */
struct group {
    const struct ps_checkpoint_parameter *parameter; /* borrowed */
    size_t index;
    const struct ps_checkpoint_watcher *watcher; /* borrowed; may be NULL */
    uint32_t *crc32c;                            /* borrowed; by the number of an array */
    uint64_t row_bytes;                          /* of all of them */
    uint32_t count;
    struct {
        uint64_t row_bytes;
        size_t part;    /* of the output's sums */
        uint32_t crc32; /* so far */
    } of[PS_CHECKPOINT_ARRAYS_MAX];
};

static void collect(struct group *group, struct ps_summed_output *output,
                    const struct ps_rows_place *wide, struct ps_file_runs *runs);
static enum ps_status write_rows(struct group *group, struct ps_file_runs *runs,
                                 struct ps_error *error);

/* By all of its arrays, so that writer and sums know before the first byte. A table that is as in
 * the base has nothing here, and of one without a source the bytes lie somewhere as they go into
 * the file: nobody waits for them. */
bool ps_rows_output_is_large(const struct ps_checkpoint_parameter *parameter)
{
    uint64_t bytes = 0;
    if (!parameter->is_table || parameter->source.read == NULL || ps_array_carried(parameter) == 0)
        return false;
    for (uint32_t array = 0; array < ps_array_count(parameter); array++)
        bytes += ps_array_bytes(parameter, array);
    return bytes > PS_ROWS_TOGETHER_BYTES;
}

/* The place is known, and the sums will be: whatever comes behind can be written now. Keys are
 * wide, so that every table leaves something out. */
enum ps_status ps_rows_output_leave_wide(struct ps_summed_output *output,
                                         const struct ps_checkpoint_parameter *parameter,
                                         struct ps_rows_place *wide, struct ps_error *error)
{
    size_t last = 0;
    size_t count = 0;
    wide->begin = output->bytes;
    for (uint32_t array = 0; array < ps_array_count(parameter); array++)
        if (ps_array_is_wide(parameter, array)) {
            last = ps_summed_output_leave_out(output, ps_array_bytes(parameter, array));
            count++;
        }
    PS_ASSERT(count > 0);
    PS_ASSERT(last + 1 >= count);
    wide->part = last + 1 - count;
    return ps_block_output_go_to(output->blocks, output->bytes, error);
}

enum ps_status ps_rows_output_write(struct ps_summed_output *output,
                                    const struct ps_checkpoint_parameter *parameter, size_t index,
                                    const struct ps_rows_place *wide,
                                    const struct ps_checkpoint_watcher *watcher, uint32_t *crc32c,
                                    struct ps_error *error)
{
    struct group group = {
        .parameter = parameter, .index = index, .watcher = watcher, .crc32c = crc32c};
    struct ps_file_runs runs = {.count = 0};
    PS_ASSERT(ps_rows_output_is_large(parameter));
    /* What is summed and what is written are at the same place. */
    PS_ASSERT(ps_block_output_place(output->blocks) == output->bytes);
    /* The output's buffers are the runs' from here on; what is put next comes behind them. */
    collect(&group, output, wide, &runs);
    PS_TRY(ps_file_runs_begin(&runs, output->blocks, output->bytes, error));
    PS_TRY(write_rows(&group, &runs, error));
    for (size_t i = 0; i < group.count; i++)
        output->parts[group.of[i].part].crc32 = group.of[i].crc32;
    return PS_OK;
}

/* In the order of the arrays, so that the clock is the last: with it whoever holds the rows lets go
 * of them. */
static void collect(struct group *group, struct ps_summed_output *output,
                    const struct ps_rows_place *wide, struct ps_file_runs *runs)
{
    const struct ps_checkpoint_parameter *parameter = group->parameter;
    struct ps_rows_place next = *wide;
    group->count = ps_array_count(parameter);
    runs->count = group->count;
    PS_ASSERT(group->count <= PS_CHECKPOINT_ARRAYS_MAX);
    for (uint32_t array = 0; array < group->count; array++) {
        bool is_wide = ps_array_is_wide(parameter, array);
        uint64_t row_bytes = ps_array_row_bytes(parameter, array);
        uint64_t bytes = ps_array_bytes(parameter, array);
        uint64_t begin = is_wide ? next.begin : output->bytes;
        group->of[array].row_bytes = row_bytes;
        group->of[array].part = is_wide ? next.part++ : ps_summed_output_leave_out(output, bytes);
        next.begin += is_wide ? bytes : 0;
        group->row_bytes += row_bytes;
        runs->runs[array] = ps_file_run_of(begin, bytes, row_bytes);
    }
}

/* So many rows are read next: as many as a step has, or as there are left, or as have room in every
 * run. 0: none, before a turn. */
static uint64_t rows_of_step(const struct group *group, const struct ps_file_runs *runs,
                             uint64_t rows_left)
{
    uint64_t rows = PS_ROWS_STEP_BYTES / group->row_bytes;
    rows = rows > 0 ? rows : 1;
    rows = rows < rows_left ? rows : rows_left;
    PS_ASSERT(rows_left > 0);
    for (size_t i = 0; i < group->count; i++) {
        size_t room = 0;
        (void)ps_file_runs_room(runs, i, &room);
        uint64_t have_room = room / group->of[i].row_bytes;
        rows = rows < have_room ? rows : have_room;
    }
    return rows;
}

/* What was read of each array, from its beginning on, will not be read again. Whoever is told may
 * take its time, so that pushes have theirs. */
static void tell(const struct group *group, uint64_t rows)
{
    const struct ps_checkpoint_watcher *watcher = group->watcher;
    PS_ASSERT(rows <= group->parameter->rows);
    for (uint32_t array = 0; watcher != NULL && array < group->count; array++)
        watcher->written(watcher->self, group->index, array, rows * group->of[array].row_bytes);
}

/* The same rows of every array. They are summed while they are near, and by themselves for the file
 * as well, since what stands before them there may not be known yet. */
static enum ps_status write_step(struct group *group, struct ps_file_runs *runs, uint64_t first,
                                 uint64_t rows, struct ps_error *error)
{
    const struct ps_checkpoint_source *source = &group->parameter->source;
    for (uint32_t array = 0; array < group->count; array++) {
        size_t room = 0;
        uint64_t row_bytes = group->of[array].row_bytes;
        uint8_t *to = ps_file_runs_room(runs, array, &room);
        const struct ps_bytes read = {to, (size_t)(rows * row_bytes)};
        PS_ASSERT(read.size <= room);
        PS_TRY(source->read(source->self, array, first * row_bytes, to, read.size, error));
        group->crc32c[array] = ps_checksum_crc32c(group->crc32c[array], read);
        group->of[array].crc32 = ps_checksum_crc32(group->of[array].crc32, read);
        ps_file_runs_made(runs, array, read.size);
    }
    tell(group, first + rows);
    return PS_OK;
}

/* A turn each time that a run has no room for a row more: the writing of what was made goes on
 * beside the reading of the next rows. */
static enum ps_status write_rows(struct group *group, struct ps_file_runs *runs,
                                 struct ps_error *error)
{
    /* A table that is large has rows, so there is a step before the end. */
    for (uint64_t first = 0; first < group->parameter->rows;) {
        uint64_t rows = rows_of_step(group, runs, group->parameter->rows - first);
        if (rows == 0)
            PS_TRY(ps_file_runs_turn(runs, error));
        else
            PS_TRY(write_step(group, runs, first, rows, error));
        first += rows;
    }
    return ps_file_runs_end(runs, error);
}
