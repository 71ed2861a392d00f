/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of server programs and barriers: servers with a handler, programs beside them that take
 * and answer, and workers that ask and meet. Beside the service, mailbox and meetings are the real
 * ones.
 *
 * Every request carries a number. A request is carried out at most once, whatever dies and however
 * often it is asked; exactly once, when its worker was told that it is answered; and never, when
 * its worker was told that nobody took it. Answers have the bytes of their own request. Where
 * nothing goes wrong, every request is answered, and in the worker's order. A program that lets
 * others take over (`again`) is told when another may have begun. A barrier lets nobody go before
 * all have come, and everybody in the end. Whoever waits hears something by its deadline.
 *
 * A client is a worker or a program: both are an engine with a few operations at a time.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_small_fail.
 * Memory:   the world's.
 */
#ifndef PS_TESTS_SIM_SIM_PROGRAMS_H
#define PS_TESTS_SIM_SIM_PROGRAMS_H

#include "tests/sim/sim_small.h"

/* Deliberate faults, which the checks must notice. */
enum sim_programs_mutation {
    SIM_PROGRAMS_NONE,
    SIM_PROGRAMS_EPOCH_LOST,    /* a server does not look at the epoch that a request names */
    SIM_PROGRAMS_TOKEN_CHANGED, /* a repeated request comes under another token and number */
    SIM_PROGRAMS_ANSWER_MOVED,  /* an answer is that of the request before */
    SIM_PROGRAMS_MEMBER_ALONE,  /* a barrier is of one member less */
    SIM_PROGRAMS_MUTATIONS
};

/* What results count: requests, and members at barriers (torn: others had gone). */
enum prg_count {
    PRG_ASKED,
    PRG_RUNS,
    PRG_TAKEN_AGAIN,
    PRG_ANSWERED,
    PRG_ABORTED,
    PRG_UNTAKEN,
    PRG_PASSED,
    PRG_TORN
};

enum {
    PRG_SHARDS_MAX = 2,
    PRG_WORKERS_MAX = 3,
    PRG_BESIDE = 2,                                                  /* programs, of each server */
    PRG_CLIENTS_MAX = PRG_WORKERS_MAX + PRG_BESIDE * PRG_SHARDS_MAX, /* workers, then programs */
    PRG_OPS_MAX = 8,                                                 /* of one client, at a time */
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
    struct sim_small_client *base; /* its engine */
    struct prg_op ops[PRG_OPS_MAX];
    /* A worker: its lines, as client/program_customer.h has them. */
    uint64_t sender, orders[PRG_SHARDS_MAX][PRG_APPS], epochs[PRG_SHARDS_MAX];
    uint64_t rounds[PRG_BARRIERS]; /* that it has begun */
    uint64_t passed[PRG_BARRIERS]; /* the last that it has passed */
    /* A program. */
    uint64_t taker, turn;
};

struct prg_world {
    struct sim_small small;
    /* Order of the last request that a server's handler had of a worker. */
    uint64_t last_run[PRG_SHARDS_MAX][PRG_WORKERS_MAX];
    struct prg_client clients[PRG_CLIENTS_MAX];
    struct prg_request requests[PRG_REQUESTS_MAX];
    size_t request_count;
};

static inline struct prg_world *sim_prg_world(struct sim_small *small)
{
    return (struct prg_world *)small;
}

static inline struct prg_client *sim_prg_client(const struct sim_small_client *base)
{
    return &sim_prg_world(base->world)->clients[base->number];
}

/* Bytes that say which request they are of; as a question and as an answer they differ. */
void sim_prg_fill(uint8_t *content, size_t size, uint64_t number, bool is_answer);

/* Somebody begins the request: what must not be is the world's failure. NULL: there is none. */
struct prg_request *sim_prg_run(struct prg_world *world, uint64_t number, bool again);

/* ---- Servers, as sim_small_kind has them: sim_programs_server.c ---- */

void sim_prg_server_start(struct sim_small_server *server);
enum ps_status sim_prg_serve(struct sim_small_server *server, struct sim_small_call *call,
                             struct ps_view bytes, struct ps_buffer *to, struct ps_error *error);
void sim_prg_write_reply(struct sim_small_server *server, struct sim_small_call *call,
                         struct ps_buffer *to);
/* The shard is another's for a moment, and comes back to this process with another life. */
void sim_prg_server_lose(struct sim_small_server *server);

/* ---- Clients: sim_programs_client.c ---- */

void sim_prg_client_start(struct sim_small_client *base);
void sim_prg_client_end(struct sim_small_client *base);
void sim_prg_client_go_on(struct sim_small_client *base);
bool sim_prg_client_is_idle(const struct sim_small_client *base);
/* Begins an operation, if there is a place for it. */
void sim_prg_ask(struct prg_client *client, uint32_t shard, enum prg_app app, uint64_t timeout_ms);
bool sim_prg_is_meeting(const struct prg_client *client, uint32_t barrier);
void sim_prg_meet(struct prg_client *client, uint32_t barrier, uint64_t timeout_ms);
void sim_prg_take(struct prg_client *client, uint64_t timeout_ms);

#endif
