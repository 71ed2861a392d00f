/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: batched serving. Workers push tensors and pull others
 * that a server program makes of them, step after step; the program takes the requests of its
 * workers together, and answers all of them at once. The names are those of StepMesh.
 *
 *     in a worker:
 *     ps_serving_init(client, &worker_options, &serving, &error);
 *     ps_serving_push_pull(serving, pushed, keys, 2, pulled, out_keys, 1, 0, &handler, &error);
 *     ps_serving_wait(serving, handler, 5000, &error);
 *     ps_serving_stop(serving, 5000, &error);
 *
 *     in a program of each server:
 *     ps_serving_init(client, &server_options, &serving, &error);
 *     ps_serving_get_batch(serving, &wish, 5000, &batch, &error);
 *     ... computes `rows` ...
 *     ps_serving_respond_vec(serving, &rows, slices, batch->count, 5000, &error);
 *     ps_serving_batch_release(batch);
 *     ps_serving_stop(serving, 5000, &error);
 *
 * What is pushed goes to every server; what is pulled comes from each. A tensor has any type: its
 * number is the programs' own. Content goes over TCP, or a socket of the host; there is no RDMA,
 * and memory of GPUs is copied by the program. docs/programs.md.
 *
 * Threads:  every function is safe from any thread, but for stop.
 * Blocking: at most `timeout_ms`.
 * Errors:   PSCLIENT_UNKNOWN: the time is over, and nothing is lost: wait or take again. Others are
 *           said at the functions.
 * Memory:   as said. None of these structs ever grows.
 */
#ifndef PSCLIENT_SERVING_H
#define PSCLIENT_SERVING_H

#include "psclient_program.h"
#include "psclient_rendezvous.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ps_serving;

enum ps_serving_role {
    PS_SERVING_WORKER = 0,
    PS_SERVING_SERVER = 1 /* a program that serves the app at one server */
};

/* Zero-initialise. */
struct ps_serving_options {
    uint32_t app; /* 0 to 65535 */
    enum ps_serving_role role;
    uint32_t rank;        /* of a worker 1 + its rank, or 0 as in ps_customer_options; of a server
                         program the index of the server that it serves */
    uint32_t workers;     /* 0: as in ps_customer_options */
    uint32_t worker_node; /* server program: 1 + the rank of a worker whose own requests are taken
                             instead (ps_simple_app_request to a worker's node); 0: the server's */
    uint64_t timeout_ms;  /* of a worker's requests; 0: 60000 */
    uint64_t
        lease_ms;     /* server program: when it has died, what it had taken fails after so long, or
                          is given to the next; 0: 10000. A thread says meanwhile that it lives */
    int again;        /* server program: what it leaves unanswered is the next one's */
    const char *name; /* of the program, for people; NULL: none */
    uint64_t reserved[4];
};

/* Asks nobody. PSCLIENT_INVALID: an option. */
int ps_serving_init(struct psclient *client, const struct ps_serving_options *options,
                    struct ps_serving **serving, struct psclient_error *error);

/* Waits for all of the job at a barrier (with a time of 0 for nobody), and ends, whatever the
 * barrier says: open requests of a worker are given up, what a server program has not answered
 * fails at once. NULL is allowed. */
int ps_serving_stop(struct ps_serving *serving, uint64_t timeout_ms, struct psclient_error *error);

/* Waits for every server program, every worker, or both. Who is not among them is PSCLIENT_INVALID
 * (in StepMesh it dies). One program of role SERVER for each server takes part. */
int ps_serving_barrier(struct ps_serving *serving, int include_server, int include_worker,
                       uint64_t timeout_ms, struct psclient_error *error);

/* ---- Workers ---- */

/* Pushes the tensors to every server, and asks each for tensors. `pulled` has first those of server
 * 0, then those of server 1 and so on: a multiple of the number of servers. Each has `content` and
 * `size` of memory to receive into, exactly, and type and shape that the program is told. All
 * memory is used in place until the request is over, whatever becomes of it. `*handler` is the
 * first of as many handlers as tensors are pushed, and pulled of one server.
 *
 * PSCLIENT_INVALID  a tensor: its size is not that of its shape, more than 4096, no multiple
 */
int ps_serving_push_pull(struct ps_serving *serving, const struct psclient_tensor *pushed,
                         const uint64_t *pushed_keys, size_t pushed_count,
                         const struct psclient_tensor *pulled, const uint64_t *pulled_keys,
                         size_t pulled_count, uint64_t timeout_ms, uint64_t *handler,
                         struct psclient_error *error);

/* Waits for all of the request that the handler is of. PSCLIENT_UNKNOWN: somebody has not answered
 * yet, who stands in the text; it may be waited for again, until its own time is over. Other
 * failures are the program's: PSCLIENT_ABORTED when it has died between taking and answering. */
int ps_serving_wait(struct ps_serving *serving, uint64_t handler, uint64_t timeout_ms,
                    struct psclient_error *error);

/* 1: the request of this handler is on its way, and the tensors are in use. */
int ps_serving_is_open(struct ps_serving *serving, uint64_t handler);

/* All handlers of its request, in order; at most `room` are written, `*count` says how many there
 * are. PSCLIENT_NOT_FOUND: no request, or one that was followed by 1,024 others. */
int ps_serving_get_all_handlers(struct ps_serving *serving, uint64_t handler, uint64_t *handlers,
                                size_t room, size_t *count, struct psclient_error *error);

/* When a request passed where, at one server, in nanoseconds since 1970. Two times are of one clock
 * when their hosts are equal. */
struct ps_serving_trace {
    uint64_t handler;
    uint32_t server;
    uint32_t worker;
    uint64_t worker_host, server_host;
    uint64_t begun;    /* worker: push_pull was called */
    uint64_t sent;     /* worker: was given to the network */
    uint64_t arrived;  /* server */
    uint64_t taken;    /* server: was given to the program */
    uint64_t answered; /* server: the program's answer was there */
    uint64_t replied;  /* server: was given to the network */
    uint64_t received; /* worker: was in the pulled tensors */
    uint64_t waited;   /* worker: the first ps_serving_wait has returned; 0: none has */
};

/* Of each server one row; 0 in times that are still to come. The same room and failures. Always on:
 * the last 1,024 requests are kept. */
int ps_serving_fetch_trace(struct ps_serving *serving, uint64_t handler,
                           struct ps_serving_trace *rows, size_t room, size_t *count,
                           struct psclient_error *error);

/* ---- Server programs ---- */

/* Zero-initialise: one request of any worker. */
struct ps_serving_wish {
    const uint32_t *workers; /* one request of each of these, in this order: a gang */
    size_t worker_count;     /* at most 1024 */
    uint64_t worker_mask;    /* the same for ranks below 64, when `workers` is NULL */
    uint32_t max;            /* without a gang: so many at most; 0: one */
    int partial;             /* when the time is over, what there is; otherwise all or none */
};

/* Numbers as on the wire. */
enum ps_serving_kind {
    PS_SERVING_PUSH = 0,
    PS_SERVING_PULL = 1,
    PS_SERVING_PUSH_PULL = 2, /* with keys: ps_kv_worker_... */
    PS_SERVING_SIMPLE = 3,    /* a head and a body: ps_simple_app_request */
    PS_SERVING_BATCH = 4      /* ps_serving_push_pull */
};

struct ps_serving_request {
    uint64_t handler;
    uint32_t worker, customer;
    enum ps_serving_kind kind;
    int32_t command;
    uint64_t timestamp;              /* the worker's number of it */
    int again;                       /* another program had taken it, and died */
    struct psclient_tensor *tensors; /* pushed; content lies in the batch, or in the buffer that was
                                        registered for it */
    uint64_t *tensor_keys;
    size_t tensor_count;
    struct psclient_tensor *wanted; /* to be answered; without content, `size` in bytes */
    uint64_t *wanted_keys;
    size_t wanted_count;
    const uint64_t *keys; /* of key-value requests */
    size_t key_count;
    const uint32_t *lens; /* elements of each key; NULL: the same of all */
    const void *body;
    size_t body_size;
};

struct ps_serving_batch {
    struct ps_serving_request *requests; /* of a gang in its order; with `partial` some may lack */
    size_t count;
};

/* Takes requests. They are this program's until it answers each of them, once.
 *
 * PSCLIENT_UNKNOWN  nothing came in time, or not of all of the gang: nothing was taken
 * PSCLIENT_INVALID  the wish
 * PSCLIENT_ABORTED  another program has taken this one's place
 */
int ps_serving_get_batch(struct ps_serving *serving, const struct ps_serving_wish *wish,
                         uint64_t timeout_ms, struct ps_serving_batch **batch,
                         struct psclient_error *error);

/* May be before or after the answers. NULL is allowed. */
void ps_serving_batch_release(struct ps_serving_batch *batch);

/* Answers a request with as many tensors as it wants, in that order. Content is borrowed for the
 * call.
 *
 * PSCLIENT_NOT_FOUND  no such request, or not any more: its worker has given up
 * PSCLIENT_ALREADY    it was answered before
 * PSCLIENT_INVALID    the number of tensors or their sizes are not those that are wanted: it is
 *                     still to be answered
 */
int ps_serving_respond(struct ps_serving *serving, const struct psclient_tensor *tensors,
                       size_t count, uint64_t handler, uint64_t timeout_ms,
                       struct psclient_error *error);

/* Rows of one tensor for one request, which wants one tensor of so many bytes. */
struct ps_serving_slice {
    uint64_t handler;
    uint64_t row_begin, row_count; /* rows of the first dimension */
    int status;                    /* set: what became of this one */
};

/* Answers several requests with slices of one tensor, in one message. (StepMesh sends rows from 0
 * on to all of them.) The result is the first failure; the others were answered. */
int ps_serving_respond_vec(struct ps_serving *serving, const struct psclient_tensor *rows,
                           struct ps_serving_slice *slices, size_t count, uint64_t timeout_ms,
                           struct psclient_error *error);

/* Answers anything: zero-initialise. */
struct ps_serving_reply {
    int status; /* enum psclient_status: the request fails by it; PSCLIENT_OK: it does not. One
                   that is to be tried again becomes PSCLIENT_ABORTED */
    const char *text;
    const struct psclient_tensor *tensors;
    size_t tensor_count;
    const uint32_t *lens; /* of key-value requests, one for each key; NULL: as asked */
    size_t len_count;
    const void *body;
    size_t body_size;
};

int ps_serving_reply(struct ps_serving *serving, uint64_t handler,
                     const struct ps_serving_reply *reply, uint64_t timeout_ms,
                     struct psclient_error *error);

/* From now on what worker workers[i] pushes under keys[i] is received into part i of the buffer,
 * which is cut in `count` equal parts; before the batch is returned, and until the next request of
 * that worker and key is taken. The tensor must be exactly that long, or its content goes where it
 * goes without a buffer. The memory is borrowed until stop. PSCLIENT_INVALID: no multiple; the pair
 * has one. */
int ps_serving_register_recv_buffer(struct ps_serving *serving, void *buffer, size_t size,
                                    const uint32_t *workers, const uint64_t *keys, size_t count,
                                    struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
