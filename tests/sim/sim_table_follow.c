/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of tables, and whether they are what they say. A key without a row is answered with a
 * value that no row has, so that it can be told from one that has its first values. */
#include "tests/sim/sim_table_follow.h"

#include "base/assert.h"
#include "client/replica/replica.h"
#include "client/replica/replica_rows.h"
#include "server/core/requests/service_state.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_table_copy.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOMENTS_MAX 512 /* the newest are known */
#define NOWHERE 12345.5 /* of tables of floats; whole numbers are 0 */
#define ROW_BYTES (SIM_TABLE_WIDTH_MAX * 8)

/* What a server had of a table when it answered. */
struct moment {
    uint32_t table, shard;
    struct ps_chain chain;
    uint64_t version; /* to which the answer leads */
    uint64_t at_ms;
    bool is_there[SIM_TABLE_KEYS];
    uint64_t made[SIM_TABLE_KEYS]; /* with which version the row came to be */
    uint8_t rows[SIM_TABLE_KEYS][ROW_BYTES];
};

struct sim_moments {
    struct moment list[MOMENTS_MAX];
    uint64_t count; /* ever */
};

struct sim_follower {
    struct sim_client *client;                   /* borrowed */
    struct ps_replica *replicas[SIM_TABLES_MAX]; /* owned; NULL: not followed yet */
    uint32_t table;                              /* of the batch under way */
    struct ps_since_message *messages;
    size_t message_count;
    uint64_t begun_ms[SIM_TABLES_MAX][SIM_SHARDS_MAX]; /* when the first answer was asked for */
};

struct sim_moments *sim_moments_create(void)
{
    struct sim_moments *moments = calloc(1, sizeof *moments);
    PS_ASSERT(moments != NULL);
    return moments;
}

void sim_moments_destroy(struct sim_moments *moments)
{
    free(moments);
}

struct sim_follower *sim_follower_create(struct sim_client *client)
{
    struct sim_follower *follower = calloc(1, sizeof *follower);
    PS_ASSERT(follower != NULL);
    follower->client = client;
    return follower;
}

static void release_messages(struct sim_follower *follower)
{
    if (follower->messages != NULL)
        ps_replica_release(follower->replicas[follower->table], follower->messages,
                           follower->message_count);
    follower->messages = NULL;
    follower->message_count = 0;
}

void sim_follower_destroy(struct sim_follower *follower)
{
    if (follower == NULL)
        return;
    release_messages(follower);
    for (uint32_t i = 0; i < SIM_TABLES_MAX; i++)
        ps_replica_destroy(follower->replicas[i]);
    free(follower);
}

/* ---- What is asked ---- */

static struct ps_replica *open_replica(struct sim_client *client, const struct sim_table *about)
{
    struct ps_replica *replica = NULL;
    const struct ps_allocator *memory = &client->world->memory;
    struct ps_table_settings settings = {.width = about->width};
    if (about->dtype != PS_I64) {
        settings.init = PS_TABLE_CONSTANT;
        settings.low = NOWHERE;
    }
    enum ps_status status = ps_replica_create(memory, SIM_SHARDS_MAX, &replica, NULL);
    for (uint32_t i = 0; i < client->members.shard_count && status == PS_OK; i++) {
        const struct ps_replica_part part = {
            .name = ps_bytes_of_text(about->name),
            .shard = i,
            .dtype = about->dtype,
            .rows = ps_replica_rows_create(memory, &settings, about->dtype)};
        PS_ASSERT(part.rows != NULL);
        status = ps_replica_add(replica, &part, NULL);
    }
    PS_ASSERT(status == PS_OK);
    return replica;
}

static bool has_begun(const struct ps_replica *replica)
{
    for (size_t i = 0; i < replica->part_count; i++)
        if (replica->parts[i].state == PS_PART_STALE && replica->parts[i].coming.target != 0)
            return true;
    return false;
}

size_t sim_follower_begin(struct sim_follower *follower, uint32_t table, struct ps_item *items)
{
    struct sim_client *client = follower->client;
    struct sim_world *world = client->world;
    release_messages(follower);
    follower->table = table;
    if (follower->replicas[table] == NULL)
        follower->replicas[table] = open_replica(client, sim_rows_table(world, table));
    struct ps_replica *replica = follower->replicas[table];
    if (!has_begun(replica) || sim_chance(world, 100))
        ps_replica_begin(replica);
    enum ps_status status =
        ps_replica_ask(replica, &follower->messages, &follower->message_count, NULL);
    PS_ASSERT(status == PS_OK && follower->message_count <= SIM_SHARDS_MAX);
    for (size_t i = 0; i < replica->part_count; i++)
        if (replica->parts[i].state == PS_PART_STALE && replica->parts[i].coming.target == 0)
            follower->begun_ms[table][i] = sim_now(world);
    for (size_t i = 0; i < follower->message_count; i++) {
        /* From room for a row or two to room for everything. */
        if (sim_chance(world, 700))
            follower->messages[i].request.bytes_max = sim_between(world, 48, 400);
        items[i] = ps_replica_item(&follower->messages[i]);
    }
    return follower->message_count;
}

/* ---- What was given ---- */

void sim_moments_note(struct sim_server *server, const struct ps_pull_reply *reply)
{
    struct sim_world *world = server->world;
    struct sim_moments *moments = sim_rows_moments(world);
    struct ps_status_reply now;
    char uuid[37];
    ps_service_status(server->service, &now, uuid);
    struct sim_table_copy *copy = sim_rows_copy(world, now.index, now.epoch, reply->name);
    const struct ps_parameter *parameter =
        ps_parameter_table_find(&server->service->table, reply->name);
    if (copy == NULL || parameter == NULL)
        return;
    sim_rows_reach(world, server, copy, parameter->version);
    struct moment *moment = &moments->list[moments->count++ % MOMENTS_MAX];
    *moment = (struct moment){.table = (uint32_t)(reply->name.data[1] - '0'),
                              .shard = now.index,
                              .chain = reply->delta.chain,
                              .version = reply->version,
                              .at_ms = sim_now(world)};
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++) {
        moment->is_there[i] = copy->rows[i].is_there;
        moment->made[i] = copy->rows[i].made;
        sim_table_copy_values(copy, i, moment->rows[i]);
    }
}

/* ---- What came of it ---- */

/* A part that is complete, and what may be in it. */
struct judged {
    struct sim_follower *follower;
    const struct sim_table *about;
    const struct ps_replica_part *part;
    const struct moment *moments[MOMENTS_MAX]; /* the newest first */
    size_t count;
};

static void find_moments(struct judged *judged)
{
    const struct sim_follower *follower = judged->follower;
    const struct ps_replica_part *part = judged->part;
    const struct sim_moments *moments = sim_rows_moments(follower->client->world);
    uint64_t first = moments->count > MOMENTS_MAX ? moments->count - MOMENTS_MAX : 0;
    for (uint64_t i = moments->count; i > first; i--) {
        const struct moment *moment = &moments->list[(i - 1) % MOMENTS_MAX];
        if (moment->table == follower->table && moment->shard == part->shard &&
            moment->version + 1 == part->version && moment->chain.epoch == part->chain.epoch &&
            moment->chain.life == part->chain.life &&
            moment->at_ms >= follower->begun_ms[follower->table][part->shard])
            judged->moments[judged->count++] = moment;
    }
}

static bool is_nowhere(const struct sim_table *about, const uint8_t *row)
{
    const double large = NOWHERE;
    const float small = (float)NOWHERE;
    const int64_t whole = 0;
    const void *expected = about->dtype == PS_I64   ? (const void *)&whole
                           : about->dtype == PS_F32 ? (const void *)&small
                                                    : (const void *)&large;
    size_t size = ps_dtype_size(about->dtype);
    for (uint32_t i = 0; i < about->width; i++)
        if (memcmp(row + i * size, expected, size) != 0)
            return false;
    return true;
}

/* A row that went and came again between two answers is told to have gone; that it is there again
 * is of a later version. */
static bool may_be(const struct judged *judged, uint32_t key, const uint8_t *row)
{
    size_t row_bytes = sim_table_row_bytes(judged->about);
    bool is_absent = is_nowhere(judged->about, row);
    for (size_t i = 0; i < judged->count; i++) {
        const struct moment *moment = judged->moments[i];
        if (moment->is_there[key] && memcmp(moment->rows[key], row, row_bytes) == 0)
            return true;
        if (is_absent && (!moment->is_there[key] || moment->made[key] > moment->version))
            return true;
    }
    return false;
}

static void judge(struct judged *judged)
{
    struct sim_world *world = judged->follower->client->world;
    const char *who = judged->follower->client->name;
    const struct ps_replica_part *part = judged->part;
    uint64_t held = 0;
    find_moments(judged);
    if (judged->count == 0)
        sim_fail(world, "rows: %s has version %" PRIu64 " of %s, which nobody gave it", who,
                 part->version - 1, judged->about->name);
    for (uint32_t i = 0; i < SIM_TABLE_KEYS && judged->count > 0; i++) {
        const uint64_t key = sim_table_key(i);
        const size_t place = 0;
        uint8_t row[ROW_BYTES];
        bool is_complete = ps_replica_rows_get(part->rows, &key, &place, 1, row);
        PS_ASSERT(is_complete);
        held += !is_nowhere(judged->about, row);
        if (!may_be(judged, i, row))
            sim_fail(world,
                     "rows: %s has a copy of %s, version %" PRIu64 ", with another row of key "
                     "%" PRIu64 " than the server had",
                     who, judged->about->name, part->version - 1, key);
    }
    if (held > ps_replica_rows_count(part->rows) ||
        (judged->about->dtype != PS_I64 && held < ps_replica_rows_count(part->rows)))
        sim_fail(world, "rows: %s counts %" PRIu64 " rows in its copy of %s, and reads %" PRIu64,
                 who, ps_replica_rows_count(part->rows), judged->about->name, held);
}

void sim_follower_finished(struct sim_follower *follower, const struct ps_item *items)
{
    struct sim_world *world = follower->client->world;
    struct ps_replica *replica = follower->replicas[follower->table];
    for (size_t i = 0; i < follower->message_count; i++)
        if (items[i].status != PS_OK)
            ps_replica_fail(&follower->messages[i], items[i].status, items[i].text);
    ps_replica_check(replica);
    if (replica->counters.mismatches > 0)
        sim_fail(world, "rows: %s got a piece whose digest is wrong", follower->client->name);
    for (size_t i = 0; i < replica->part_count; i++) {
        const struct ps_replica_part *part = &replica->parts[i];
        struct judged judged = {follower, sim_rows_table(world, follower->table), part, {0}, 0};
        if (part->state == PS_PART_FAILED && part->status == PS_ERR_BAD_INPUT)
            sim_fail(world, "rows: %s got an answer that does not fit: %s", follower->client->name,
                     part->text);
        if (part->state == PS_PART_FRESH && part->version > 0)
            judge(&judged);
    }
    release_messages(follower);
}
