/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to the tables of a shard, and what must be in them. */
#include "tests/sim/sim_table_rows.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/parameter_rows.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_clocks_told.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_copy.h"
#include "tests/sim/sim_table_follow.h"
#include "tests/sim/sim_table_leases.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_MAX 1024 /* the newest are known */

enum event_kind {
    EVENT_DEFINED,
    EVENT_DROPPED,
    EVENT_CHANGED,
    EVENT_PUSHED,
    EVENT_EXPIRED,
    EVENT_HELD
};

/* Something that happened, at a place of the shard's history. */
struct event {
    enum event_kind kind;
    uint32_t table;
    uint64_t epoch, position;
    struct sim_when at;
    uint64_t version;         /* that a push made; value, or variant; round */
    enum sim_setting setting; /* of a value */
    uint8_t *content;         /* owned */
    size_t size;
    uint32_t worker; /* of a contribution, from 0 */
    float weight;
    uint64_t reached; /* the version that the table was at */
};

/* The tables as the owner `epoch` has them, with all events below `applied`. */
struct shard_rows {
    struct event *events; /* owned */
    size_t count, capacity;
    uint64_t epoch;
    size_t applied;
    struct sim_table_copy tables[SIM_TABLES_MAX];
};

struct sim_rows {
    struct sim_table tables[SIM_TABLES_MAX];
    struct shard_rows shards[SIM_SHARDS_MAX];
    uint64_t answers[ANSWERS_MAX]; /* hashes of what servers gave */
    uint64_t answer_count;
    struct sim_leases leases;
    struct sim_moments *moments; /* owned */
};

struct sim_rows *sim_rows_create(void)
{
    struct sim_rows *rows = calloc(1, sizeof *rows);
    PS_ASSERT(rows != NULL);
    rows->moments = sim_moments_create();
    return rows;
}

struct sim_moments *sim_rows_moments(const struct sim_world *world)
{
    return sim_checker_rows(world)->moments;
}

struct sim_leases *sim_rows_leases(const struct sim_world *world)
{
    return &sim_checker_rows(world)->leases;
}

void sim_rows_destroy(struct sim_rows *rows)
{
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++) {
        for (size_t k = 0; k < rows->shards[i].count; k++)
            free(rows->shards[i].events[k].content);
        free(rows->shards[i].events);
    }
    sim_moments_destroy(rows->moments);
    free(rows);
}

void sim_rows_know(struct sim_world *world, uint32_t i, const struct sim_table *table)
{
    PS_ASSERT(i < SIM_TABLES_MAX);
    struct sim_table *known = &sim_checker_rows(world)->tables[i];
    *known = *table;
    for (uint32_t k = 0; k < SIM_TABLE_VARIANTS; k++)
        known->config[k].data = (const uint8_t *)known->config_bytes[k];
}

const struct sim_table *sim_rows_table(const struct sim_world *world, uint32_t i)
{
    PS_ASSERT(i < world->options.tables);
    return &sim_checker_rows(world)->tables[i];
}

/* ---- What an owner has ---- */

/* Whatever happens to a table at a version says that the rounds before are over. */
static void catch_up(struct sim_table_copy *copy, const struct event *event)
{
    while (copy->version < event->reached && sim_table_copy_there(copy) > 0)
        sim_table_copy_end_round(copy);
}

static void hold(struct sim_table_copy *copy, const struct event *event)
{
    PS_ASSERT(copy->version + 1 == event->version);
    const struct sim_table_held held = {.content = {event->content, event->size},
                                        .weight = event->weight > 0 ? (double)event->weight : 1,
                                        .epoch = event->epoch,
                                        .at = event->at};
    sim_table_copy_hold(copy, event->worker, &held);
    copy->held_at = event->position;
}

/* All are there that it needs, or the time of the others is over. */
static bool may_end(const struct sim_world *world, const struct sim_table_copy *copy)
{
    uint32_t there = sim_table_copy_there(copy);
    uint64_t grace_ms = copy->grace_ms;
    if (there == 0 || there >= sim_table_copy_needed(copy))
        return there > 0;
    return grace_ms > 0 && sim_now(world) >= sim_table_copy_first_ms(copy) + grace_ms;
}

void sim_rows_reach(const struct sim_world *world, const struct sim_server *server,
                    struct sim_table_copy *copy, uint64_t version)
{
    if (copy->workers == 0)
        return;
    while (copy->version < version) {
        if (!may_end(world, copy)) {
            sim_fail((struct sim_world *)(uintptr_t)world,
                     "rows: %s has made version %" PRIu64 " of %s of %u of %u workers",
                     server->name, copy->version + 1, copy->about->name, sim_table_copy_there(copy),
                     copy->workers);
            return;
        }
        sim_table_copy_end_round(copy);
    }
}

static void apply(struct shard_rows *shard, const struct event *event)
{
    struct sim_table_copy *copy = &shard->tables[event->table];
    const struct ps_bytes content = {event->content, event->size};
    catch_up(copy, event);
    if (event->kind == EVENT_DEFINED) {
        *copy = (struct sim_table_copy){.about = copy->about,
                                        .is_there = true,
                                        .variant = (uint32_t)event->version,
                                        .rows_max = copy->about->rows_max,
                                        .workers = copy->about->workers,
                                        .quorum = copy->about->quorum,
                                        .grace_ms = copy->about->grace_ms,
                                        .combine = copy->about->combine,
                                        .late_is_next = copy->about->late_is_next};
    } else if (event->kind == EVENT_DROPPED) {
        *copy = (struct sim_table_copy){.about = copy->about, .dropped_at = event->position};
    } else if (event->kind == EVENT_CHANGED) {
        sim_table_copy_change(copy, event->setting, event->version);
    } else if (event->kind == EVENT_PUSHED) {
        sim_table_copy_push(copy, content, event->at);
        PS_ASSERT(copy->version == event->version);
    } else if (event->kind == EVENT_HELD) {
        hold(copy, event);
    } else {
        PS_ASSERT(event->size == SIM_TABLE_KEYS);
        sim_table_copy_expire(copy, event->content);
    }
}

/* The tables of that owner, with everything that is known of its past. */
static struct sim_table_copy *tables_of(const struct sim_world *world, uint32_t index,
                                        uint64_t epoch)
{
    struct sim_rows *rows = sim_checker_rows(world);
    struct shard_rows *shard = &rows->shards[index];
    const struct sim_history *history = sim_checker_history(world, index);
    if (shard->epoch != epoch) {
        shard->epoch = epoch;
        shard->applied = 0;
        for (uint32_t i = 0; i < SIM_TABLES_MAX; i++)
            shard->tables[i] = (struct sim_table_copy){.about = &rows->tables[i]};
    }
    for (; shard->applied < shard->count; shard->applied++) {
        const struct event *event = &shard->events[shard->applied];
        if (sim_history_survives(history, epoch, event->epoch, event->position))
            apply(shard, event);
    }
    return shard->tables;
}

static void now_of(const struct sim_server *server, struct ps_status_reply *now)
{
    char uuid[37];
    ps_service_status(server->service, now, uuid);
}

struct sim_table_copy *sim_rows_copy(const struct sim_world *world, uint32_t index, uint64_t epoch,
                                     struct ps_bytes name)
{
    if (!sim_is_table(name) || sim_history_is_overtaken(sim_checker_history(world, index), epoch))
        return NULL;
    uint32_t i = (uint32_t)(name.data[1] - '0');
    PS_ASSERT(i < world->options.tables);
    return &tables_of(world, index, epoch)[i];
}

static void remember(struct sim_world *world, uint32_t index, struct event event,
                     struct ps_view content)
{
    event.reached = tables_of(world, index, event.epoch)[event.table].version;
    struct shard_rows *shard = &sim_checker_rows(world)->shards[index];
    if (shard->count == shard->capacity) {
        shard->capacity = 2 * shard->capacity + 64;
        shard->events = realloc(shard->events, shard->capacity * sizeof event);
        PS_ASSERT(shard->events != NULL);
    }
    event.at.ms = sim_now(world);
    event.at.served_ms =
        sim_leases_served_ms(&sim_checker_rows(world)->leases, index, sim_now(world));
    event.at.starts = sim_leases_starts(&sim_checker_rows(world)->leases, index);
    event.size = content.size;
    event.content = malloc(content.size + 1);
    PS_ASSERT(event.content != NULL);
    ps_view_copy(content, 0, event.content, content.size);
    shard->events[shard->count++] = event;
}

static uint32_t number_of(struct ps_bytes name)
{
    return (uint32_t)(name.data[1] - '0');
}

/* ---- What happens ---- */

/* Of a change that was made just now; without a journal nothing waits for a position. */
static uint64_t place_of(const struct ps_status_reply *now, uint64_t position)
{
    return position > 0 ? position : now->position;
}

/* A definition that is repeated behind the drop is answered as it was, and defines nothing. Without
 * a journal its position is not told, and the server is believed. */
static bool is_repeat(const struct sim_server *server, const struct sim_table_copy *copy,
                      struct ps_bytes name, uint64_t position)
{
    if (position > 0)
        return position <= copy->dropped_at;
    return ps_parameter_table_find(&server->service->table, name) == NULL;
}

void sim_rows_defined(struct sim_server *server, struct ps_bytes name, struct ps_bytes config,
                      uint64_t position)
{
    struct ps_status_reply now;
    now_of(server, &now);
    const struct sim_table_copy *copy = sim_rows_copy(server->world, now.index, now.epoch, name);
    if (copy == NULL || copy->is_there || is_repeat(server, copy, name, position))
        return;
    uint64_t variant = ps_bytes_equal(config, copy->about->config[0]) ? 0 : 1;
    remember(server->world, now.index,
             (struct event){.kind = EVENT_DEFINED,
                            .table = number_of(name),
                            .epoch = now.epoch,
                            .position = place_of(&now, position),
                            .version = variant},
             (struct ps_view){0});
}

void sim_rows_dropped(struct sim_server *server, struct ps_bytes name, uint64_t position)
{
    struct ps_status_reply now;
    now_of(server, &now);
    const struct sim_table_copy *copy = sim_rows_copy(server->world, now.index, now.epoch, name);
    if (copy == NULL)
        return;
    if (!copy->is_there)
        sim_fail(server->world, "rows: %s drops %s, which is not there", server->name,
                 copy->about->name);
    remember(server->world, now.index,
             (struct event){.kind = EVENT_DROPPED,
                            .table = number_of(name),
                            .epoch = now.epoch,
                            .position = place_of(&now, position),
                            .version = 0},
             (struct ps_view){0});
}

/* The copy as the server has the table by now. */
static struct sim_table_copy *reached(struct sim_server *server, struct ps_bytes name,
                                      struct ps_status_reply *now)
{
    now_of(server, now);
    struct sim_table_copy *copy = sim_rows_copy(server->world, now->index, now->epoch, name);
    const struct ps_parameter *parameter = ps_parameter_table_find(&server->service->table, name);
    /* Of a round that ended since the last look. */
    if (copy != NULL && parameter != NULL)
        sim_rows_reach(server->world, server, copy, parameter->version);
    return copy;
}

static bool changes_open_round(const struct sim_table_copy *copy, struct sim_new_setting change)
{
    return change.kind == SIM_CHANGES_WORKERS && change.value != copy->workers &&
           sim_table_copy_there(copy) > 0;
}

void sim_rows_unchanged(struct sim_server *server, struct ps_bytes name,
                        struct sim_new_setting change)
{
    struct ps_status_reply now;
    const struct sim_table_copy *copy = reached(server, name, &now);
    if (copy != NULL && !changes_open_round(copy, change))
        sim_fail(server->world, "rows: %s does not change %s as if a round of it was open",
                 server->name, copy->about->name);
}

void sim_rows_changed(struct sim_server *server, struct ps_bytes name, uint64_t position,
                      struct sim_new_setting change)
{
    struct ps_status_reply now;
    const struct sim_table_copy *copy = reached(server, name, &now);
    if (copy == NULL)
        return;
    if (changes_open_round(copy, change)) {
        sim_fail(server->world, "rows: %s changes the workers of an open round of %s", server->name,
                 copy->about->name);
        return;
    }
    remember(server->world, now.index,
             (struct event){.kind = EVENT_CHANGED,
                            .table = number_of(name),
                            .epoch = now.epoch,
                            .position = place_of(&now, position),
                            .version = change.value,
                            .setting = change.kind},
             (struct ps_view){0});
}

/* No shard of a table in ranges takes a key of another. */
void sim_rows_look_at_keys(struct sim_server *server, const struct sim_table *about, uint32_t shard,
                           struct ps_view keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        ps_view_copy(keys, i * sizeof key, &key, sizeof key);
        if (!sim_ranges_allow(&about->ranges, shard, key))
            sim_fail(server->world, "rows: %s takes key %" PRIu64 " of %s, which is not its own",
                     server->name, key, about->name);
    }
}

/* With another limit by now there may be more rows than it allows; none is made then. */
static bool is_full(const struct sim_table_copy *copy, struct ps_view content)
{
    uint8_t bytes[sizeof((struct sim_table_client){0}).sent[0]];
    PS_ASSERT(content.size <= sizeof bytes);
    ps_view_copy(content, 0, bytes, content.size);
    return sim_table_copy_is_full(copy, (struct ps_bytes){bytes, content.size});
}

/* Of a contribution that was taken: its keys are the shard's, and the round may make its rows. */
static void look_at_room(struct sim_server *server, const struct sim_table_copy *copy,
                         const struct ps_push_request *request)
{
    struct ps_status_reply now;
    now_of(server, &now);
    size_t one = sizeof(uint64_t) + sim_table_row_bytes(copy->about);
    sim_rows_look_at_keys(server, copy->about, now.index, request->content,
                          request->content.size / one);
    if (is_full(copy, request->content))
        sim_fail(server->world, "rows: %s takes a contribution for which %s has no room",
                 server->name, copy->about->name);
}

/* The answer to the last contribution of a round is at the place of the round's own record. */
static void held(struct sim_server *server, struct sim_table_copy *copy,
                 const struct ps_push_request *request, const struct ps_push_reply *reply,
                 const struct ps_status_reply *now)
{
    const struct sim_table *about = copy->about;
    sim_rows_reach(server->world, server, copy, reply->version - 1);
    if (request->worker == 0 || request->worker > copy->workers ||
        reply->version != copy->version + 1 || copy->held[request->worker - 1].is_there) {
        sim_fail(server->world,
                 "rows: %s counts worker %u in version %" PRIu64 " of %s, at %" PRIu64,
                 server->name, request->worker, reply->version, about->name, copy->version);
        return;
    }
    look_at_room(server, copy, request);
    remember(server->world, now->index,
             (struct event){.kind = EVENT_HELD,
                            .table = number_of(request->name),
                            .epoch = now->epoch,
                            .at.clock = sim_rows_clock(server),
                            .at.since = sim_clocks_since(server),
                            .position = reply->position - (reply->held ? 0 : 1),
                            .version = reply->version,
                            .worker = request->worker - 1,
                            .weight = request->weight},
             request->content);
}

void sim_rows_pushed(struct sim_server *server, const struct ps_push_request *request,
                     const struct ps_push_reply *reply)
{
    struct sim_world *world = server->world;
    struct ps_status_reply now;
    now_of(server, &now);
    struct sim_table_copy *copy = sim_rows_copy(world, now.index, now.epoch, request->name);
    if (copy == NULL || reply->duplicate || !sim_rounds_count(server, request->name, reply))
        return;
    if (copy->is_there && copy->workers > 0) {
        held(server, copy, request, reply, &now);
        return;
    }
    if (!copy->is_there || reply->version != copy->version + 1) {
        sim_fail(world, "rows: %s makes version %" PRIu64 " of %s after %" PRIu64, server->name,
                 reply->version, copy->about->name, copy->version);
        return;
    }
    size_t one = sizeof(uint64_t) + sim_table_row_bytes(copy->about);
    sim_rows_look_at_keys(server, copy->about, now.index, request->content,
                          request->content.size / one);
    remember(world, now.index,
             (struct event){.kind = EVENT_PUSHED,
                            .table = number_of(request->name),
                            .epoch = now.epoch,
                            .at.clock = sim_rows_clock(server),
                            .at.since = sim_clocks_since(server),
                            .position = reply->position,
                            .version = reply->version},
             request->content);
}

void sim_rows_refused(struct sim_server *server, const struct ps_push_request *request)
{
    struct ps_status_reply now;
    /* A round may have ended before the contribution to the next one was looked at. */
    const struct sim_table_copy *copy = reached(server, request->name, &now);
    if (copy == NULL)
        return;
    if (!is_full(copy, request->content))
        sim_fail(server->world, "rows: %s refuses a push for which %s has room", server->name,
                 copy->about->name);
}

/* ---- Rows that expire: sim_table_expiry.c ---- */

void sim_rows_expired(struct sim_server *server, struct ps_bytes name, const uint8_t *gone)
{
    struct ps_status_reply now;
    const struct ps_bytes content = {gone, SIM_TABLE_KEYS};
    now_of(server, &now);
    remember(server->world, now.index,
             (struct event){.kind = EVENT_EXPIRED,
                            .table = number_of(name),
                            .epoch = now.epoch,
                            .position = now.position},
             ps_view_of(&content));
}

/* ---- Reads ---- */

void sim_rows_note_answer(const struct sim_world *world, uint64_t hash)
{
    struct sim_rows *rows = sim_checker_rows(world);
    rows->answers[rows->answer_count++ % ANSWERS_MAX] = hash;
}

bool sim_rows_knows_answer(const struct sim_world *world, uint64_t hash)
{
    const struct sim_rows *rows = sim_checker_rows(world);
    size_t i = 0;
    while (i < ANSWERS_MAX && rows->answers[i] != hash)
        i++;
    return i < ANSWERS_MAX;
}

bool sim_rows_has(struct sim_server *server, struct ps_bytes name, uint64_t key)
{
    struct ps_status_reply now;
    now_of(server, &now);
    const struct sim_table_copy *copy = sim_rows_copy(server->world, now.index, now.epoch, name);
    return copy == NULL || copy->rows[sim_table_key_number(key)].is_there;
}
