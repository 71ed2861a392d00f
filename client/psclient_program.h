/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: asking server programs, with the words of ps-lite.
 *
 *     const struct ps_customer_options options = {.app = 0, .customer = 0};
 *     struct ps_customer *customer;
 *     ps_customer_open(client, &options, &customer, &error);
 *     struct ps_kv_pairs pushed = {.keys = keys, .key_count = 3, .type = PSCLIENT_FLOAT32,
 *                                  .values = values, .value_count = 300};
 *     int64_t timestamp;
 *     ps_kv_worker_push(customer, &pushed, NULL, &timestamp, &error);
 *     ps_customer_wait(customer, timestamp, 30000, &error);
 *     ps_customer_close(customer, 30000, &error);
 *
 * What asks is a customer of an app. What answers is the program that serves the app at each
 * server: a handler in the server's own process, or another process that takes and answers
 * (psclient_serving.h). A request that comes before there is a program waits for one.
 *
 * A request has a number, its timestamp, counted from 0 on in each customer. It ends by its own
 * time at the latest, whoever has died, and says then who has not answered. Requests of one
 * customer to one server are given to the program in the order in which they were asked, those of
 * higher priority first.
 *
 * Each request is carried out at most once for each server, whatever is repeated on the way: a
 * repeat gets the answer that was kept, or PSCLIENT_ABORTED when nobody can say any more: after a
 * crash of the server, say, of what its program may have had. What the program does
 * with a request is not in any journal: when its server dies, so does what it has in memory.
 * docs/programs.md.
 *
 * Threads:  every function is safe from any thread, but for close. A callback runs on the
 *           customer's own thread, one at a time, in the order in which requests end.
 * Blocking: at most `timeout_ms`; those that begin a request do not wait.
 * Errors:   PSCLIENT_UNKNOWN: somebody has not answered in time; the text names the nodes. Others
 *           are the program's, or said at the functions.
 * Memory:   of a request everything is borrowed until it is over, values in place, unless it says
 *           otherwise. None of these structs ever grows.
 */
#ifndef PSCLIENT_PROGRAM_H
#define PSCLIENT_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;
struct ps_customer;

/* ---- Nodes and groups ---- */

/* A node is a number from 8 on, a group a sum of these. There is no scheduler to be asked: its work
 * is etcd's. */
#define PS_GROUP_SCHEDULER 1u
#define PS_GROUP_SERVERS 2u
#define PS_GROUP_WORKERS 4u
#define PS_GROUP_ALL 7u
#define PS_KEY_MAX UINT64_MAX /* a key like all others, of the last server */

static inline uint32_t ps_server_node(uint32_t rank)
{
    return 8 + 2 * rank;
}

static inline uint32_t ps_worker_node(uint32_t rank)
{
    return 9 + 2 * rank;
}

static inline uint32_t ps_node_rank(uint32_t node)
{
    return node < 8 ? 0 : (node - 8) / 2;
}

/* ---- Customers ---- */

/* What became of a request: `status` is an enum psclient_status, `text` for people, and "" when it
 * went well. It may ask, and wait for, other requests, also of its own customer. It must not close
 * the customer. */
typedef void (*ps_customer_callback)(void *user, int64_t timestamp, int status, const char *text);

/* Zero-initialise. */
struct ps_customer_options {
    uint32_t app;        /* 0 to 65535 */
    uint32_t customer;   /* within this process; told to programs */
    uint32_t worker;     /* 1 + this worker's rank; 0: the rank that the client has in the group
                          "workers" (psclient_join_workers), and 0 if it has not joined */
    uint32_t workers;    /* how many the job has; 0: the size of that group, and 1 without one */
    uint64_t timeout_ms; /* of requests that do not say; 0: 60000 */
    uint64_t reserved[4];
};

/* Asks nobody. PSCLIENT_INVALID: an option. */
int ps_customer_open(struct psclient *client, const struct ps_customer_options *options,
                     struct ps_customer **customer, struct psclient_error *error);

/* Requests that are open are given up: their callbacks run, with PSCLIENT_UNKNOWN. Other threads
 * have returned from all calls. Before the client is closed. NULL is allowed. PSCLIENT_FAILED: from
 * within a callback; the customer is as it was. */
int ps_customer_close(struct ps_customer *customer, struct psclient_error *error);

uint32_t ps_customer_rank(const struct ps_customer *customer);
uint32_t ps_customer_worker_count(const struct ps_customer *customer);
uint32_t ps_customer_server_count(const struct ps_customer *customer);

/* Waits until every node that was asked has answered, and the callback has returned. Within the
 * callback of the same request it returns at once.
 *
 * PSCLIENT_OK         all went well; may be asked again
 * PSCLIENT_UNKNOWN    somebody has not answered: the text names the nodes. While the request's own
 *                     time lasts it goes on, and may be waited for again
 * PSCLIENT_NOT_FOUND  no such request was ever made
 * others              the first failure. Of the last 256 requests that failed and that nobody
 *                     waited for it is remembered
 */
int ps_customer_wait(struct ps_customer *customer, int64_t timestamp, uint64_t timeout_ms,
                     struct psclient_error *error);

/* 1: the request is on its way, or its callback has not returned, and this is not within that: what
 * was given with it is in use. */
int ps_customer_is_open(struct ps_customer *customer, int64_t timestamp);

/* How many nodes have answered an open request; of one that is over and was collected 0. */
size_t ps_customer_responses(struct ps_customer *customer, int64_t timestamp);

/* Requests that are not over yet. */
size_t ps_customer_open_count(struct ps_customer *customer);

/* Waits for all workers of the job, and with PS_GROUP_SERVERS for one server program at each
 * server, too (ps_serving_barrier): all of them call barriers of a group in the same order. A
 * worker is in every group but that of the servers alone: PSCLIENT_INVALID. The text of
 * PSCLIENT_UNKNOWN says who is missing. */
int ps_customer_barrier(struct ps_customer *customer, uint32_t group, uint64_t timeout_ms,
                        struct psclient_error *error);

/* A barrier of the workers, then ps_customer_close, whatever the barrier said. */
int ps_customer_finalize(struct ps_customer *customer, uint64_t timeout_ms,
                         struct psclient_error *error);

/* ---- Keys and values ---- */

/* Zero-initialise. Keys rise. */
struct ps_kv_pairs {
    const uint64_t *keys;
    size_t key_count;
    int type;             /* enum psclient_type; the servers' program is told */
    void *values;         /* elements of all keys, one key behind another */
    size_t value_count;   /* elements */
    const uint32_t *lens; /* elements of each key; NULL: the same of all */
};

/* How a request goes. Zero-initialise; NULL is the same. */
struct ps_kv_call {
    int32_t command; /* for the program */
    int32_t priority;
    uint64_t timeout_ms;           /* 0: the customer's */
    ps_customer_callback callback; /* NULL: none */
    void *user;
    uint32_t *lens; /* pull: what the answers say of each key's elements is written here, one for
                       each key; they must be as long as asked for. NULL: nothing is */
};

/* Says how many of the keys go to each server: counts[i] of the next ones to server i. All keys
 * must go somewhere. */
typedef void (*ps_kv_slicer)(void *user, const uint64_t *keys, size_t key_count,
                             uint32_t server_count, size_t *counts);

/* NULL: evenly, which is how a customer begins. Not while another thread asks. */
void ps_kv_worker_set_slicer(struct ps_customer *customer, ps_kv_slicer slicer, void *user);

/* The first key of a server's range. Ranges are even; the last one goes up to PS_KEY_MAX. */
uint64_t ps_kv_worker_range_begin(const struct ps_customer *customer, uint32_t server);

/* Each of the next six begins a request and says its timestamp, which is -1 on failure. Keys are
 * sliced by server, and a server without a key is not asked; a request without keys is over at
 * once. Those with a z take keys, lengths and values where they are: they must stay unchanged until
 * the request is over. The others copy what is pushed. What is pulled is written into the caller's
 * memory in any case, before the request is over; after a failure it is undefined.
 *
 * PSCLIENT_INVALID    keys, lengths, type, or a slicer that forgets a key
 * PSCLIENT_EXHAUSTED  no memory
 */
int ps_kv_worker_push(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                      const struct ps_kv_call *call, int64_t *timestamp,
                      struct psclient_error *error);
int ps_kv_worker_zpush(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                       const struct ps_kv_call *call, int64_t *timestamp,
                       struct psclient_error *error);
int ps_kv_worker_pull(struct ps_customer *customer, const struct ps_kv_pairs *pulled,
                      const struct ps_kv_call *call, int64_t *timestamp,
                      struct psclient_error *error);
int ps_kv_worker_zpull(struct ps_customer *customer, const struct ps_kv_pairs *pulled,
                       const struct ps_kv_call *call, int64_t *timestamp,
                       struct psclient_error *error);
/* `outs` has room for the values of the same keys, as many elements as are pushed. It may be the
 * memory of the pushed values in the form with a z. */
int ps_kv_worker_push_pull(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                           void *outs, const struct ps_kv_call *call, int64_t *timestamp,
                           struct psclient_error *error);
int ps_kv_worker_zpush_pull(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                            void *outs, const struct ps_kv_call *call, int64_t *timestamp,
                            struct psclient_error *error);

/* ps_customer_wait, under the name that a port looks for. */
int ps_kv_worker_wait(struct ps_customer *customer, int64_t timestamp, uint64_t timeout_ms,
                      struct psclient_error *error);

/* ---- Simple apps: a number and some bytes ---- */

/* What a node has answered; `body` is borrowed for the call. Called on the thread that takes the
 * answer, before the request is over; it must not call this library. */
typedef void (*ps_simple_app_response)(void *user, int64_t timestamp, uint32_t node,
                                       const void *body, size_t size);

/* Asks a node or a group: `body` is copied, at most 1 MiB of it. `call` gives priority, time and
 * callback. PSCLIENT_INVALID: nobody is in the group, or the job has no such node. */
int ps_simple_app_request(struct ps_customer *customer, int32_t head, const void *body, size_t size,
                          uint32_t to, ps_simple_app_response response,
                          const struct ps_kv_call *call, int64_t *timestamp,
                          struct psclient_error *error);

int ps_simple_app_wait(struct ps_customer *customer, int64_t timestamp, uint64_t timeout_ms,
                       struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
