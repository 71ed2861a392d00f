/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds from seeds. */
#include "tests/sim/sim_random_world.h"

#include "base/assert.h"
#include "server/core/requests/staging.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_random_life.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/sim_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAL_MS 60000             /* within which every client must get on */
#define WAITS_MS 120000           /* longer, where trainers wait for each other */
#define AHEAD_US_MAX 59000000     /* of a trainer's clock; servers refuse a minute */
#define STAGING_BYTES_SMALL 32768 /* about what two parameters take */

static struct sim_options random_options(struct ps_random *random, uint64_t seed,
                                         enum sim_mutation mutation);
static void start_all(struct sim_life *life);
static void heal(struct sim_life *life);
static void expect_progress(struct sim_life *life);

void sim_random_world(uint64_t seed, enum sim_mutation mutation, struct sim_world_report *report,
                      char **trace)
{
    struct ps_random random;
    struct sim_life life = {0};
    ps_random_init(&random, seed);
    struct sim_options options = random_options(&random, seed, mutation);
    options.traces = trace != NULL;
    life.world = sim_world_create(&options);
    life.parameter_count = sim_choose_parameters(life.world, life.parameters, life.configs);
    sim_tables_choose(life.world);

    start_all(&life);
    sim_life_go_wrong(&life);
    heal(&life);
    expect_progress(&life);

    *report = (struct sim_world_report){.failed = life.world->failed,
                                        .simulated_ms = sim_now(life.world),
                                        .faults = life.faults,
                                        .claims = sim_checker_claims(life.world)};
    memcpy(report->failure, life.world->failure, sizeof report->failure);
    for (uint32_t i = 0; i < options.client_count; i++)
        report->rounds += life.world->clients[i].rounds;
    if (trace != NULL)
        *trace = strdup(life.world->trace.text != NULL ? life.world->trace.text : "");
    sim_world_destroy(life.world);
}

static uint64_t pick(struct ps_random *random, uint64_t least, uint64_t most)
{
    return least + ps_random_below(random, most - least + 1);
}

static void choose_tables(struct ps_random *random, enum sim_mutation mutation,
                          struct sim_options *options)
{
    bool needs_rows = mutation >= SIM_MUTATION_ROW_TWICE;
    bool has_rounds = options->rounds && pick(random, 0, 1) > 0;
    if (pick(random, 0, 2) == 0 || needs_rows || has_rounds)
        options->tables = (uint32_t)pick(random, 1, SIM_TABLES_MAX);
    /* One trainer more is all that notices it, and most worlds of tables are slow. */
    if (mutation == SIM_MUTATION_DROP_UNREMEMBERED)
        options->tables = 0;
    options->rows_expire = options->tables > 0 && pick(random, 0, 1) > 0;
    if (mutation == SIM_MUTATION_NONE && pick(random, 0, 1) > 0) /* others bend whole checkpoints */
        options->increments = (uint32_t)pick(random, 1, 3);
}

static void choose_waits(struct ps_random *random, enum sim_mutation mutation,
                         struct sim_options *options)
{
    bool needs_rounds = mutation >= SIM_MUTATION_ROUND_ROWS_LOST;
    options->waits = pick(random, 0, 1) > 0 || needs_rounds;
    bool wanted = (pick(random, 0, 2) > 0 || needs_rounds) && options->clients_max == 0;
    options->rounds = options->waits && wanted;
}

static struct sim_options random_options(struct ps_random *random, uint64_t seed,
                                         enum sim_mutation mutation)
{
    uint32_t shards = (uint32_t)pick(random, 1, 3);
    struct sim_options options = {
        .seed = seed,
        .shard_count = shards,
        .server_count = shards + (uint32_t)pick(random, 0, 2),
        .client_count = (uint32_t)pick(random, 1, 3),
        .ttl_ms = pick(random, 1, 6) * 1000,
        .save_interval_ms = pick(random, 0, 4) * 1000,
        /* A save after every fence would find a lost lease out at once. */
        .saves = pick(random, 0, 9) > 0 && mutation != SIM_MUTATION_LEASE_IMMORTAL,
        .delay_min_ms = 1,
        .delay_max_ms = pick(random, 1, 50),
        .lose_permille = (uint32_t)pick(random, 0, 20),
        .repeat_permille = (uint32_t)pick(random, 0, 10),
        .unclear_permille = (uint32_t)pick(random, 0, 30),
        .disk_ms = pick(random, 1, 300),
        .placement = seed % 2 * (1 + seed % 11),
        .mutation = mutation,
    };
    options.journals = options.saves && pick(random, 0, 9) > 2;
    options.keeps_addresses = pick(random, 0, 1) > 0;
    options.opens_late = pick(random, 0, 1) > 0;
    options.message_calls_max = (uint32_t)(pick(random, 0, 1) * pick(random, 2, 8));
    options.large = pick(random, 0, 3) == 0;
    if (options.large && pick(random, 0, 3) == 0)
        options.staging_bytes = STAGING_BYTES_SMALL;
    /* Fewer than there are trainers, in most of these worlds: servers forget those at work. */
    if (pick(random, 0, 2) == 0) {
        options.clients_max = (uint32_t)pick(random, 1, 2);
        options.client_count = (uint32_t)pick(random, 2, 3);
    }
    /* A trainer with a chosen id that was forgotten at its work does not go on by itself. */
    options.named = options.clients_max == 0 && seed % 3 == 0;
    if (options.journals && pick(random, 0, 1) > 0)
        options.journal_bytes = pick(random, 4, 64) * 4096;
    /* Drawn last: other worlds are what they were. One that is forgotten could not know. */
    bool needs_changes =
        mutation == SIM_MUTATION_CONFIGURE_LOST || mutation == SIM_MUTATION_DROP_UNREMEMBERED;
    options.changes =
        (pick(random, 0, 1) > 0 || needs_changes) && options.journals && options.clients_max == 0;
    options.client_count += options.changes ? 1 : 0;
    options.clocks = (struct sim_clock_settings){
        .present = pick(random, 0, 2) == 0 && options.clients_max == 0,
        .consistency = (enum sim_consistency)pick(random, SIM_CLOCKS_ASP, SIM_CLOCKS_BSP),
        .staleness = (uint32_t)pick(random, 0, 3),
        .evicts = pick(random, 0, 1) > 0,
        .ttl_ms = pick(random, 500, 6000)};
    choose_waits(random, mutation, &options);
    /* One trainer alone would wait for itself. */
    if ((options.waits || options.clocks.present) &&
        options.client_count < (options.changes ? 3 : 2))
        options.client_count++;
    choose_tables(random, mutation, &options);
    options.writes_late = pick(random, 0, 1) > 0;
    options.clocks.removes = pick(random, 0, 2) > 0;
    return options;
}

/* ---- Lives ---- */

void sim_life_start_server(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    struct sim_server *server = subject;
    (void)world;
    (void)a;
    (void)b;
    if (!server->running)
        sim_server_start(server, PS_INDEX_ANY);
}

/* All parts but the last have at least a quarter of a block; blocks and parts may cross. */
static size_t choose_part_bytes(struct sim_world *world)
{
    if (!world->options.large || sim_chance(world, 200))
        return 0;
    return PS_STAGING_PART_BYTES * (size_t)sim_between(world, 1, 5);
}

void sim_life_start_client(struct sim_life *life, struct sim_client *client)
{
    client->think_ms = sim_between(life->world, 10, 500);
    client->skew_us = 0;
    /* A random id asks no clock. */
    if (life->world->options.named && sim_chance(life->world, 500))
        client->skew_us = (int64_t)sim_between(life->world, 0, AHEAD_US_MAX);
    client->part_bytes = choose_part_bytes(life->world);
    client->asks_early = client->part_bytes > 0 && sim_chance(life->world, 750);
    client->encoding = PS_ENCODING_NATIVE;
    if (sim_chance(life->world, 400))
        client->encoding = (enum ps_encoding)sim_between(life->world, 0, PS_ENCODING_COUNT - 1);
    sim_client_start(client, life->parameters, life->parameter_count, true);
}

static void start_all(struct sim_life *life)
{
    struct sim_world *world = life->world;
    for (uint32_t i = 0; i < world->options.server_count; i++)
        sim_post(world, sim_between(world, 0, 3000), sim_life_start_server, &world->servers[i], 0,
                 0);
    for (uint32_t i = 0; i < world->options.client_count; i++)
        sim_life_start_client(life, &world->clients[i]);
    sim_run(world, sim_between(world, 500, 8000));
}

/* ---- And then it must go on ---- */

static void heal(struct sim_life *life)
{
    struct sim_world *world = life->world;
    sim_trace(world, "--", "everything is healed");
    sim_heal(world);
    world->options.lose_permille = 0;
    world->options.repeat_permille = 0;
    world->options.unclear_permille = 0;
    for (uint32_t i = 0; i < world->options.shard_count; i++)
        memory_files_knobs(world->disks[i])->bytes_max = 0;
    for (uint32_t i = 0; i < world->options.server_count; i++) {
        world->servers[i].die_at_operation = -1;
        world->servers[i].journal.fate = SIM_JOURNAL_GOOD;
        if (world->servers[i].paused)
            sim_server_resume(&world->servers[i]);
    }
}

/* As a service manager does: also what ended by itself, or was told to before the healing. */
static void start_missing(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.server_count; i++)
        if (!world->servers[i].running)
            sim_server_start(&world->servers[i], PS_INDEX_ANY);
}

static bool all_got_on(const struct sim_world *world, const uint64_t *rounds)
{
    for (uint32_t i = 0; i < world->options.client_count; i++)
        if (world->clients[i].rounds < rounds[i] + 3)
            return false;
    return true;
}

static void expect_progress(struct sim_life *life)
{
    struct sim_world *world = life->world;
    uint64_t rounds[SIM_CLIENTS_MAX];
    /* What a trainer has given up may keep its room for so long. */
    uint64_t idle_ms = world->options.staging_bytes > 0 ? PS_STAGING_IDLE_MS : 0;
    /* Trainers may wait for each other until a call's deadline: they get on then, but slowly. */
    bool waits = world->options.waits || world->options.clocks.present;
    uint64_t bound_ms = HEAL_MS + idle_ms + (waits ? WAITS_MS : 0);
    uint64_t end_ms = sim_now(world) + bound_ms;
    for (uint32_t i = 0; i < world->options.client_count; i++)
        rounds[i] = world->clients[i].rounds;
    while (!world->failed && !all_got_on(world, rounds) && sim_now(world) < end_ms) {
        /* What getting on is measured by is one of many things that trainers draw: a slow one may
         * draw too few of it for a long time. */
        world->pulls_only = sim_now(world) > end_ms - bound_ms / 2;
        start_missing(world);
        sim_run(world, 500);
    }
    if (!all_got_on(world, rounds))
        sim_fail(world, "liveness: a client does not get on within %" PRIu64 " ms of the healing",
                 bound_ms);
}
