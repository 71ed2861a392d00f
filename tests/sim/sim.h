/* SPDX-License-Identifier: Apache-2.0 */
/* A whole parameter server in one thread: servers, trainers, store, disks and network, all of it on
 * a clock that only moves from one event to the next. Server core, coordinator, recovery, saver,
 * codec and client engine are the real ones; what is simulated is what surrounds them.
 *
 * Equal options and equal commands give equal lives, but for the UUIDs in file names, which decide
 * nothing.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what must never happen is noted by sim_fail; the first note ends the world.
 * Memory:   a world owns everything in it. Refused allocations are not simulated here.
 */
#ifndef PS_TESTS_SIM_SIM_H
#define PS_TESTS_SIM_SIM_H

#include "base/buffer.h"
#include "base/random.h"
#include "etcd/kv.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#define SIM_SHARDS_MAX 4
#define SIM_SERVERS_MAX 8
#define SIM_CLIENTS_MAX 4
#define SIM_PARAMETERS_MAX 6
#define SIM_ELEMENTS_MAX 2048
#define SIM_ELEMENTS_SMALL 64
#define SIM_EVENTS_MAX 4096
#define SIM_TABLES_MAX 2

/* Who can be cut off from whom: the store, servers, clients, in this order. */
#define SIM_NODE_STORE 0
#define SIM_NODES_MAX (1 + SIM_SERVERS_MAX + SIM_CLIENTS_MAX)

struct sim_world;
struct sim_server;
struct sim_client;
struct sim_checker;

/* What an event does; `subject`, `a` and `b` are the poster's. */
typedef void (*sim_event_fn)(struct sim_world *world, void *subject, uint64_t a, uint64_t b);

struct sim_event {
    uint64_t at_ms;
    uint64_t sequence; /* orders events of the same moment */
    sim_event_fn run;
    void *subject;
    uint64_t a, b;
    void (*drop)(struct sim_world *world, void *subject); /* when the world ends before; or NULL */
};

/* Deliberate faults of the surroundings that the checkers must notice. They live in the wrappers
 * of this folder, never in product code. */
enum sim_mutation {
    SIM_MUTATION_NONE,
    SIM_MUTATION_CLAIM_UNCOMPARED,   /* the store makes every claim, free or not */
    SIM_MUTATION_POINTER_UNCOMPARED, /* the store moves the pointer for whoever asks */
    SIM_MUTATION_LEASE_IMMORTAL,     /* who has lost a lease is told that he has it */
    SIM_MUTATION_CLOCK_LATE,         /* the services' clocks are behind, by more than the margin */
    SIM_MUTATION_SYNC_IGNORED,       /* the disk says that it has synced, and has not */
    SIM_MUTATION_SNAPSHOT_TORN,      /* one value in a checkpoint is of another instant */
    SIM_MUTATION_FINISH_UNCHECKED,   /* trainers say no epoch when they finish */
    SIM_MUTATION_JOURNAL_UNSYNCED,   /* the journal's disk says that it has synced, and has not */
    SIM_MUTATION_REPLY_EARLY,        /* pushes are answered before they are durable */
    SIM_MUTATION_ID_FORGOTTEN,       /* pushes are applied without their ids */
    SIM_MUTATION_REPLAY_BENT,        /* gradients are replayed as zeros */
    SIM_MUTATION_SHARD_UNCHECKED,    /* servers do not see for whom a request is meant */
    SIM_MUTATION_CHECKPOINT_AHEAD,   /* checkpoints do not wait for the journal */
    SIM_MUTATION_CHAIN_FORGOTTEN,    /* servers take versions of former lives for their own */
    SIM_MUTATION_RANGE_BENT,         /* some ranges of gradients come as zeros */
    SIM_MUTATION_VERSION_IGNORED,    /* ranges are read of the version that is there */
    SIM_MUTATION_MADE_BELIEVED,      /* trainers believe what ranges make, whatever became of it */
    SIM_MUTATION_MADE_BEFORE,        /* ranges make what was there before */
    SIM_MUTATION_NOTE_AHEAD,         /* what is noted as durable is not, yet */
    SIM_MUTATION_FINGERPRINT_LOST,   /* recovery brings requests back without their fingerprints */
    SIM_MUTATION_COUNT_LOST,         /* ... and clients with one push fewer than they made */
    SIM_MUTATION_CONFIGURE_LOST,     /* replay leaves out what was configured */
    SIM_MUTATION_DROP_UNREMEMBERED,  /* replay drops without the request's id */
    SIM_MUTATION_DEFINE_EARLY,       /* definitions are answered before they are durable */
    SIM_MUTATION_WAIT_IGNORED,       /* pulls are answered before what they wait for is there */
    SIM_MUTATION_CLOCK_EARLY,        /* reads are answered one clock early */
    SIM_MUTATION_CLOCK_LOST,         /* workers are one iteration behind after a replay */
    SIM_MUTATION_CLOCKS_KEPT,        /* replay removes no clocks */
    SIM_MUTATION_HELD_BENT,          /* contributions to rounds are replayed as zeros */
    SIM_MUTATION_HELD_TWICE,         /* they count for another worker as well */
    SIM_MUTATION_EVICTION_LOST,      /* replay evicts nobody */
    SIM_MUTATION_RANGE_UNCHANGED,    /* of a cut parameter the first range alone is configured */
    SIM_MUTATION_ROW_TWICE,          /* rows of a push are added twice */
    SIM_MUTATION_ROW_SUM_LOST,       /* of several gradients of one key the first counts */
    SIM_MUTATION_ROW_UNKNOWN,        /* keys without a row are answered with other values */
    SIM_MUTATION_ROWS_LATE,          /* checkpoints have rows of after their instant */
    SIM_MUTATION_SWEEP_LOST,         /* replay lets no rows expire */
    SIM_MUTATION_EXPIRY_SHORT,       /* replay lets one row less expire than a record says */
    SIM_MUTATION_KEYS_UNCHECKED,     /* servers take keys of tables that are other shards' */
    SIM_MUTATION_TABLE_DROP_LOST,    /* replay drops no tables */
    SIM_MUTATION_CANDIDATES_LOST,    /* checkpoints do not have what is counted of keys */
    SIM_MUTATION_ROUND_ROWS_LOST,    /* contributions of rows are replayed without their rows */
    SIM_MUTATION_ROUND_UNLIMITED,    /* ... and taken whatever the table's limit is */
    SIM_MUTATION_ROUND_EVICTED_LOST, /* replay evicts nobody from the rounds of tables */
    SIM_MUTATION_ROUND_EARLY,        /* rounds do not wait for the whole grace time */
    SIM_MUTATION_GONE_UNTOLD,        /* followers are not told which rows went */
    SIM_MUTATION_SINCE_LATE,         /* ... nor of the rows of the version behind theirs */
    SIM_MUTATION_TABLE_CHAIN_FORGOTTEN, /* versions of former tables count as the present one's */
    SIM_MUTATION_COUNT
};

/* The numbers are those of the wire. */
enum sim_consistency { SIM_CLOCKS_ASP, SIM_CLOCKS_SSP, SIM_CLOCKS_BSP };

/* Of the clocks that all trainers of a world have, if they have any. */
struct sim_clock_settings {
    bool present;
    enum sim_consistency consistency;
    uint32_t staleness;
    bool evicts; /* those that were not heard of for `ttl_ms` */
    uint64_t ttl_ms;
    bool removes; /* trainers remove the clocks now and then, and set them anew */
};

struct sim_options {
    uint64_t seed;
    uint32_t shard_count, server_count, client_count;
    uint64_t ttl_ms;
    uint64_t save_interval_ms;
    uint64_t journal_bytes; /* checkpoint_journal_bytes of a service */
    uint32_t increments;    /* between two whole checkpoints */
    bool saves;
    bool journals;                       /* and acknowledges what is logged; only with `saves` */
    uint64_t delay_min_ms, delay_max_ms; /* of a message, one way; beyond max - min they reorder */
    uint32_t lose_permille;              /* of messages */
    uint32_t repeat_permille;            /* of requests: delivered twice */
    uint32_t message_calls_max;          /* of a trainer, in one message; 0: each alone */
    uint32_t unclear_permille;           /* of calls to the store: answered with a time-out */
    bool keeps_addresses;                /* a server that comes back has the address it had */
    bool large;             /* parameters are of several blocks, and trainers send ranges */
    uint64_t staging_bytes; /* as of a service */
    uint32_t clients_max;   /* as of a service: small ones make servers forget trainers */
    uint64_t placement;     /* that the first trainer proposes; 0: none does */
    bool waits;             /* trainers wait for versions that others make */
    bool rounds;            /* some parameters are trained in rounds, by all other trainers */
    struct sim_clock_settings clocks;
    uint32_t tables;  /* that trainers have beside their parameters */
    bool rows_expire; /* rows of the first of them do */
    bool changes;     /* the last trainer has a parameter of its own; with `journals` */
    bool named;       /* trainers have chosen their ids, and come back under them */
    bool opens_late;  /* servers take their time between loading and opening the journal */
    bool writes_late; /* checkpoints are written some time behind their instant */
    uint64_t disk_ms; /* one load or save lasts up to that long */
    enum sim_mutation mutation;
    bool traces; /* keep the lines */
};

/* What becomes of one call to the store. */
enum sim_fate {
    SIM_FATE_GOOD,
    SIM_FATE_BEFORE, /* never arrives; the caller hears nothing */
    SIM_FATE_AFTER,  /* is done; the caller hears nothing */
    SIM_FATE_LATE    /* the caller hears nothing, and it is done some time later */
};

struct sim_world {
    struct sim_options options;
    struct fake_clock fake;
    struct ps_clock clock;
    struct fault_heap heap; /* counts what the product holds */
    struct ps_allocator memory;
    struct ps_random random;

    struct sim_event events[SIM_EVENTS_MAX]; /* a heap: the next one first */
    size_t event_count;
    uint64_t event_sequence;

    struct ps_kv_hub *hub;
    struct ps_kv *truth; /* a connection that nothing happens to */
    bool store_down;
    bool cut[SIM_NODES_MAX][SIM_NODES_MAX]; /* from, to */
    uint32_t drop_next[SIM_NODES_MAX][SIM_NODES_MAX];
    struct memory_files *disks[SIM_SHARDS_MAX]; /* one volume per shard: it follows the index */
    struct ps_files careless[SIM_SHARDS_MAX];   /* over the disks, of mutations */
    /* No more than one thing is broken at a time: where a checkpoint was damaged only the other
     * generation is left, and while a journal fails only the newest checkpoint has everything. */
    bool brittle[SIM_SHARDS_MAX];
    bool failing[SIM_SHARDS_MAX];
    bool pulls_only; /* trainers have to show that they get on */

    struct sim_server *servers; /* server_count of them */
    struct sim_client *clients; /* client_count of them */
    struct sim_checker *checker;
    struct sim_truths *truths; /* sim_replica.h */
    size_t messages;           /* on the way */

    struct ps_buffer trace;
    bool failed;
    char failure[512];
};

struct sim_world *sim_world_create(const struct sim_options *options);
void sim_world_destroy(struct sim_world *world);

/* Options of a quiet world: one server, one client, two shards need two servers. */
struct sim_options sim_options_quiet(void);

/* Moves the time on by `span_ms`, event by event, or until something failed. */
void sim_run(struct sim_world *world, uint64_t span_ms);

/* Runs until nothing is in flight (no batch, no message), `span_ms` at most. */
void sim_run_until_quiet(struct sim_world *world, uint64_t span_ms);

/* Something that happens in `after_ms`. */
void sim_post(struct sim_world *world, uint64_t after_ms, sim_event_fn run, void *subject,
              uint64_t a, uint64_t b);

/* The same with a subject that the event owns: `run` ends it, or else `drop` does. */
void sim_post_owned(struct sim_world *world, uint64_t after_ms, sim_event_fn run, void *subject,
                    void (*drop)(struct sim_world *world, void *subject));

uint64_t sim_now(const struct sim_world *world);
bool sim_chance(struct sim_world *world, uint32_t permille);
/* Between `least` and `most`, both included. */
uint64_t sim_between(struct sim_world *world, uint64_t least, uint64_t most);

/* One line of the trace, after the time and the name of who does it. */
PS_PRINTF(3, 4)
void sim_trace(struct sim_world *world, const char *who, const char *format, ...);

/* Notes that something happened that must not. The first one is kept. */
PS_PRINTF(2, 3) void sim_fail(struct sim_world *world, const char *format, ...);

/* Trainers that train together: all but the one with a parameter of its own. */
uint32_t sim_trainers(const struct sim_world *world);

uint32_t sim_node_of_server(const struct sim_world *world, uint32_t number);
uint32_t sim_node_of_client(const struct sim_world *world, uint32_t number);

/* Cuts or joins both directions. */
void sim_cut(struct sim_world *world, uint32_t a, uint32_t b, bool cut);
void sim_heal(struct sim_world *world);

#endif
