/* SPDX-License-Identifier: Apache-2.0 */
/* What every call slot of a server needs to see of it.
 *
 * Threads:  set up before the lanes start and constant from then on, but for the atomics.
 * Blocking: never.
 * Errors:   none.
 * Memory:   everything is borrowed and outlives the lanes.
 */
#ifndef PS_SERVER_RPC_RPC_CONTEXT_H
#define PS_SERVER_RPC_RPC_CONTEXT_H

#include "base/alloc.h"
#include "base/busy_poll.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "proto/health_codec.h"
#include "server/core/ownership/cluster.h"
#include "server/core/ownership/workers.h"
#include "server/core/requests/service.h"
#include "server/rpc/budgets.h"
#include "server/rpc/gate.h"
#include "server/rpc/helpers.h"
#include "server/rpc/refusals.h"
#include "server/rpc/rpc_metrics.h"
#include "server/rpc/shared_memory.h"
#include "server/rpc/waiting.h"

#include <grpc/grpc.h>

#include <stdatomic.h>

/* What a server says of its job's servers and workers. */
struct ps_cluster_facts {
    struct ps_cluster *cluster; /* NULL: this server knows nothing of that */
    struct ps_workers *workers; /* the same */
    const char *job;            /* "": none */
    const char *unix_path;      /* NULL: none */
    bool alone;                 /* no etcd */
    bool in_memory;             /* nor a folder: nobody else can be there */
};

struct ps_rpc_context {
    grpc_server *server;
    struct ps_service *service;
    const struct ps_allocator *memory;
    const struct ps_log *log;
    const struct ps_clock *clock;
    struct ps_rpc_metrics metrics;
    struct ps_helpers helpers; /* for large requests */
    struct ps_budgets budgets; /* what each caller has taken */
    struct ps_refusals refusals;
    struct ps_gate gate;
    uint64_t client_bytes_max; /* on their way of one connection; 0: no limit */
    struct ps_waiting waiting;
    struct ps_cluster_facts cluster;
    struct ps_busy_poll_wish busy_poll;
    struct ps_shared_memory *shared; /* NULL: none is offered */
    uint64_t message_bytes_max;
    char message_bytes_text[24]; /* the same, for clients that ask */
    uint64_t reply_ms_max;       /* a client that leaves a reply alone for longer is given up */
    atomic_bool draining;
    atomic_bool init_was_noted; /* the audit has a line of the initialisation at work */
    atomic_uint in_flight;      /* calls between their request and their end */
    struct ps_mutex idle_lock;  /* for the condition only */
    struct ps_condition idle;   /* told when the last call of a draining server has ended */
};

/* A call has come; a call is over. From any lane's thread. */
void ps_rpc_call_came(struct ps_rpc_context *context);
void ps_rpc_call_went(struct ps_rpc_context *context);

/* The one service that has a health of its own. */
#define PS_HEALTH_OF_PARAMETERS "pserver.v1.ParameterServer"

/* The health of "", of pserver.v1.ParameterServer, or of a name that is neither. */
enum ps_health ps_rpc_health(const struct ps_rpc_context *context, const char *service);

#endif
