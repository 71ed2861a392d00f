/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of workers for programs, and their barriers: both are what the client has anyway
 * (psclient_workers.h), under the names of an app. ps-lite's ranks come from a scheduler that
 * sorts random ports: after a restart everybody has another one, and what was saved by rank is
 * somebody else's. Here a rank is kept under a name in the store, and comes back with it
 * (docs/workers.md).
 *
 * Barriers count up by themselves, for each group, so that a program names none of them: the
 * n-th barrier of one worker is the n-th of all others. A worker that has failed in one and goes
 * on meets the others in the next, or is named there as missing.
 */
#include "client/program_place.h"

#include "base/host_id.h"
#include "client/psclient_program.h"

#include <inttypes.h>
#include <stdio.h>

#define RANK_MAX 0x7ffeu

/* A client that has joined nobody is the only worker of its job, as far as it knows. */
enum ps_status ps_program_place_find(struct psclient *client, uint32_t worker, uint32_t workers,
                                     struct ps_program_place *place, struct ps_error *error)
{
    struct psclient_place joined = {.size = 1};
    if (psclient_worker_rank(client, NULL, &joined, NULL) != PSCLIENT_OK)
        joined = (struct psclient_place){.size = 1};
    uint32_t rank = worker != 0 ? worker - 1 : joined.rank;
    uint32_t count = workers != 0 ? workers : joined.size;
    /* A group without an end has at least the workers up to this one. */
    if (count == 0 || (workers == 0 && count <= rank))
        count = rank + 1;
    if (rank >= count || count > RANK_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "worker %" PRIu32 " of %" PRIu32, rank, count);
    *place = (struct ps_program_place){rank, count, ps_host_id()};
    return PS_OK;
}

/* Several customers of a process are several workers, each with a rank of its own, as in ps-lite:
 * the app is what those who meet have in common. */
int ps_program_place_meet(struct psclient *client, const struct ps_program_barrier *barrier,
                          uint64_t timeout_ms, struct psclient_error *error)
{
    /* The same text in all processes of the job, whatever their language. */
    char name[96];
    uint32_t workers = (barrier->group & PS_GROUP_WORKERS) != 0 ? barrier->worker_count : 0;
    uint32_t servers = (barrier->group & PS_GROUP_SERVERS) != 0 ? psclient_shard_count(client) : 0;
    (void)snprintf(name, sizeof name, "program-%" PRIu32 "-%" PRIu32, barrier->app,
                   barrier->group & (PS_GROUP_WORKERS | PS_GROUP_SERVERS));
    return psclient_barrier(client, name, barrier->round, barrier->member, workers + servers,
                            timeout_ms, error);
}
