/* SPDX-License-Identifier: Apache-2.0 */
/* Several runs of bytes of a file that are written side by side: the arrays of a table, whose rows
 * are read once for all of them. Each run has a part of the output's buffers (block_output.h), and
 * goes to its place in the file in whole blocks; those in which it begins and ends go among the
 * output's edges.
 *
 *     begin                     ... behind what was put into the output, which goes on behind them
 *     room, made of each run    ... for some rows at a time
 *     turn                      ... when a run has no room
 *     end                       ... before anything else is put into the output
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

/* One of them. Those of its bytes that were made and not yet handed over lie in the buffer that is
 * being filled, which belongs to `at` in the file. */
struct ps_file_run {
    uint64_t end;        /* in the file */
    uint64_t row_bytes;  /* which its room is in proportion to */
    uint64_t at;         /* a multiple of a block */
    uint8_t *buffers[2]; /* within those of the output */
    size_t room;         /* of each */
    size_t used;
    size_t foreign; /* bytes of that which stand before the run in its first block */
};

/* All of them. In place, and for one use: begin to end. */
struct ps_file_runs {
    struct ps_block_output *output; /* borrowed */
    struct ps_file_run runs[PS_FILE_RUNS_MAX];
    size_t count;
    size_t filling; /* of the two buffers */
};

/* A run of `bytes` bytes that begins at `begin` in the file, for ps_file_runs_begin. */
struct ps_file_run ps_file_run_of(uint64_t begin, uint64_t bytes, uint64_t row_bytes);

/* The runs in `runs->runs`, which ps_file_run_of has made, and their count are set. The output goes
 * on at `behind`. A row of all runs together is no longer than a buffer without two blocks for each
 * run: then each has room for a row, at the beginning and behind every turn. */
PS_MUST_USE enum ps_status ps_file_runs_begin(struct ps_file_runs *runs,
                                              struct ps_block_output *output, uint64_t behind,
                                              struct ps_error *error);

/* Where the next bytes of run `i` are made, `*size` at most; then say how many were. */
uint8_t *ps_file_runs_room(const struct ps_file_runs *runs, size_t i, size_t *size);
void ps_file_runs_made(struct ps_file_runs *runs, size_t i, size_t size);

/* Begins to write what was made, and has room again. */
PS_MUST_USE enum ps_status ps_file_runs_turn(struct ps_file_runs *runs, struct ps_error *error);

/* All bytes of all runs were made: writes what is left of them. */
PS_MUST_USE enum ps_status ps_file_runs_end(struct ps_file_runs *runs, struct ps_error *error);

#endif
