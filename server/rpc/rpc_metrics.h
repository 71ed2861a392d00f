/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted about calls, under the names that gRPC dashboards know.
 *
 * Threads:  registering belongs to start-up; counting to any thread.
 * Blocking: never.
 * Errors:   a metric that could not be registered counts nothing.
 * Memory:   in the registry.
 */
#ifndef PS_SERVER_RPC_RPC_METRICS_H
#define PS_SERVER_RPC_RPC_METRICS_H

#include "base/metrics.h"
#include "proto/messages.h"
#include "proto/status_codes.h"

#include <stdatomic.h>

struct ps_rpc_metrics {
    struct {
        struct ps_counter *started;
        struct ps_counter *handled[PS_RPC_CODE_COUNT];
        struct ps_histogram *seconds;
    } methods[PS_METHOD_COUNT];
    struct ps_counter *bytes_received;
    struct ps_counter *bytes_sent;
    struct ps_gauge *parked;
    struct ps_counter *asked;
    struct ps_counter *dropped;
    struct ps_gauge *tcp_connections;
    struct ps_gauge *local_connections;
    struct ps_gauge *callers;
    struct ps_gauge *caller_bytes;
    _Atomic uint64_t dropped_told;
    atomic_uint parked_count;
};

/* Zeroed first. `registry` may be NULL. */
void ps_rpc_metrics_register(struct ps_rpc_metrics *metrics, struct ps_metrics *registry);

void ps_rpc_metrics_started(struct ps_rpc_metrics *metrics, enum ps_method method,
                            size_t request_bytes);
void ps_rpc_metrics_handled(struct ps_rpc_metrics *metrics, enum ps_method method,
                            enum ps_rpc_code code, size_t reply_bytes, double seconds);

/* So many connections were dropped so far for want of descriptors. Any thread. */
void ps_rpc_metrics_dropped(struct ps_rpc_metrics *metrics, uint64_t connections);

/* So many connections are open at the moment. */
void ps_rpc_metrics_connections(struct ps_rpc_metrics *metrics, uint32_t tcp, uint32_t local);

/* So many connections have bytes on their way, and the one that has most has `most`. */
void ps_rpc_metrics_callers(struct ps_rpc_metrics *metrics, uint32_t callers, uint64_t most);

/* A call was parked (+1) or is so no longer (-1). */
void ps_rpc_metrics_parked(struct ps_rpc_metrics *metrics, int change);

/* A call that waits was asked again. */
void ps_rpc_metrics_asked(struct ps_rpc_metrics *metrics);

#endif
