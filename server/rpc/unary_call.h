/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of one request and one reply: those of proto/messages.h, and the health checks.
 *
 * What a method does is one function, its `serve`. It decodes, calls the service and makes the
 * answer; or it says that the call must wait, and for which topic. Then the call is parked: it
 * holds memory but neither slot nor thread, and is served again whenever its topic has changed,
 * until it is answered or the client gives up or its deadline has passed (which is looked at about
 * once a second).
 *
 * Calls that wait for other clients are bounded (waiting.h). Those that wait for the disk have
 * changed something, and cannot be refused: a connection has no more of them than it may have
 * calls.
 *
 * Threads:  a call belongs to its lane's thread.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   calls belong to their slots (slots.h).
 */
#ifndef PS_SERVER_RPC_UNARY_CALL_H
#define PS_SERVER_RPC_UNARY_CALL_H

#include "base/buffer.h"
#include "proto/codec.h"
#include "proto/messages.h"
#include "server/core/ownership/cluster.h"
#include "server/core/ownership/workers.h"
#include "server/core/requests/barrier.h"
#include "server/core/requests/program_calls.h"
#include "server/core/requests/rendezvous_calls.h"
#include "server/core/requests/service.h"
#include "server/rpc/bundle_call.h"
#include "server/rpc/lane.h"
#include "server/rpc/shared_content.h"

/* A gradient or a pull that came alone: a bundle of one, in place. */
struct ps_single_call {
    bool begun; /* decoded, and its serve began */
    struct ps_serve serve;
    struct ps_shared_content content;
    struct ps_decoded decoded;
    struct ps_push_request push_request; /* either this */
    struct ps_push_result push;
    struct ps_pull_request pull_request; /* ... or that */
    struct ps_served_pull pull;
};

/* A call that asks where the servers are, or for the right to initialise. */
struct ps_cluster_wait {
    uint64_t known_revision;
    uint64_t until_ms; /* it waits no longer, on the context's clock */
    uint64_t look_ms;  /* the next question is put then */
    struct ps_init_question question;
    struct ps_set_question set;         /* its name; without rows */
    bool is_begun;                      /* the set was seen to be under way */
    struct ps_cluster_inquiry *inquiry; /* on its way; NULL: none */
};

/* A call of a worker, or about workers. */
struct ps_worker_wait {
    struct ps_worker_inquiry
        *inquiry;     /* on its way or answered; NULL: none. Released by the call */
    bool is_read;     /* the answer was looked at, and the next ... */
    uint64_t look_ms; /* ... question is put then */
    struct ps_worker_patience patience; /* with whoever is in the way */
};

/* A call of a worker to a program, or of a program's taker. */
struct ps_program_call {
    struct ps_ask_wait ask;      /* ended by the call */
    struct ps_take_wait take;    /* ended by the call */
    struct ps_shared_range room; /* for what is taken */
};

/* One request and the answer that is being made to it. */
struct ps_call_answer {
    struct ps_rpc_context *context; /* borrowed */
    struct ps_view request;
    const struct ps_origin *origin;
    const struct ps_serve_guard *guard; /* NULL: everything is allowed */
    struct ps_hold hold;                /* keeps the request's bytes beyond the call */
    bool may_leave;                     /* a helper could do it */
    uint32_t topic;                     /* for which an answer waits that WAITS */
    uint64_t again_ms;                  /* it wants to be asked by then, too; 0: it does not */
    bool asked;                         /* the service gave `ticket` and `status` */
    struct ps_ticket ticket;            /* to be satisfied before the answer may go */
    bool once;                          /* ... or to have failed */
    bool changed_nothing;               /* of a call that changes: so there is nothing to audit */
    const char *audits;                 /* what it does; NULL: what all calls of its method do */
    struct ps_barrier_wait barrier;     /* of a member that waits; ended by the call */
    struct ps_tensor_wait tensors;      /* of a receiver, and what it gets; ended by the call */
    struct ps_program_call programs;
    struct ps_push_wait wait; /* for what the reply says to be durable */
    uint64_t until_ms; /* pulls wait for other clients no longer, on the context's clock; 0: none
                          has had to */
    bool may_not_wait; /* as many wait as may: `refusal` */
    struct ps_error refusal;
    struct ps_cluster_wait cluster;
    struct ps_worker_wait worker;
    gpr_timespec deadline; /* the client's */
    struct ps_single_call single;
    struct ps_bundle_call *bundle; /* of many items; released by the call */
    enum ps_status status;
    struct ps_error error;
    struct ps_buffer *reply; /* its bytes, but for the content of `pull` */
    struct ps_pull *pull;    /* whose content comes behind them; NULL: none */
};

/* Counts `bytes` that serving this request will touch, beyond those of its message, as bytes that
 * are on their way of its connection: before it is served. False: that has too many, and the answer
 * says so. */
PS_MUST_USE bool ps_call_answer_charge(struct ps_call_answer *answer, uint64_t bytes);

/* Who makes the call. Borrowed until the call is answered. */
const struct ps_caller *ps_call_answer_caller(struct ps_call_answer *answer);

/* May this caller have another checkpoint written now? PS_ERR_BUSY. */
PS_MUST_USE enum ps_status ps_call_check_save_pace(struct ps_call_answer *answer);

/* Makes the answer, or says when to be called again. */
typedef enum ps_serve_progress (*ps_serve_fn)(struct ps_call_answer *answer);

struct ps_unary_method {
    const char *path;
    ps_serve_fn serve;
    uint32_t slots;         /* per lane: requests that are taken without asking gRPC twice */
    size_t reply_bytes_max; /* without content */
    enum ps_method method;  /* for metrics; PS_METHOD_COUNT: not counted */
};

/* The methods, all to be registered with the server before it starts. */
extern const struct ps_unary_method ps_unary_methods[];
enum { PS_UNARY_METHOD_COUNT = PS_METHOD_COUNT + 2 };

/* Adds a method's slots to the lane. `registered` is gRPC's handle of it. */
PS_MUST_USE enum ps_status ps_unary_calls_add(struct ps_lane *lane,
                                              const struct ps_unary_method *method,
                                              void *registered, struct ps_error *error);

#endif
