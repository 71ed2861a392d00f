/* SPDX-License-Identifier: Apache-2.0 */
/* What was contributed and which versions were seen, with their places: what a later owner goes on
 * with is what stands before the place with which that owner began (sim_history.h). */
#include "tests/sim/sim_rounds.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "proto/optimizer_config.h"
#include "proto/wire.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX SIM_CLIENTS_MAX
#define ROUNDS_FIELD 210 /* of OptimizerConfig */
#define NAME_BYTES 32

struct known {
    char name[NAME_BYTES];
    struct sim_round_rules rules;
};

struct contribution {
    char name[NAME_BYTES]; /* of the part */
    uint64_t epoch, position, at_ms;
    uint64_t round;
    uint32_t worker; /* from 0 */
    double gradient;
    float weight;
};

/* One version of one part. */
struct state {
    char name[NAME_BYTES];
    uint64_t epoch, position;
    uint64_t version;
    double value, momentum;
    uint32_t evicted; /* who was not waited for behind it, a bit for each worker */
};

struct shard_rounds {
    struct contribution *contributions; /* owned */
    size_t contribution_count, contribution_capacity;
    struct state *states; /* owned */
    size_t state_count, state_capacity;
};

struct sim_rounds {
    struct known known[SIM_PARAMETERS_MAX + SIM_TABLES_MAX];
    size_t known_count;
    struct shard_rounds shards[SIM_SHARDS_MAX];
};

/* Of one round, by rank. */
struct gathered {
    const struct contribution *by_worker[WORKERS_MAX];
    uint32_t count;
    uint32_t mask;
    uint64_t first_ms;
    uint64_t epoch; /* of the newest */
};

static struct gathered gather(struct sim_world *world, const struct sim_server *server,
                              uint32_t index, uint64_t epoch, const char *name, uint64_t round);
static uint32_t waited_for(const struct sim_round_rules *rules, uint32_t evicted);
static void end_round(struct sim_world *world, const struct sim_server *server,
                      const struct sim_round_rules *rules, const struct gathered *gathered,
                      struct state *state, enum ps_dtype dtype);
static void compare(struct sim_world *world, const struct sim_server *server,
                    const struct state *expected, const struct ps_checkpoint_parameter *parameter);

/* The message is written as the .proto numbers its fields: what the server reads of it is the
 * server's own affair. */
struct ps_bytes sim_rounds_config(const struct sim_round_rules *rules,
                                  char to[SIM_CONFIG_BYTES_MAX])
{
    struct ps_optimizer_config config;
    struct ps_buffer rounds, bytes;
    ps_optimizer_config_defaults(&config);
    if (rules->rule == SIM_RULE_ADD)
        (void)ps_optimizer_config_choose(&config, "add");
    if (rules->rule == SIM_RULE_MOMENTUM)
        ps_optimizer_config_set(&config, "momentum", 0.5);
    ps_buffer_init(&rounds, ps_allocator_heap(), SIM_CONFIG_BYTES_MAX);
    ps_wire_put_uint(&rounds, 1, rules->workers);
    ps_wire_put_uint(&rounds, 2, rules->quorum);
    ps_wire_put_uint(&rounds, 3, rules->grace_ms);
    ps_wire_put_uint(&rounds, 4, (uint64_t)rules->combine);
    ps_wire_put_uint(&rounds, 5, rules->late_is_next ? 1 : 0);
    ps_buffer_init(&bytes, ps_allocator_heap(), SIM_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&config, &bytes);
    ps_wire_put_bytes(&bytes, ROUNDS_FIELD, (struct ps_bytes){(uint8_t *)rounds.text, rounds.size});
    PS_ASSERT(!bytes.failed && bytes.size <= SIM_CONFIG_BYTES_MAX);
    memcpy(to, bytes.text, bytes.size);
    const struct ps_bytes encoded = {(const uint8_t *)to, bytes.size};
    ps_buffer_fini(&rounds);
    ps_buffer_fini(&bytes);
    return encoded;
}

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

/* All elements of a gradient are equal, also when it came in ranges; so are all values. */
static double first_of(struct ps_view view, enum ps_dtype dtype)
{
    float single = 0;
    double real = 0;
    ps_view_copy(view, 0, dtype == PS_F32 ? (void *)&single : (void *)&real, ps_dtype_size(dtype));
    return dtype == PS_F32 ? (double)single : real;
}

bool sim_rounds_can_read(enum ps_encoding encoding)
{
    return encoding != PS_ENCODING_INT8 && encoding != PS_ENCODING_TOP_K;
}

/* Decoded as the server does it: only the adding up is the model's own. */
static double first_of_gradient(const struct ps_push_request *request)
{
    uint8_t encoded[8] = {0}, element[8];
    size_t width = ps_encoding_width(request->encoding, request->dtype);
    if (ps_encoding_is_native(request->encoding, request->dtype))
        return first_of(request->content, request->dtype);
    PS_ASSERT(sim_rounds_can_read(request->encoding) && width <= sizeof encoded);
    ps_view_copy(request->content, 0, encoded, width);
    ps_decode_run(request->encoding, request->dtype, encoded, 1, element);
    const struct ps_bytes decoded = {element, ps_dtype_size(request->dtype)};
    return first_of(ps_view_of(&decoded), request->dtype);
}

bool sim_rounds_count(const struct sim_server *server, struct ps_bytes name,
                      const struct ps_push_reply *reply)
{
    const struct sim_round_rules *rules = sim_rounds_of(sim_checker_rounds(server->world), name);
    if (sim_is_table(name))
        return !reply->late || sim_rows_count_late(server, name);
    return rules == NULL || !reply->late || rules->late_is_next;
}

void sim_rounds_pushed(struct sim_world *world, const struct sim_server *server,
                       const struct ps_push_request *request, const struct ps_push_reply *reply)
{
    struct sim_rounds *rounds = sim_checker_rounds(world);
    const struct sim_round_rules *rules = sim_rounds_of(rounds, request->name);
    struct ps_status_reply now;
    char uuid[37];
    if (rules == NULL || reply->staged || reply->duplicate)
        return;
    if (request->worker == 0 || request->worker > rules->workers)
        sim_fail(world, "rounds: %s takes a push of worker %u", server->name, request->worker);
    /* What rounds make of rows is in sim_table_rows.c. */
    if (!sim_rounds_count(server, request->name, reply) || sim_is_table(request->name))
        return;
    ps_service_status(server->service, &now, uuid);
    struct shard_rounds *shard = &rounds->shards[now.index];
    shard->contributions = with_room(shard->contributions, shard->contribution_count,
                                     &shard->contribution_capacity, sizeof *shard->contributions);
    struct contribution *new = &shard->contributions[shard->contribution_count++];
    *new = (struct contribution){.epoch = now.epoch,
                                 /* The answer waits for the round's own record, if it ended. */
                                 .position = reply->position - (reply->held ? 0 : 1),
                                 .at_ms = sim_now(world),
                                 .round = reply->version,
                                 .worker = request->worker - 1,
                                 .gradient = first_of_gradient(request),
                                 .weight = request->weight != 0 ? request->weight : 1};
    copy_name(new->name, request->name);
    /* A late one counts in the round that goes on; any other in the round that it names. */
    if (request->round != 0 &&
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
        if (gathered.by_worker[next->worker] != NULL)
            sim_fail(world,
                     "rounds: %s has two contributions of worker %u to version %" PRIu64 " of %s",
                     server->name, next->worker, round, name);
        gathered.count += gathered.by_worker[next->worker] == NULL ? 1 : 0;
        gathered.by_worker[next->worker] = next;
        gathered.mask |= 1U << next->worker;
        if (next->at_ms < gathered.first_ms)
            gathered.first_ms = next->at_ms;
        gathered.epoch = next->epoch;
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
 * round: then the next one who contributes or waits ends it. */
static void look_at_open(struct sim_world *world, const struct sim_server *server, uint32_t index,
                         const struct sim_round_rules *rules, const struct state *state)
{
    const struct gathered open =
        gather(world, server, index, state->epoch, state->name, state->version + 1);
    if (open.epoch == state->epoch && open.count >= waited_for(rules, state->evicted & ~open.mask))
        sim_fail(world,
                 "rounds: %s goes on with version %" PRIu64 " of %s, for which %u of %u "
                 "workers are there",
                 server->name, state->version + 1, state->name, open.count, rules->workers);
}

/* Computed from the newest version that is part of this owner's past; where a shard begins empty
 * there is none, and the values begin at 0. */
void sim_rounds_state(struct sim_world *world, const struct sim_server *server, uint32_t index,
                      uint64_t epoch, uint64_t position,
                      const struct ps_checkpoint_parameter *parameter)
{
    struct sim_rounds *rounds = sim_checker_rounds(world);
    const struct sim_round_rules *rules = sim_rounds_of(rounds, parameter->name);
    struct shard_rounds *shard = &rounds->shards[index];
    struct state state = {.value = 0};
    if (rules == NULL || parameter->is_table ||
        sim_history_is_overtaken(sim_checker_history(world, index), epoch))
        return;
    copy_name(state.name, parameter->name);
    const struct state *before = find_state(world, index, epoch, state.name, parameter->version);
    if (before != NULL)
        state = *before;
    bool is_new = before == NULL || before->version != parameter->version;
    state.epoch = epoch;
    state.position = position;
    while (state.version < parameter->version) {
        const struct gathered gathered =
            gather(world, server, index, epoch, state.name, state.version + 1);
        end_round(world, server, rules, &gathered, &state, parameter->dtype);
    }
    compare(world, server, &state, parameter);
    look_at_open(world, server, index, rules, &state);
    if (!is_new)
        return;
    shard->states =
        with_room(shard->states, shard->state_count, &shard->state_capacity, sizeof *shard->states);
    shard->states[shard->state_count++] = state;
}

static uint32_t waited_for(const struct sim_round_rules *rules, uint32_t evicted)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < rules->workers; i++)
        alive += (evicted >> i & 1) == 0 ? 1 : 0;
    return rules->quorum > 0 && rules->quorum < alive ? rules->quorum : alive;
}

/* In the order of ranks, in the parameter's own type: the bits are compared. */
#define COMBINE(suffix, T)                                                                \
    static double combine_##suffix(const struct sim_round_rules *rules,                   \
                                   const struct gathered *gathered)                       \
    {                                                                                     \
        bool weighted = rules->combine == SIM_COMBINE_WEIGHTED;                           \
        T sum = 0, weights = 0;                                                           \
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {                                      \
            const struct contribution *next = gathered->by_worker[i];                     \
            if (next == NULL)                                                             \
                continue;                                                                 \
            sum += weighted ? (T)next->weight * (T)next->gradient : (T)next->gradient;    \
            weights += weighted ? (T)next->weight : (T)1;                                 \
        }                                                                                 \
        return (double)(rules->combine == SIM_COMBINE_SUM ? sum : sum / weights);         \
    }                                                                                     \
    static void step_##suffix(enum sim_rule rule, double combined, struct state *state)   \
    {                                                                                     \
        T value = (T)state->value, momentum = (T)state->momentum, gradient = (T)combined; \
        if (rule == SIM_RULE_MOMENTUM)                                                    \
            momentum = (T)0.5 * momentum - gradient;                                      \
        state->momentum = (double)momentum;                                               \
        state->value = (double)(rule == SIM_RULE_MOMENTUM ? value + momentum              \
                                : rule == SIM_RULE_ADD    ? value + gradient              \
                                                          : value - gradient);               \
    }
COMBINE(f32, float)
COMBINE(f64, double)
#undef COMBINE

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
    bool is_short = gathered->count < waited_for(rules, state->evicted);
    if (is_short && (rules->grace_ms == 0 || sim_now(world) < gathered->first_ms + rules->grace_ms))
        sim_fail(world,
                 "rounds: %s has made version %" PRIu64 " of %s of %u of %u workers, before "
                 "the others' time was over",
                 server->name, state->version, state->name, gathered->count, rules->workers);
    if (is_short)
        state->evicted = ((1U << rules->workers) - 1) & ~gathered->mask;
    if (dtype == PS_F32)
        step_f32(rules->rule, combine_f32(rules, gathered), state);
    else
        step_f64(rules->rule, combine_f64(rules, gathered), state);
}

static void compare(struct sim_world *world, const struct sim_server *server,
                    const struct state *expected, const struct ps_checkpoint_parameter *parameter)
{
    double value = first_of(parameter->values, parameter->dtype);
    bool same = value == expected->value;
    if (parameter->state_count > 0)
        same = same && first_of(parameter->states[0], parameter->dtype) == expected->momentum;
    if (!same)
        sim_fail(world,
                 "rounds: %s has %.17g as version %" PRIu64 " of %s, its contributions make %.17g",
                 server->name, value, parameter->version, expected->name, expected->value);
}
