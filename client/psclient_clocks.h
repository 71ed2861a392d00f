/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: clocks, by which workers train side by side without
 * being a step apart at any time. Worker r ends its iterations 1, 2, 3 ... and says so; who reads
 * at clock c (psclient_parameter.clocks, .worker, .clock) waits until the others have come as far
 * as the clocks' consistency asks.
 *
 *     const struct psclient_clocks clocks = {.workers = 4, .consistency = PSCLIENT_SSP,
 *                                            .staleness = 3};
 *     psclient_set_clocks(client, "epoch", &clocks, 30000, &error);
 *     for (uint64_t c = 0;; c++) {
 *         parameter.clocks = "epoch", parameter.worker = r + 1, parameter.clock = c;
 *         psclient_pull(client, &parameter, 1, 30000, NULL, &error);
 *         ...                                        psclient_push(client, &gradient, ...);
 *         psclient_clock(client, "epoch", r + 1, c + 1, 30000, NULL, &error);
 *     }
 *
 * Every server has clocks of its own, and these calls go to all of them. Each change is done once,
 * as a push is; what was changed at some servers only is finished by the same call again, from
 * whichever client.
 *
 * Threads:  as psclient.h says.
 * Blocking: at most `timeout_ms`.
 * Errors:   PSCLIENT_NOT_FOUND: no such clocks at some server, or no such worker. PSCLIENT_UNKNOWN:
 *           as of a push. A server that is older than these calls: PSCLIENT_INVALID, "no such
 *           method".
 * Memory:   everything is borrowed for the call.
 */
#ifndef PSCLIENT_CLOCKS_H
#define PSCLIENT_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;

/* When a worker may read at clock c. The numbers are those of the wire. */
enum psclient_consistency {
    PSCLIENT_ASP = 0, /* at once */
    PSCLIENT_SSP = 1, /* when all have ended c - staleness iterations */
    PSCLIENT_BSP = 2, /* when all have ended c */
    /* As SSP; rows of a table that were announced (psclient_rows_ahead.h) are read up to
     * `speculation` iterations further ahead, when no slower worker is going to update them. */
    PSCLIENT_SPARSE_SSP = 3
};

/* What becomes of a worker for which others wait. */
enum psclient_straggler {
    PSCLIENT_STRAGGLER_WAIT = 0, /* they wait */
    PSCLIENT_STRAGGLER_EVICT = 1 /* after ttl_ms without a word of it they do not, until its next
                                      psclient_clock */
};

/* Zero-initialise. This struct never grows. */
struct psclient_clocks {
    uint32_t workers; /* 1 to 4096 */
    enum psclient_consistency consistency;
    uint32_t staleness; /* of SSP and SPARSE_SSP */
    enum psclient_straggler straggler;
    uint64_t ttl_ms;       /* of EVICT; not 0 there */
    uint32_t speculation;  /* of SPARSE_SSP: 0 to 64 */
    uint32_t rank_count;   /* of `ranks` */
    uint64_t task;         /* a number that only rises; 0: the present one goes on */
    uint64_t clock;        /* at which all begin when the task begins */
    const uint32_t *ranks; /* who takes part, from 0 and below `workers`; NULL: all */
};

/* Sets clocks of this name (1 to 64 bytes) up at every server. Equal ones stay as they are, so that
 * every worker may call this; of others the settings change and the workers' clocks stay: ranks
 * that come begin at the present minimum.
 *
 * A job in stages gives each a task, numbered upwards: the first who names a task begins it, with
 * other workers if need be, all of them at `clock`, and parameters as they are. Whoever is late and
 * names a task that is over gets PSCLIENT_FAILED. */
int psclient_set_clocks(struct psclient *client, const char *name,
                        const struct psclient_clocks *clocks, uint64_t timeout_ms,
                        struct psclient_error *error);

/* The clocks go at every server, for good: a server has room for 64 of them, and a job that is over
 * gives its place back. Reads that wait by them get PSCLIENT_NOT_FOUND at once. When there are none
 * of that name it is PSCLIENT_OK, so that whoever does not know how the last call ended makes it
 * again. Set again they begin anew: clocks at 0, no task. A server that is older than this call
 * says PSCLIENT_INVALID, of clocks of no workers, and keeps them. */
int psclient_remove_clocks(struct psclient *client, const char *name, uint64_t timeout_ms,
                           struct psclient_error *error);

/* The worker (1 + its rank) has ended `clock` iterations. `*now` (may be NULL): where it stands,
 * which is more than it has said when it comes back behind the others: it goes on from there. */
int psclient_clock(struct psclient *client, const char *name, uint32_t worker, uint64_t clock,
                   uint64_t timeout_ms, uint64_t *now, struct psclient_error *error);

/* The same of a worker of that task; PSCLIENT_FAILED when some server's clocks are in another, as
 * they are for a worker that a stage has left behind. */
int psclient_clock_in_task(struct psclient *client, const char *name, uint64_t task,
                           uint32_t worker, uint64_t clock, uint64_t timeout_ms, uint64_t *now,
                           struct psclient_error *error);

/* This struct never grows. */
struct psclient_worker_clock {
    uint64_t clock;     /* the lowest of all servers */
    uint64_t silent_ms; /* since a server heard of it last: the longest of all servers */
    int evicted;        /* 1: some server does not wait for it */
    int absent;         /* 1: it takes no part in the present task */
};

/* How far the workers are. Waits until they have all ended `at_least` iterations (0: does not
 * wait), for `timeout_ms` at most, and then says how far they are in any case: `*minimum` is what
 * every worker that is waited for has ended, at every server. Fills up to `count_max` rows, by
 * rank; `*count` is how many workers there are. */
int psclient_progress(struct psclient *client, const char *name, uint64_t at_least,
                      uint64_t timeout_ms, uint64_t *minimum, struct psclient_worker_clock *rows,
                      size_t count_max, size_t *count, struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
