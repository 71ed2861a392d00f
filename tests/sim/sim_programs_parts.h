/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the programs' worlds share: the world, its events, servers and clients. A
 * client is a worker or a program: both are an engine with a few operations at a time.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_prg_fail; the first stays.
 * Memory:   the world's.
 */
#ifndef PS_TESTS_SIM_SIM_PROGRAMS_PARTS_H
#define PS_TESTS_SIM_SIM_PROGRAMS_PARTS_H

#include "base/random.h"
#include "client/engine/engine.h"
#include "server/core/requests/barrier.h"
#include "server/core/requests/program_calls.h"
#include "tests/sim/sim_programs.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

enum {
    PRG_SHARDS_MAX = 2,
    PRG_WORKERS_MAX = 3,
    PRG_CLIENTS_MAX = PRG_WORKERS_MAX + 2 * PRG_SHARDS_MAX, /* workers, then programs */
    PRG_OPS_MAX = 8,                                        /* of one client, at a time */
    PRG_PARKED_MAX = 256,
    PRG_ATTEMPTS_MAX = 128,
    PRG_EVENTS_MAX = 4096,
    PRG_REQUESTS_MAX = 4096,
    PRG_BYTES_MAX = 6000, /* of content: copied below 4096, kept above */
    PRG_TAKEN_MAX = 4,
    PRG_BARRIERS = 2
};

/* Who has the app: a handler in the server, a program beside it, one that others may follow. */
enum prg_app { PRG_HANDLED, PRG_TAKEN, PRG_AGAIN, PRG_APPS };

struct prg_world;
struct prg_client;

/* What became of one request. Numbers begin at 1. */
struct prg_request {
    uint32_t worker, shard, size;
    enum prg_app app;
    uint64_t token, order, order_from;
    uint32_t runs;   /* how often somebody began it */
    bool is_untaken; /* its worker was told so */
    bool is_refused; /* its program has answered "busy" */
    bool is_answered;
};

struct prg_event {
    uint64_t at_ms, sequence;
    void (*run)(struct prg_world *world, const struct prg_event *event);
    uint32_t client, server;
    uint64_t generation; /* of the server */
    uint64_t attempt;
    enum ps_method method;
    enum ps_status status;
    bool refused;
    uint64_t told;           /* a life, of a refusal */
    uint64_t handle, number; /* of a request that a handler answers later */
    uint8_t *bytes;          /* owned */
    size_t size;
    char text[160];
};

/* A message on its way, until its outcome was given to the engine. */
struct prg_attempt {
    uint64_t number; /* 0: free */
    uint64_t call;
    uint32_t shard;
};

/* A call that waits at a server. */
struct prg_parked {
    bool is_used;
    uint32_t client;
    uint64_t attempt;
    enum ps_method method;
    struct ps_ask_wait ask;
    struct ps_take_wait take;
    struct ps_barrier_wait barrier;
};

struct prg_server {
    struct prg_world *world;
    uint32_t shard;
    uint64_t generation;
    struct ps_service *service; /* NULL: dead */
    uint64_t topics;
    uint64_t last_run[PRG_WORKERS_MAX]; /* order of the last request that the handler had */
    struct prg_parked parked[PRG_PARKED_MAX];
};

enum prg_kind { PRG_IDLE, PRG_ASK, PRG_TAKE, PRG_ANSWER, PRG_MEET };

struct prg_op {
    enum prg_kind kind;
    struct prg_client *client;
    uint32_t shard;
    uint64_t deadline_ms; /* of its batch */
    struct ps_batch *batch;
    bool is_finished;
    struct ps_item item;
    struct ps_bytes piece; /* of `content`, as the item sends it */
    struct ps_buffer message;
    uint64_t number;  /* ASK */
    uint32_t barrier; /* MEET */
    uint8_t content[PRG_TAKEN_MAX * PRG_BYTES_MAX];
    /* TAKE, ANSWER: what was taken. */
    uint64_t handles[PRG_TAKEN_MAX], numbers[PRG_TAKEN_MAX];
    size_t taken_count;
};

struct prg_client {
    struct prg_world *world;
    uint32_t number;
    struct ps_engine *engine; /* NULL: dead */
    struct prg_op ops[PRG_OPS_MAX];
    struct prg_attempt attempts[PRG_ATTEMPTS_MAX];
    /* A worker: its lines, as client/program_customer.h has them. */
    uint64_t sender, orders[PRG_SHARDS_MAX][PRG_APPS], epochs[PRG_SHARDS_MAX];
    uint64_t rounds[PRG_BARRIERS]; /* that it has begun */
    uint64_t passed[PRG_BARRIERS]; /* the last that it has passed */
    /* A program. */
    uint64_t taker, turn;
};

struct prg_world {
    struct ps_random random;
    struct fake_clock fake;
    struct ps_clock clock;
    struct fault_heap heap;
    struct ps_allocator memory;
    enum sim_programs_mutation mutation;
    bool traces, is_calm, is_healed;
    uint32_t shard_count, worker_count, client_count;
    uint32_t lose_permille, late_permille, twice_permille;
    struct prg_event events[PRG_EVENTS_MAX];
    size_t event_count;
    uint64_t sequence, attempts_made;
    struct prg_server servers[PRG_SHARDS_MAX];
    struct prg_client clients[PRG_CLIENTS_MAX];
    struct prg_request requests[PRG_REQUESTS_MAX];
    size_t request_count;
    struct sim_programs_result result;
};

void sim_prg_fail(struct prg_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_prg_trace(struct prg_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool sim_prg_chance(struct prg_world *world, uint32_t permille);
uint64_t sim_prg_between(struct prg_world *world, uint64_t least, uint64_t most);
void sim_prg_post(struct prg_world *world, uint64_t after_ms, const struct prg_event *event);

/* Bytes that say which request they are of; as a question and as an answer they differ. */
void sim_prg_fill(uint8_t *content, size_t size, uint64_t number, bool is_answer);

/* Somebody begins the request: what must not be is the world's failure. NULL: there is none. */
struct prg_request *sim_prg_run(struct prg_world *world, uint64_t number, bool again);

static inline bool sim_prg_is_worker(const struct prg_client *client)
{
    return client->number < PRG_WORKERS_MAX;
}

/* ---- Servers: sim_programs_server.c ---- */

void sim_prg_server_start(struct prg_server *server);
void sim_prg_server_crash(struct prg_server *server);
/* The shard is another's for a moment, and comes back to this process with another life. */
void sim_prg_server_lose(struct prg_server *server);
/* A message has come. */
void sim_prg_server_take(struct prg_world *world, const struct prg_event *event);
/* A client waits no longer. */
void sim_prg_server_leave(struct prg_world *world, const struct prg_event *event);
/* Calls whose topics were told, or whose time has come. */
void sim_prg_server_look(struct prg_server *server);

/* ---- Clients: sim_programs_client.c, and sim_programs_channel.c ---- */

void sim_prg_client_start(struct prg_client *client);
void sim_prg_client_die(struct prg_client *client);
void sim_prg_act(struct prg_client *client);
/* A reply, or the end of a connection. */
void sim_prg_client_take(struct prg_world *world, const struct prg_event *event);
/* After each event. */
void sim_prg_client_look(struct prg_client *client);
bool sim_prg_client_is_idle(const struct prg_client *client);
/* Begins an operation, if there is a place for it. */
void sim_prg_ask(struct prg_client *client, uint32_t shard, enum prg_app app, uint64_t timeout_ms);
void sim_prg_meet(struct prg_client *client, uint32_t barrier, uint64_t timeout_ms);
void sim_prg_take(struct prg_client *client, uint64_t timeout_ms);
/* Of which server and which app a program takes. */
uint32_t sim_prg_shard_of(const struct prg_client *client);
enum prg_app sim_prg_app_of(const struct prg_client *client);

#endif
