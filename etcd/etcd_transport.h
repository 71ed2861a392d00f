/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP for kv_etcd.c: one curl_multi with kept-alive connections, a few transfers at a time.
 *
 * A request's body can be read only once. curl repeats a request by itself when a kept-alive
 * connection turns out dead, and a transaction must never be repeated behind our back: a body that
 * cannot be rewound makes curl report the failure instead.
 *
 * Threads:  one at a time; ps_etcd_transport_wake from any.
 * Blocking: ps_etcd_transport_run, as long as it is told.
 * Errors:   PS_ERR_NO_MEMORY; how a transfer ended is in the transfer.
 * Memory:   replies are bounded by PS_ETCD_REPLY_BYTES_MAX.
 */
#ifndef PS_ETCD_ETCD_TRANSPORT_H
#define PS_ETCD_ETCD_TRANSPORT_H

#include "base/buffer.h"
#include "base/status.h"
#include "etcd/etcd_access.h"

#include <curl/curl.h>

struct ps_etcd_transport {
    CURLM *multi;
    const struct ps_etcd_access *access; /* borrowed; the files of https */
};

enum ps_etcd_transfer_state {
    PS_ETCD_IDLE,
    PS_ETCD_RUNNING,
    PS_ETCD_ENDED,    /* the reply is complete, whatever it says */
    PS_ETCD_NOT_SENT, /* no connection: the server has seen nothing */
    PS_ETCD_BROKEN    /* something was sent and no complete reply came */
};

struct ps_etcd_transfer {
    CURL *easy;                 /* owned */
    struct curl_slist *headers; /* owned */
    struct ps_buffer request;   /* owned */
    size_t request_offset;      /* read by curl so far */
    struct ps_buffer reply;     /* owned; grows while running */
    enum ps_etcd_transfer_state state;
    long http_status;
    char reason[CURL_ERROR_SIZE]; /* of NOT_SENT and BROKEN; curl writes here while it runs */
};

/* What to send. */
struct ps_etcd_post {
    const char *endpoint; /* "http://host:port", "https://host:port" */
    const char *path;     /* "/v3/..." */
    const char *token;    /* NULL: none */
    struct ps_bytes body; /* copied */
    bool stream;          /* end when the cluster loses its leader */
};

PS_MUST_USE enum ps_status ps_etcd_transport_init(struct ps_etcd_transport *transport,
                                                  const struct ps_etcd_access *access,
                                                  struct ps_error *error);
void ps_etcd_transport_fini(struct ps_etcd_transport *transport);

PS_MUST_USE enum ps_status ps_etcd_transfer_init(struct ps_etcd_transfer *transfer,
                                                 const struct ps_allocator *memory,
                                                 struct ps_error *error);
/* The transfer must be stopped. Accepts a zeroed struct. */
void ps_etcd_transfer_fini(struct ps_etcd_transfer *transfer);

/* Starts a POST; the transfer must be idle. Nothing is sent before ps_etcd_transport_run. */
PS_MUST_USE enum ps_status ps_etcd_transfer_start(struct ps_etcd_transport *transport,
                                                  struct ps_etcd_transfer *transfer,
                                                  const struct ps_etcd_post *post,
                                                  struct ps_error *error);

/* Gives a running transfer up and makes it idle. A running one becomes NOT_SENT or BROKEN first;
 * that is the result. */
enum ps_etcd_transfer_state ps_etcd_transfer_stop(struct ps_etcd_transport *transport,
                                                  struct ps_etcd_transfer *transfer);

/* Moves every transfer on; waits at most `wait_ms` when there is nothing to do. */
void ps_etcd_transport_run(struct ps_etcd_transport *transport, uint64_t wait_ms);

/* Ends a wait of ps_etcd_transport_run, or the next one. */
void ps_etcd_transport_wake(struct ps_etcd_transport *transport);

#endif
