/* SPDX-License-Identifier: Apache-2.0 */
/* How the world outside learns how the server is: the HTTP port and the service manager.
 *
 * Threads:  turn, limit_wait and started belong to the coordinator thread; stopping to any.
 * Blocking: never, but for a datagram to the service manager.
 * Errors:   create: PS_ERR_IO when the HTTP address cannot be bound.
 * Memory:   everything in the options is borrowed and outlives the probes.
 */
#ifndef PS_SERVER_PROBES_H
#define PS_SERVER_PROBES_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "server/core/ownership/coordinator.h"
#include "server/core/requests/service.h"
#include "server/rpc/rpc_server.h"

struct ps_probes;

struct ps_probes_options {
    const char *http; /* NULL: no HTTP port */
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log;
    struct ps_metrics *metrics;
    struct ps_service *service;
    struct ps_rpc_server *rpc;
    struct ps_access *access; /* whose complaints /readyz shows; with certificates: HTTP has TLS */
    enum ps_client_auth client_auth;
};

PS_MUST_USE enum ps_status ps_probes_create(const struct ps_probes_options *options,
                                            struct ps_probes **probes, struct ps_error *error);
void ps_probes_destroy(struct ps_probes *probes);

/* The server is up (READY=1): it may still wait for a shard to become free. */
void ps_probes_started(struct ps_probes *probes);

/* The coordinator has done a turn: it lives (/livez, WATCHDOG=1) and is in `state`. What the
 * service manager had no room for before is sent again. */
void ps_probes_turn(struct ps_probes *probes, enum ps_coordinator_state state);

/* `until_ms`, or earlier when a sign of life is due before. */
uint64_t ps_probes_limit_wait(const struct ps_probes *probes, uint64_t until_ms);

/* Going down (STOPPING=1): /readyz fails from now on. */
void ps_probes_stopping(struct ps_probes *probes);

#endif
