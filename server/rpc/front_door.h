/* SPDX-License-Identifier: Apache-2.0 */
/* What a server tells the front door (server/front), and hears from it: limits that follow from its
 * options, counted refusals, gauges.
 *
 * Threads:  open and close belong to whoever owns the server; count and turn to any.
 * Blocking: never, but for a line of the log.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_SERVER_RPC_FRONT_DOOR_H
#define PS_SERVER_RPC_FRONT_DOOR_H

#include "server/front/local_users.h"
#include "server/rpc/refusals.h"
#include "server/rpc/rpc_metrics.h"

#include <stdbool.h>
#include <stdint.h>

/* Calls of one connection at once, unless told otherwise. */
#define PS_CLIENT_CALLS_DEFAULT 256

struct ps_front_door {
    struct ps_refusals *refusals;   /* borrowed; outlives this */
    struct ps_rpc_metrics *metrics; /* borrowed; outlives this */
    struct ps_gauge *open_calls;
    struct ps_gauge *unfinished_bytes;
    struct ps_gauge *guarded;
};

struct ps_front_door_options {
    struct ps_refusals *refusals;
    struct ps_rpc_metrics *metrics;
    struct ps_metrics *registry;              /* may be NULL */
    uint64_t message_bytes_max;               /* largest request */
    uint64_t client_bytes_max;                /* of one connection; 0: as much as of all */
    uint64_t unfinished_bytes_max;            /* of all connections; 0: a quarter of the memory */
    const struct ps_local_users *local_users; /* NULL: everybody */
    uint32_t client_calls_max;                /* of one connection; 0: PS_CLIENT_CALLS_DEFAULT */
    uint32_t open_calls_max;  /* of all connections; 0: PS_FRONT_OPEN_CALLS_DEFAULT */
    uint32_t connections_max; /* 0: as many as there are descriptors for */
    uint64_t patience_ms;     /* for which a request that is not whole may stand still */
};

/* `door` stays where it is until close. False: the door does not hold (front_self_test.h), and
 * peers are not bounded. */
bool ps_front_door_open(struct ps_front_door *door, const struct ps_front_door_options *options);
void ps_front_door_close(struct ps_front_door *door);

/* Brings the gauges up to date. */
void ps_front_door_count(struct ps_front_door *door);

#endif
