/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient_table.h, which includes it: tables that are trained in rounds
 * (docs/rounds.md). A worker reads rows, computes, and contributes gradients; the round makes one
 * step of all that its workers brought, in the order of their ranks.
 *
 *     struct psclient_table_step step = {.worker = 1 + rank};
 *     psclient_table_get(table, keys, count, rows, 30000, &error);
 *     for (;;) {
 *         ... gradients of these rows, the keys of the next batch ...
 *         step.keys = keys, step.count = count, step.gradients = gradients;
 *         step.get_keys = next, step.get_count = next_count, step.rows = rows;
 *         psclient_table_step(table, &step, 30000, &stepped, &error);
 *     }
 *
 * Every server has rounds of its own, and each step contributes at all of them, also where a worker
 * has no rows: the others wait for it there. The object of the table knows which round is next at
 * each server, from what it has read; so it is one worker's (open the table once for each).
 *
 * Threads:  as psclient_table.h; one step of an object at a time.
 * Blocking: at most `timeout_ms`, for the other workers.
 * Errors:   as psclient_table.h. PSCLIENT_INVALID: rows for one server that are more than a message
 *           (about 64 MiB), since a contribution is whole; or no worker. A step whose
 *           time is over, since the others did not come, may be made again: what a server has
 *           counted already is counted once.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PSCLIENT_TABLE_ROUNDS_H
#define PSCLIENT_TABLE_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient_error;
struct psclient_table;

/* Zero-initialise; `worker` is needed. This struct never grows. */
struct psclient_table_step {
    const uint64_t *keys; /* of the contribution, in any order; repeats are summed in theirs */
    size_t count;         /* may be 0 */
    const void *gradients;
    const uint64_t *get_keys; /* to be read behind the round */
    size_t get_count;         /* may be 0 */
    void *rows;               /* row after row; not the gradients' memory */
    uint32_t worker;          /* 1 + its rank */
    float weight;             /* of `Weighted` rounds; 0: 1 */
    uint64_t reserved[2];     /* 0 */
};

/* This struct never grows. */
struct psclient_table_stepped {
    uint64_t version; /* the least of the servers' that the rows have */
    uint32_t late;    /* servers whose round was over: it counts there in a later one, or nowhere */
    uint32_t duplicate; /* servers where the worker had contributed to this round before */
};

/* Contributes, waits until the rounds are over, and reads. One round trip where the round is known
 * from what was read before and no server answers more than a message (1 MiB); two otherwise, and
 * for all workers of a client but its first. `stepped` may be NULL. */
int psclient_table_step(struct psclient_table *table, const struct psclient_table_step *step,
                        uint64_t timeout_ms, struct psclient_table_stepped *stepped,
                        struct psclient_error *error);

/* The two halves of a step, for whoever has something to do while the others come. The first
 * returns when the servers have the contribution, whose `get_keys` are not looked at; `version` is
 * not set. The second waits for the rounds that the object has contributed to, and reads. Each
 * contribution is awaited before the next. */
int psclient_table_contribute(struct psclient_table *table, const struct psclient_table_step *step,
                              uint64_t timeout_ms, struct psclient_table_stepped *stepped,
                              struct psclient_error *error);
int psclient_table_await(struct psclient_table *table, const uint64_t *keys, size_t count,
                         void *rows, uint64_t timeout_ms, struct psclient_error *error);

/* Asks every server how many versions its part of the table has had, and says the least of them: a
 * worker that begins, or comes back, goes on from there. Its next step is to the rounds behind
 * these. */
int psclient_table_version(struct psclient_table *table, uint64_t timeout_ms, uint64_t *version,
                           struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
