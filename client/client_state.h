/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind `struct psclient`: an engine, a channel, and what feeds them. Private.
 *
 * Whoever waits for a batch does the work meanwhile: polls the channel, takes its outcomes, feeds
 * the engine, carries out its actions, for every batch of the client. One thread of those that wait
 * does this at a time, the leader, which wakes the others when their batch is finished. When the
 * leader's own is, another one leads. Behind an event descriptor the channel's own thread does it,
 * too, while nobody leads (client_events.c).
 *
 * Threads:  `mutex` guards everything below it; the rest does not change after open.
 * Blocking: as each function says.
 * Errors:   ps_status inside; psclient_status at the border (status_map.h).
 * Memory:   all from the allocator it was opened with.
 */
#ifndef PS_CLIENT_CLIENT_STATE_H
#define PS_CLIENT_CLIENT_STATE_H

#include "client/channel/channel.h"
#include "client/engine/engine.h"
#include "client/holding.h"
#include "client/members/follower.h"
#include "client/members/initialiser.h"
#include "client/process_mark.h"
#include "client/psclient.h"
#include "client/push_encoder.h"

#include <stdatomic.h>

/* Where a shard is, as the channel and the engine were told. */
struct ps_route {
    char address[PS_ADDRESS_BYTES_MAX]; /* "": nobody serves it */
    uint64_t epoch;
    uint64_t number; /* what the engine knows as its epoch: rises with each change */
};

/* A batch on its way. Its request's owner is this. */
struct ps_client_job {
    struct ps_batch *batch;
    bool finished;
    bool announced; /* when it is finished, it goes to the list of finished ones */
    /* Called when it is finished, with the lock of the client, by whoever drives the engine; it may
     * call nothing of the client. NULL: nobody need hear of it. */
    void (*told)(struct ps_client_job *job);
    struct ps_client_job *next, *prev; /* in that list; `prev` NULL: not in it */
};

/* A caller that waits while another leads. */
struct ps_client_waiter {
    const struct ps_client_job *job; /* NULL: for any that is announced */
    struct ps_condition woken;       /* what it waits for is there, or nobody leads */
    struct ps_client_waiter *before, *after;
};

struct psclient {
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    struct ps_process_mark mark;       /* of the process that opened it */
    struct psclient_sizes sizes;       /* of the caller's structs: caller_structs.h */
    char *etcd;                        /* owned; NULL: a list of servers */
    bool is_list;                      /* which are the shards: there is nothing to follow */
    struct ps_etcd_access etcd_access; /* owned texts */
    struct ps_channel_files files;     /* owned texts */
    char *job;                         /* never NULL */
    char *client_id;                   /* owned; NULL: a random one */
    uint64_t lock_ttl_ms;
    enum ps_ack ack;
    struct ps_busy_poll_wish busy_poll;
    atomic_bool no_push_pull; /* some server has none: pushes, then pulls */
    /* Of synchronous steps (round_step.h): contributions whose numbers wait for rounds, and 1 + the
     * rank of the first worker that used this client. */
    _Atomic uint32_t contributions_waiting, first_worker;
    enum ps_encoding reply_encoding;
    uint64_t split_bytes;
    _Atomic uint64_t placement;     /* of the job; 0: not known. Written under the mutex */
    struct ps_push_encoder encoder; /* has a lock of its own */
    uint32_t shard_count;
    struct ps_wake wake; /* woken when servers move */
    struct ps_channel channel;
    struct ps_follower *follower; /* NULL: the list is the shards */

    struct ps_mutex mutex;
    bool led; /* somebody polls the channel */
    struct ps_client_waiter *waiters;
    struct ps_client_job *finished; /* a list: announced, and told to nobody yet */
    struct ps_holding holding;
    int event_fd;    /* owned; readable while `finished` is not empty. -1: nobody asked for it */
    bool event_told; /* that it is */
    bool is_closing; /* the channel's thread finds nothing to do any more */
    int (*interrupted)(void *user); /* asked while a call waits; NULL: nobody is */
    void *interrupted_user;         /* borrowed */
    struct ps_engine *engine;
    struct ps_route *routes; /* owned; of each shard */
    uint64_t route_number;
    uint64_t *init_epochs;             /* owned; of each shard: init_epoch.h */
    struct ps_members members;         /* as last taken from the follower */
    bool members_pending;              /* not all of them could be told yet: no memory */
    struct ps_initialiser initialiser; /* used by one thread at a time: `initialising` */
    bool initialising;
    bool has_init_way;                     /* and it stays */
    bool places_classic;                   /* whatever would be more even */
    atomic_bool init_cancelled;            /* what `initialising` stands for is to end */
    struct ps_worker_place *worker_places; /* owned; a list: groups that were joined */
};

/* psclient_open with another heap, for tests: no call of the library allocates elsewhere, but for
 * gRPC and curl themselves. `memory` is borrowed and outlives the client. */
PS_MUST_USE enum ps_status ps_client_open(const struct psclient_options *options,
                                          const struct ps_allocator *memory,
                                          struct psclient **client, struct ps_error *error);

/* psclient_open of programs that say nothing of their structs: psclient_open_first.c. */
int ps_client_open_first(const struct psclient_options *options, struct psclient **client,
                         struct psclient_error *error);

/* What a client keeps of its options, checked. Memory of the client's, given back with
 * ps_client_release_options in any case. */
PS_MUST_USE enum ps_status ps_client_copy_options(struct psclient *client,
                                                  const struct psclient_options *options,
                                                  struct ps_error *error);
void ps_client_release_options(struct psclient *client);

/* A connection to the job's store, of its own: a store belongs to one thread at a time. */
PS_MUST_USE enum ps_status ps_client_open_store(struct psclient *client, struct ps_kv **kv,
                                                struct ps_error *error);

/* PS_OK in the process that opened the client. In a child of that, no lock of the client may be
 * taken: the thread that holds it may not exist there. */
PS_MUST_USE enum ps_status ps_client_check_process(const struct psclient *client,
                                                   struct ps_error *error);

/* Does everything there is to do now. Under the mutex. */
void ps_client_pump(struct psclient *client);

/* ---- client_events.c ---- */

/* From now on the channel's own thread does the work that waiting callers do, while there are none.
 * The descriptor; -1: the system has none left. */
int ps_client_event_fd(struct psclient *client);

/* Before the engine is destroyed. */
void ps_client_stop_working(struct psclient *client);

/* The list of finished jobs has changed. Under the mutex. */
void ps_client_tell_event(struct psclient *client);

/* Is it left to the channel's thread to look for what has come? A caller whose time is over only
 * takes what is there. */
bool ps_client_leaves_it(const struct psclient *client, uint64_t deadline_ms);

/* Finds the members and makes engine, channel and routes: client_open.c. */
PS_MUST_USE enum ps_status ps_client_open_members(struct psclient *client,
                                                  const struct psclient_options *options,
                                                  struct ps_error *error);

/* ---- client_state.c ---- */

/* Runs a batch until every item has its result. PS_OK whatever became of the items. */
PS_MUST_USE enum ps_status ps_client_run(struct psclient *client,
                                         const struct ps_batch_request *request,
                                         struct ps_error *error);

/* The same of a batch of one item: what became of the item, in its words. */
PS_MUST_USE enum ps_status ps_client_run_one(struct psclient *client,
                                             const struct ps_batch_request *request,
                                             struct ps_error *error);

/* The same in pieces. A job that was begun is waited for, here or with ps_client_next, and then
 * ended. Takes a job that is not announced, and may be zero otherwise. */
PS_MUST_USE enum ps_status ps_client_begin(struct psclient *client,
                                           const struct ps_batch_request *request,
                                           struct ps_client_job *job, struct ps_error *error);
void ps_client_end(struct psclient *client, struct ps_client_job *job);

/* Waits for this job, until the deadline at most; true: it is finished. `claims`: from now on
 * ps_client_next is not told of it. */
bool ps_client_await(struct psclient *client, struct ps_client_job *job, bool claims,
                     uint64_t deadline_ms);

/* Ends the job as if its deadline were now. It is to be waited for and ended as ever. */
void ps_client_cancel(struct psclient *client, struct ps_client_job *job);

/* The next job that is finished and announced; NULL when none is in time. */
struct ps_client_job *ps_client_next(struct psclient *client, uint64_t deadline_ms);

/* ---- psclient_workers.c ---- */

/* Gives up the places in all groups; while the engine is there. */
void ps_client_leave_groups(struct psclient *client);

/* ---- psclient_init.c ---- */

/* One thread at a time uses the initialiser. Another waits for it here, until the deadline: then
 * PS_ERR_INTERNAL. Ended with leave. */
PS_MUST_USE enum ps_status
ps_client_enter_initialising(struct psclient *client, uint64_t deadline_ms, struct ps_error *error);
void ps_client_leave_initialising(struct psclient *client);

/* The first shard that was initialised, or has been given parameters; the number of shards when
 * there is none. */
PS_MUST_USE enum ps_status ps_client_find_begun(struct psclient *client, uint64_t deadline_ms,
                                                uint32_t *shard, struct ps_error *error);

/* Is that shard initialised? */
PS_MUST_USE enum ps_status ps_client_ask_ready(struct psclient *client, uint32_t shard,
                                               uint64_t deadline_ms, bool *is_ready,
                                               struct ps_error *error);

/* Tells the channel and the engine where shard i is now. False when memory was refused: nothing
 * changed. Under the mutex. */
bool ps_client_route(struct psclient *client, uint32_t shard, const char *address, uint64_t epoch);

/* An item of any batch of parameters; a NULL name is judged later, with the rest. */
struct ps_item ps_client_item(const char *name, enum psclient_type type);

/* Items of a push and of a pull, with all that the caller says of number `i`, and no other way than
 * that of plain content. */
struct ps_item ps_client_push_item(const struct psclient *client,
                                   const struct psclient_gradient *gradients, size_t i);
struct ps_item ps_client_pull_item(const struct psclient *client,
                                   const struct psclient_parameter *parameters, size_t i);

/* Runs the items as one batch and says what the public functions say: every item has its result,
 * also when the batch could not be started. `results` may be NULL. */
int ps_client_run_items(struct psclient *client, enum ps_method method, struct ps_item *items,
                        size_t count, uint64_t timeout_ms, struct psclient_result *results,
                        struct psclient_error *error);

/* What the public functions say of items whose batch was never started. */
int ps_client_refuse_items(struct psclient *client, struct ps_item *items, size_t count,
                           const struct ps_error *why, struct psclient_result *results,
                           struct psclient_error *error);

/* The items of a batch, and what the public functions say about it: psclient_batch.c. Items are
 * ended with ps_client_release_items; NULL when memory was refused. */
struct ps_item *ps_client_push_items(struct psclient *client,
                                     const struct psclient_gradient *gradients, size_t count);
struct ps_item *ps_client_push_pull_items(struct psclient *client,
                                          const struct psclient_gradient *gradients,
                                          const struct psclient_parameter *parameters,
                                          size_t count);
struct ps_item *ps_client_pull_items(struct psclient *client,
                                     const struct psclient_parameter *parameters, size_t count);
/* Their batch is over, or was never begun: then their statuses must say so. NULL is allowed. */
void ps_client_release_items(struct psclient *client, struct ps_item *items, size_t count);
struct ps_batch_request ps_client_request(struct psclient *client, enum ps_method method,
                                          struct ps_item *items, size_t count, uint64_t timeout_ms);
int ps_client_verdict(const struct psclient *client, const struct ps_item *items, size_t count,
                      struct psclient_result *results, struct psclient_error *error);
void ps_client_note_pulled(const struct psclient *client, const struct ps_item *items,
                           struct psclient_parameter *parameters, size_t count);

/* A pull that takes whatever type the server has, and notes it in each parameter. Such parameters
 * are never cut. For the compatibility interface. */
int ps_client_pull_any(struct psclient *client, struct psclient_parameter *parameters, size_t count,
                       uint64_t timeout_ms, struct psclient_error *error);

#endif
