/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a world: rules, first values, ranges, limits, expiry and rounds, all drawn. */
#include "base/assert.h"
#include "proto/optimizer_config.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client_change.h"
#include "tests/sim/sim_clocks.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_server_aside.h"
#include "tests/sim/sim_table_faults.h"
#include "tests/sim/sim_table_rows.h"
#include "tests/sim/sim_tables.h"

#include <string.h>

static void choose_expiry(struct sim_world *world, struct sim_table *table,
                          struct ps_table_settings *settings)
{
    if (!world->options.rows_expire)
        return;
    table->expires = true;
    if (world->options.clocks.present && sim_chance(world, 500)) {
        settings->expire_clocks = table->expire_clocks = sim_between(world, 2, 8);
        memcpy(settings->clocks, SIM_CLOCKS_NAME, sizeof SIM_CLOCKS_NAME);
        return;
    }
    table->expire_ms = sim_between(world, 500, 10000);
    settings->expire_ms = table->expire_ms;
}

static void choose_limit(struct sim_world *world, struct sim_table *table,
                         struct ps_table_settings *settings)
{
    settings->rows_max = table->rows_max = sim_between(world, 6, SIM_TABLE_KEYS);
    table->oldest_go = sim_chance(world, 600);
    settings->full = table->oldest_go ? PS_TABLE_OLDEST : PS_TABLE_REFUSE;
}

static void choose_rule(struct sim_world *world, struct sim_table *table,
                        struct ps_optimizer_config *config)
{
    table->rule = (enum sim_table_rule)sim_between(world, SIM_TABLE_SGD, SIM_TABLE_MIN);
    table->dtype = sim_chance(world, 500) ? PS_F32 : PS_F64;
    config->learning_rate = SIM_TABLE_RATE;
    if (table->rule == SIM_TABLE_MOMENTUM)
        ps_optimizer_config_set(config, "momentum", SIM_TABLE_MOMENTUM_FACTOR);
    if (table->rule == SIM_TABLE_ADD) {
        (void)ps_optimizer_config_choose(config, "add");
        table->dtype = PS_I64;
    }
    if (table->rule >= SIM_TABLE_ASSIGN) {
        static const char *const names[] = {"assign", "max", "min"};
        (void)ps_optimizer_config_choose(config, names[table->rule - SIM_TABLE_ASSIGN]);
        table->dtype = sim_chance(world, 300) ? PS_I64 : table->dtype;
    }
    if (table->rule == SIM_TABLE_ROW_WISE) {
        (void)ps_optimizer_config_choose(config, "adagrad");
        ps_optimizer_config_set(config, "row_wise", 1);
        ps_optimizer_config_set(config, "epsilon", SIM_TABLE_EPSILON);
    }
}

/* Tables of whole numbers begin with 0. The two variants differ in their seed or their constant. */
static void choose_first(struct sim_world *world, struct sim_table *table)
{
    bool is_whole = table->dtype == PS_I64;
    enum ps_table_init init =
        is_whole ? PS_TABLE_ZERO
                 : (enum ps_table_init)sim_between(world, PS_TABLE_ZERO, PS_TABLE_NORMAL);
    for (uint32_t i = 0; i < SIM_TABLE_VARIANTS && init != PS_TABLE_ZERO; i++)
        table->first[i] = (struct sim_first){
            .init = init, .low = 0.5 + i, .high = 1.75, .seed = sim_between(world, 0, UINT32_MAX)};
}

/* Large keys are beyond those of a table that is counted from 0 on. */
static void choose_ranges(struct sim_world *world, struct sim_table *table,
                          struct ps_table_settings *settings)
{
    struct sim_ranges *ranges = &table->ranges;
    ranges->shard_count = world->options.shard_count;
    if (sim_chance(world, 600))
        return;
    ranges->kind =
        ranges->shard_count > 1 && sim_chance(world, 500) ? PS_TABLE_GIVEN : PS_TABLE_RANGE;
    settings->partition = ranges->kind;
    if (ranges->kind == PS_TABLE_RANGE) {
        settings->keys_max = ranges->keys_max = sim_between(world, 20, SIM_TABLE_KEYS);
        settings->chunk = ranges->chunk = sim_between(world, 1, 9);
        return;
    }
    settings->bound_count = ranges->shard_count - 1;
    for (uint32_t i = 0; i < settings->bound_count; i++) {
        uint64_t before = i > 0 ? ranges->bounds[i - 1] : 0;
        ranges->bounds[i] = before + sim_between(world, 0, i == 0 ? 20 : UINT64_MAX / 2);
        settings->bounds[i] = ranges->bounds[i];
    }
}

/* Sums of squares of whole numbers are exact in any order, and so are none of averages. */
static void choose_rounds(struct sim_world *world, struct sim_table *table,
                          struct ps_optimizer_config *config)
{
    uint32_t workers = sim_trainers(world);
    bool needs_rounds = world->options.mutation >= SIM_MUTATION_ROUND_ROWS_LOST;
    if (!world->options.rounds || table->dtype == PS_I64 ||
        (sim_chance(world, 300) && !needs_rounds))
        return;
    const struct sim_round_rules rules = {
        .workers = workers,
        .quorum = (uint32_t)sim_between(world, 0, workers),
        .grace_ms = sim_chance(world, 400) ? 0 : sim_between(world, 300, 5000),
        .late_is_next = sim_chance(world, 500),
        .combine =
            table->rule == SIM_TABLE_ROW_WISE
                ? SIM_COMBINE_SUM
                : (enum sim_combine)sim_between(world, SIM_COMBINE_AVERAGE, SIM_COMBINE_WEIGHTED)};
    table->workers = rules.workers;
    table->quorum = rules.quorum;
    table->grace_ms = rules.grace_ms;
    table->combine = (int)rules.combine;
    table->late_is_next = rules.late_is_next;
    config->rounds = (struct ps_config_rounds){.workers = rules.workers,
                                               .quorum = rules.quorum,
                                               .grace_ms = rules.grace_ms,
                                               .combine = (int32_t)rules.combine,
                                               .late = rules.late_is_next ? 1 : 0};
    sim_rounds_know(sim_checker_rounds(world), table->name, &rules);
}

static void choose_table(struct sim_world *world, struct sim_table *table, uint32_t i)
{
    struct ps_optimizer_config config;
    struct ps_table_settings *settings = &config.table;
    ps_optimizer_config_defaults(&config);
    PS_ASSERT(i <= 9);
    table->name[0] = 't';
    table->name[1] = (char)('0' + i);
    choose_rule(world, table, &config);
    table->width = (uint32_t)sim_between(world, 1, SIM_TABLE_WIDTH_MAX);
    settings->width = table->width;
    choose_first(world, table);
    choose_ranges(world, table, settings);
    choose_rounds(world, table, &config);
    table->drops = sim_chance(world, 400);
    /* What was taken for a round is let in behind a limit that was lowered meanwhile. */
    if (sim_chance(world, table->workers > 0 ? 700 : 400))
        choose_limit(world, table, settings);
    /* Of two tables that are swept in one turn nobody would see the state between the records. */
    if (i == 0)
        choose_expiry(world, table, settings);
    if (sim_chance(world, 300))
        settings->admission = table->admission = (uint32_t)sim_between(world, 2, 4);
    for (uint32_t k = 0; k < SIM_TABLE_VARIANTS; k++) {
        const struct sim_first *first = &table->first[k];
        settings->init = first->init;
        settings->low = first->low;
        settings->high = first->init == PS_TABLE_CONSTANT ? 0.0 : first->high;
        settings->seed = first->seed;
        table->config[k] = sim_config_encode(&config, table->config_bytes[k]);
    }
}

void sim_tables_choose(struct sim_world *world)
{
    sim_rows_begin(world->options.mutation);
    sim_asides_begin(world);
    for (uint32_t i = 0; i < world->options.tables; i++) {
        struct sim_table table = {.rows_max = 0};
        choose_table(world, &table, i);
        sim_rows_know(world, i, &table);
    }
}
