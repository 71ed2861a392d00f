/* SPDX-License-Identifier: Apache-2.0 */
/* One table of the model: a place for each key that trainers know of, and the rules, written down
 * once more. Numbers are doubles that are rounded to the table's type after each step.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SIM_SIM_TABLE_COPY_H
#define PS_TESTS_SIM_SIM_TABLE_COPY_H

#include "tests/sim/sim_settings.h"
#include "tests/sim/sim_tables.h"

/* When something was pushed. */
struct sim_when {
    uint64_t ms;
    uint64_t served_ms; /* of all time so far, in which the shard's owner had its lease */
    uint64_t starts;    /* of the shard, so far */
    uint64_t clock;     /* the minimum of the workers' clocks, as the server had it */
    uint64_t since;     /* which clocks these were: sim_clocks_since */
};

struct sim_row {
    bool is_there;
    uint64_t touched;       /* version of the last push to it */
    struct sim_when pushed; /* when that was */
    uint64_t made;          /* version of the first */
    double values[SIM_TABLE_WIDTH_MAX];
    double states[SIM_TABLE_WIDTH_MAX]; /* of momentum; row-wise, of the row */
    uint32_t counted;                   /* pushes to a key that has no row yet */
    uint64_t counted_at;                /* version of the last of them */
};

/* What a worker has brought to the open round. */
struct sim_table_held {
    bool is_there;
    struct ps_bytes content; /* borrowed */
    double weight;
    uint64_t epoch; /* in which it came */
    struct sim_when at;
};

struct sim_table_copy {
    const struct sim_table *about; /* borrowed */
    struct sim_table_held held[SIM_CLIENTS_MAX];
    uint64_t held_at; /* position of the last contribution */
    uint64_t made_at; /* of the last one to the last round that is over */
    uint32_t evicted; /* whom the open round does not wait for, a bit for each worker */
    bool is_there;
    uint32_t variant;    /* of the first values */
    uint64_t dropped_at; /* position */
    uint64_t version;
    uint64_t rows_max; /* as configured last */
    uint32_t workers;  /* likewise; 0: every push is a version */
    uint32_t quorum;   /* likewise */
    uint64_t grace_ms; /* likewise */
    int combine;       /* likewise; enum sim_combine */
    bool late_is_next; /* likewise */
    bool is_new_rule;  /* since the last contribution: nobody has looked at the open round yet */
    struct sim_row rows[SIM_TABLE_KEYS];
};

/* The content of a push of this table: keys, and rows behind them. */
struct sim_row_push {
    size_t count;
    uint32_t keys[SIM_TABLE_BATCH_MAX]; /* numbers of keys */
    double gradients[SIM_TABLE_BATCH_MAX][SIM_TABLE_WIDTH_MAX];
};
void sim_row_push_read(const struct sim_table *about, struct ps_bytes content,
                       struct sim_row_push *push);

/* The next version, out of the push. */
void sim_table_copy_push(struct sim_table_copy *copy, struct ps_bytes content, struct sim_when now);

/* A worker that has none contributes to the open round, and is waited for again. */
void sim_table_copy_hold(struct sim_table_copy *copy, uint32_t worker,
                         const struct sim_table_held *held);

/* How many have contributed to the open round, how many it needs, and when the first of them did.
 * */
uint32_t sim_table_copy_there(const struct sim_table_copy *copy);
uint32_t sim_table_copy_needed(const struct sim_table_copy *copy);
uint64_t sim_table_copy_first_ms(const struct sim_table_copy *copy);

/* The next version, out of what is held, which goes. Whoever is missing where fewer are there than
 * it needs is evicted. Its rows count as pushed to when the last of them contributed, which is when
 * it ended or before. */
void sim_table_copy_end_round(struct sim_table_copy *copy);

void sim_table_copy_change(struct sim_table_copy *copy, enum sim_setting setting, uint64_t value);

/* May the push be refused for the number of rows? A contribution together with what is held; one
 * without rows never. */
bool sim_table_copy_is_full(const struct sim_table_copy *copy, struct ps_bytes content);

/* What expired of each key. */
enum sim_gone { SIM_GONE_NOTHING, SIM_GONE_ROW, SIM_GONE_COUNT };
void sim_table_copy_expire(struct sim_table_copy *copy, const uint8_t gone[SIM_TABLE_KEYS]);

uint64_t sim_table_copy_count(const struct sim_table_copy *copy);

/* The bytes of a row; of a key that has none, those of its first values. */
void sim_table_copy_values(const struct sim_table_copy *copy, uint32_t key,
                           uint8_t to[SIM_TABLE_WIDTH_MAX * 8]);
void sim_table_copy_states(const struct sim_table_copy *copy, uint32_t key,
                           uint8_t to[SIM_TABLE_WIDTH_MAX * 8]);

#endif
