/* SPDX-License-Identifier: Apache-2.0 */
/* Tables among a world's parameters: each trainer defines them, adds to rows, often to one key
 * several times in a push, and reads rows, also of keys to which nobody has pushed. The engine cuts
 * nothing here: a batch has one item for each shard.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "P1: ..." of a table that is lost, "rows: ..." of rows that no server gave.
 * Memory:   in the client and in the checker.
 */
#ifndef PS_TESTS_SIM_SIM_TABLES_H
#define PS_TESTS_SIM_SIM_TABLES_H

#include "base/bytes.h"
#include "base/dtype.h"
#include "client/engine/engine.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_table_first.h"

#define SIM_TABLE_WIDTH_MAX 4
#define SIM_TABLE_KEYS 48      /* that trainers know of */
#define SIM_TABLE_BATCH_MAX 12 /* keys of one item */
#define SIM_TABLE_CONFIG_BYTES_MAX 1024

#define SIM_TABLE_VARIANTS 2

struct sim_follower;

/* To those from SIM_TABLE_ASSIGN on the sum of two gradients means nothing. */
enum sim_table_rule {
    SIM_TABLE_SGD,
    SIM_TABLE_MOMENTUM,
    SIM_TABLE_ROW_WISE,
    SIM_TABLE_ADD,
    SIM_TABLE_ASSIGN,
    SIM_TABLE_MAX,
    SIM_TABLE_MIN
};

/* What the trainers of a world agree on. */
struct sim_table {
    char name[8];
    enum sim_table_rule rule;
    enum ps_dtype dtype;
    uint32_t width;
    struct sim_ranges ranges;
    /* A table that trainers drop comes again, mostly with other first values. */
    bool drops;
    struct sim_first first[SIM_TABLE_VARIANTS];
    uint64_t rows_max;  /* of one shard; 0: any number */
    bool oldest_go;     /* where there would be more; else pushes are refused */
    uint64_t expire_ms; /* 0: never */
    uint64_t expire_clocks;
    bool expires;       /* by time or by clocks */
    uint32_t workers;   /* of its rounds, as sim_rounds.h has them; 0: none, and never any */
    uint32_t quorum;    /* 0: all that are not evicted; as it is defined, and as all that follows */
    uint64_t grace_ms;  /* 0: never */
    int combine;        /* enum sim_combine */
    bool late_is_next;  /* as sim_rounds.h has it */
    uint32_t admission; /* a key gets its row with so many pushes; 0: with the first */
    char config_bytes[SIM_TABLE_VARIANTS][SIM_TABLE_CONFIG_BYTES_MAX];
    struct ps_bytes config[SIM_TABLE_VARIANTS];
};

/* What one trainer knows of the tables, and the batch that it has under way. */
struct sim_table_client {
    bool is_defined[SIM_TABLES_MAX][SIM_SHARDS_MAX];
    uint64_t versions[SIM_TABLES_MAX][SIM_SHARDS_MAX]; /* of its last push */
    uint64_t rounds[SIM_TABLES_MAX][SIM_SHARDS_MAX];   /* behind what was read last; 0: not known */
    uint32_t table;                                    /* of the batch */
    bool lowers; /* the next batch is to lower the limit of the same table */
    struct ps_encoded_push encoded[SIM_SHARDS_MAX];
    struct ps_bytes ranges[SIM_SHARDS_MAX];
    uint64_t sent[SIM_SHARDS_MAX][SIM_TABLE_BATCH_MAX * (1 + SIM_TABLE_WIDTH_MAX)];
    uint64_t keys[SIM_SHARDS_MAX][SIM_TABLE_BATCH_MAX];
    struct sim_follower *follower; /* owned; NULL: it has followed no table yet */
};

/* Is it one of the tables' names? No other parameter's begins so. */
bool sim_is_table(struct ps_bytes name);

/* The keys are small and large ones; SIM_TABLE_KEYS for a number that is none of them. */
uint64_t sim_table_key(uint32_t i);
uint32_t sim_table_key_number(uint64_t key);

size_t sim_table_row_bytes(const struct sim_table *table);

/* Of what the rule remembers of a row; 0 where it remembers nothing. */
size_t sim_table_state_bytes(const struct sim_table *table);

/* Draws the tables of a world. */
void sim_tables_choose(struct sim_world *world);

/* Begins a batch on one of the tables. */
void sim_tables_train(struct sim_client *client);

/* The trainer's process has died. */
void sim_tables_forget(struct sim_client *client);

/* That batch is over. */
void sim_tables_trained(struct sim_client *client);

#endif
