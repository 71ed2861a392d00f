/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of one customer: numbered from 0 on without a gap, each asked of some nodes, and who
 * of them has answered. ps-lite's tracker keeps every request for ever and says nothing of
 * failures; here a request that is over is forgotten as soon as it was collected, and what remains
 * of it is its number, or, of the last few that failed, why.
 *
 * Threads:  the caller's lock.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, and those of the answers.
 * Memory:   one allocation for each request that is open; given back by forget and fini.
 */
#ifndef PS_CLIENT_REQUEST_TRACKER_H
#define PS_CLIENT_REQUEST_TRACKER_H

#include "base/alloc.h"
#include "base/status.h"

struct ps_tracked;

/* Failures that are remembered of requests that were forgotten. */
#define PS_TRACKER_FAILURES_MAX 256

struct ps_tracked_failure {
    int64_t timestamp;
    struct ps_error why;
};

struct ps_request_tracker {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_tracked *open;           /* owned: a table by timestamp */
    int64_t next;
    struct ps_tracked_failure *failures; /* owned: a ring; NULL: none yet */
    size_t failure_count;                /* ever */
};

enum ps_tracked_state {
    PS_TRACKED_NONE, /* was never given out */
    PS_TRACKED_OPEN, /* somebody has not answered */
    PS_TRACKED_OVER, /* all have, and it was not forgotten yet */
    PS_TRACKED_FORGOTTEN
};

void ps_request_tracker_init(struct ps_request_tracker *tracker, const struct ps_allocator *memory);
void ps_request_tracker_fini(struct ps_request_tracker *tracker);

/* A request to so many nodes; with none it is over at once. `owner` is borrowed until it is
 * forgotten. */
PS_MUST_USE enum ps_status ps_request_tracker_begin(struct ps_request_tracker *tracker,
                                                    size_t expected, void *owner,
                                                    int64_t *timestamp, struct ps_error *error);

/* What became of node i of the request: the first word counts, a second one changes nothing. Of
 * several failures the first one stays. True: that was the last answer. */
bool ps_request_tracker_answer(struct ps_request_tracker *tracker, int64_t timestamp, size_t i,
                               const struct ps_error *why);

/* `error` gets why it failed, of one that is over or forgotten; PS_OK, if it did not, or if so many
 * have failed since that nobody remembers. May be NULL. */
enum ps_tracked_state ps_request_tracker_look(const struct ps_request_tracker *tracker,
                                              int64_t timestamp, struct ps_error *error);

/* 0 and NULL: not open. */
size_t ps_request_tracker_responses(const struct ps_request_tracker *tracker, int64_t timestamp);
void *ps_request_tracker_owner(const struct ps_request_tracker *tracker, int64_t timestamp);

/* Has node i of an open request answered? */
bool ps_request_tracker_has_answered(const struct ps_request_tracker *tracker, int64_t timestamp,
                                     size_t i);

/* Whatever it has come to. A failure is remembered for a while. */
void ps_request_tracker_forget(struct ps_request_tracker *tracker, int64_t timestamp);

size_t ps_request_tracker_open_count(const struct ps_request_tracker *tracker);

#endif
