/* SPDX-License-Identifier: Apache-2.0 */
/* Several runs of bytes that stand one behind the other in a file, and are written side by side:
 * the arrays of a table, whose rows are read once for all of them. Each run has a part of the
 * output's buffers (block_output.h), and goes to its place in the file in whole blocks. The blocks
 * in which one run ends and the next begins are written last, when both are known.
 *
 *     begin                          ... behind what was put into the output
 *     room, made of each run         ... for some rows at a time
 *     turn                           ... when a run has no room
 *     end                            ... the output goes on behind the last run
 *
 * Threads:  one, besides that of the write behind.
 * Blocking: begin, turn and end wait for the disk.
 * Errors:   those of the file system. After a failure the file is given up.
 * Memory:   the output's buffers: nothing here allocates.
 */
#ifndef PS_CHECKPOINT_FILE_RUNS_H
#define PS_CHECKPOINT_FILE_RUNS_H

#include "checkpoint/block_output.h"

/* Runs at most. */
#define PS_FILE_RUNS_MAX 6

/* One of them: the bytes from `begin` to before `end` in the file. Those that were made and not yet
 * handed over lie in the buffer that is being filled, which belongs to `at` in the file; before the
 * run's first turn there is room before them for what stands in the same block. */
struct ps_file_run {
    uint64_t begin;
    uint64_t end;
    uint64_t at;         /* in the file, of what the buffer begins with: a multiple of a block */
    uint8_t *buffers[2]; /* within those of the output */
    size_t room;         /* of each */
    size_t used;
    uint8_t *first; /* a block: the one with the run's beginning, which waits for the end */
    bool has_first; /* the block is there; until then it is in the buffer */
};

/* All of them, in their order in the file. In place, and for one use: begin to end. */
struct ps_file_runs {
    struct ps_block_output *output; /* borrowed */
    struct ps_file_run runs[PS_FILE_RUNS_MAX];
    size_t count;
    size_t filling; /* of the two buffers */
};

/* The runs have sizes[i] bytes, of rows with row_bytes[i] each; the first begins behind what was
 * put into the output. A row of all runs together is no longer than a buffer without three blocks
 * for each run: then each has room for a row, at the beginning and behind every turn. */
PS_MUST_USE enum ps_status ps_file_runs_begin(struct ps_file_runs *runs,
                                              struct ps_block_output *output, const uint64_t *sizes,
                                              const uint64_t *row_bytes, size_t count,
                                              struct ps_error *error);

/* Where the next bytes of run `i` are made, `*size` at most; then say how many were. */
uint8_t *ps_file_runs_room(const struct ps_file_runs *runs, size_t i, size_t *size);
void ps_file_runs_made(struct ps_file_runs *runs, size_t i, size_t size);

/* Begins to write what was made, and has room again. */
PS_MUST_USE enum ps_status ps_file_runs_turn(struct ps_file_runs *runs, struct ps_error *error);

/* All bytes of all runs were made: writes what is left of them. */
PS_MUST_USE enum ps_status ps_file_runs_end(struct ps_file_runs *runs, struct ps_error *error);

#endif
