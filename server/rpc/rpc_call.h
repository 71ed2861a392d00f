/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of call does the same way: the request as a view, batches of operations, the
 * status of a reply.
 *
 * Threads:  a call belongs to its lane's thread.
 * Blocking: never.
 * Errors:   PS_ERR_UNSUPPORTED for a compressed message, PS_ERR_BAD_INPUT for none at all,
 *           PS_ERR_NO_MEMORY.
 * Memory:   a call owns what gRPC gave it until ps_rpc_call_clear.
 */
#ifndef PS_SERVER_RPC_RPC_CALL_H
#define PS_SERVER_RPC_RPC_CALL_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "proto/messages.h"
#include "server/core/requests/serve.h"
#include "server/rpc/caller.h"
#include "server/rpc/gate.h"
#include "server/rpc/lane.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

/* Requests of up to so many slices need no allocation for their view. */
enum { PS_RPC_PIECES_INLINE = 4 };

/* A request that somebody keeps beyond its call; private. */
struct ps_rpc_kept;

struct ps_rpc_call {
    struct ps_lane *lane; /* borrowed; outlives this */
    grpc_call *call;      /* owned; NULL while none has come */
    gpr_timespec deadline;
    grpc_metadata_array metadata; /* owned */
    grpc_byte_buffer *request;    /* owned, or of `kept`; NULL: none */
    struct ps_rpc_kept *kept;     /* a reference; NULL: nobody keeps the request */
    grpc_byte_buffer *reply;      /* owned until its batch is done; NULL: none */
    struct ps_bytes inline_pieces[PS_RPC_PIECES_INLINE];
    struct ps_bytes *pieces;       /* owned unless it is inline_pieces */
    grpc_metadata status_words[3]; /* trailing metadata of a failure */
    struct ps_origin origin;       /* the same for the core, which asks only where it counts */
    struct ps_caller caller;       /* once it was asked for */
    bool caller_is_known;
    uint64_t counted_bytes;      /* on their way, of those that its connection may have */
    uint32_t budget;             /* where they are counted, if they are */
    struct ps_pass pass;         /* once the gate was passed */
    struct ps_serve_guard guard; /* what the pass allows, as items are asked about */
    bool counted;                /* among the context's calls in flight */
    grpc_metadata offers[2];     /* initial metadata, if the request asks for it */
    size_t offer_count;
    bool headers_sent;
    bool is_waiting; /* for another client: counted in this entry of the budgets, and in all */
    uint32_t waiting_budget;
    int cancelled; /* written by GRPC_OP_RECV_CLOSE_ON_SERVER */
};

void ps_rpc_call_init(struct ps_rpc_call *call, struct ps_lane *lane);

/* What comes with the request: its one message, or nothing yet. */
enum ps_rpc_kind { PS_RPC_UNARY, PS_RPC_STREAM };

/* Invites a request of the method `registered`. `tag` comes back with it, or with
 * false when the server stops. */
void ps_rpc_call_ask(struct ps_rpc_call *call, void *registered, enum ps_rpc_kind kind,
                     struct ps_tag *tag);

/* A request has come. */
void ps_rpc_call_begin(struct ps_rpc_call *call);

/* Ends the call, if any, and gives back everything: another may come. */
void ps_rpc_call_clear(struct ps_rpc_call *call);

/* The request's bytes where gRPC has put them; valid until the request is given back. To be asked
 * once per request. */
PS_MUST_USE enum ps_status ps_rpc_call_view(struct ps_rpc_call *call, struct ps_view *view,
                                            struct ps_error *error);

/* How to keep what the view shows beyond the call. The message itself changes hands, never its
 * slices: short ones have their bytes inside themselves. */
struct ps_hold ps_rpc_call_hold(struct ps_rpc_call *call);

/* Ends the request and its view. */
void ps_rpc_call_drop_request(struct ps_rpc_call *call);

/* Who makes the call: found out once in a call, when it is first asked for. Borrowed until the call
 * is cleared. */
const struct ps_caller *ps_rpc_call_caller(struct ps_rpc_call *call);

/* Counts bytes of this call as on their way of its connection until the call is cleared; few bytes
 * are not counted. PS_ERR_BUSY: the connection has too many (--client-bytes). What was done already
 * is counted without asking. */
PS_MUST_USE enum ps_status ps_rpc_call_count(struct ps_rpc_call *call, uint64_t bytes,
                                             bool refusable, struct ps_error *error);

/* Asks the gate whether this call may be made at all. First thing of a call. PS_METHOD_COUNT: of
 * health, which everybody may ask who has come so far. `*guard` is what items of the call are to be
 * asked, borrowed from the call; NULL: nothing. */
PS_MUST_USE enum ps_status ps_rpc_call_enter(struct ps_rpc_call *call, enum ps_method method,
                                             const struct ps_serve_guard **guard,
                                             struct ps_error *error);

/* Counts and logs that this call, or an item of it, was refused, if `error` says that a bound or a
 * rule did it. */
void ps_rpc_call_refused(struct ps_rpc_call *call, const struct ps_error *error);

/* True when the caller has stopped waiting: its deadline has passed. */
bool ps_rpc_call_is_late(const struct ps_rpc_call *call);

/* ---- Batches ---- */

struct ps_rpc_batch {
    struct ps_rpc_call *call;
    grpc_op ops[5];
    size_t count;
    grpc_slice details;   /* the status message, while the batch is started */
    grpc_slice digits[2]; /* of a session and a pause that are suggested, for as long */
};

void ps_rpc_batch_init(struct ps_rpc_batch *batch, struct ps_rpc_call *call);

/* Sends the initial metadata unless that was done. */
void ps_rpc_batch_headers(struct ps_rpc_batch *batch);

/* Sends `message`, which the call takes. */
void ps_rpc_batch_message(struct ps_rpc_batch *batch, grpc_byte_buffer *message);

/* Receives one message into call->request. */
void ps_rpc_batch_receive(struct ps_rpc_batch *batch);

/* Ends the call: with PS_OK, or with the code, the text and the word of a failure. */
void ps_rpc_batch_status(struct ps_rpc_batch *batch, enum ps_status status, const char *text);

/* Behind ps_rpc_batch_status: the client may begin this session now; 0: nothing is said. */
void ps_rpc_batch_suggest_session(struct ps_rpc_batch *batch, uint64_t session);

/* Behind ps_rpc_batch_status, of PS_ERR_BUSY: when to try again; 0: as always. */
void ps_rpc_batch_suggest_pause(struct ps_rpc_batch *batch, uint32_t retry_ms);

/* Completes when the call is over for the client, which may have cancelled it. */
void ps_rpc_batch_close(struct ps_rpc_batch *batch);

/* Starts the batch; `tag` comes back exactly once. */
void ps_rpc_batch_start(struct ps_rpc_batch *batch, struct ps_tag *tag);

/* What a call that was carried out is answered when there is no memory for its reply: nothing that
 * reads as "not applied". PS_ERR_TIMEOUT. */
enum ps_status ps_rpc_fail_unanswered(struct ps_error *error);

/* A message with these bytes, copied. */
grpc_byte_buffer *ps_rpc_message_of(struct ps_bytes bytes);

#endif
