/* SPDX-License-Identifier: Apache-2.0 */
/* A run begins and ends anywhere, and writes past the system's cache are of whole blocks. So the
 * buffer of a run begins with room for the bytes that stand before it in its first block, and that
 * block goes among the edges; what is behind its last whole block stays in the buffer, and goes
 * there last.
 *
 *     blocks   |       0       |       1       |       2       |       3       |
 *     file     | put before |       run 0       |          run 1          | put next
 *     edges    |<------------->|               |               |<------------->|
 *                              |<------------->|   two runs meet in block 1
 */
#include "checkpoint/file_runs.h"

#include "base/assert.h"

#include <string.h>

/* What the disk is written in. */
#define BLOCK ((size_t)PS_FILE_DIRECT_BYTES)

_Static_assert(PS_FILE_RUNS_MAX <= PS_WRITE_PIECES_MAX, "a turn writes a piece for each run");

static void share_out(struct ps_file_runs *runs);

/* Of its first block the run has the end, and of its last the beginning; a short one may lie within
 * one block, between others. */
struct ps_file_run ps_file_run_of(uint64_t begin, uint64_t bytes, uint64_t row_bytes)
{
    size_t foreign = (size_t)(begin % BLOCK);
    PS_ASSERT(row_bytes > 0 && begin <= UINT64_MAX - bytes);
    return (struct ps_file_run){.end = begin + bytes,
                                .row_bytes = row_bytes,
                                .at = begin - foreign,
                                .used = foreign,
                                .foreign = foreign};
}

/* Nothing is in the output's buffers then, and nothing is put there before the end. */
enum ps_status ps_file_runs_begin(struct ps_file_runs *runs, struct ps_block_output *output,
                                  uint64_t behind, struct ps_error *error)
{
    PS_ASSERT(runs->count > 0 && runs->count <= PS_FILE_RUNS_MAX);
    PS_TRY(ps_block_output_go_to(output, behind, error));
    runs->output = output;
    runs->filling = 0;
    share_out(runs);
    return PS_OK;
}

/* Both buffers alike, so that what is left in one goes to the same place of the other: two blocks
 * for each run and the rest as the rows need it. */
static void share_out(struct ps_file_runs *runs)
{
    const struct ps_block_output *output = runs->output;
    uint64_t of_all = 0;
    size_t to_share = output->buffer_bytes - runs->count * 2 * BLOCK;
    size_t place = 0;
    PS_ASSERT(output->buffer_bytes > runs->count * 2 * BLOCK);
    for (size_t i = 0; i < runs->count; i++)
        of_all += runs->runs[i].row_bytes;
    PS_ASSERT(of_all > 0 && of_all <= to_share);
    for (size_t i = 0; i < runs->count; i++) {
        struct ps_file_run *run = &runs->runs[i];
        run->room = 2 * BLOCK + (size_t)(to_share * run->row_bytes / of_all) / BLOCK * BLOCK;
        run->buffers[0] = output->buffers[0] + place;
        run->buffers[1] = output->buffers[1] + place;
        place += run->room;
    }
    PS_ASSERT(place <= output->buffer_bytes);
}

/* Behind what is kept from before the last turn. */
uint8_t *ps_file_runs_room(const struct ps_file_runs *runs, size_t i, size_t *size)
{
    const struct ps_file_run *run = &runs->runs[i];
    PS_ASSERT(i < runs->count);
    *size = run->room - run->used;
    return run->buffers[runs->filling] + run->used;
}

/* Nothing is written before the next turn, so that runs which are made together go together. */
void ps_file_runs_made(struct ps_file_runs *runs, size_t i, size_t size)
{
    struct ps_file_run *run = &runs->runs[i];
    PS_ASSERT(i < runs->count && size <= run->room - run->used);
    run->used += size;
    PS_ASSERT(run->at + run->used <= run->end);
}

/* These bytes of a block, in the buffer that is filled, wait until the others are there. */
static enum ps_status put_edge(const struct ps_file_runs *runs, const struct ps_file_run *run,
                               size_t from, size_t to, struct ps_error *error)
{
    const struct ps_block_output *output = runs->output;
    PS_ASSERT(from <= to && to <= BLOCK);
    return ps_file_edges_put(output->edges, output->file, run->at + from,
                             (struct ps_bytes){run->buffers[runs->filling] + from, to - from},
                             error);
}

/* Of one run, whose first block may have foreign bytes: those are somebody else's to put. Its whole
 * blocks are the piece, and the rest is in the other buffer afterwards, which nobody writes from.
 * */
static enum ps_status turn_run(struct ps_file_runs *runs, struct ps_file_run *run,
                               struct ps_write_piece *piece, struct ps_error *error)
{
    uint8_t *buffer = run->buffers[runs->filling];
    size_t whole = run->used / BLOCK * BLOCK;
    size_t first = 0;
    if (whole > 0 && run->foreign > 0) {
        PS_TRY(put_edge(runs, run, run->foreign, BLOCK, error));
        run->foreign = 0;
        first = BLOCK;
    }
    *piece = (struct ps_write_piece){run->at + first, {buffer + first, whole - first}};
    run->used -= whole;
    run->at += whole;
    memcpy(run->buffers[1 - runs->filling], buffer + whole, run->used);
    return PS_OK;
}

/* The pieces are in this function's memory alone: whoever writes them has copies. */
enum ps_status ps_file_runs_turn(struct ps_file_runs *runs, struct ps_error *error)
{
    struct ps_write_piece pieces[PS_FILE_RUNS_MAX];
    size_t count = 0;
    /* The other buffer is free once the write from it has ended, and the file for an edge. */
    PS_TRY(ps_block_output_wait(runs->output, error));
    for (size_t i = 0; i < runs->count; i++) {
        PS_TRY(turn_run(runs, &runs->runs[i], &pieces[count], error));
        count += pieces[count].bytes.size > 0 ? 1 : 0;
    }
    runs->filling = 1 - runs->filling;
    return ps_block_output_write(runs->output, pieces, count, error);
}

/* A run that began and ends in one block has all of its bytes there, behind the foreign ones. */
enum ps_status ps_file_runs_end(struct ps_file_runs *runs, struct ps_error *error)
{
    PS_TRY(ps_file_runs_turn(runs, error));
    PS_TRY(ps_block_output_wait(runs->output, error));
    for (size_t i = 0; i < runs->count; i++) {
        const struct ps_file_run *run = &runs->runs[i];
        PS_ASSERT(run->at + run->used == run->end);
        PS_TRY(put_edge(runs, run, run->foreign, run->used, error));
    }
    return PS_OK;
}
