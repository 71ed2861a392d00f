/* SPDX-License-Identifier: Apache-2.0 */
/* What trainers do with tables. Gradients are small whole numbers, so that sums are exact. */
#include "tests/sim/sim_tables.h"

#include "base/assert.h"
#include "base/partition.h"
#include "tests/sim/sim_client_calls.h"
#include "tests/sim/sim_settings.h"
#include "tests/sim/sim_table_follow.h"
#include "tests/sim/sim_table_rows.h"

#include <string.h>

#define LIMIT_LEAST 6 /* of rows */
#define BATCH_MS 6000
#define FULL_MS 1000 /* a push that finds no room is repeated until then */
#define SPREAD 0x9E3779B97F4A7C15u

static bool define(struct sim_client *client, const struct sim_table *table);
static void change_one(struct sim_client *client, const struct sim_table *table);
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

/* ---- A batch ---- */

void sim_tables_train(struct sim_client *client)
{
    struct sim_world *world = client->world;
    struct sim_table_client *own = &client->tables;
    static const enum ps_method methods[] = {PS_METHOD_PUSH, PS_METHOD_PULL, PS_METHOD_PUSH_PULL};
    if (!own->lowers)
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
    if ((table->rows_max > 0 || table->workers > 0) && (own->lowers || sim_chance(world, 100))) {
        change_one(client, table);
        return;
    }
    enum ps_method method = methods[sim_between(world, 0, 2)];
    for (uint32_t i = 0; i < client->members.shard_count; i++)
        fill_shard(client, table, i, method);
    /* Most rounds stay open for a while: what they have was let in by the limit of before. */
    own->lowers = table->rows_max > 0 && table->workers > 0 && method == PS_METHOD_PUSH &&
                  sim_chance(world, 600);
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
                             .row_width = table->width,
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

/* On one shard. Squares of averages are not exact: sim_table_choose.c. */
static void change_one(struct sim_client *client, const struct sim_table *table)
{
    struct sim_world *world = client->world;
    bool is_of_rounds = table->workers > 0 && (table->rows_max == 0 || sim_chance(world, 600));
    struct sim_new_setting wish = {SIM_CHANGES_LIMIT, 0};
    if (client->tables.lowers)
        wish.value = sim_between(world, LIMIT_LEAST, 2 * LIMIT_LEAST);
    else if (is_of_rounds)
        wish = sim_settings_draw(world, table->workers, table->rule != SIM_TABLE_ROW_WISE);
    else
        wish.value = sim_between(world, LIMIT_LEAST, SIM_TABLE_KEYS);
    client->tables.lowers = false;
    uint32_t shard = (uint32_t)sim_between(world, 0, client->members.shard_count - 1);
    struct ps_item *item = add_item(client, table, shard);
    item->of_table = false;
    sim_settings_ask(item, wish, client->setting);
    sim_client_start_batch(client, PS_METHOD_CONFIGURE, SIM_PHASE_ROWS, BATCH_MS);
}

/* On all shards. Trainers that do not know of it hear that the table is not there. */
static void drop(struct sim_client *client, const struct sim_table *table)
{
    for (uint32_t i = 0; i < client->members.shard_count; i++) {
        struct ps_item *item = add_item(client, table, i);
        item->of_table = false;
        item->answer = sim_settings_answer();
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
    /* What is behind a limit that was lowered ends with workers who bring nothing. */
    bool brings_nothing = table->workers > 0 && table->rows_max > 0 && sim_chance(world, 200);
    uint64_t tries = brings_nothing ? 0 : sim_between(world, 0, SIM_TABLE_BATCH_MAX);
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
    /* With another limit or other rules of rounds by now, or with other first values. */
    if (exists && (table->rows_max > 0 || table->workers > 0 || table->drops))
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
