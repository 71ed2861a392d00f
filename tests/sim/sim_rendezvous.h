/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of the rendezvous: servers, and clients that send, receive, give up, cancel, abort and
 * clean up by chance. Beside the service, client/tensors is the real one.
 *
 * Every value carries a number. A value that a server has said to be whole is delivered exactly
 * once; or it was dropped by an abort, by the end of its step or with its server; or its receiver
 * has died with it. None is delivered that was not sent, none twice, and none with another's bytes.
 * Whoever waits hears something by its deadline. In the end no server has any of it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_small_fail.
 * Memory:   the world's.
 */
#ifndef PS_TESTS_SIM_SIM_RENDEZVOUS_H
#define PS_TESTS_SIM_SIM_RENDEZVOUS_H

#include "client/tensors/tensor_wishes.h"
#include "tests/sim/sim_small.h"

/* Deliberate faults, which the checks must notice. */
enum sim_rendezvous_mutation {
    SIM_RENDEZVOUS_NONE,
    SIM_RENDEZVOUS_TOKEN_LOST,   /* repeats of sends are not told from others */
    SIM_RENDEZVOUS_ID_LOST,      /* a repeated receive comes under another id */
    SIM_RENDEZVOUS_RANGE_BENT,   /* ranges are read from the beginning of the value */
    SIM_RENDEZVOUS_CANCEL_TAKES, /* a cancellation takes values that are on their way */
    SIM_RENDEZVOUS_MUTATIONS
};

/* What results count: values, and operations. */
enum rdv_count {
    RDV_SENT,
    RDV_DELIVERED,
    RDV_DROPPED,
    RDV_TAKEN_ALONG,
    RDV_REFUSED,
    RDV_TIMED_OUT
};

enum {
    RDV_SHARDS_MAX = 3,
    RDV_CLIENTS_MAX = 3,
    RDV_STEPS = 3,
    RDV_KEYS = 4,
    RDV_OPS_MAX = 6,    /* of one client, at a time */
    RDV_WISHES_MAX = 3, /* of one receive */
    RDV_VALUES_MAX = 2048,
    RDV_ENDED_MAX = 256,
    RDV_VALUE_BYTES_MAX = 1200, /* several ranges of the size that this folder is built with */
    RDV_ITEMS_MAX = 64
};

struct rdv_world;
struct rdv_client;

/* Whose values have become of what. Numbers begin at 1. */
struct rdv_value {
    uint32_t step, key, shard, size;
    uint64_t token;
    bool is_stored; /* a server said that it is whole, or is about to */
    bool is_dropped;
    bool is_blind; /* its sender knew no epoch: a lost server is not missed */
    uint32_t delivered;
};

enum rdv_kind { RDV_IDLE, RDV_SEND, RDV_RECEIVE, RDV_CONTROL, RDV_FLUSH };

/* Ids that servers are still to be told the end of: of one step at one shard. */
struct rdv_ended {
    uint64_t done_with[RDV_ENDED_MAX], give_back[RDV_ENDED_MAX];
    size_t done_count, give_back_count;
};

struct rdv_op {
    enum rdv_kind kind;
    struct rdv_client *client;
    uint32_t step, key;
    uint64_t deadline_ms; /* it is over by then, and a little */
    struct ps_batch *batch;
    bool is_finished;
    struct ps_item items[RDV_ITEMS_MAX];
    struct ps_bytes pieces[RDV_ITEMS_MAX]; /* of `content`, as items send them */
    struct ps_buffer messages[RDV_ITEMS_MAX];
    size_t item_count;
    /* SEND */
    uint64_t value;
    bool is_whole;
    uint8_t content[RDV_VALUE_BYTES_MAX];
    /* RECEIVE */
    struct ps_tensor_wishes wishes;
    const char *keys[RDV_WISHES_MAX];
    uint32_t key_numbers[RDV_WISHES_MAX];
    uint8_t places[RDV_WISHES_MAX][RDV_VALUE_BYTES_MAX];
    size_t wish_count;
    struct ps_rendezvous_wish asked[RDV_ITEMS_MAX][RDV_WISHES_MAX];
    struct rdv_ended told[RDV_SHARDS_MAX];
    bool tells;
    /* CONTROL */
    enum ps_step_act act;
};

struct rdv_client {
    struct rdv_world *world;
    struct sim_small_client *base; /* its engine */
    uint64_t next_id;
    uint64_t epochs[RDV_STEPS][RDV_SHARDS_MAX];
    struct rdv_ended ended[RDV_STEPS][RDV_SHARDS_MAX];
    bool is_over[RDV_STEPS]; /* the step has ended: operations of it fail until all are over */
    struct rdv_op ops[RDV_OPS_MAX];
};

struct rdv_world {
    struct sim_small small;
    struct rdv_client clients[RDV_CLIENTS_MAX];
    struct rdv_value values[RDV_VALUES_MAX];
    size_t value_count;
    uint32_t dead_receives[RDV_STEPS][RDV_KEYS]; /* of clients that have died */
    uint64_t last_delivered[RDV_STEPS][RDV_KEYS];
};

static inline struct rdv_world *sim_rdv_world(struct sim_small *small)
{
    return (struct rdv_world *)small;
}

static inline struct rdv_client *sim_rdv_client(const struct sim_small_client *base)
{
    return &sim_rdv_world(base->world)->clients[base->number];
}

const char *sim_rdv_key(uint32_t key);

/* ---- Servers, as sim_small_kind has them: sim_rendezvous_server.c ---- */

void sim_rdv_server_end(struct sim_small_server *server);
enum ps_status sim_rdv_serve(struct sim_small_server *server, struct sim_small_call *call,
                             struct ps_view bytes, struct ps_buffer *to, struct ps_error *error);
void sim_rdv_write_reply(struct sim_small_server *server, struct sim_small_call *call,
                         struct ps_buffer *to);

/* ---- Clients: sim_rendezvous_client.c, and sim_rendezvous_receive.c ---- */

void sim_rdv_client_start(struct sim_small_client *base);
void sim_rdv_client_end(struct sim_small_client *base);
void sim_rdv_client_go_on(struct sim_small_client *base);
bool sim_rdv_client_is_idle(const struct sim_small_client *base);
void sim_rdv_begin_batch(struct rdv_op *op, enum ps_method method, uint64_t deadline_ms);
enum ps_status sim_rdv_end_batch(struct rdv_op *op, struct ps_error *error);
struct ps_buffer *sim_rdv_add_item(struct rdv_op *op, uint32_t shard,
                                   enum ps_status (*take)(void *self,
                                                          const struct ps_call_reply *reply,
                                                          struct ps_error *error));
void sim_rdv_note_end_of_step(struct rdv_op *op, enum ps_status status);
void sim_rdv_end_op(struct rdv_op *op);
void sim_rdv_receive_on(struct rdv_op *op);
void sim_rdv_flush_on(struct rdv_op *op);
/* Bytes that say which value they are of. */
void sim_rdv_fill(uint8_t *content, size_t size, uint64_t number);
/* A free place; NULL: all are in use. */
struct rdv_op *sim_rdv_client_place(struct rdv_client *client);
void sim_rdv_send(struct rdv_op *op, uint32_t step, uint32_t key);
void sim_rdv_receive(struct rdv_op *op, uint32_t step, const uint32_t *keys, size_t count,
                     uint64_t timeout_ms);
void sim_rdv_control(struct rdv_op *op, uint32_t step, enum ps_step_act act);
/* Tells what is done with; false: nothing is. */
bool sim_rdv_flush(struct rdv_op *op, uint32_t step);
/* Ends every receive of this client in the step. */
void sim_rdv_cancel(struct rdv_op *op, uint32_t step);

#endif
