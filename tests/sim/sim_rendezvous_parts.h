/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the rendezvous's worlds share: the world, its events, its servers and clients.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_rdv_fail; the first stays.
 * Memory:   the world's.
 */
#ifndef PS_TESTS_SIM_SIM_RENDEZVOUS_PARTS_H
#define PS_TESTS_SIM_SIM_RENDEZVOUS_PARTS_H

#include "base/random.h"
#include "client/engine/engine.h"
#include "client/tensors/tensor_wishes.h"
#include "server/core/requests/rendezvous_calls.h"
#include "tests/sim/sim_rendezvous.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

enum {
    RDV_SHARDS_MAX = 3,
    RDV_CLIENTS_MAX = 3,
    RDV_STEPS = 3,
    RDV_KEYS = 4,
    RDV_OPS_MAX = 6,    /* of one client, at a time */
    RDV_WISHES_MAX = 3, /* of one receive */
    RDV_PARKED_MAX = 256,
    RDV_ATTEMPTS_MAX = 512,
    RDV_EVENTS_MAX = 4096,
    RDV_VALUES_MAX = 2048,
    RDV_ENDED_MAX = 256,
    RDV_VALUE_BYTES_MAX = 1200, /* several ranges of the size that this folder is built with */
    RDV_ITEMS_MAX = 64,
    RDV_REASON_BYTES = 32
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

struct rdv_event {
    uint64_t at_ms, sequence;
    void (*run)(struct rdv_world *world, const struct rdv_event *event);
    uint32_t client, server;
    uint64_t generation; /* of the client or of the server, as the event needs */
    uint64_t attempt;
    enum ps_method method;
    enum ps_status status;
    uint8_t *bytes; /* owned */
    size_t size;
    char text[128];
};

/* A message on its way, until its outcome was given to the engine. */
struct rdv_attempt {
    uint64_t number; /* 0: free */
    uint64_t call;
    uint32_t shard;
};

struct rdv_parked {
    bool is_used;
    uint32_t client;
    uint64_t attempt;
    struct ps_tensor_wait wait;
};

struct rdv_server {
    struct rdv_world *world;
    uint32_t shard;
    uint64_t generation;
    struct ps_service *service; /* NULL: dead */
    uint64_t topics;
    struct rdv_parked parked[RDV_PARKED_MAX];
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
    uint32_t number;
    uint64_t generation;
    struct ps_engine *engine; /* NULL: dead */
    uint64_t next_id;
    uint64_t epochs[RDV_STEPS][RDV_SHARDS_MAX];
    struct rdv_ended ended[RDV_STEPS][RDV_SHARDS_MAX];
    bool is_over[RDV_STEPS]; /* the step has ended: operations of it fail until all are over */
    struct rdv_op ops[RDV_OPS_MAX];
    struct rdv_attempt attempts[RDV_ATTEMPTS_MAX];
};

struct rdv_world {
    struct ps_random random;
    struct fake_clock fake;
    struct ps_clock clock;
    struct fault_heap heap;
    struct ps_allocator memory;
    enum sim_rendezvous_mutation mutation;
    bool traces, is_calm, is_healed;
    uint32_t shard_count, client_count;
    uint32_t lose_permille, late_permille;
    struct rdv_event events[RDV_EVENTS_MAX];
    size_t event_count;
    uint64_t sequence, attempts_made;
    struct rdv_server servers[RDV_SHARDS_MAX];
    struct rdv_client clients[RDV_CLIENTS_MAX];
    struct rdv_value values[RDV_VALUES_MAX];
    size_t value_count;
    uint32_t dead_receives[RDV_STEPS][RDV_KEYS]; /* of clients that have died */
    uint64_t last_delivered[RDV_STEPS][RDV_KEYS];
    struct sim_rendezvous_result result;
};

void sim_rdv_fail(struct rdv_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_rdv_trace(struct rdv_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool sim_rdv_chance(struct rdv_world *world, uint32_t permille);
uint64_t sim_rdv_between(struct rdv_world *world, uint64_t least, uint64_t most);
void sim_rdv_post(struct rdv_world *world, uint64_t after_ms, const struct rdv_event *event);
const char *sim_rdv_key(uint32_t key);

/* ---- Servers: sim_rendezvous_server.c ---- */

void sim_rdv_server_start(struct rdv_server *server);
void sim_rdv_server_crash(struct rdv_server *server);
/* A message has come. */
void sim_rdv_server_take(struct rdv_world *world, const struct rdv_event *event);
/* A client waits no longer. */
void sim_rdv_server_leave(struct rdv_world *world, const struct rdv_event *event);
/* Calls whose topics were told, or whose time has come. */
void sim_rdv_server_look(struct rdv_server *server);

/* ---- Clients: sim_rendezvous_client.c ---- */

void sim_rdv_client_start(struct rdv_client *client);
void sim_rdv_client_die(struct rdv_client *client);
/* What an engine wants to be done, and what its operations want next. */
void sim_rdv_act(struct rdv_client *client);
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
/* After each event. */
void sim_rdv_client_look(struct rdv_client *client);
/* A reply, or the end of a connection. */
void sim_rdv_client_take(struct rdv_world *world, const struct rdv_event *event);
bool sim_rdv_client_is_idle(const struct rdv_client *client);

#endif
