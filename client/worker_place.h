/* SPDX-License-Identifier: Apache-2.0 */
/* The place of a client in one group of workers: taken by a call, and kept by a thread until it is
 * given up.
 *
 * Threads:  join, leave and destroy belong to one thread at a time; look to any.
 * Blocking: join and leave until the deadline; destroy for two seconds at most, which a question of
 *           the thread may take that nobody answers.
 * Errors:   each function lists its own; beyond these, those of JoinWorkers.
 * Memory:   the client's, which outlives the place.
 */
#ifndef PS_CLIENT_WORKER_PLACE_H
#define PS_CLIENT_WORKER_PLACE_H

#include "client/any_server.h"
#include "client/members/wake.h"
#include "client/psclient_workers.h"

/* As in JoinWorkersRequest, with their NULs; longer texts are refused here already. */
struct ps_worker_words {
    char group[65], name[65], role[33], host[65];
    uint32_t size;
    uint32_t rank; /* 1 + the rank that it must be; 0: any */
    uint64_t ttl_ms;
};

struct ps_worker_place {
    struct psclient *client; /* borrowed */
    struct ps_worker_words words;
    uint64_t number; /* of this process in the group, for the servers */
    struct ps_any_server server;
    atomic_bool stopping;
    struct ps_thread keeper;
    struct ps_wake stop;  /* woken to end the thread */
    struct ps_mutex lock; /* guards what follows */
    struct psclient_place place;
    bool is_lost;
    char why[256];                /* it was lost */
    struct ps_worker_place *next; /* of the client's places */
};

/* PS_ERR_BAD_INPUT: a text that is too long. */
PS_MUST_USE enum ps_status ps_worker_words_take(const struct psclient_worker_options *options,
                                                struct ps_worker_words *words,
                                                struct ps_error *error);

PS_MUST_USE enum ps_status ps_worker_place_create(struct psclient *client,
                                                  const struct ps_worker_words *words,
                                                  struct ps_worker_place **place,
                                                  struct ps_error *error);

/* Takes the place and begins to keep it. PS_ERR_BUSY: every rank was taken all the time. */
PS_MUST_USE enum ps_status ps_worker_place_join(struct ps_worker_place *place, uint64_t deadline_ms,
                                                struct ps_error *error);

/* PS_ERR_LEASE_LOST: another has the rank; the text says how that came. */
PS_MUST_USE enum ps_status ps_worker_place_look(struct ps_worker_place *place,
                                                struct psclient_place *out, struct ps_error *error);

/* Ends the thread and tells the servers. Without an answer the place ends by itself. */
PS_MUST_USE enum ps_status ps_worker_place_leave(struct ps_worker_place *place,
                                                 uint64_t deadline_ms, struct ps_error *error);

/* Of one that was left, or never joined. NULL is allowed. */
void ps_worker_place_destroy(struct ps_worker_place *place);

#endif
