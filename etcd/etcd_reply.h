/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON replies of etcd's gateway, versions 3.4 to 3.6. Nothing in a reply is trusted.
 *
 * Threads:  none inside.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a reply that is not what etcd says.
 * Memory:   as each function says.
 */
#ifndef PS_ETCD_ETCD_REPLY_H
#define PS_ETCD_ETCD_REPLY_H

#include "etcd/kv.h"

/* Longest reply, and longest line of a watch. */
#define PS_ETCD_REPLY_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* What an error of etcd means to us. */
enum ps_etcd_meaning {
    PS_ETCD_FINE,         /* no error */
    PS_ETCD_REFUSED,      /* a definite no: `status` says which; nothing was written */
    PS_ETCD_AUTHENTICATE, /* refused for want of a valid token; nothing was written */
    PS_ETCD_NO_AUTH,      /* asked for a token where etcd wants none */
    PS_ETCD_UNKNOWN       /* it may have happened, or not; another endpoint may do better */
};

struct ps_etcd_error {
    enum ps_etcd_meaning meaning;
    enum ps_status status; /* PS_ETCD_REFUSED */
    char text[160];        /* etcd's words, printable */
};

/* Whether the reply is an error and what it means. All shapes:
 *   {"error":"...","message":"...","code":5}                      3.4, one answer
 *   {"code":5,"message":"...","details":[]}                       3.5 and later, one answer
 *   {"error":{"grpc_code":5,"http_code":404,"message":"..."}}     3.4, within a stream
 *   {"error":{"code":5,"message":"..."}}                          later, within a stream
 * A text that is not JSON is judged by the HTTP status alone. */
void ps_etcd_reply_error(struct ps_bytes reply, long http_status, struct ps_etcd_error *error);

/* `*entries` is made with `memory` and released with ps_kv_entries_release. */
PS_MUST_USE enum ps_status ps_etcd_reply_range(struct ps_bytes reply,
                                               const struct ps_allocator *memory,
                                               struct ps_kv_entries *entries,
                                               struct ps_error *error);

PS_MUST_USE enum ps_status ps_etcd_reply_transaction(struct ps_bytes reply, bool *done,
                                                     int64_t *revision, struct ps_error *error);

/* PS_ERR_LEASE_LOST when the lease has ended: a reply without TTL, not an error of etcd's. */
PS_MUST_USE enum ps_status ps_etcd_reply_keep(struct ps_bytes reply, struct ps_error *error);

/* `*token` is given back to `memory`. */
PS_MUST_USE enum ps_status ps_etcd_reply_token(struct ps_bytes reply,
                                               const struct ps_allocator *memory, char **token,
                                               struct ps_error *error);

/* One line of a watch. */
struct ps_etcd_watch_line {
    bool created;
    bool changed;
    bool cancelled;
    int64_t compact_revision; /* of a cancelled watch: 0 or where history begins */
    struct ps_etcd_error error;
};

PS_MUST_USE enum ps_status
ps_etcd_reply_watch(struct ps_bytes text, struct ps_etcd_watch_line *line, struct ps_error *error);

#endif
