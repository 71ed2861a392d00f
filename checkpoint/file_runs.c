/* SPDX-License-Identifier: Apache-2.0 */
/* A run begins and ends anywhere, and writes past the system's cache are of whole blocks. So the
 * buffer of a run begins with room for the bytes that stand before it in its first block, and that
 * block is kept back; what is behind its last whole block stays in the buffer. At last ends and
 * beginnings are put together.
 *
 *     blocks   |       0       |       1       |       2       |       3       |
 *     file     | put before |       run 0       |          run 1          | put next
 *     turn     |<----- run 0 ->|               |<----- run 1 ->|               |
 *     end                      |<- both, kept ->                |<- the output's
 *
 * The first run's block is whole from the start: what was put before it is known. A run may also
 * begin and end within one block, and then leaves it to the run behind it.
 */
#include "checkpoint/file_runs.h"

#include "base/assert.h"

#include <string.h>

/* What the disk is written in. */
#define BLOCK ((size_t)PS_FILE_DIRECT_BYTES)

_Static_assert(PS_FILE_RUNS_MAX <= PS_WRITE_PIECES_MAX, "a turn writes a piece for each run");

static void share_out(struct ps_file_runs *runs, uint8_t *const buffers[2], size_t bytes,
                      const uint64_t *row_bytes);

/* The bytes before the first run lie at the beginning of its buffer. */
enum ps_status ps_file_runs_begin(struct ps_file_runs *runs, struct ps_block_output *output,
                                  const uint64_t *sizes, const uint64_t *row_bytes, size_t count,
                                  struct ps_error *error)
{
    uint8_t *buffers[2];
    size_t rest = 0;
    PS_ASSERT(count > 0 && count <= PS_FILE_RUNS_MAX);
    PS_TRY(ps_block_output_lend(output, buffers, &rest, error));
    *runs = (struct ps_file_runs){.output = output, .count = count};
    share_out(runs, buffers, output->buffer_bytes, row_bytes);
    uint64_t begin = output->size + rest;
    for (size_t i = 0; i < count; i++) {
        struct ps_file_run *run = &runs->runs[i];
        run->begin = begin;
        run->end = begin + sizes[i];
        run->used = begin % BLOCK;
        run->at = begin - run->used;
        begin = run->end;
    }
    return PS_OK;
}

/* Both buffers alike, so that what is left in one goes to the same place of the other: two blocks
 * for each run and the rest as the rows need it, and behind all runs the blocks that are kept back.
 * */
static void share_out(struct ps_file_runs *runs, uint8_t *const buffers[2], size_t bytes,
                      const uint64_t *row_bytes)
{
    uint64_t of_all = 0;
    size_t to_share = bytes - runs->count * 3 * BLOCK;
    size_t place = 0;
    PS_ASSERT(bytes > runs->count * 3 * BLOCK);
    for (size_t i = 0; i < runs->count; i++)
        of_all += row_bytes[i];
    PS_ASSERT(of_all > 0 && of_all <= to_share);
    for (size_t i = 0; i < runs->count; i++) {
        struct ps_file_run *run = &runs->runs[i];
        run->room = 2 * BLOCK + (size_t)(to_share * row_bytes[i] / of_all) / BLOCK * BLOCK;
        run->buffers[0] = buffers[0] + place;
        run->buffers[1] = buffers[1] + place;
        run->first = buffers[0] + bytes - (i + 1) * BLOCK;
        place += run->room;
    }
    PS_ASSERT(place + runs->count * BLOCK <= bytes);
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

/* Of one run: its whole blocks are the piece, and the rest is in the other buffer afterwards, which
 * nobody writes from. Returns whether there is a piece. */
static bool turn_run(struct ps_file_runs *runs, struct ps_file_run *run,
                     struct ps_write_piece *piece)
{
    uint8_t *buffer = run->buffers[runs->filling];
    size_t whole = run->used / BLOCK * BLOCK;
    size_t kept = 0;
    if (whole > 0 && run != &runs->runs[0] && !run->has_first) {
        memcpy(run->first, buffer, BLOCK);
        run->has_first = true;
        kept = BLOCK;
    }
    *piece = (struct ps_write_piece){run->at + kept, {buffer + kept, whole - kept}};
    run->used -= whole;
    run->at += whole;
    memcpy(run->buffers[1 - runs->filling], buffer + whole, run->used);
    return piece->bytes.size > 0;
}

/* The pieces are in this function's memory alone: whoever writes them has copies. */
enum ps_status ps_file_runs_turn(struct ps_file_runs *runs, struct ps_error *error)
{
    struct ps_write_piece pieces[PS_FILE_RUNS_MAX];
    size_t count = 0;
    /* The other buffer is free once the write from it has ended. */
    PS_TRY(ps_block_output_wait(runs->output, error));
    for (size_t i = 0; i < runs->count; i++)
        count += turn_run(runs, &runs->runs[i], &pieces[count]) ? 1 : 0;
    runs->filling = 1 - runs->filling;
    return ps_block_output_write(runs->output, pieces, count, error);
}

/* Behind the last turn, with every run's last bytes in the buffer that would be filled next. Joins
 * the end of what is before a run, `*used` bytes of `block`, with the run's beginning, and
 * leaves the run's end in `block`. */
static enum ps_status join_run(const struct ps_file_runs *runs, const struct ps_file_run *run,
                               uint8_t *block, size_t *used, struct ps_error *error)
{
    const struct ps_files *files = runs->output->files;
    const uint8_t *end = run->buffers[runs->filling];
    PS_ASSERT(run->begin % BLOCK == *used);
    if (!run->has_first) {
        /* The run begins and ends in the same block. */
        PS_ASSERT(run->used >= *used);
        memcpy(block + *used, end + *used, run->used - *used);
        *used = run->used;
        return PS_OK;
    }
    memcpy(block + *used, run->first + *used, BLOCK - *used);
    PS_TRY(files->write_over(files->self, runs->output->file, run->begin - *used,
                             (struct ps_bytes){block, BLOCK}, error));
    memcpy(block, end, run->used);
    *used = run->used;
    return PS_OK;
}

/* A block for each run, some pages in a file of megabytes. They are put together where the first
 * run would have kept a block back. */
enum ps_status ps_file_runs_end(struct ps_file_runs *runs, struct ps_error *error)
{
    const struct ps_file_run *last = &runs->runs[runs->count - 1];
    uint8_t *block = runs->runs[0].first;
    PS_TRY(ps_file_runs_turn(runs, error));
    PS_TRY(ps_block_output_wait(runs->output, error));
    size_t used = runs->runs[0].used;
    memcpy(block, runs->runs[0].buffers[runs->filling], used);
    for (size_t i = 0; i < runs->count; i++)
        PS_ASSERT(runs->runs[i].at + runs->runs[i].used == runs->runs[i].end);
    for (size_t i = 1; i < runs->count; i++)
        PS_TRY(join_run(runs, &runs->runs[i], block, &used, error));
    ps_block_output_resume(runs->output, last->at, (struct ps_bytes){block, used});
    return PS_OK;
}
