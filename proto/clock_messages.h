/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of SetClocks, Clock and Progress as plain structs.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   every pointer is borrowed from the bytes that were decoded, or will be encoded.
 */
#ifndef PS_PROTO_CLOCK_MESSAGES_H
#define PS_PROTO_CLOCK_MESSAGES_H

#include "proto/messages.h"

/* SetClocks. The numbers are those of the wire; whoever sets the clocks judges them. */
struct ps_set_clocks_request {
    struct ps_bytes name;
    uint32_t workers;
    uint32_t consistency;
    uint32_t staleness;
    uint32_t straggler;
    uint64_t ttl_ms;
    uint32_t speculation;
    uint64_t task;
    uint64_t clock;
    struct ps_bytes ranks; /* bit r % 8 of byte r / 8, at most PS_CLOCK_RANKS_BYTES; empty: all */
    bool removes;          /* the clocks go; all of the above but the name is 0 or empty then */
    uint32_t shard;
    struct ps_request_id request;
};

/* Clock. */
struct ps_clock_request {
    struct ps_bytes name;
    uint32_t worker; /* 1 + rank */
    uint64_t clock;
    uint64_t task; /* in which it was ended; 0: not said */
    uint32_t shard;
    struct ps_request_id request;
};

/* Of both. */
struct ps_clocks_reply {
    uint64_t minimum;
    bool duplicate;
    uint64_t position;
    uint64_t durable_position;
    uint64_t clock;
};

struct ps_progress_request {
    struct ps_bytes name; /* empty: which clocks are there? */
    uint64_t at_least;
    uint64_t wait_ms;
    uint32_t shard;
};

struct ps_worker_clock {
    uint64_t clock;
    bool is_evicted;
    uint64_t silent_ms;
    bool is_absent; /* it takes no part in this task */
};

struct ps_progress_reply {
    uint64_t minimum;
    const struct ps_worker_clock *workers; /* by rank */
    size_t worker_count;
    uint32_t consistency;
    uint32_t staleness;
    uint32_t straggler;
    uint64_t ttl_ms;
    const struct ps_bytes *names;
    size_t name_count;
    uint64_t evictions;
    uint32_t speculation;
    uint64_t task;
};

#endif
