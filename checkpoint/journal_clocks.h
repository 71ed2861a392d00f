/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a PS_RECORD_CLOCKS, which sets clocks up or removes them, and of a
 * PS_RECORD_CLOCK, which says how far one worker is (docs/journal-format.md). The name in the
 * record's own head is that of the clocks, of at most PS_CLOCKS_NAME_BYTES_MAX bytes, as whoever
 * replays the record asks.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for bytes that no writer has made so.
 * Memory:   copies.
 */
#ifndef PS_CHECKPOINT_JOURNAL_CLOCKS_H
#define PS_CHECKPOINT_JOURNAL_CLOCKS_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>

/* Of settings without a task, a clock, a speculation or a list of ranks; of all others: so much and
 * a bit for each worker when not all take part. */
#define PS_CLOCKS_RECORD_BYTES ((size_t)24)
#define PS_CLOCKS_TASK_RECORD_BYTES ((size_t)48)
#define PS_CLOCKS_RECORD_BYTES_MAX (PS_CLOCKS_TASK_RECORD_BYTES + PS_CLOCK_RANKS_BYTES)
#define PS_CLOCK_RECORD_BYTES ((size_t)16)

/* The numbers are those of the messages Consistency and Straggler. */
struct ps_clocks_record {
    uint32_t workers;     /* from 1 to PS_CLOCK_WORKERS_MAX; 0, with all else 0: they are removed */
    uint32_t consistency; /* at most PS_CLOCKS_CONSISTENCY_MAX */
    uint32_t staleness;
    uint32_t straggler; /* at most PS_CLOCKS_STRAGGLER_MAX */
    uint64_t ttl_ms;
    uint32_t speculation; /* at most PS_CLOCK_SPECULATION_MAX */
    bool begins;          /* the task begins with this record: all clocks are `clock` */
    bool has_ranks;       /* only those in `ranks` take part; else all */
    uint64_t task;
    uint64_t clock;
    uint8_t ranks[PS_CLOCK_RANKS_BYTES]; /* bit r % 8 of byte r / 8; none beyond `workers` */
};

#define PS_CLOCKS_CONSISTENCY_MAX 3u
#define PS_CLOCKS_STRAGGLER_MAX 1u

struct ps_clock_record {
    uint32_t worker; /* rank, from 0; below PS_CLOCK_WORKERS_MAX */
    bool evicted;
    uint64_t clock;
};

/* Are the clocks removed by the record, and not set? Of a record that was read. */
bool ps_clocks_record_removes(const struct ps_clocks_record *clocks);

/* The same of any numbers: does the record say that, and nothing else? */
bool ps_clocks_record_is_removal(const struct ps_clocks_record *clocks);

/* Is the rank one that takes part? */
bool ps_clocks_record_has(const struct ps_clocks_record *clocks, uint32_t rank);

/* Are ranks, where there are any, of workers, at least one? */
bool ps_clocks_record_ranks_are_possible(const struct ps_clocks_record *clocks);

/* Settings and clocks beyond those bounds abort. Returns how many bytes the settings take, at most
 * PS_CLOCKS_RECORD_BYTES_MAX. */
size_t ps_clocks_record_write(const struct ps_clocks_record *clocks, uint8_t *to);
void ps_clock_record_write(const struct ps_clock_record *clock, uint8_t to[PS_CLOCK_RECORD_BYTES]);

/* A record of a journal. */
PS_MUST_USE enum ps_status ps_clocks_record_read(struct ps_bytes content,
                                                 struct ps_clocks_record *clocks,
                                                 struct ps_error *error);

/* A record of a checkpoint, which has the clocks that there are: one that removes some is refused
 * as well. */
PS_MUST_USE enum ps_status ps_clocks_record_read_kept(struct ps_bytes content,
                                                      struct ps_clocks_record *clocks,
                                                      struct ps_error *error);

PS_MUST_USE enum ps_status ps_clock_record_read(struct ps_bytes content,
                                                struct ps_clock_record *clock,
                                                struct ps_error *error);

#endif
