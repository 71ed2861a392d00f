/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind `struct ps_customer`: requests that are on their way, and the thread of
 * callbacks. Private to the files of psclient_program.h.
 *
 *     begun ──► on its way ──last answer, or its time──► over ──► called back ──► collected
 *
 * A request is a batch of the client's engine with one item for each node that is asked. Whoever
 * drives the engine finishes it (client_state.h), and tells the customer so under the client's
 * lock; from then on it is over. It is collected by whoever waits for it, or by the next call of
 * the customer.
 *
 * Threads:  `lock` guards what is below it, and is taken within the client's lock, never around it.
 * Blocking: as said.
 * Errors:   ps_status.
 * Memory:   of the client's allocator.
 */
#ifndef PS_CLIENT_PROGRAM_CUSTOMER_H
#define PS_CLIENT_PROGRAM_CUSTOMER_H

#include "base/thread.h"
#include "client/client_state.h"
#include "client/programs/program_nodes.h"
#include "client/programs/request_tracker.h"
#include "client/psclient_program.h"
#include "proto/program_messages.h"

#include <pthread.h>

struct ps_asked_part;

/* Requests to one server's app that are open, in their order. */
struct ps_asked_line {
    struct ps_asked_part *first;
    uint64_t last;  /* number of the last one that was asked; 0: none yet */
    uint64_t epoch; /* the server's life, as its last answer told it; 0: not known */
};

struct ps_customer {
    struct psclient *client; /* borrowed; outlives this */
    uint32_t app, number, rank, worker_count, server_count;
    uint64_t timeout_ms, sender, host;
    ps_kv_slicer slicer; /* NULL: evenly */
    void *slicer_user;

    struct ps_mutex lock; /* PS_RANK_QUEUE */
    struct ps_request_tracker tracker;
    struct ps_asked_line *lines; /* owned; of each server */
    struct ps_asked *open;       /* a list: on their way */
    struct ps_asked *over;       /* a list: not collected yet, in the order in which they ended */
    struct ps_condition changed; /* a callback has returned, or is due */
    struct ps_thread thread;     /* of the callbacks */
    pthread_t caller;            /* that thread, once it runs */
    bool has_thread, is_running, is_closing;
    uint64_t barriers[PS_NODE_GROUPS_MAX + 1]; /* made of each group */
};

/* What one node is asked. The payload is borrowed until the request is over: its lists until
 * ps_asking_begin returns. */
struct ps_ask_wish {
    struct ps_program_node node;
    struct ps_program_payload payload;
};

/* What all of them are asked, and what is done with the answers. */
struct ps_ask_call {
    enum ps_ask_kind kind;
    const struct ps_kv_call *call; /* NULL: the usual one */
    /* Takes the answer of node i, while it is there; under the client's lock. A failure is that of
     * the request. NULL: nobody wants them. */
    enum ps_status (*take)(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error);
    void (*release)(
        void *self); /* takes `self` when the request is collected; NULL: nothing to do */
    void *self;
};

/* Begins a request. On failure `self` is still the caller's, and no number was given out. */
PS_MUST_USE enum ps_status ps_asking_begin(struct ps_customer *customer,
                                           const struct ps_ask_wish *wishes, size_t count,
                                           const struct ps_ask_call *call, int64_t *timestamp,
                                           struct ps_error *error);

/* See ps_customer_wait. */
PS_MUST_USE enum ps_status ps_asking_await(struct ps_customer *customer, int64_t timestamp,
                                           uint64_t deadline_ms, struct ps_error *error);

/* Ends what is over and wanted by nobody: its memory is given back. Without the lock. */
void ps_asking_collect(struct ps_customer *customer);

/* When an open request was begun, and when it was sent: nanoseconds since 1970. Within `take`. */
const uint64_t *ps_asking_stamps(struct ps_customer *customer, int64_t timestamp);

/* One request on its way, or over. */
struct ps_asked {
    struct ps_client_job job; /* first: the client tells of it by this */
    struct ps_customer *customer;
    struct ps_asked *next, *prev; /* in `open` or `over` */
    int64_t timestamp;
    struct ps_ask_call call;
    struct ps_kv_call how; /* what call.call points to */
    struct ps_item *items; /* owned, as are the parts */
    struct ps_asked_part *parts;
    size_t count;
    size_t waiters;
    bool is_over, is_called; /* its callback has returned, or it has none */
    bool is_calling;
    uint64_t stamps[2]; /* begun, sent */
};

/* ---- program_callbacks.c ---- */

/* Starts the thread of callbacks, if it is not there. PS_ERR_NO_MEMORY. Without the lock. */
PS_MUST_USE enum ps_status ps_asking_start_callbacks(struct ps_customer *customer,
                                                     struct ps_error *error);

/* Calls the program back; the lock is held before and after, and not meanwhile. */
void ps_asking_call_back(struct ps_customer *customer, struct ps_asked *asked);

/* Waits until a request that is over was called back; on the thread of callbacks it is called back
 * here. False: the deadline has passed. With the lock. */
bool ps_asking_await_callback(struct ps_customer *customer, struct ps_asked *asked,
                              uint64_t deadline_ms);

/* Is this the thread of callbacks? With the lock. */
bool ps_asking_is_caller(const struct ps_customer *customer);

/* Ends that thread, after all that is due. Without the lock. */
void ps_asking_stop_callbacks(struct ps_customer *customer);

#endif
