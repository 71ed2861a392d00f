/* SPDX-License-Identifier: Apache-2.0 */
/* The front door: who may connect, and how much one connection may make gRPC hold before a call is
 * ours to look at. gRPC 1.51 has no bound for most of that, and its options add none; so the bytes
 * are looked at where they pass anyway, at the system calls (front_hooks.c).
 *
 * One front door for a process, because the C library's functions have no argument that could name
 * another: whoever opened it last sets the limits.
 *
 * Threads:  any; open and close belong to whoever owns the server.
 * Blocking: never.
 * Errors:   none: who is refused hears it, and so does the listener in the options.
 * Memory:   about 300 bytes for a connection, and 32 for each of its open calls.
 */
#ifndef PS_SERVER_FRONT_FRONT_H
#define PS_SERVER_FRONT_FRONT_H

#include "server/front/frame_inspector.h"
#include "server/front/front_reasons.h"
#include "server/front/local_users.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_front_options {
    struct ps_frame_limits connection; /* of one connection */
    uint32_t connections_max;          /* of gRPC; 0: as many as there are descriptors for */
    struct ps_local_users local_users; /* whose processes may come by unix sockets */
    uint32_t open_calls_max;           /* of all connections together */
    uint64_t unfinished_bytes_max;     /* of requests that are not whole, of all of them together */
    /* Told of each refusal; `peer` is an address without its port, or "". Not called from within
     * another call of itself; may take locks of the ranks behind PS_RANK_QUEUE. May be NULL. */
    void (*refused)(void *self, enum ps_front_reason reason, const char *peer);
    void *self;
};

/* From here on connections are bounded. */
void ps_front_open(const struct ps_front_options *options);

/* From here on nobody is told, and nobody new is bounded. Only the `self` that opened the door last
 * closes it. */
void ps_front_close(const void *self);

/* Connections that `listener` accepts are HTTP, of which `connections_max` are kept: when one more
 * comes, the oldest of the host that has the most is closed for it. */
void ps_front_claim_http(int listener, uint32_t connections_max);

/* `listener` is about to be closed, or was. */
void ps_front_release_http(int listener);

/* `descriptor` is looked at like a connection that was accepted: for the self-test. */
void ps_front_adopt(int descriptor);

/* Ends connections with a request that stands still, and gives memory back to the system after one
 * that held much has gone. By a thread of ours, every second; more often does nothing. */
void ps_front_turn(void);

/* What there is at the moment. */
struct ps_front_counts {
    uint32_t tcp;   /* connections of gRPC */
    uint32_t local; /* the same, through a unix socket */
    uint32_t http;
    uint32_t open_calls;
    uint64_t unfinished_bytes;
    uint64_t dropped; /* connections closed for want of a descriptor, since the process began */
};

struct ps_front_counts ps_front_count(void);

#endif
