/* A slot for calls of one request and one reply: those of proto/messages.h, and the health check.
 *
 * What a method does is one function, its `answer`. It decodes, calls the service and leaves the
 * reply in the exchange; or it says that the call must wait. Then the call is parked: it holds its
 * slot but no thread, and is asked again whenever the lane's bell rings, until it has an answer or
 * the client gives up or its deadline has passed (which is looked at about once a second).
 *
 * Parked calls are bounded by the slots of their method on the lane; further ones stay with gRPC,
 * unread, until a slot is free or their deadline passes. They cannot keep pulls of a live server
 * out: a pull is parked only while the service says "not initialised", which it says to every pull,
 * and the wake that ends this state answers all of them at once.
 *
 * Threads:  a slot belongs to its lane's thread.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   slots belong to their lane.
 */
#ifndef PS_SERVER_RPC_UNARY_CALL_H
#define PS_SERVER_RPC_UNARY_CALL_H

#include "base/buffer.h"
#include "proto/codec.h"
#include "proto/messages.h"
#include "server/core/requests/service.h"
#include "server/rpc/bundle_run.h"
#include "server/rpc/lane.h"

/* One request and what becomes of it. */
struct ps_exchange {
    struct ps_rpc_context *context; /* borrowed */
    struct ps_view request;
    bool asked;                /* the service has been asked and `ticket` and `status` are set */
    struct ps_ticket ticket;   /* to be satisfied before the reply may be sent */
    bool once;                 /* ... or to have failed */
    struct ps_hold hold;       /* keeps the request's bytes beyond the call */
    struct ps_push_wait wait;  /* to be settled before a push's reply may be sent */
    struct ps_push_reply push; /* that reply */
    enum ps_status status;     /* of the reply */
    struct ps_error error;
    struct ps_buffer *reply; /* the reply's bytes, but for the content of `pull` */
    struct ps_pull pull;     /* what a pull found; released by the call */
    bool has_pull;
    struct ps_bundle_run *bundle; /* of many items; released by the call */
    bool goes_on;                 /* false was said only so that others have their turn */
    bool may_leave;               /* a helper could do it */
    bool leaves;                  /* false was said because one should: it would take long */
};

/* A request that moves so many bytes is answered by a helper: it would keep the lane from others
 * for about a millisecond and more. */
#define PS_LARGE_WORK_BYTES ((size_t)8 * 1024 * 1024)

/* True: answered, as the exchange says. False: ask again after the next wake, or, when the exchange
 * goes on, after others on the lane had their turn, or, when it leaves, in a helper's thread. */
typedef bool (*ps_answer_fn)(struct ps_exchange *exchange);

struct ps_unary_method {
    const char *path;
    ps_answer_fn answer;
    uint32_t slots;         /* per lane */
    size_t reply_bytes_max; /* without content */
    enum ps_method method;  /* for metrics; PS_METHOD_COUNT: not counted */
};

/* The methods, all to be registered with the server before it starts. */
extern const struct ps_unary_method ps_unary_methods[];
enum { PS_UNARY_METHOD_COUNT = PS_METHOD_COUNT + 1 };

/* Adds a method's slots to the lane. `registered` is gRPC's handle of it. */
PS_MUST_USE enum ps_status ps_unary_calls_add(struct ps_lane *lane,
                                              const struct ps_unary_method *method,
                                              void *registered, struct ps_error *error);

#endif
