/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at fixed places. A number above its bound is of a later version or of no writer at all;
 * clocks that are read in another way than they were set would let workers run apart, so both are
 * refused. */
#include "checkpoint/journal_clocks.h"

#include "base/assert.h"
#include "checkpoint/little_endian.h"

#include <string.h>

enum { WORKERS_AT = 0, CONSISTENCY_AT = 4, STALENESS_AT = 8, STRAGGLER_AT = 12, TTL_AT = 16 };
enum { SPECULATION_AT = 24, BEGINS_AT = 28, TASK_AT = 32, START_AT = 40, RANKS_AT = 48 };
enum { WORKER_AT = 0, EVICTED_AT = 4, CLOCK_AT = 8 };

_Static_assert(TTL_AT + 8 == PS_CLOCKS_RECORD_BYTES, "the settings end with the time");
_Static_assert(RANKS_AT == PS_CLOCKS_TASK_RECORD_BYTES, "ranks stand behind the rest");
_Static_assert(CLOCK_AT + 8 == PS_CLOCK_RECORD_BYTES, "a clock's record ends with the clock");

/* The short form is that of programs which know no tasks: they read it on. */
static bool is_short(const struct ps_clocks_record *clocks)
{
    return clocks->speculation == 0 && clocks->task == 0 && clocks->clock == 0 && !clocks->begins &&
           !clocks->has_ranks;
}

/* No writer sets clocks of no workers, so that this number was free to say something else. */
bool ps_clocks_record_removes(const struct ps_clocks_record *clocks)
{
    return clocks->workers == 0;
}

/* Whatever else is said of clocks that go was meant for others: such a record was put together
 * wrongly, and following it would lose clocks that somebody counts by. */
bool ps_clocks_record_is_removal(const struct ps_clocks_record *clocks)
{
    return ps_clocks_record_removes(clocks) && clocks->consistency == 0 && clocks->staleness == 0 &&
           clocks->straggler == 0 && clocks->ttl_ms == 0 && is_short(clocks);
}

/* Any staleness and any time are possible: both are only compared. */
static bool settings_are_possible(const struct ps_clocks_record *clocks)
{
    if (ps_clocks_record_removes(clocks))
        return ps_clocks_record_is_removal(clocks);
    return clocks->workers <= PS_CLOCK_WORKERS_MAX &&
           clocks->consistency <= PS_CLOCKS_CONSISTENCY_MAX &&
           clocks->straggler <= PS_CLOCKS_STRAGGLER_MAX &&
           clocks->speculation <= PS_CLOCK_SPECULATION_MAX &&
           ps_clocks_record_ranks_are_possible(clocks);
}

/* Bytes that the ranks below `workers` take. */
static size_t rank_bytes(const struct ps_clocks_record *clocks)
{
    return (clocks->workers + 7) / 8;
}

bool ps_clocks_record_has(const struct ps_clocks_record *clocks, uint32_t rank)
{
    return rank < clocks->workers &&
           (!clocks->has_ranks || (clocks->ranks[rank / 8] >> (rank % 8) & 1) != 0);
}

/* A bit beyond the workers would be a worker that nobody can wait for. */
bool ps_clocks_record_ranks_are_possible(const struct ps_clocks_record *clocks)
{
    bool any = !clocks->has_ranks;
    for (uint32_t rank = 0; rank < PS_CLOCK_WORKERS_MAX; rank++) {
        bool is_set = (clocks->ranks[rank / 8] >> (rank % 8) & 1) != 0;
        if (is_set && (rank >= clocks->workers || !clocks->has_ranks))
            return false;
        any |= is_set;
    }
    return any;
}

/* What a request asked for and was granted; it was held to the same bounds there. */
size_t ps_clocks_record_write(const struct ps_clocks_record *clocks, uint8_t *to)
{
    PS_ASSERT(settings_are_possible(clocks));
    /* No byte of the content is left as it was found: the settings fill it. */
    ps_little_put(to + WORKERS_AT, 4, clocks->workers);
    ps_little_put(to + CONSISTENCY_AT, 4, clocks->consistency);
    ps_little_put(to + STALENESS_AT, 4, clocks->staleness);
    ps_little_put(to + STRAGGLER_AT, 4, clocks->straggler);
    ps_little_put(to + TTL_AT, 8, clocks->ttl_ms);
    if (is_short(clocks))
        return PS_CLOCKS_RECORD_BYTES;
    ps_little_put(to + SPECULATION_AT, 4, clocks->speculation);
    ps_little_put(to + BEGINS_AT, 4, clocks->begins ? 1 : 0);
    ps_little_put(to + TASK_AT, 8, clocks->task);
    ps_little_put(to + START_AT, 8, clocks->clock);
    if (!clocks->has_ranks)
        return PS_CLOCKS_TASK_RECORD_BYTES;
    memcpy(to + RANKS_AT, clocks->ranks, rank_bytes(clocks));
    return PS_CLOCKS_TASK_RECORD_BYTES + rank_bytes(clocks);
}

/* Four bytes for one bit: the clock behind it stays aligned, and later versions have room. */
void ps_clock_record_write(const struct ps_clock_record *clock, uint8_t to[PS_CLOCK_RECORD_BYTES])
{
    PS_ASSERT(clock->worker < PS_CLOCK_WORKERS_MAX);
    ps_little_put(to + WORKER_AT, 4, clock->worker);
    ps_little_put(to + EVICTED_AT, 4, clock->evicted ? 1 : 0);
    ps_little_put(to + CLOCK_AT, 8, clock->clock);
}

/* What stands behind the settings of the short form. False: so many bytes are no writer's. */
static bool read_task(struct ps_bytes content, struct ps_clocks_record *read)
{
    if (content.size == PS_CLOCKS_RECORD_BYTES)
        return true;
    size_t ranks = content.size - PS_CLOCKS_TASK_RECORD_BYTES;
    if (content.size < PS_CLOCKS_TASK_RECORD_BYTES || (ranks != 0 && ranks != rank_bytes(read)) ||
        ranks > sizeof read->ranks)
        return false;
    uint32_t begins = (uint32_t)ps_little_take(content.data + BEGINS_AT, 4);
    read->speculation = (uint32_t)ps_little_take(content.data + SPECULATION_AT, 4);
    read->begins = begins == 1;
    read->task = ps_little_take(content.data + TASK_AT, 8);
    read->clock = ps_little_take(content.data + START_AT, 8);
    read->has_ranks = ranks > 0;
    memcpy(read->ranks, content.data + RANKS_AT, ranks);
    /* One content has one way to be written. */
    return begins <= 1 && !is_short(read);
}

/* A right checksum says that these bytes were written, and not that they make sense. */
enum ps_status ps_clocks_record_read(struct ps_bytes content, struct ps_clocks_record *clocks,
                                     struct ps_error *error)
{
    if (content.size < PS_CLOCKS_RECORD_BYTES)
        return ps_fail(error, PS_ERR_CORRUPT, "settings of clocks in %zu bytes", content.size);
    struct ps_clocks_record read = {
        .workers = (uint32_t)ps_little_take(content.data + WORKERS_AT, 4),
        .consistency = (uint32_t)ps_little_take(content.data + CONSISTENCY_AT, 4),
        .staleness = (uint32_t)ps_little_take(content.data + STALENESS_AT, 4),
        .straggler = (uint32_t)ps_little_take(content.data + STRAGGLER_AT, 4),
        .ttl_ms = ps_little_take(content.data + TTL_AT, 8)};
    /* The workers are held to their bound before anything is as long as they say. */
    if (!settings_are_possible(&read))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "clocks of %u workers, with consistency %u and stragglers %u", read.workers,
                       read.consistency, read.straggler);
    if (!read_task(content, &read) || !settings_are_possible(&read))
        return ps_fail(error, PS_ERR_CORRUPT, "the task of clocks, of %u workers, in %zu bytes",
                       read.workers, content.size);
    *clocks = read;
    return PS_OK;
}

/* A removal in a state would be clocks that are there and are not. */
enum ps_status ps_clocks_record_read_kept(struct ps_bytes content, struct ps_clocks_record *clocks,
                                          struct ps_error *error)
{
    struct ps_clocks_record read;
    PS_TRY(ps_clocks_record_read(content, &read, error));
    if (ps_clocks_record_removes(&read))
        return ps_fail(error, PS_ERR_CORRUPT, "clocks of no workers are kept");
    *clocks = read;
    return PS_OK;
}

/* Whether the worker is one of these clocks' is asked by whoever knows the settings. */
enum ps_status ps_clock_record_read(struct ps_bytes content, struct ps_clock_record *clock,
                                    struct ps_error *error)
{
    if (content.size != PS_CLOCK_RECORD_BYTES)
        return ps_fail(error, PS_ERR_CORRUPT, "a worker's clock in %zu bytes", content.size);
    uint32_t worker = (uint32_t)ps_little_take(content.data + WORKER_AT, 4);
    uint32_t evicted = (uint32_t)ps_little_take(content.data + EVICTED_AT, 4);
    if (worker >= PS_CLOCK_WORKERS_MAX || evicted > 1)
        return ps_fail(error, PS_ERR_CORRUPT, "a clock of worker %u, evicted %u", worker, evicted);
    *clock = (struct ps_clock_record){.worker = worker,
                                      .evicted = evicted == 1,
                                      .clock = ps_little_take(content.data + CLOCK_AT, 8)};
    return PS_OK;
}
