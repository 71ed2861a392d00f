/* SPDX-License-Identifier: Apache-2.0 */
/* A hash is of all that a checkpoint has and a recovery brings back, but for what changes without a
 * position: what is remembered of clients, and how old rows are. Of tables it has the keys that are
 * counted, and the version of each row's last push, since which rows go is decided by them; of
 * rounds it has the contributions that wait. */
#include "tests/sim/sim_states.h"

#include "base/assert.h"
#include "proto/digest.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_fill.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"
#include "server/core/tables/row_sweep.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdlib.h>

/* At one position of one epoch. */
struct instant {
    uint64_t epoch, position, hash;
    bool mixed;  /* a parameter is of more than one version */
    bool unseen; /* between two records of one call: nobody could look */
};

struct shard_states {
    struct instant *instants; /* owned */
    size_t instant_count, instant_capacity;
};

struct sim_states {
    struct shard_states shards[SIM_SHARDS_MAX];
};

struct sim_states *sim_states_create(void)
{
    struct sim_states *states = calloc(1, sizeof *states);
    PS_ASSERT(states != NULL);
    return states;
}

void sim_states_destroy(struct sim_states *states)
{
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++)
        free(states->shards[i].instants);
    free(states);
}

/* ---- Hashes ---- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    return (hash ^ ps_digest_xxh64((struct ps_bytes){data, size})) * 1099511628211u;
}

static uint64_t hash_view(uint64_t hash, struct ps_view view)
{
    for (size_t i = 0; i < view.piece_count; i++)
        hash = hash_bytes(hash, view.pieces[i].data, view.pieces[i].size);
    return hash;
}

static uint64_t hash_parameter(uint64_t hash, const struct ps_checkpoint_parameter *parameter)
{
    const uint64_t numbers[] = {parameter->name.size, (uint64_t)parameter->dtype,
                                parameter->count,     parameter->version,
                                parameter->step,      parameter->state_count};
    hash = hash_bytes(hash, numbers, sizeof numbers);
    hash = hash_bytes(hash, parameter->shape.lengths, sizeof parameter->shape.lengths);
    hash = hash_bytes(hash, parameter->name.data, parameter->name.size);
    hash = hash_bytes(hash, parameter->config.data, parameter->config.size);
    if (parameter->is_table) {
        const uint64_t rows = sim_rows_hash(parameter);
        return hash_bytes(hash, &rows, sizeof rows);
    }
    hash = hash_view(hash, parameter->values);
    for (uint32_t i = 0; i < parameter->state_count; i++)
        hash = hash_view(hash, parameter->states[i]);
    return hash;
}

/* What snapshots have of a table are its rows; this has the versions of their pushes as well, and
 * what is counted of keys without a row. */
static uint64_t hash_table(uint64_t hash, const struct ps_parameter *parameter)
{
    const uint64_t digest = ps_row_table_digest(parameter->rows);
    return hash_bytes(hash, &digest, sizeof digest);
}

/* The contributions that wait, and who is not waited for. */
static uint64_t hash_round(uint64_t hash, const struct ps_contributions *rounds)
{
    const struct ps_round *round = &rounds->round;
    hash = hash_bytes(hash, round->counted, PS_ROUND_SET_BYTES(round->workers));
    hash = hash_bytes(hash, round->evicted, PS_ROUND_SET_BYTES(round->workers));
    for (uint32_t i = 0; i < round->workers; i++) {
        const struct ps_contribution *held = &rounds->held[i];
        if (!ps_contribution_is_held(held))
            continue;
        hash = hash_bytes(hash, &held->weight, sizeof held->weight);
        hash = hash_view(hash, held->rows != NULL ? ps_view_of(&held->rows->content)
                                                  : ps_blocks_view(held->values));
    }
    return hash;
}

/* What a service has beside its snapshot. */
static uint64_t hash_beside(uint64_t hash, struct ps_service *service, struct ps_bytes name)
{
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, name);
    PS_ASSERT(parameter != NULL);
    if (parameter->rows != NULL)
        hash = hash_table(hash, parameter);
    if (parameter->rounds != NULL)
        hash = hash_round(hash, parameter->rounds);
    return hash;
}

/* Every element of a parameter gets the same gradients, so that no two may differ: neither half a
 * push was applied, nor two of them mixed. */
static bool is_mixed(const struct ps_checkpoint_parameter *parameter)
{
    if (parameter->is_table)
        return false;
    size_t element_size = ps_dtype_size(parameter->dtype);
    bool uniform = sim_is_uniform(parameter->values, element_size);
    for (uint32_t i = 0; i < parameter->state_count; i++)
        uniform = uniform && sim_is_uniform(parameter->states[i], element_size);
    return !uniform;
}

static void add_parameter(struct instant *instant, struct ps_service *service,
                          const struct ps_checkpoint_parameter *parameter)
{
    instant->hash = hash_parameter(instant->hash, parameter);
    instant->hash = hash_beside(instant->hash, service, parameter->name);
    instant->mixed = instant->mixed || is_mixed(parameter);
}

/* False while the service has no state. With a server those models are asked, too, that know what
 * rounds and rows must be. */
static bool read_instant(struct ps_service *service, const struct sim_server *server,
                         struct instant *instant, uint32_t *index)
{
    struct ps_snapshot snapshot;
    if (ps_snapshot_take(service, &snapshot, NULL) != PS_OK)
        return false;
    *index = snapshot.facts.index;
    *instant = (struct instant){snapshot.facts.epoch, snapshot.facts.position,
                                14695981039346656037u, false, false};
    for (size_t i = 0; i < snapshot.parameter_count; i++) {
        add_parameter(instant, service, &snapshot.parameters[i]);
        if (server == NULL)
            continue;
        sim_rounds_state(server->world, server, *index, instant->epoch, instant->position,
                         &snapshot.parameters[i]);
        sim_rows_state(server->world, server, *index, instant->epoch, &snapshot.parameters[i]);
    }
    if (server != NULL)
        sim_rows_complete(server->world, server, *index, instant->epoch);
    ps_snapshot_release(&snapshot);
    return true;
}

/* ---- What was ---- */

static const struct instant *find_instant(const struct shard_states *shard, uint64_t epoch,
                                          uint64_t position)
{
    for (size_t i = shard->instant_count; i > 0; i--)
        if (shard->instants[i - 1].epoch == epoch && shard->instants[i - 1].position == position)
            return &shard->instants[i - 1];
    return NULL;
}

static void remember(struct shard_states *shard, struct instant instant)
{
    if (shard->instant_count == shard->instant_capacity) {
        shard->instant_capacity = 2 * shard->instant_capacity + 64;
        shard->instants = realloc(shard->instants, shard->instant_capacity * sizeof instant);
        PS_ASSERT(shard->instants != NULL);
    }
    shard->instants[shard->instant_count++] = instant;
}

/* A contribution and the end of its round are two records of one call, and a crash may part them.
 * What such a state has in its parameters in rounds is computed in sim_rounds.c. */
static void remember_unseen(struct shard_states *shard, const struct instant *next)
{
    if (shard->instant_count == 0)
        return;
    const struct instant last = shard->instants[shard->instant_count - 1];
    for (uint64_t position = last.position + 1;
         last.epoch == next->epoch && position < next->position; position++)
        remember(shard, (struct instant){next->epoch, position, 0, false, true});
}

void sim_checker_state(struct sim_world *world, const struct sim_server *server)
{
    struct instant instant;
    uint32_t index;
    if (!read_instant(server->service, server, &instant, &index))
        return;
    if (instant.mixed)
        sim_fail(world, "ranges: %s has a parameter that is of two versions at position %" PRIu64,
                 server->name, instant.position);
    struct shard_states *shard = &sim_checker_states(world)->shards[index];
    const struct instant *known = find_instant(shard, instant.epoch, instant.position);
    if (known == NULL && world->options.rounds)
        remember_unseen(shard, &instant);
    if (known == NULL)
        remember(shard, instant);
    else if (known->hash != instant.hash && !known->unseen)
        sim_fail(world, "P3: shard %u has two states at epoch %" PRIu64 ", position %" PRIu64,
                 index, instant.epoch, instant.position);
}

void sim_checker_loaded(struct sim_world *world, const struct sim_server *server,
                        const struct ps_recovered *recovered)
{
    struct instant instant;
    uint32_t index = 0;
    bool ready = read_instant(server->service, NULL, &instant, &index);
    PS_ASSERT(ready && index == server->claim.index);
    struct shard_states *shard = &sim_checker_states(world)->shards[index];
    bool replayed = recovered->replayed_count > 0;
    uint64_t epoch = replayed ? recovered->epoch : recovered->place.epoch;
    const char *promise = replayed ? "P5" : "P3";
    const struct instant *known = find_instant(shard, epoch, recovered->position);
    if (instant.position != recovered->position || known == NULL)
        sim_fail(world,
                 "%s: %s loaded epoch %" PRIu64 ", position %" PRIu64
                 " of shard %u, which never was",
                 promise, server->name, epoch, recovered->position, index);
    else if (known->hash != instant.hash && !known->unseen)
        sim_fail(world,
                 "%s: what %s loaded for shard %u is not its state at epoch %" PRIu64
                 ", position %" PRIu64,
                 promise, server->name, index, epoch, recovered->position);
}

/* ---- What was written ---- */

/* As whoever recovers from it does, with its base where it is an increment. Closed before anything
 * can be said of it. */
static enum ps_status load(struct ps_service *service, const struct ps_files *files,
                           const char *path, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(files, path, ps_allocator_heap(), &reader, error));
    enum ps_status status = ps_recovery_fill(service, reader, NULL, error);
    ps_checkpoint_close(reader);
    return status;
}

/* Worlds turn bits over, and nobody reads a base before it is needed. */
static bool may_be_damaged(struct sim_world *world, const struct sim_server *server)
{
    struct sim_files_view view;
    sim_checker_look_at_files(world, server->claim.index, &view);
    return server->saving.base[0] != '\0' && view.damaged_count > 0;
}

/* Most files are never loaded in a world, since a later one comes before the crash: so each is
 * loaded at once, by a service that nobody hears of. */
static void rehearse(struct sim_world *world, const struct sim_server *server)
{
    const struct ps_checkpoint_place *place = &server->saving.place;
    const struct ps_service_options options = {.memory = ps_allocator_heap(),
                                               .clock = &world->clock,
                                               .saves = true,
                                               .ack = PS_ACK_MEMORY,
                                               .device = "cpu",
                                               .job = ""};
    uint32_t index = server->claim.index;
    struct shard_states *shard = &sim_checker_states(world)->shards[index];
    struct ps_service *service = NULL;
    struct ps_error error = {0};
    struct instant instant = {0};
    enum ps_status status = ps_service_create(&options, &service, NULL);
    PS_ASSERT(status == PS_OK);
    ps_service_own(service, index, world->options.shard_count, place->epoch, "rehearsal");
    status = load(service, memory_files_files(world->disks[index]), place->path, &error);
    if (status != PS_OK && may_be_damaged(world, server)) {
        sim_trace(world, server->name, "has written an increment upon damage");
    } else if (status != PS_OK) {
        sim_fail(world, "P3: what %s has written of shard %u cannot be loaded: %s", server->name,
                 index, error.text);
    } else {
        ps_recovery_finish(service, place->position);
        bool ready = read_instant(service, NULL, &instant, &index);
        const struct instant *known = find_instant(shard, place->epoch, place->position);
        PS_ASSERT(ready && instant.position == place->position);
        if (known != NULL && known->hash != instant.hash && !known->unseen)
            sim_fail(world,
                     "P3: what %s has written of shard %u is not its state at epoch %" PRIu64
                     ", position %" PRIu64,
                     server->name, index, place->epoch, place->position);
    }
    ps_service_destroy(service);
}

/* The one generation must not be all that has an acknowledged push, while the journal works. */
void sim_checker_wrote(struct sim_world *world, const struct sim_server *server)
{
    const struct sim_journal *journal = &server->journal;
    uint64_t position = server->saving.place.position;
    rehearse(world, server);
    if (journal->writer == NULL || ps_service_journal_failed(server->service))
        return;
    uint64_t durable = ps_journal_writer_position(journal->writer);
    if (durable < position)
        sim_fail(world,
                 "P3: %s wrote a checkpoint of position %" PRIu64 ", its journal has %" PRIu64
                 " on disk",
                 server->name, position, durable);
}
