/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of kv_etcd.c, shared by its files: endpoints, token, the calls, the watch.
 *
 * Threads:  one at a time, but for `interrupted` and the wake-up.
 * Blocking: until the deadline.
 * Errors:   those of etcd/kv.h.
 * Memory:   owned by the store.
 */
#ifndef PS_ETCD_ETCD_STORE_H
#define PS_ETCD_ETCD_STORE_H

#include "etcd/etcd_reply.h"
#include "etcd/etcd_transport.h"
#include "etcd/kv.h"

#include <stdatomic.h>

#define PS_ETCD_ENDPOINTS_MAX 16
#define PS_ETCD_ENDPOINT_BYTES 256

/* The one watch. A hung etcd ends no connection, so while a wait hears nothing it sends a small
 * question of its own, and no answer to that one ends the watch. */
struct ps_etcd_watch {
    struct ps_etcd_transfer stream;
    struct ps_etcd_transfer heartbeat;
    bool open;
    bool created;          /* etcd has confirmed it */
    bool changed;          /* not reported yet */
    enum ps_status broken; /* PS_OK: not broken */
    bool wants_token;      /* broken for want of a valid token */
    char reason[200];
    size_t endpoint; /* index of the one that is watched */
    uint64_t heard_ms;
    uint64_t asked_ms; /* when the running heartbeat began */
    char prefix[PS_KV_KEY_BYTES_MAX + 1];
};

struct ps_etcd_store {
    struct ps_kv base;                 /* first: struct ps_kv points here */
    const struct ps_allocator *memory; /* borrowed; outlives this */
    const struct ps_clock *clock;      /* borrowed; outlives this */
    uint64_t request_ms;
    char endpoints[PS_ETCD_ENDPOINTS_MAX][PS_ETCD_ENDPOINT_BYTES];
    size_t endpoint_count;
    size_t endpoint;              /* index of the one asked first */
    struct ps_etcd_access access; /* owned texts */
    char *token;                  /* owned; NULL: none yet, or none wanted */
    bool token_settled;
    struct ps_etcd_transport transport;
    struct ps_etcd_transfer request;
    struct ps_etcd_watch watch;
    atomic_bool interrupted;
};

/* What repeating a request does. */
enum ps_etcd_effect {
    PS_ETCD_READS,      /* nothing */
    PS_ETCD_REPEATABLE, /* the same again */
    PS_ETCD_ONCE        /* something else: never sent twice without knowing how the first ended */
};

struct ps_etcd_call {
    const char *path;
    struct ps_bytes body;
    enum ps_etcd_effect effect;
    uint64_t deadline_ms;
};

/* Asks one endpoint after the other until one gives a definite answer. On PS_OK the reply is in
 * store->request.reply, valid until the next call.
 *
 * PS_ERR_UNAVAILABLE  no endpoint could be reached; or, of a call that reads, none could say
 * PS_ERR_TIMEOUT      asked, and no definite answer
 */
PS_MUST_USE enum ps_status ps_etcd_call(struct ps_etcd_store *store,
                                        const struct ps_etcd_call *call, struct ps_error *error);

/* Gets a token if there is a user and no token yet. */
PS_MUST_USE enum ps_status ps_etcd_settle_token(struct ps_etcd_store *store, uint64_t deadline_ms,
                                                struct ps_error *error);
/* The token is not good any more: the next call gets a new one. */
void ps_etcd_forget_token(struct ps_etcd_store *store);

struct ps_bytes ps_etcd_reply_of(const struct ps_etcd_transfer *transfer);

/* Moves every transfer on and notes what the watch brought. */
void ps_etcd_run(struct ps_etcd_store *store, uint64_t wait_ms);

PS_MUST_USE enum ps_status ps_etcd_watch_init(struct ps_etcd_watch *watch,
                                              const struct ps_allocator *memory,
                                              struct ps_error *error);
void ps_etcd_watch_fini(struct ps_etcd_store *store);
/* Looks at what the stream brought. */
void ps_etcd_watch_scan(struct ps_etcd_store *store);
void ps_etcd_watch_close(struct ps_etcd_store *store);
PS_MUST_USE enum ps_status ps_etcd_watch_open(struct ps_etcd_store *store, const char *prefix,
                                              int64_t revision, uint64_t deadline_ms,
                                              struct ps_error *error);
PS_MUST_USE enum ps_status ps_etcd_watch_wait(struct ps_etcd_store *store, uint64_t deadline_ms,
                                              bool *changed, struct ps_error *error);

#endif
