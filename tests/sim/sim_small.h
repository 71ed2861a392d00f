/* SPDX-License-Identifier: Apache-2.0 */
/* Small worlds: of one room of the server each, beside the worlds of a whole job (sim.h). A few
 * servers and clients, over a network that loses, delays and repeats. Service, codec and engine are
 * the real ones; what is simulated is the network, the clock, the deaths. This is what all kinds of
 * small worlds share; a kind says what clients do and what must be true (sim_programs.h,
 * sim_rendezvous.h), and what messages say is its own.
 *
 * Nothing of a world is chance but its seed.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what must never happen is noted by sim_small_fail; the first note ends the world.
 * Memory:   a world owns everything in it, and says when something is left.
 */
#ifndef PS_TESTS_SIM_SIM_SMALL_H
#define PS_TESTS_SIM_SIM_SMALL_H

#include "base/attributes.h"
#include "base/random.h"
#include "client/engine/engine.h"
#include "server/core/requests/barrier.h"
#include "server/core/requests/program_calls.h"
#include "server/core/requests/rendezvous_calls.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

enum {
    SIM_SMALL_SHARDS_MAX = 3,
    SIM_SMALL_CLIENTS_MAX = 7,
    SIM_SMALL_PARKED_MAX = 256,
    SIM_SMALL_ATTEMPTS_MAX = 512,
    SIM_SMALL_EVENTS_MAX = 4096,
    SIM_SMALL_COUNTS_MAX = 8
};

struct sim_small;
struct sim_small_server;
struct sim_small_client;

/* What the network and the deaths have done to a world. */
enum sim_small_fault {
    SIM_SMALL_MESSAGES, /* requests that left, whatever became of them */
    SIM_SMALL_LOST,     /* requests and replies */
    SIM_SMALL_LATE,     /* requests that came behind the end of their connection */
    SIM_SMALL_TWICE,
    SIM_SMALL_SERVER_DEATHS,
    SIM_SMALL_CLIENT_DEATHS,
    SIM_SMALL_FAULTS
};

struct sim_small_result {
    bool failed;
    char failure[256];
    uint64_t counts[SIM_SMALL_COUNTS_MAX]; /* in the order of the kind's `counted` */
    uint64_t faults[SIM_SMALL_FAULTS];
};

/* Something that happens at a moment; which fields count is known by `run`. */
struct sim_small_event {
    uint64_t at_ms, sequence; /* of sim_small_post */
    void (*run)(struct sim_small *world, const struct sim_small_event *event);
    uint32_t client, server;
    uint64_t generation; /* of the server */
    uint64_t attempt;
    enum ps_method method;
    enum ps_status status;
    bool refused;
    uint64_t told;           /* a life, of a refusal */
    uint64_t handle, number; /* the kind's */
    uint8_t *bytes;          /* owned; what they say is the kind's */
    size_t size;
    char text[160];
};

/* A call at a server. What it waits by is the one of its method; the others are zeros. */
struct sim_small_call {
    bool is_used;
    uint32_t client;
    uint64_t attempt;
    enum ps_method method;
    struct ps_ask_wait ask;
    struct ps_take_wait take;
    struct ps_barrier_wait barrier;
    struct ps_tensor_wait tensors;
};

struct sim_small_server {
    struct sim_small *world;
    uint32_t shard;
    uint64_t generation;
    struct ps_random lives;     /* the service's own chance */
    struct ps_service *service; /* NULL: dead */
    uint64_t topics;            /* told since the last look */
    struct sim_small_call parked[SIM_SMALL_PARKED_MAX];
};

/* A message on its way, until its outcome was given to the engine. */
struct sim_small_attempt {
    uint64_t number; /* 0: free */
    uint64_t call;
    uint32_t shard;
};

struct sim_small_client {
    struct sim_small *world;
    uint32_t number;
    struct ps_engine *engine; /* NULL: dead */
    struct sim_small_attempt attempts[SIM_SMALL_ATTEMPTS_MAX];
};

struct sim_small_kind {
    const char *counted[SIM_SMALL_COUNTS_MAX]; /* what results count; NULL behind the last */
    int mutations;      /* deliberate faults, which the checks must notice: 1 to below this */
    size_t world_bytes; /* of the kind's own world, which begins with a struct sim_small */
    uint32_t shards_max, workers_max;
    uint32_t beside; /* clients of another sort beside each server, behind the workers */
    uint32_t turns_max;
    bool repeats;                                          /* messages come twice */
    void (*start_server)(struct sim_small_server *server); /* its service serves nobody yet */
    void (*start_client)(struct sim_small_client *client);
    void (*end_server)(struct sim_small_server *server); /* what it had is lost; or NULL */
    /* All of its batches are over, and nobody will hear of them. */
    void (*end_client)(struct sim_small_client *client);
    bool (*is_idle)(const struct sim_small_client *client);
    void (*go_on)(struct sim_small_client *client); /* after every event */
    /* Serves a message. The reply goes to `to`, or is written later by write_reply: for whoever
     * waits, which is PS_ERR_NOT_READY. */
    enum ps_status (*serve)(struct sim_small_server *server, struct sim_small_call *call,
                            struct ps_view bytes, struct ps_buffer *to, struct ps_error *error);
    void (*write_reply)(struct sim_small_server *server, struct sim_small_call *call,
                        struct ps_buffer *to);
    void (*act)(struct sim_small *world); /* something happens, by chance */
    /* Nothing goes wrong any more: brings all to an end and looks at the accounts. */
    void (*finish)(struct sim_small *world);
};

/* The kind that a program is linked with. */
extern const struct sim_small_kind sim_small_kind;

struct sim_small {
    const struct sim_small_kind *kind;
    struct ps_random random;
    struct fake_clock fake;
    struct ps_clock clock;
    struct fault_heap heap;
    struct ps_allocator memory;
    int mutation;
    bool traces;
    bool is_calm; /* nothing ever goes wrong */
    bool is_healed;
    uint32_t shard_count, worker_count, client_count;
    uint32_t lose_permille, late_permille, twice_permille;
    struct sim_small_event events[SIM_SMALL_EVENTS_MAX];
    size_t event_count;
    uint64_t sequence, attempts_made;
    struct sim_small_server servers[SIM_SMALL_SHARDS_MAX];
    struct sim_small_client clients[SIM_SMALL_CLIENTS_MAX];
    struct sim_small_result result;
};

/* One world. `traces`: everything that happens goes to standard output. */
struct sim_small_result sim_small_world(uint64_t seed, int mutation, bool traces);

/* ---- Chance and time: sim_small.c ---- */

PS_PRINTF(2, 3) void sim_small_fail(struct sim_small *world, const char *format, ...);
PS_PRINTF(2, 3) void sim_small_trace(struct sim_small *world, const char *format, ...);
bool sim_small_chance(struct sim_small *world, uint32_t permille);
/* Between `least` and `most`, both included. */
uint64_t sim_small_between(struct sim_small *world, uint64_t least, uint64_t most);
/* The event, and what it owns, in `after_ms`. */
void sim_small_post(struct sim_small *world, uint64_t after_ms,
                    const struct sim_small_event *event);
void sim_small_run(struct sim_small *world, uint64_t span_ms);
/* All servers and workers live, and no worker has anything to do. */
bool sim_small_is_quiet(const struct sim_small *world);
struct sim_small_server *sim_small_any_server(struct sim_small *world);
struct sim_small_client *sim_small_any_worker(struct sim_small *world);
/* It dies, if it lives, and comes back within the time. */
void sim_small_server_dies(struct sim_small_server *server, uint64_t most_ms);
void sim_small_client_dies(struct sim_small_client *client, uint64_t most_ms);

/* ---- Clients and the network: sim_small_channel.c ---- */

void sim_small_start_client(struct sim_small_client *client);
void sim_small_stop_client(struct sim_small_client *client);
/* Begins a batch; `is_finished` is set when it is over. */
struct ps_batch *sim_small_begin(struct sim_small_client *client, enum ps_method method,
                                 struct ps_item *items, size_t count, uint64_t deadline_ms,
                                 bool *is_finished);
/* Whatever an engine waits for is over, and its kind goes on. */
void sim_small_look_client(struct sim_small_client *client);
/* The reply to a call, which may be lost: then its client hears that the connection broke. */
void sim_small_reply(struct sim_small *world, const struct sim_small_call *call,
                     enum ps_status status, const struct ps_error *error,
                     const struct ps_buffer *bytes);
/* A call's client hears that the connection broke. */
void sim_small_break(struct sim_small *world, uint32_t client, uint64_t attempt, uint64_t most_ms,
                     const char *why);

/* ---- Servers: sim_small_server.c ---- */

void sim_small_start_server(struct sim_small_server *server);
void sim_small_stop_server(struct sim_small_server *server);
/* Events: a message has come; a client waits no longer. */
void sim_small_serve(struct sim_small *world, const struct sim_small_event *event);
void sim_small_leave(struct sim_small *world, const struct sim_small_event *event);
/* Calls whose topics were told, or whose time has come. */
void sim_small_look_server(struct sim_small_server *server);

#endif
