/* SPDX-License-Identifier: Apache-2.0 */
/* Serves one ps_service over gRPC: lanes (one completion queue and thread each), call slots, one
 * state machine per kind of call, health, reflection.
 *
 * Threads:  one per lane, started by start and ended by stop. Create, start, drain, stop and
 *           destroy belong to one thread; health may be set from any.
 * Blocking: drain waits up to its deadline, stop until the lanes have ended.
 * Errors:   PS_ERR_IO when the address cannot be listened on; PS_ERR_NO_MEMORY.
 * Memory:   the server owns its calls; everything in the options is borrowed and outlives it.
 */
#ifndef PS_SERVER_RPC_RPC_SERVER_H
#define PS_SERVER_RPC_RPC_SERVER_H

#include "base/alloc.h"
#include "base/busy_poll.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/status.h"
#include "server/core/ownership/cluster.h"
#include "server/core/ownership/workers.h"
#include "server/core/requests/service.h"
#include "server/front/local_users.h"
#include "server/rpc/shared_mapping.h"
#include "server/rpc/tls_port.h"

struct ps_rpc_server;

struct ps_rpc_server_options {
    struct ps_service *service;
    struct ps_cluster *cluster; /* for GetCluster and BeginInit; NULL: neither is offered */
    struct ps_workers *workers; /* for JoinWorkers and the like; NULL: none is offered */
    bool is_alone;              /* no etcd */
    bool is_in_memory;          /* nor a folder that other servers could share */
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log;
    struct ps_metrics *metrics;
    const char *listen;                       /* "HOST:PORT"; port 0 picks a free one */
    const char *listen_file;                  /* a unix socket's path; NULL: none */
    struct ps_access *access;                 /* with certificates: TLS at `listen`; NULL: none */
    enum ps_client_auth client_auth;          /* with TLS */
    const char *job;                          /* as the roles of the access name it; NULL: "" */
    const struct ps_local_users *local_users; /* may come through listen_file; NULL: everybody */
    uint32_t lane_count;                      /* 0: one per two cores, at least 1 */
    uint32_t update_threads;                  /* at one update; 0: up to 4, where there are cores */
    struct ps_busy_poll_wish busy_poll;       /* of the lanes' threads */
    uint64_t message_bytes_max;               /* largest request; 0: PS_MESSAGE_BYTES_DEFAULT */
    uint64_t client_bytes_max;     /* on their way of one connection, at once; 0: no limit */
    uint32_t client_calls_max;     /* of one connection, at once; 0: 256 */
    uint32_t waiting_calls_max;    /* that wait for other clients; 0: 4096 (waiting.h) */
    bool front_required;           /* without bounds for connections there is no server */
    uint32_t connections_max;      /* of all hosts; 0: as descriptors allow */
    uint32_t open_calls_max;       /* of all connections, at once; 0: 16384 */
    uint64_t unfinished_bytes_max; /* of requests not whole, of all; 0: a quarter of memory */
    uint64_t reply_ms_max;         /* for a client to take a reply, and 1 s for each MiB; 0: 30 s */
    bool reflection;               /* offer grpc.reflection */
    uint64_t shared_memory_bytes;  /* most memory that clients on this host share; 0: none */
    bool shared_memory_required;   /* without it there is no server; else it is only logged */
    struct ps_shared_pins shared_pins;       /* a device that copies from it; outlives the server */
    struct ps_shared_devices shared_devices; /* the same that opens memory of its own */
};

/* Binds the address; calls are answered from start on. */
PS_MUST_USE enum ps_status ps_rpc_server_create(const struct ps_rpc_server_options *options,
                                                struct ps_rpc_server **server,
                                                struct ps_error *error);

/* The port that was bound. */
uint16_t ps_rpc_server_port(const struct ps_rpc_server *server);

PS_MUST_USE enum ps_status ps_rpc_server_start(struct ps_rpc_server *server,
                                               struct ps_error *error);

/* Brings the metrics of connections up to date: for whoever shows them. Any thread. */
void ps_rpc_server_count(struct ps_rpc_server *server);

/* Tells the lanes what has changed (a mask, topics.h): calls that wait for it are asked again (the
 * service's listener calls this), and with PS_TOPIC_LIFE health may have changed. Who notices that
 * the lease has run out calls it, too: nothing else tells health's watchers. Any thread, from
 * create until destroy; never blocks. */
void ps_rpc_server_wake(struct ps_rpc_server *server, uint64_t topics);

/* Health says NOT_SERVING, watches and reflection streams end, parked pulls are answered
 * PS_ERR_UNAVAILABLE, connections get GOAWAY; other calls in flight may finish until `deadline_ms`
 * and are cancelled then. Returns soon after the last of them. A second drain does nothing.
 *
 * Call ps_service_drain first: then new calls are refused in words for as long as they come in. One
 * that meets the closing door itself is ended by gRPC, CANCELLED or UNAVAILABLE without a word
 * (proto/status_codes.h); it was not applied, but its client cannot know. */
void ps_rpc_server_drain(struct ps_rpc_server *server, uint64_t deadline_ms);

/* Takes the server: ends the lanes (after a drain of no patience if there was none). */
void ps_rpc_server_destroy(struct ps_rpc_server *server);

#endif
