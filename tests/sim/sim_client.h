/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer: the real client engine and registry, behind a model of what the client's threads do
 * around them. It finds the servers, takes part in the initialisation, pushes and pulls.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what a batch came to is traced and remembered.
 * Memory:   all of it goes when the trainer dies.
 */
#ifndef PS_TESTS_SIM_SIM_CLIENT_H
#define PS_TESTS_SIM_SIM_CLIENT_H

#include "client/engine/engine.h"
#include "client/engine/placement.h"
#include "etcd/registry.h"
#include "tests/sim/sim_kv.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_reads.h"
#include "tests/sim/sim_settings.h"
#include "tests/sim/sim_tables.h"

#define SIM_ATTEMPTS_MAX 256
#define SIM_SPLIT_BYTES 128 /* larger parameters are cut over the shards */

/* What it is at. */
enum sim_phase {
    SIM_PHASE_OPENING,      /* learns the number of shards */
    SIM_PHASE_IDLE,         /* open, nothing to do */
    SIM_PHASE_QUEUEING,     /* waits for its turn to initialise */
    SIM_PHASE_INITIALISING, /* init of every parameter */
    SIM_PHASE_PREPARING,    /* reads what is lost already */
    SIM_PHASE_FINISHING,    /* finish of every shard */
    SIM_PHASE_MARKING,      /* puts /init_ps/done */
    SIM_PHASE_PUSHING,
    SIM_PHASE_PULLING,
    SIM_PHASE_CATCHING_UP, /* by delta pulls */
    SIM_PHASE_CHANGING,    /* sim_client_change.h */
    SIM_PHASE_CONFIGURING, /* rounds: sim_client_rounds.h */
    SIM_PHASE_ROWS         /* sim_tables.h */
};

/* A gradient as it is sent. */
struct sim_encoded {
    struct ps_encoded_push push;
    struct ps_bytes ranges[SIM_SHARDS_MAX];
    uint64_t bytes[2 * SIM_ELEMENTS_MAX]; /* of all ranges, one behind the other */
};

/* A message that is out. */
struct sim_attempt {
    uint64_t number; /* 0: a free place */
    uint64_t call;
    uint32_t shard;
};

struct sim_parameter {
    char name[24];
    enum ps_dtype dtype;
    size_t count;
    struct ps_bytes config; /* borrowed */
};

/* What a trainer knows of a parameter that is trained in rounds. */
struct sim_round_place {
    uint64_t next;    /* the round behind the version that was pulled last; 0: not known */
    uint64_t awaited; /* the version to which it has contributed; 0: none is waited for */
};

/* What a shard has been told of the trainer's clock. */
enum sim_clock_wish { SIM_CLOCK_SAYS, SIM_CLOCK_SETS, SIM_CLOCK_REMOVES };

struct sim_clock_place {
    bool is_set;              /* the shard has the clocks */
    bool is_known;            /* `told` is */
    enum sim_clock_wish wish; /* of the request under way: says a clock, or sets or removes all */
    uint64_t told;            /* the clock that the shard has acknowledged */
    uint64_t says;            /* the clock of the request under way */
    uint64_t sequence;        /* of the newest request */
    uint64_t sequence_open;   /* of the one under way; 0: none is */
    uint64_t sent_ms;         /* when it was sent last */
};

/* A trainer with a clock; session 0: it has none. */
struct sim_worker {
    uint64_t session;
    uint64_t clock; /* iterations that it has ended */
    bool reads;     /* the batch under way reads at that clock */
    bool has_read;  /* some batch has */
    struct sim_clock_place shards[SIM_SHARDS_MAX];
};

#define SIM_CONFIG_BYTES_MAX 1024

/* Of a trainer that defines, configures and drops: its own parameter, which nobody else knows, and
 * what must be true of it (sim_client_change.h). */
struct sim_own {
    struct sim_parameter parameter;
    char config[SIM_CONFIG_BYTES_MAX];
    uint64_t names; /* given so far, in this life */
    uint64_t rates; /* asked for so far, in this life; no two are equal */
    uint64_t rate;  /* that holds */
    bool exists;
    double value;     /* of each element */
    double gradient;  /* of the push under way */
    uint64_t version; /* its pushes */
    struct ps_change_reply answer;
};

struct sim_client {
    struct sim_world *world;
    uint32_t number;
    char name[16];
    bool running;
    uint64_t generation;

    struct ps_engine *engine;
    struct sim_kv *kv;
    struct ps_registry registry;
    struct ps_members members;
    uint64_t placement;              /* of the job, as far as the client has heard */
    uint64_t epochs[SIM_SHARDS_MAX]; /* of the members; 0: nobody */
    bool watching;
    uint64_t members_due_ms; /* read them again then, whatever the watch says */
    uint64_t busy_until_ms;  /* the store has not answered before */

    uint64_t paused_until_ms;

    enum sim_phase phase;
    struct ps_init_lock lock;
    uint64_t lock_kept_ms;
    uint64_t init_epochs[SIM_SHARDS_MAX]; /* client/engine/init_epoch.h */
    struct ps_batch *batch;
    enum ps_method method; /* of the batch */
    bool finished;         /* the batch */
    struct ps_item items[SIM_PARAMETERS_MAX];
    size_t item_count;
    uint64_t values[SIM_PARAMETERS_MAX][SIM_ELEMENTS_MAX]; /* sent */
    uint64_t pulled[SIM_PARAMETERS_MAX][SIM_ELEMENTS_MAX]; /* received */
    struct sim_encoded encoded[SIM_PARAMETERS_MAX];
    uint64_t shapes[SIM_PARAMETERS_MAX][2]; /* sent with an initialisation */

    struct sim_replica *replica;            /* owned; NULL: it has pulled no deltas yet */
    const struct sim_parameter *parameters; /* borrowed */
    size_t parameter_count;
    struct sim_round_place round_places[SIM_PARAMETERS_MAX]; /* sim_client_rounds.h */
    struct sim_worker clock;                                 /* sim_clocks.h */
    enum ps_encoding encoding;                               /* of gradients of floats */
    size_t part_bytes;      /* larger calls go in ranges of so many bytes; 0: none do */
    bool asks_early;        /* ranges of a push bring back what they make, where it wants to know */
    struct sim_reads reads; /* of the batch under way */
    bool changes;           /* trains with a parameter of its own */
    struct sim_own own;
    struct sim_table_client tables;
    uint8_t setting[SIM_SETTING_BYTES]; /* of the batch under way, if it configures */
    char range_names[SIM_SHARDS_MAX][PS_NAME_BYTES_MAX]; /* that it configures */
    bool trains; /* goes on by itself: initialise, push, pull, push ... */
    uint64_t think_ms;
    int64_t skew_us; /* by which its clock is ahead of the servers' */
    uint64_t next_ms;
    uint64_t rounds; /* pulls that went well */

    struct sim_attempt attempts[SIM_ATTEMPTS_MAX];
    uint64_t attempt_number;
    uint64_t step_number; /* of the step that is posted */
};

struct sim_client *sim_clients_create(struct sim_world *world);
void sim_clients_destroy(struct sim_world *world);
bool sim_clients_are_busy(const struct sim_world *world);

/* Opens a client that knows these parameters. `trains`: it needs no commands. */
void sim_client_start(struct sim_client *client, const struct sim_parameter *parameters,
                      size_t parameter_count, bool trains);
/* The process dies, whatever it was doing. */
void sim_client_crash(struct sim_client *client);

static inline struct ps_layout sim_client_layout(const struct sim_client *client)
{
    return (struct ps_layout){SIM_SPLIT_BYTES, client->placement, client->members.shard_count};
}

/* Commands for one that does not train. It must be idle. */
void sim_client_initialise(struct sim_client *client);
/* All elements of the gradient are `value`. `parameter` is a number, SIM_PARAMETERS_MAX: all. */
void sim_client_push(struct sim_client *client, size_t parameter, double value,
                     uint64_t timeout_ms);
void sim_client_pull(struct sim_client *client, size_t parameter, uint64_t timeout_ms);
/* Both in one. */
void sim_client_push_pull(struct sim_client *client, size_t parameter, double value,
                          uint64_t timeout_ms);

/* As SIGSTOP, and SIGCONT so much later: replies wait. */
void sim_client_pause(struct sim_client *client, uint64_t span_ms);
uint64_t sim_client_pause_left_ms(const struct sim_world *world, const struct sim_message *reply);

/* A reply arrives. */
void sim_client_take(struct sim_world *world, const struct sim_message *message);

#endif
