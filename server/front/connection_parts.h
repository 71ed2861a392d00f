/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the table of connections: what connections.c, which follows the bytes, and admission.c,
 * which lets connections in, both see. Nobody else includes this.
 *
 * Threads:  said at the fields.
 * Blocking: never.
 * Errors:   none.
 * Memory:   as connections.h says.
 */
#ifndef PS_SERVER_FRONT_CONNECTION_PARTS_H
#define PS_SERVER_FRONT_CONNECTION_PARTS_H

#include "base/thread.h"
#include "server/front/connections.h"
#include "server/front/local_users.h"
#include "server/front/offenders.h"

#include <stdatomic.h>

enum ps_connection_kind {
    PS_CONNECTION_TCP,
    PS_CONNECTION_UNIX,
    PS_CONNECTION_HTTP,
    PS_CONNECTION_TLS
};
enum { PS_CONNECTION_KINDS = 4 };

struct ps_connection {
    struct ps_connection *next; /* in the list, behind the list's lock, as `previous` is */
    struct ps_connection *previous;
    int descriptor; /* -1: the plain bytes of a connection under TLS */
    enum ps_connection_kind kind;
    struct ps_peer_host host;
    uint64_t since_ms;    /* when it was accepted */
    atomic_bool used;     /* it has begun a call, or speaks TLS */
    atomic_bool ended;    /* condemned: its end is all that gRPC is shown */
    struct ps_mutex lock; /* of the inspector */
    struct ps_frame_inspector inspector;
    bool held_much; /* behind the same lock */
};

struct ps_front {
    struct ps_mutex lock; /* of the list, the counts and the limits */
    struct ps_connection *first;
    _Atomic uint32_t counts[PS_CONNECTION_KINDS]; /* of those that have not ended */
    uint32_t connections_max;
    uint32_t http_max;
    int http_listener; /* -1: none */
    struct ps_frame_limits limits;
    struct ps_offenders offenders; /* the lock of the list, as all before */
    struct ps_local_users local_users;
    uint64_t turned_ms;
    uint64_t give_back_ms;         /* when memory is due; 0: not. Whoever turns, alone */
    struct ps_mutex listener_lock; /* held while the listener is told */
    void (*refused)(void *self, enum ps_front_reason reason, const char *peer);
    void *self;
    atomic_bool open;
    atomic_bool much_has_gone; /* memory that is worth giving back */
    _Atomic uint32_t open_calls;
    _Atomic uint32_t open_calls_max;
    _Atomic uint64_t unfinished_bytes;
    _Atomic uint64_t unfinished_bytes_max;
    _Atomic uint64_t dropped;
};

/* The one front door of the process, with its locks made. */
struct ps_front *ps_front_door(void);

/* A connection in the list, counted; NULL without memory. The list's lock is held. */
struct ps_connection *ps_connection_enlist(struct ps_front *front, int descriptor,
                                           enum ps_connection_kind kind);

/* No byte of the connection reaches gRPC any more, and its sums are taken out of those of all. The
 * lock of the list may be held, that of the connection not. */
void ps_connection_condemn(struct ps_front *front, struct ps_connection *connection,
                           enum ps_front_reason reason);

/* Tells the listener of a refusal. No lock is held. `host` may be NULL: not known. */
void ps_front_tell(struct ps_front *front, enum ps_front_reason reason,
                   const struct ps_peer_host *host);

#endif
