/* SPDX-License-Identifier: Apache-2.0 */
/* All counters are registered once, for each method and code, so that a call looks nothing up and
 * takes no lock. The names and labels are those of the gRPC middleware for Prometheus: dashboards
 * and alerts that exist elsewhere work here unchanged. */
#include "server/rpc/rpc_metrics.h"

#include <stdio.h>

struct names {
    const char *service;
    const char *method;
};

/* From the table of methods, so that a new method has its metrics without a line here. */
static struct names names_of(enum ps_method method)
{
    static const struct names names[PS_METHOD_COUNT] = {
#define ROW(TAG, service_, method_) [TAG] = {service_, method_},
        PS_METHOD_TABLE(ROW)
#undef ROW
    };
    return names[method];
}

/* Every code of every method exists from the start at 0: a rate over a series that appears with its
 * first failure would miss that failure. */
static void register_method(struct ps_rpc_metrics *metrics, struct ps_metrics *registry,
                            enum ps_method method)
{
    /* The names of go-grpc-prometheus, which dashboards know. */
    char labels[160];
    struct names names = names_of(method);
    (void)snprintf(labels, sizeof labels, "grpc_service=\"%s\",grpc_method=\"%s\"", names.service,
                   names.method);
    metrics->methods[method].started =
        ps_metrics_counter(registry, "grpc_server_started_total", "Calls that arrived.", labels);
    metrics->methods[method].seconds =
        ps_metrics_histogram(registry, "grpc_server_handling_seconds",
                             "From a call's arrival to its reply being sent.", labels);
    for (uint32_t code = 0; code < PS_RPC_CODE_COUNT; code++) {
        (void)snprintf(labels, sizeof labels,
                       "grpc_service=\"%s\",grpc_method=\"%s\",grpc_code=\"%s\"", names.service,
                       names.method, ps_rpc_code_name(code));
        metrics->methods[method].handled[code] = ps_metrics_counter(
            registry, "grpc_server_handled_total", "Calls that were answered, by code.", labels);
    }
}

/* Without a registry every figure is NULL, and counting does nothing. */
void ps_rpc_metrics_register(struct ps_rpc_metrics *metrics, struct ps_metrics *registry)
{
    if (registry == NULL)
        return;
    for (int i = 0; i < PS_METHOD_COUNT; i++)
        register_method(metrics, registry, (enum ps_method)i);
    metrics->bytes_received = ps_metrics_counter(registry, "ps_rpc_received_bytes_total",
                                                 "Bytes of request messages.", NULL);
    metrics->bytes_sent =
        ps_metrics_counter(registry, "ps_rpc_sent_bytes_total", "Bytes of reply messages.", NULL);
    metrics->parked = ps_metrics_gauge(registry, "ps_rpc_parked_calls",
                                       "Calls that wait without holding a thread.", NULL);
    metrics->asked = ps_metrics_counter(registry, "ps_rpc_asked_calls_total",
                                        "How often a waiting call was asked again.", NULL);
    /* By the front door, at accept: such a connection never was gRPC's. */
    metrics->dropped =
        ps_metrics_counter(registry, "ps_rpc_dropped_connections_total",
                           "Connections that were closed at once for want of descriptors.", NULL);
    /* One family of two rows: together they are all connections that make calls. */
    static const char connections[] = "Connections of clients that are open.";
    metrics->tcp_connections =
        ps_metrics_gauge(registry, "ps_rpc_connections", connections, "transport=\"tcp\"");
    metrics->local_connections =
        ps_metrics_gauge(registry, "ps_rpc_connections", connections, "transport=\"unix\"");
    metrics->callers =
        ps_metrics_gauge(registry, "ps_callers_counted",
                         "Connections that have large requests or replies on their way.", NULL);
    metrics->caller_bytes =
        ps_metrics_gauge(registry, "ps_caller_bytes_most",
                         "Bytes on their way of the connection that has most.", NULL);
}

/* Before anything is decided about the call: what was refused had arrived, too. */
void ps_rpc_metrics_started(struct ps_rpc_metrics *metrics, enum ps_method method,
                            size_t request_bytes)
{
    ps_counter_add(metrics->methods[method].started, 1);
    ps_counter_add(metrics->bytes_received, request_bytes);
}

/* When the client has the reply, or is gone: the time that it took to read is part of it. A call
 * that its client gave up counts under Canceled, whatever was answered. */
void ps_rpc_metrics_handled(struct ps_rpc_metrics *metrics, enum ps_method method,
                            enum ps_rpc_code code, size_t reply_bytes, double seconds)
{
    ps_counter_add(metrics->methods[method].handled[code], 1);
    ps_counter_add(metrics->bytes_sent, reply_bytes);
    /* Of all codes together: a refusal that takes long is as bad as an answer that does. */
    ps_histogram_observe(metrics->methods[method].seconds, seconds);
}

/* The gauge is set from a count of its own, since several lanes change it. */
void ps_rpc_metrics_parked(struct ps_rpc_metrics *metrics, int change)
{
    unsigned before = atomic_fetch_add(&metrics->parked_count, (unsigned)change);
    ps_gauge_set(metrics->parked, (double)(before + (unsigned)change));
}

/* Beside the calls that wait this shows whether wakes ask more of them than they concern. */
void ps_rpc_metrics_asked(struct ps_rpc_metrics *metrics)
{
    ps_counter_add(metrics->asked, 1);
}

/* The guard counts for the whole process; what was told already is remembered, so that two threads
 * that show the metrics do not add it twice. */
void ps_rpc_metrics_dropped(struct ps_rpc_metrics *metrics, uint64_t connections)
{
    uint64_t told = atomic_load(&metrics->dropped_told);
    while (told < connections &&
           !atomic_compare_exchange_weak(&metrics->dropped_told, &told, connections))
        continue;
    if (told < connections)
        ps_counter_add(metrics->dropped, connections - told);
}

/* Set by whoever shows the metrics, from a count of that moment (connection_count.c). */
void ps_rpc_metrics_connections(struct ps_rpc_metrics *metrics, uint32_t tcp, uint32_t local)
{
    ps_gauge_set(metrics->tcp_connections, tcp);
    ps_gauge_set(metrics->local_connections, local);
}

/* By whoever shows the metrics, as the connections are: the table is walked through for it, which
 * the serving path has no time for. */
void ps_rpc_metrics_callers(struct ps_rpc_metrics *metrics, uint32_t callers, uint64_t most)
{
    ps_gauge_set(metrics->callers, callers);
    ps_gauge_set(metrics->caller_bytes, (double)most);
}
