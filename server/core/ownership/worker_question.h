/* SPDX-License-Identifier: Apache-2.0 */
/* What a call asks about workers, and what the thread with the store answers. Everything that is
 * known of a place lies in the store under the client's number, so that any server can go on with
 * what another one began.
 *
 * Threads:  that of the registry's store; afterwards the caller's.
 * Blocking: until `deadline_ms`.
 * Errors:   each function lists its own; beyond these, those of etcd/kv.h.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_WORKER_QUESTION_H
#define PS_SERVER_CORE_WORKER_QUESTION_H

#include "etcd/registry_workers.h"

enum ps_worker_task {
    PS_WORKER_JOIN,  /* take a place, or keep it */
    PS_WORKER_LEAVE, /* give it up */
    PS_WORKER_LIST   /* read all groups: the thread publishes what it reads */
};

struct ps_worker_question {
    enum ps_worker_task task;
    char group[PS_WORKER_GROUP_BYTES_MAX + 1];
    struct ps_worker worker; /* of LEAVE its client */
    uint32_t size;           /* JOIN: as of struct ps_worker_wish */
    uint32_t rank;           /* JOIN: 1 + the rank that it must be; 0: any */
    int64_t incarnation;     /* JOIN: of the place to keep; 0: take one */

    /* After JOIN, on PS_OK. */
    bool has_joined;     /* else every rank is taken */
    uint32_t place;      /* its rank */
    uint32_t group_size; /* 0: no end, or the place was kept */
    uint32_t count;      /* of members, with this one; 0: it kept its place */

    /* After JOIN, on PS_ERR_EXISTS: who is in the way. */
    int64_t holder;
    uint64_t holder_ttl_ms;
};

/* Until when the holder of what a worker wants could be there without a word. Zeroed: nobody was
 * met yet. */
struct ps_worker_patience {
    int64_t holder;
    uint64_t ends_ms;
};

/* After PS_ERR_EXISTS: for how long the holder is waited for yet, since it may have died; most
 * often it is the worker's own former life. 0: it has been there for longer than it could be
 * silent, and so it lives. */
uint64_t ps_worker_patience_ms(struct ps_worker_patience *patience,
                               const struct ps_worker_question *question, uint64_t now_ms);

#define PS_WORKER_TTL_MS_MIN 1000
#define PS_WORKER_TTL_MS_MAX (3600 * 1000)

/* One group as it was read for questions that came together; zeroed: none was read. What these
 * questions change is changed here, too. */
struct ps_worker_reading {
    struct ps_worker_rows rows;
};

/* Behind the last of these questions: those that come later want to be answered by what is there
 * then. Accepts a zeroed one. */
void ps_worker_reading_end(struct ps_worker_reading *reading);

/* JOIN or LEAVE. All questions that share the reading were put before it was begun.
 *
 * PS_OK               done; `question` has the answer
 * PS_ERR_EXISTS       another client has the name or the rank; `question` and the text say who
 * PS_ERR_MISMATCH     the others of the group have said another size
 * PS_ERR_STALE_EPOCH  the place that the question names is not the client's any more
 * PS_ERR_BUSY         the job has too many groups
 */
PS_MUST_USE enum ps_status ps_worker_question_ask(struct ps_registry *registry,
                                                  const struct ps_allocator *memory,
                                                  struct ps_worker_reading *reading,
                                                  struct ps_worker_question *question,
                                                  uint64_t deadline_ms, struct ps_error *error);

#endif
