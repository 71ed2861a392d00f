/* SPDX-License-Identifier: Apache-2.0 */
/* What trainers do with tables. Gradients are small whole numbers, so that sums are exact. */
#include "tests/sim/sim_tables.h"

#include "base/assert.h"
#include "base/partition.h"
#include "proto/optimizer_config.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_client_change.h"
#include "tests/sim/sim_clocks.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_faults.h"
#include "tests/sim/sim_table_follow.h"
#include "tests/sim/sim_table_rows.h"

#include <string.h>

#define BATCH_MS 6000
#define FULL_MS 1000 /* a push that finds no room is repeated until then */
#define SPREAD 0x9E3779B97F4A7C15u

static bool define(struct sim_client *client, const struct sim_table *table);
static void limit(struct sim_client *client, const struct sim_table *table);
static void drop(struct sim_client *client, const struct sim_table *table);
static void follow(struct sim_client *client);
static void fill_shard(struct sim_client *client, const struct sim_table *table, uint32_t shard,
                       enum ps_method method);

bool sim_is_table(struct ps_bytes name)
{
    return name.size > 0 && name.data[0] == 't';
}

uint64_t sim_table_key(uint32_t i)
{
    return i % 2 == 0 ? i : i * SPREAD;
}

uint32_t sim_table_key_number(uint64_t key)
{
    uint32_t i = 0;
    while (i < SIM_TABLE_KEYS && sim_table_key(i) != key)
        i++;
    return i;
}

size_t sim_table_row_bytes(const struct sim_table *table)
{
    return table->width * ps_dtype_size(table->dtype);
}

size_t sim_table_state_bytes(const struct sim_table *table)
{
    if (table->rule == SIM_TABLE_ROW_WISE)
        return ps_dtype_size(table->dtype);
    return table->rule == SIM_TABLE_MOMENTUM ? sim_table_row_bytes(table) : 0;
}

/* ---- The tables of a world ---- */

static void choose_expiry(struct sim_world *world, struct sim_table *table,
                          struct ps_table_settings *settings)
{
    if (!world->options.rows_expire)
        return;
    table->expires = true;
    if (world->options.clocks.present && sim_chance(world, 500)) {
        settings->expire_clocks = sim_between(world, 2, 8);
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
    table->rule = (enum sim_table_rule)sim_between(world, SIM_TABLE_SGD, SIM_TABLE_ADD);
    table->dtype = sim_chance(world, 500) ? PS_F32 : PS_F64;
    config->learning_rate = SIM_TABLE_RATE;
    if (table->rule == SIM_TABLE_MOMENTUM)
        ps_optimizer_config_set(config, "momentum", SIM_TABLE_MOMENTUM_FACTOR);
    if (table->rule == SIM_TABLE_ADD) {
        (void)ps_optimizer_config_choose(config, "add");
        table->dtype = PS_I64;
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
    if (!world->options.rounds || table->dtype == PS_I64 || sim_chance(world, 300))
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
    if (sim_chance(world, 400))
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
    for (uint32_t i = 0; i < world->options.tables; i++) {
        struct sim_table table = {.rows_max = 0};
        choose_table(world, &table, i);
        sim_rows_know(world, i, &table);
    }
}

/* ---- A batch ---- */

void sim_tables_train(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct sim_table_client *own = &client->tables;
    static const enum ps_method methods[] = {PS_METHOD_PUSH, PS_METHOD_PULL, PS_METHOD_PUSH_PULL};
    own->table = (uint32_t)sim_between(world, 0, world->options.tables - 1);
    const struct sim_table *table = sim_rows_table(world, own->table);
    client->item_count = 0;
    if (define(client, table))
        return;
    if (sim_chance(world, 200)) {
        follow(client);
        return;
    }
    if (table->drops && sim_chance(world, 60)) {
        drop(client, table);
        return;
    }
    if (table->rows_max > 0 && sim_chance(world, 150)) {
        limit(client, table);
        return;
    }
    enum ps_method method = methods[sim_between(world, 0, 2)];
    for (uint32_t i = 0; i < client->members.shard_count; i++)
        fill_shard(client, table, i, method);
    sim_client_start_batch(client, method, SIM_PHASE_ROWS,
                           table->rows_max > 0 && table->workers == 0 ? FULL_MS : BATCH_MS);
}

static struct ps_item *add_item(struct sim_client *client, const struct sim_table *table,
                                uint32_t shard)
{
    PS_ASSERT(client->item_count < SIM_PARAMETERS_MAX);
    struct ps_item *item = &client->items[client->item_count++];
    *item = (struct ps_item){.name = ps_bytes_of_text(table->name),
                             .dtype = table->dtype,
                             .of_table = true,
                             .shard = shard};
    return item;
}

/* On all shards where the trainer does not know of it. False: it is everywhere. */
static bool define(struct sim_client *client, const struct sim_table *table)
{
    uint32_t variant = table->drops ? (uint32_t)sim_between(client->world, 0, 1) : 0;
    for (uint32_t i = 0; i < client->members.shard_count; i++)
        if (!client->tables.is_defined[client->tables.table][i])
            add_item(client, table, i)->config = table->config[variant];
    if (client->item_count == 0)
        return false;
    sim_client_start_batch(client, PS_METHOD_DEFINE, SIM_PHASE_ROWS, BATCH_MS);
    return true;
}

uint64_t sim_tables_limit_of(struct ps_bytes change)
{
    PS_ASSERT(change.size == SIM_TABLE_CHANGE_BYTES);
    return change.data[SIM_TABLE_CHANGE_BYTES - 1];
}

static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    (void)self;
    (void)reply;
    (void)error;
    return PS_OK;
}

/* OptimizerConfig {table {rows_max}}, on one shard: the limits of shards have nothing to do with
 * each other. */
static void limit(struct sim_client *client, const struct sim_table *table)
{
    static const uint8_t head[SIM_TABLE_CHANGE_BYTES - 1] = {0xA2, 0x0D, 2, 0x10};
    uint8_t *change = client->tables.change;
    memcpy(change, head, sizeof head);
    change[sizeof head] = (uint8_t)sim_between(client->world, 6, SIM_TABLE_KEYS);
    uint32_t shard = (uint32_t)sim_between(client->world, 0, client->members.shard_count - 1);
    struct ps_item *item = add_item(client, table, shard);
    item->of_table = false;
    item->config = (struct ps_bytes){change, SIM_TABLE_CHANGE_BYTES};
    item->answer = (struct ps_answer_taker){take_answer, client};
    sim_client_start_batch(client, PS_METHOD_CONFIGURE, SIM_PHASE_ROWS, BATCH_MS);
}

/* On all shards. Trainers that do not know of it hear that the table is not there. */
static void drop(struct sim_client *client, const struct sim_table *table)
{
    for (uint32_t i = 0; i < client->members.shard_count; i++) {
        struct ps_item *item = add_item(client, table, i);
        item->of_table = false;
        item->answer = (struct ps_answer_taker){take_answer, client};
    }
    sim_client_start_batch(client, PS_METHOD_DROP, SIM_PHASE_ROWS, BATCH_MS);
}

/* One message to each shard; what it does not get now it asks for the next time. */
static void follow(struct sim_client *client)
{
    struct sim_table_client *own = &client->tables;
    if (own->follower == NULL)
        own->follower = sim_follower_create(client);
    client->item_count = sim_follower_begin(own->follower, own->table, client->items);
    sim_client_start_batch(client, PS_METHOD_SINCE, SIM_PHASE_ROWS, BATCH_MS);
}

void sim_tables_forget(struct sim_client *client)
{
    sim_follower_destroy(client->tables.follower);
    client->tables.follower = NULL;
}

/* In ranges sometimes another shard's key as well, which must be refused. */
static bool goes_to(struct sim_client *client, const struct sim_table *table, uint32_t shard,
                    uint64_t key)
{
    const struct ps_partition partition = {.kind = PS_PARTITION_HASH,
                                           .shard_count = client->members.shard_count};
    if (table->ranges.kind == PS_TABLE_HASH)
        return ps_partition_shard(&partition, key) == shard;
    return sim_ranges_allow(&table->ranges, shard, key) || sim_chance(client->world, 5);
}

/* Any of the shard's keys, some of them more than once; how many. */
static size_t draw_keys(struct sim_client *client, const struct sim_table *table, uint32_t shard,
                        uint64_t *keys)
{
    struct sim_world *world = client->world;
    uint64_t tries = sim_between(world, 0, SIM_TABLE_BATCH_MAX);
    uint32_t last = (uint32_t)sim_between(world, 3, SIM_TABLE_KEYS - 1);
    size_t count = 0;
    for (uint64_t i = 0; i < tries; i++) {
        uint64_t key = sim_table_key((uint32_t)sim_between(world, 0, last));
        if (goes_to(client, table, shard, key))
            keys[count++] = key;
    }
    return count;
}

static void write_number(enum ps_dtype dtype, double number, uint8_t *to)
{
    size_t size = 0;
    switch (dtype) {
#define WRITE(TAG, suffix, T, SUM, label)       \
    case TAG:                                   \
        memcpy(to, &(T){(T)number}, sizeof(T)); \
        size = sizeof(T);                       \
        break;
        PS_DTYPE_TABLE(WRITE)
#undef WRITE
    default:
        break;
    }
    PS_ASSERT(size > 0);
}

/* Keys, then a row for each. */
static void fill_push(struct sim_client *client, const struct sim_table *table,
                      struct ps_item *item)
{
    struct sim_table_client *own = &client->tables;
    uint32_t shard = item->shard;
    uint8_t *to = (uint8_t *)own->sent[shard];
    size_t count = draw_keys(client, table, shard, own->sent[shard]);
    size_t element_size = ps_dtype_size(table->dtype);
    for (size_t i = 0; i < count * table->width; i++) {
        double number = (double)sim_between(client->world, 0, 8) - 4.0;
        write_number(table->dtype, number, to + count * sizeof(uint64_t) + i * element_size);
    }
    size_t row_bytes = sim_table_row_bytes(table);
    own->ranges[shard] = (struct ps_bytes){to, count * (sizeof(uint64_t) + row_bytes)};
    own->encoded[shard] =
        (struct ps_encoded_push){.encoding = PS_ENCODING_ROWS, .ranges = &own->ranges[shard]};
    item->encoded = &own->encoded[shard];
    item->size = count * row_bytes;
}

/* What the trainer has pushed is waited for where it cannot be lost, by whatever way. */
static void fill_pull(struct sim_client *client, const struct sim_table *table,
                      struct ps_item *item, size_t count, enum ps_method method)
{
    struct sim_table_client *own = &client->tables;
    size_t i = client->item_count - 1;
    item->keys =
        (struct ps_bytes){(const uint8_t *)own->keys[item->shard], count * sizeof(uint64_t)};
    item->destination = (uint8_t *)client->pulled[i];
    item->size = count * sim_table_row_bytes(table);
    if (method == PS_METHOD_PULL && client->world->options.journals && !table->drops)
        item->at_least_version = own->versions[own->table][item->shard];
}

/* To the round behind what was read, or to the open one; a worker without rows contributes all the
 * same. Weights are such that products are exact. */
static void contribute(struct sim_client *client, const struct sim_table *table,
                       struct ps_item *item, enum ps_method method)
{
    static const float weights[] = {0, 1, 2, 4, 0.5f};
    struct sim_table_client *own = &client->tables;
    if (table->workers == 0)
        return;
    item->worker = client->number + 1;
    item->weight = weights[sim_between(client->world, 0, 4)];
    if (sim_chance(client->world, 800))
        item->round = own->rounds[own->table][item->shard];
    if (method == PS_METHOD_PUSH_PULL)
        item->at_least_version = item->round;
}

static void fill_shard(struct sim_client *client, const struct sim_table *table, uint32_t shard,
                       enum ps_method method)
{
    size_t count = draw_keys(client, table, shard, client->tables.keys[shard]);
    if (count == 0 && (table->workers == 0 || method != PS_METHOD_PUSH))
        return;
    struct ps_item *item = add_item(client, table, shard);
    if (method != PS_METHOD_PULL) {
        fill_push(client, table, item);
        contribute(client, table, item, method);
    }
    if (method != PS_METHOD_PUSH)
        fill_pull(client, table, item, count, method);
}

/* ---- What came of it ---- */

static void look_at_failure(struct sim_client *client, const struct ps_item *item)
{
    struct sim_table_client *own = &client->tables;
    const struct sim_table *table = sim_rows_table(client->world, own->table);
    bool exists = client->method == PS_METHOD_DEFINE && item->status == PS_ERR_EXISTS;
    /* With another limit by now, or with other first values. */
    if (exists && (table->rows_max > 0 || table->drops))
        own->is_defined[own->table][item->shard] = true;
    else if (exists)
        sim_fail(client->world, "P2: another %.*s is there than %s defines", (int)item->name.size,
                 (const char *)item->name.data, client->name);
    /* What was read is of the table's life before. */
    if (item->status == PS_ERR_MISMATCH)
        own->rounds[own->table][item->shard] = 0;
    if (item->status != PS_ERR_NOT_FOUND)
        return;
    own->is_defined[own->table][item->shard] = false;
    own->versions[own->table][item->shard] = 0;
    own->rounds[own->table][item->shard] = 0;
    if (client->world->options.journals && !table->drops)
        sim_fail(client->world, "P1: %s has defined %.*s, and shard %u does not have it",
                 client->name, (int)item->name.size, (const char *)item->name.data, item->shard);
}

/* The version that a push makes is waited for; one that came too late has made none. */
static void note_version(struct sim_client *client, const struct ps_item *item)
{
    struct sim_table_client *own = &client->tables;
    uint32_t shard = item->shard;
    bool pulls = client->method == PS_METHOD_PULL || client->method == PS_METHOD_PUSH_PULL;
    if (client->method != PS_METHOD_PULL)
        own->versions[own->table][shard] = item->version;
    if (pulls)
        own->rounds[own->table][shard] = item->pulled_version + 1;
}

void sim_tables_trained(struct sim_client *client)
{
    struct sim_table_client *own = &client->tables;
    if (client->method == PS_METHOD_SINCE) {
        sim_follower_finished(own->follower, client->items);
        return;
    }
    for (size_t i = 0; i < client->item_count; i++) {
        const struct ps_item *item = &client->items[i];
        if (item->status != PS_OK) {
            look_at_failure(client, item);
            continue;
        }
        if (client->method == PS_METHOD_DEFINE || client->method == PS_METHOD_DROP)
            own->is_defined[own->table][item->shard] = client->method == PS_METHOD_DEFINE;
        else
            note_version(client, item);
        if (client->method == PS_METHOD_PULL || client->method == PS_METHOD_PUSH_PULL)
            sim_rows_judge(client, item);
    }
}
