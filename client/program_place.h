/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker of how many a client is, which machine it is on, and where workers and server
 * programs of an app meet.
 *
 * Threads:  any.
 * Blocking: a barrier, at most its time.
 * Errors:   ps_status, and as psclient_barrier says.
 * Memory:   none is kept.
 */
#ifndef PS_CLIENT_PROGRAM_PLACE_H
#define PS_CLIENT_PROGRAM_PLACE_H

#include "client/client_state.h"

struct ps_program_place {
    uint32_t rank, worker_count;
    uint64_t host; /* of this machine: stamps of one host are of one clock */
};

/* `worker` (1 + the rank) and `workers` as the program says, or 0: what it has joined. */
PS_MUST_USE enum ps_status ps_program_place_find(struct psclient *client, uint32_t worker,
                                                 uint32_t workers, struct ps_program_place *place,
                                                 struct ps_error *error);

struct ps_program_barrier {
    uint32_t app, group;
    uint64_t round;
    uint32_t worker_count;
    uint32_t member; /* rank of a worker; of a server program behind all workers */
};

int ps_program_place_meet(struct psclient *client, const struct ps_program_barrier *barrier,
                          uint64_t timeout_ms, struct psclient_error *error);

#endif
