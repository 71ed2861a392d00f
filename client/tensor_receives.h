/* SPDX-License-Identifier: Apache-2.0 */
/* The receives of one rendezvous: ids, which of them are done with, and the rounds of asking until
 * every key has a value. Private to psclient_rendezvous.c.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: as its caller, until the deadline.
 * Errors:   ps_status.
 * Memory:   from the client's allocator; tensors' from the heap.
 */
#ifndef PS_CLIENT_TENSOR_RECEIVES_H
#define PS_CLIENT_TENSOR_RECEIVES_H

#include "base/thread.h"
#include "client/client_state.h"
#include "client/psclient_rendezvous.h"
#include "client/tensors/tensor_wishes.h"

/* Ids to be told to one server with the next call that goes there. */
struct ps_tensor_ended {
    uint64_t *done_with, *give_back; /* owned */
    size_t done_count, give_back_count;
};

/* A call of psclient_rendezvous_recv_many that waits. */
struct ps_tensor_waiting {
    struct ps_tensor_waiting *next, *prev;
    const struct ps_tensor_wishes *wishes; /* borrowed; shards and ids do not change */
    const void *owner;                     /* NULL: a call that waits */
};

struct psclient_rendezvous {
    struct psclient *client; /* borrowed; outlives this */
    uint64_t step;
    uint32_t shard_count;
    struct ps_mutex lock;          /* PS_RANK_QUEUE; never around a call */
    uint64_t next_id;              /* of receives and tokens: random, then counted */
    uint64_t *epochs;              /* owned; of each shard, as it was told first; 0: not yet */
    struct ps_tensor_ended *ended; /* owned; for each shard */
    struct ps_tensor_waiting *waiting;
};

/* Most ids that wait to be told to one server; more are told at once. */
#define PS_TENSOR_ENDED_MAX 1024

/* What one call tells a server of them. */
struct ps_tensor_told {
    uint64_t ended[2 * PS_TENSOR_ENDED_MAX]; /* done with, then given back */
    size_t done_count, give_back_count;
};

/* Notes a receive that is over; false: there is no room for more. */
PS_MUST_USE bool ps_tensor_ended_note(struct psclient_rendezvous *rendezvous, uint32_t shard,
                                      uint64_t id, bool is_delivered);

/* What a call to this server tells, and that it went well. */
void ps_tensor_ended_take(struct psclient_rendezvous *rendezvous, uint32_t shard,
                          struct ps_tensor_told *told);
void ps_tensor_ended_forget(struct psclient_rendezvous *rendezvous, uint32_t shard,
                            const struct ps_tensor_told *told);

/* Runs calls of RecvTensors, until `left_ms` and a little. The first item that failed. */
PS_MUST_USE enum ps_status ps_tensor_run_items(struct psclient *client, struct ps_item *items,
                                               size_t count, uint64_t left_ms,
                                               struct ps_error *error);

/* Puts the values of a reply where they belong. */
PS_MUST_USE enum ps_status ps_tensor_take_values(struct psclient_rendezvous *rendezvous,
                                                 struct ps_tensor_wishes *wishes,
                                                 const struct ps_call_reply *reply, uint64_t *epoch,
                                                 struct ps_error *error);

/* Asks for the next ranges of the values that have begun. */
PS_MUST_USE enum ps_status ps_tensor_ask_ranges(struct psclient_rendezvous *rendezvous,
                                                struct ps_tensor_wishes *wishes,
                                                uint64_t deadline_ms, struct ps_error *error);

/* Memory for the value of tensor `i`, of an array of psclient_tensor: ps_tensor_place.open. */
PS_MUST_USE enum ps_status ps_tensor_open(void *tensors, size_t i,
                                          const struct ps_value_facts *facts, uint64_t size,
                                          uint8_t **content, struct ps_error *error);

/* The server of a key: a step is spread over all of them. */
uint32_t ps_tensor_shard(const struct psclient_rendezvous *rendezvous, const char *key);

/* As the wire names it: 1 + the index, and 0 in a list of servers, each of which is the whole of a
 * job of its own. */
uint32_t ps_tensor_named_shard(const struct psclient *client, uint32_t shard);

/* The first epoch that a server has said stays. */
uint64_t ps_tensor_epoch(struct psclient_rendezvous *rendezvous, uint32_t shard);
void ps_tensor_note_epoch(struct psclient_rendezvous *rendezvous, uint32_t shard, uint64_t epoch);

/* So many numbers in a row, the first of them; never 0. */
uint64_t ps_tensor_new_ids(struct psclient_rendezvous *rendezvous, size_t count);

/* See psclient_rendezvous_recv_many. On failure no tensor has anything. By `owner` it is cancelled
 * alone. */
PS_MUST_USE enum ps_status ps_tensor_receive(struct psclient_rendezvous *rendezvous,
                                             const char *const *keys,
                                             struct psclient_tensor *tensors, size_t count,
                                             uint64_t deadline_ms, const void *owner,
                                             struct ps_error *error);

/* See psclient_rendezvous_send. */
PS_MUST_USE enum ps_status ps_tensor_send(struct psclient_rendezvous *rendezvous, const char *key,
                                          const struct psclient_tensor *tensor,
                                          uint64_t deadline_ms, struct ps_error *error);

/* Ends every receive that waits, at its server; one that has a value there gets it.
 * `owner` NULL: of the whole handle. */
PS_MUST_USE enum ps_status ps_tensor_cancel(struct psclient_rendezvous *rendezvous,
                                            const void *owner, uint64_t deadline_ms,
                                            struct ps_error *error);

/* Tells the servers what is done with, best effort. */
void ps_tensor_flush(struct psclient_rendezvous *rendezvous, uint64_t deadline_ms);

#endif
