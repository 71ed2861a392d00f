/* SPDX-License-Identifier: Apache-2.0 */
/* What was contributed and which versions were seen, with their places: what a later owner goes on
 * with is what stands before the place with which that owner began (sim_history.h). */
#include "tests/sim/sim_rounds.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/parameter.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_round_changes.h"
#include "tests/sim/sim_round_sums.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX SIM_CLIENTS_MAX
#define NAME_BYTES 32

struct known {
    char name[NAME_BYTES];
    struct sim_round_rules rules;
};

struct contribution {
    char name[NAME_BYTES]; /* of the part */
    uint64_t epoch, position, at_ms;
    uint64_t round;
    uint64_t order;  /* among all that was noted */
    bool is_alone;   /* there were no workers: a version by itself */
    uint32_t worker; /* from 0 */
    double gradient;
    float weight;
};

/* One version of one part. */
struct state {
    char name[NAME_BYTES];
    uint64_t epoch, position;
    uint64_t version;
    struct sim_round_value value;
    uint32_t evicted; /* who was not waited for behind it, a bit for each worker */
};

struct shard_rounds {
    struct contribution *contributions; /* owned */
    size_t contribution_count, contribution_capacity;
    struct state *states; /* owned */
    size_t state_count, state_capacity;
    struct sim_round_changes changes;
};

struct sim_rounds {
    struct known known[SIM_PARAMETERS_MAX + SIM_TABLES_MAX];
    size_t known_count;
    uint64_t order; /* of what was noted last */
    struct shard_rounds shards[SIM_SHARDS_MAX];
};

/* Of one round, by rank. */
struct gathered {
    const struct contribution *by_worker[WORKERS_MAX];
    const struct contribution *alone; /* NULL: it is a round's */
    uint32_t count;
    uint32_t mask;
    uint64_t first_ms;
    uint64_t epoch, position, order; /* of the newest */
};

static struct gathered gather(struct sim_world *world, const struct sim_server *server,
                              uint32_t index, uint64_t epoch, const char *name, uint64_t round);
static uint32_t waited_for(const struct sim_round_rules *rules, uint32_t evicted);
static void end_round(struct sim_world *world, const struct sim_server *server,
                      const struct sim_round_rules *rules, const struct gathered *gathered,
                      struct state *state, enum ps_dtype dtype);
static void compare(struct sim_world *world, const struct sim_server *server,
                    const struct state *expected, const struct ps_checkpoint_parameter *parameter);

struct sim_rounds *sim_rounds_create(void)
{
    struct sim_rounds *rounds = calloc(1, sizeof *rounds);
    PS_ASSERT(rounds != NULL);
    return rounds;
}

void sim_rounds_destroy(struct sim_rounds *rounds)
{
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++) {
        free(rounds->shards[i].contributions);
        free(rounds->shards[i].states);
        sim_round_changes_fini(&rounds->shards[i].changes);
    }
    free(rounds);
}

void sim_rounds_know(struct sim_rounds *rounds, const char *name,
                     const struct sim_round_rules *rules)
{
    PS_ASSERT(rounds->known_count < SIM_PARAMETERS_MAX + SIM_TABLES_MAX &&
              rules->workers <= WORKERS_MAX);
    struct known *known = &rounds->known[rounds->known_count++];
    PS_ASSERT(rules->workers > 0 && strlen(name) < sizeof known->name);
    memcpy(known->name, name, strlen(name) + 1);
    known->rules = *rules;
}

/* "p1" and its parts "p1#0/2". */
const struct sim_round_rules *sim_rounds_of(const struct sim_rounds *rounds, struct ps_bytes name)
{
    for (size_t i = 0; i < rounds->known_count; i++) {
        size_t size = strlen(rounds->known[i].name);
        if (name.size >= size && memcmp(name.data, rounds->known[i].name, size) == 0 &&
            (name.size == size || name.data[size] == '#'))
            return &rounds->known[i].rules;
    }
    return NULL;
}

/* False: the parameter was never trained in rounds. */
static bool rules_at(const struct sim_world *world, uint32_t index, uint64_t epoch,
                     struct ps_bytes name, struct sim_rules_now *now)
{
    const struct sim_rounds *rounds = sim_checker_rounds(world);
    const struct sim_round_rules *first = sim_rounds_of(rounds, name);
    if (first != NULL)
        *now = sim_round_changes_at(&rounds->shards[index].changes,
                                    sim_checker_history(world, index), epoch, name, first);
    return first != NULL;
}

static bool rules_of(const struct sim_server *server, struct ps_bytes name,
                     struct sim_rules_now *now)
{
    struct ps_status_reply status;
    char uuid[37];
    ps_service_status(server->service, &status, uuid);
    return rules_at(server->world, status.index, status.epoch, name, now);
}

bool sim_rounds_are_on(const struct sim_server *server, struct ps_bytes name)
{
    struct sim_rules_now now;
    return rules_of(server, name, &now) && now.rules.workers > 0;
}

static void copy_name(char to[NAME_BYTES], struct ps_bytes name)
{
    PS_ASSERT(name.size < NAME_BYTES);
    memset(to, 0, NAME_BYTES);
    memcpy(to, name.data, name.size);
}

static void *with_room(void *rows, size_t count, size_t *capacity, size_t row_size)
{
    if (count < *capacity)
        return rows;
    *capacity = 2 * *capacity + 64;
    rows = realloc(rows, *capacity * row_size);
    PS_ASSERT(rows != NULL);
    return rows;
}

/* ---- What is contributed ---- */

bool sim_rounds_count(const struct sim_server *server, struct ps_bytes name,
                      const struct ps_push_reply *reply)
{
    struct sim_rules_now now;
    if (sim_is_table(name))
        return !reply->late || sim_rows_count_late(server, name);
    return !reply->late || !rules_of(server, name, &now) || now.rules.late_is_next;
}

void sim_rounds_pushed(struct sim_world *world, const struct sim_server *server,
                       const struct ps_push_request *request, const struct ps_push_reply *reply)
{
    struct sim_rounds *rounds = sim_checker_rounds(world);
    struct sim_rules_now rules;
    struct ps_status_reply now;
    char uuid[37];
    /* What rounds make of rows is in sim_table_rows.c. */
    if (sim_is_table(request->name) || reply->staged || reply->duplicate ||
        !rules_of(server, request->name, &rules))
        return;
    bool is_alone = rules.rules.workers == 0;
    if (!is_alone && (request->worker == 0 || request->worker > rules.rules.workers))
        sim_fail(world, "rounds: %s takes a push of worker %u", server->name, request->worker);
    if (!sim_rounds_count(server, request->name, reply))
        return;
    ps_service_status(server->service, &now, uuid);
    struct shard_rounds *shard = &rounds->shards[now.index];
    shard->contributions = with_room(shard->contributions, shard->contribution_count,
                                     &shard->contribution_capacity, sizeof *shard->contributions);
    struct contribution *new = &shard->contributions[shard->contribution_count++];
    *new = (struct contribution){.epoch = now.epoch,
                                 /* The answer waits for the round's own record, if it ended. */
                                 .position = reply->position - (reply->held || is_alone ? 0 : 1),
                                 .at_ms = sim_now(world),
                                 .round = reply->version,
                                 .order = ++rounds->order,
                                 .is_alone = is_alone,
                                 .worker = is_alone ? 0 : request->worker - 1,
                                 .gradient = sim_round_gradient(request),
                                 .weight = request->weight != 0 ? request->weight : 1};
    copy_name(new->name, request->name);
    /* A late one counts in the round that goes on; any other in the round that it names. */
    if (!is_alone && request->round != 0 &&
        (reply->late ? reply->version <= request->round : reply->version != request->round))
        sim_fail(world, "rounds: %s counts a push to round %" PRIu64 " in round %" PRIu64,
                 server->name, request->round, reply->version);
}

/* The contributions to one round that survive for the owner of that epoch. */
static struct gathered gather(struct sim_world *world, const struct sim_server *server,
                              uint32_t index, uint64_t epoch, const char *name, uint64_t round)
{
    const struct shard_rounds *shard = &sim_checker_rounds(world)->shards[index];
    const struct sim_history *history = sim_checker_history(world, index);
    struct gathered gathered = {.first_ms = UINT64_MAX};
    for (size_t i = 0; i < shard->contribution_count; i++) {
        const struct contribution *next = &shard->contributions[i];
        if (next->round != round || strcmp(next->name, name) != 0 ||
            !sim_history_survives(history, epoch, next->epoch, next->position))
            continue;
        if (gathered.by_worker[next->worker] != NULL || gathered.alone != NULL)
            sim_fail(world,
                     "rounds: %s has two contributions of worker %u to version %" PRIu64 " of %s",
                     server->name, next->worker, round, name);
        gathered.count += gathered.by_worker[next->worker] == NULL ? 1 : 0;
        gathered.by_worker[next->worker] = next;
        gathered.alone = next->is_alone ? next : NULL;
        gathered.mask |= 1U << next->worker;
        if (next->at_ms < gathered.first_ms)
            gathered.first_ms = next->at_ms;
        gathered.epoch = next->epoch;
        gathered.position = next->position;
        gathered.order = next->order;
    }
    return gathered;
}

/* ---- What becomes of it ---- */

static const struct state *find_state(const struct sim_world *world, uint32_t index, uint64_t epoch,
                                      const char *name, uint64_t version)
{
    const struct shard_rounds *shard = &sim_checker_rounds(world)->shards[index];
    const struct sim_history *history = sim_checker_history(world, index);
    for (size_t i = shard->state_count; i > 0; i--) {
        const struct state *state = &shard->states[i - 1];
        if (state->version <= version && strcmp(state->name, name) == 0 &&
            sim_history_survives(history, epoch, state->epoch, state->position))
            return state;
    }
    return NULL;
}

/* An open round must wait for somebody. A crash may part the last contribution from the end of its
 * round, and another quorum may be enough for those that are there: then the next one who
 * contributes or waits ends it. */
static void look_at_open(struct sim_world *world, const struct sim_server *server, uint32_t index,
                         const struct sim_rules_now *now, const struct state *state)
{
    const struct sim_round_rules *rules = &now->rules;
    const struct gathered open =
        gather(world, server, index, state->epoch, state->name, state->version + 1);
    if (rules->workers > 0 && open.epoch == state->epoch && now->quorum_order <= open.order &&
        open.count >= waited_for(rules, state->evicted & ~open.mask))
        sim_fail(world,
                 "rounds: %s goes on with version %" PRIu64 " of %s, for which %u of %u "
                 "workers are there",
                 server->name, state->version + 1, state->name, open.count, rules->workers);
}

/* Computed from the newest version that is part of this owner's past; where a shard begins empty
 * there is none, and the values begin at 0. */
static struct state reach(struct sim_world *world, const struct sim_server *server, uint32_t index,
                          uint64_t epoch, const struct sim_rules_now *now, struct ps_bytes name,
                          uint64_t version, enum ps_dtype dtype)
{
    struct state state = {.value = {0}};
    copy_name(state.name, name);
    const struct state *before = find_state(world, index, epoch, state.name, version);
    if (before != NULL)
        state = *before;
    state.epoch = epoch;
    /* Workers become others between rounds, and all of them are waited for. */
    if (state.version == now->workers_since)
        state.evicted = 0;
    while (state.version < version) {
        const struct gathered gathered =
            gather(world, server, index, epoch, state.name, state.version + 1);
        end_round(world, server, &now->rules, &gathered, &state, dtype);
    }
    return state;
}

static void remember(struct sim_world *world, uint32_t index, const struct state *state)
{
    struct shard_rounds *shard = &sim_checker_rounds(world)->shards[index];
    const struct state *before =
        find_state(world, index, state->epoch, state->name, state->version);
    if (before != NULL && before->version == state->version)
        return;
    shard->states =
        with_room(shard->states, shard->state_count, &shard->state_capacity, sizeof *shard->states);
    shard->states[shard->state_count++] = *state;
}

void sim_rounds_state(struct sim_world *world, const struct sim_server *server, uint32_t index,
                      uint64_t epoch, uint64_t position,
                      const struct ps_checkpoint_parameter *parameter)
{
    struct sim_rules_now now;
    if (parameter->is_table || !rules_at(world, index, epoch, parameter->name, &now) ||
        sim_history_is_overtaken(sim_checker_history(world, index), epoch))
        return;
    struct state state = reach(world, server, index, epoch, &now, parameter->name,
                               parameter->version, parameter->dtype);
    state.position = position;
    compare(world, server, &state, parameter);
    look_at_open(world, server, index, &now, &state);
    remember(world, index, &state);
}

/* ---- Other rules ---- */

/* With what the rules before have made of it; NULL: it is no parameter in rounds, or of an owner of
 * whom nobody hears any more. */
static const struct ps_parameter *parameter_of(const struct sim_server *server,
                                               struct ps_bytes name, struct ps_status_reply *status,
                                               struct sim_rules_now *now)
{
    struct sim_world *world = server->world;
    char uuid[37];
    ps_service_status(server->service, status, uuid);
    if (!rules_at(world, status->index, status->epoch, name, now) ||
        sim_history_is_overtaken(sim_checker_history(world, status->index), status->epoch))
        return NULL;
    return ps_parameter_table_find(&server->service->table, name);
}

/* Is a round open that the change would take the workers from? */
static bool changes_open_round(const struct sim_server *server,
                               const struct ps_status_reply *status,
                               const struct sim_rules_now *now,
                               const struct ps_parameter *parameter, struct sim_new_setting setting)
{
    char name[NAME_BYTES];
    copy_name(name, parameter->spec->name);
    const struct gathered open =
        gather(server->world, server, status->index, status->epoch, name, parameter->version + 1);
    return setting.kind == SIM_CHANGES_WORKERS && setting.value != now->rules.workers &&
           open.count > 0;
}

void sim_rounds_changed(struct sim_world *world, const struct sim_server *server,
                        struct ps_bytes name, uint64_t position, struct sim_new_setting setting)
{
    struct sim_rounds *rounds = sim_checker_rounds(world);
    struct ps_status_reply status;
    struct sim_rules_now now;
    const struct ps_parameter *parameter = parameter_of(server, name, &status, &now);
    if (parameter == NULL)
        return;
    /* Without a journal nothing waits for a position. */
    if (position == 0)
        position = status.position;
    /* Rounds that ended since the last look ended by the rules of before. */
    struct state state = reach(world, server, status.index, status.epoch, &now, name,
                               parameter->version, parameter->spec->dtype);
    state.position = position - 1;
    remember(world, status.index, &state);
    if (changes_open_round(server, &status, &now, parameter, setting))
        sim_fail(world, "rounds: %s changes the workers of an open round of %s", server->name,
                 state.name);
    sim_round_changes_note(&rounds->shards[status.index].changes, name, status.epoch, position,
                           setting, parameter->version, ++rounds->order);
}

void sim_rounds_unchanged(struct sim_world *world, const struct sim_server *server,
                          struct ps_bytes name, struct sim_new_setting setting)
{
    struct ps_status_reply status;
    struct sim_rules_now now;
    const struct ps_parameter *parameter = parameter_of(server, name, &status, &now);
    if (parameter != NULL && !changes_open_round(server, &status, &now, parameter, setting))
        sim_fail(world, "rounds: %s does not change %.*s as if a round of it was open",
                 server->name, (int)name.size, (const char *)name.data);
}

/* Who waits for a version that a round makes trains on from it: no crash may take it back, whatever
 * became of the workers since. */
void sim_rounds_pulled(struct sim_world *world, const struct sim_server *server,
                       const struct ps_pull_request *request, const struct ps_pull_reply *reply)
{
    struct ps_status_reply status;
    struct ps_journal_state journal;
    struct sim_rules_now now;
    bool waits = request->at_least_version > 0 && request->version == 0;
    if (!waits || !world->options.journals ||
        parameter_of(server, request->name, &status, &now) == NULL)
        return;
    const struct shard_rounds *shard = &sim_checker_rounds(world)->shards[status.index];
    char name[NAME_BYTES];
    copy_name(name, request->name);
    ps_journal_queue_look(&server->service->queue, &journal);
    for (size_t i = 0; i < shard->contribution_count; i++) {
        const struct contribution *next = &shard->contributions[i];
        if (!next->is_alone && next->epoch == status.epoch && next->round <= reply->version &&
            next->position > journal.durable && strcmp(next->name, name) == 0)
            sim_fail(world,
                     "rounds: %s tells version %" PRIu64 " of %s, contributed to at position "
                     "%" PRIu64 ", when %" PRIu64 " is durable",
                     server->name, reply->version, name, next->position, journal.durable);
    }
}

static uint32_t waited_for(const struct sim_round_rules *rules, uint32_t evicted)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < rules->workers; i++)
        alive += (evicted >> i & 1) == 0 ? 1 : 0;
    return rules->quorum > 0 && rules->quorum < alive ? rules->quorum : alive;
}

/* By rank. */
static struct sim_round_sum sum_of(const struct gathered *gathered)
{
    struct sim_round_sum sum = {.is_alone = gathered->alone != NULL};
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct contribution *next = gathered->by_worker[i];
        if (next != NULL)
            sum.terms[sum.count++] = (struct sim_round_term){next->gradient, next->weight};
    }
    return sum;
}

static void end_round(struct sim_world *world, const struct sim_server *server,
                      const struct sim_round_rules *rules, const struct gathered *gathered,
                      struct state *state, enum ps_dtype dtype)
{
    state->version++;
    state->evicted &= ~gathered->mask;
    if (gathered->count == 0) {
        sim_fail(world, "rounds: %s has made version %" PRIu64 " of %s of nothing", server->name,
                 state->version, state->name);
        return;
    }
    bool is_short = gathered->alone == NULL && gathered->count < waited_for(rules, state->evicted);
    if (is_short && (rules->grace_ms == 0 || sim_now(world) < gathered->first_ms + rules->grace_ms))
        sim_fail(world,
                 "rounds: %s has made version %" PRIu64 " of %s of %u of %u workers, before "
                 "the others' time was over",
                 server->name, state->version, state->name, gathered->count, rules->workers);
    if (is_short)
        state->evicted = ((1U << rules->workers) - 1) & ~gathered->mask;
    const struct sim_round_sum sum = sum_of(gathered);
    sim_round_step(rules, dtype, &sum, &state->value);
}

static void compare(struct sim_world *world, const struct sim_server *server,
                    const struct state *expected, const struct ps_checkpoint_parameter *parameter)
{
    double value = sim_round_first(parameter->values, parameter->dtype);
    bool same = value == expected->value.value;
    if (parameter->state_count > 0)
        same = same &&
               sim_round_first(parameter->states[0], parameter->dtype) == expected->value.momentum;
    if (!same)
        sim_fail(world,
                 "rounds: %s has %.17g as version %" PRIu64 " of %s, its contributions make %.17g",
                 server->name, value, parameter->version, expected->name, expected->value.value);
}
