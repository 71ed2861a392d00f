/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a real core on a free port of this machine, and requests to throw at it.
 *
 * Threads:  one.
 * Blocking: as the calls it makes.
 * Errors:   aborts.
 * Memory:   its own, until rig_stop.
 */
#ifndef PS_TESTS_INTEGRATION_RPC_RIG_H
#define PS_TESTS_INTEGRATION_RPC_RIG_H

#include "base/buffer.h"
#include "base/metrics.h"
#include "proto/messages.h"
#include "raw_client.h"
#include "server/core/requests/service.h"
#include "server/rpc/rpc_server.h"

struct rig {
    struct ps_metrics *metrics;
    struct ps_service *service;
    struct ps_rpc_server *server;
    struct raw_client client;
    bool saves;
};

struct rig_options {
    bool saves;                   /* finish waits for a checkpoint */
    uint32_t lane_count;          /* 0: one */
    uint64_t message_bytes_max;   /* 0: the default */
    uint64_t shared_memory_bytes; /* 0: none is offered */
    uint64_t reply_ms_max;        /* 0: the default, as the next two */
    uint32_t waiting_calls_max;
    uint32_t client_calls_max;
    bool journals;                         /* nobody writes it: the test takes the records */
    const struct ps_allocator *rpc_memory; /* NULL: the heap */
};

/* An uninitialised service that owns shard 0 of 1 for ever. */
void rig_start(struct rig *rig, const struct rig_options *options);
void rig_stop(struct rig *rig);

/* A request's bytes, in a buffer that the caller ends. */
struct ps_buffer rig_init(const char *name, enum ps_dtype dtype, struct ps_bytes content,
                          struct ps_bytes config);
struct ps_buffer rig_push(const char *name, enum ps_dtype dtype, struct ps_bytes content);
struct ps_buffer rig_pull(const char *name);

/* Sends the request, ends it, and returns the answer. */
struct raw_answer rig_call(struct rig *rig, enum ps_method method, struct ps_buffer request);

/* A figure of the server's metrics, the whole name with its labels. */
double rig_figure(const struct rig *rig, const char *name);

/* Until so many calls are parked. */
void rig_wait_until_parked(const struct rig *rig, unsigned calls);

/* FinishInitParams, with the checkpoint that it may have to wait for. */
void rig_finish(struct rig *rig);

/* One parameter "w" of `count` zeros (f32), and rig_finish. */
void rig_make_ready(struct rig *rig, size_t count);

#endif
