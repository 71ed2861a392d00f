/* SPDX-License-Identifier: Apache-2.0 */
/* The promises as code. */
#include "tests/sim/sim_checker.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "proto/digest.h"
#include "server/core/recovery/snapshot.h"
#include "tests/sim/sim_clocks_told.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 14      /* of one shard: two generations, two overtaken, what faults have left */
#define JOURNALS_MAX 120  /* segments of 4 KiB besides */
#define JOURNALS_KEPT 400 /* ... in a world without periodic saves, which keeps all */
#define LIVE_MAX 20000    /* allocations of all servers and clients together */

/* What a shard's whole state was at one position of one epoch. */
struct instant {
    uint64_t epoch, position, hash;
    bool mixed;  /* a parameter is of more than one version */
    bool unseen; /* between two records of one call: nobody could look */
};

struct shard_view {
    struct instant *instants; /* owned */
    size_t instant_count, instant_capacity;
    uint64_t claimed_epoch;      /* the newest */
    uint64_t acknowledged_epoch; /* of the newest acknowledgement */
    int64_t pointer_revision;    /* as seen last; 0: none yet */
    uint64_t pointer_epoch, pointer_position;
};

struct sim_checker {
    uint64_t claims;
    struct shard_view shards[SIM_SHARDS_MAX];
    struct sim_history *histories[SIM_SHARDS_MAX];
    struct sim_rounds *rounds;
    struct sim_told *told;
    struct sim_rows *rows;
};

struct sim_checker *sim_checker_create(struct sim_world *world)
{
    struct sim_checker *checker = calloc(1, sizeof *checker);
    PS_ASSERT(checker != NULL);
    (void)world;
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++)
        checker->histories[i] = sim_history_create();
    checker->rounds = sim_rounds_create();
    checker->told = sim_told_create();
    checker->rows = sim_rows_create();
    return checker;
}

void sim_checker_destroy(struct sim_checker *checker)
{
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++)
        free(checker->shards[i].instants);
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++)
        sim_history_destroy(checker->histories[i]);
    sim_rounds_destroy(checker->rounds);
    sim_told_destroy(checker->told);
    sim_rows_destroy(checker->rows);
    free(checker);
}

struct sim_rounds *sim_checker_rounds(const struct sim_world *world)
{
    return world->checker->rounds;
}

struct sim_told *sim_checker_told(const struct sim_world *world)
{
    return world->checker->told;
}

struct sim_rows *sim_checker_rows(const struct sim_world *world)
{
    return world->checker->rows;
}

struct sim_history *sim_checker_history(const struct sim_world *world, uint32_t index)
{
    return world->checker->histories[index];
}

void sim_checker_after_event(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.server_count; i++) {
        const struct sim_server *server = &world->servers[i];
        if (!server->running)
            continue;
        ps_service_check(server->service);
        ps_coordinator_check(ps_coordinator_driver_coordinator(server->driver));
    }
    if (world->heap.live > LIVE_MAX)
        sim_fail(world, "P6: %" PRId64 " allocations live", world->heap.live);
}

/* ---- States ---- */

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

/* False while the server has no state. `rounds`: those of the shard's owner are looked at. */
static bool read_instant(const struct sim_server *server, struct instant *instant, uint32_t *index,
                         bool rounds)
{
    struct ps_snapshot snapshot;
    if (ps_snapshot_take(server->service, &snapshot, NULL) != PS_OK)
        return false;
    *index = snapshot.facts.index;
    *instant = (struct instant){snapshot.facts.epoch, snapshot.facts.position,
                                14695981039346656037u, false, false};
    for (size_t i = 0; i < snapshot.parameter_count; i++) {
        instant->hash = hash_parameter(instant->hash, &snapshot.parameters[i]);
        instant->mixed = instant->mixed || is_mixed(&snapshot.parameters[i]);
        if (!rounds)
            continue;
        sim_rounds_state(server->world, server, *index, instant->epoch, instant->position,
                         &snapshot.parameters[i]);
        sim_rows_state(server->world, server, *index, instant->epoch, &snapshot.parameters[i]);
    }
    if (rounds)
        sim_rows_complete(server->world, server, *index, instant->epoch);
    ps_snapshot_release(&snapshot);
    return true;
}

static const struct instant *find_instant(const struct shard_view *shard, uint64_t epoch,
                                          uint64_t position)
{
    for (size_t i = shard->instant_count; i > 0; i--)
        if (shard->instants[i - 1].epoch == epoch && shard->instants[i - 1].position == position)
            return &shard->instants[i - 1];
    return NULL;
}

static void remember(struct shard_view *shard, struct instant instant)
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
static void remember_unseen(struct shard_view *shard, const struct instant *next)
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
    if (!read_instant(server, &instant, &index, true))
        return;
    if (instant.mixed)
        sim_fail(world, "ranges: %s has a parameter that is of two versions at position %" PRIu64,
                 server->name, instant.position);
    struct shard_view *shard = &world->checker->shards[index];
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
    bool ready = read_instant(server, &instant, &index, false);
    PS_ASSERT(ready && index == server->claim.index);
    struct shard_view *shard = &world->checker->shards[index];
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

/* The one generation must not be all that has an acknowledged push, while the journal works. */
void sim_checker_wrote(struct sim_world *world, const struct sim_server *server)
{
    const struct sim_journal *journal = &server->journal;
    uint64_t position = server->saving.place.position;
    if (journal->writer == NULL || ps_service_journal_failed(server->service))
        return;
    uint64_t durable = ps_journal_writer_position(journal->writer);
    if (durable < position)
        sim_fail(world,
                 "P3: %s wrote a checkpoint of position %" PRIu64 ", its journal has %" PRIu64
                 " on disk",
                 server->name, position, durable);
}

/* ---- Ownership ---- */

/* The truth about a key; 0 and no value when there is none. */
static bool look(struct sim_world *world, const char *format, uint32_t index,
                 struct ps_kv_entries *entries)
{
    char key[64];
    snprintf(key, sizeof key, "%s%u", format, index);
    enum ps_status status = ps_kv_read(world->truth, key, false, PS_DEADLINE_NEVER, entries, NULL);
    PS_ASSERT(status == PS_OK);
    if (entries->count > 0)
        return true;
    ps_kv_entries_release(entries);
    return false;
}

static uint64_t owner_epoch(struct sim_world *world, uint32_t index)
{
    struct ps_kv_entries entries;
    if (!look(world, "/ps/", index, &entries))
        return 0;
    uint64_t epoch = (uint64_t)entries.entries[0].create_revision;
    ps_kv_entries_release(&entries);
    return epoch;
}

/* A server may hear of its claim when that is over already: then it has no proof. */
void sim_checker_claimed(struct sim_world *world, const struct sim_server *server)
{
    const struct ps_coordinator *coordinator = ps_coordinator_driver_coordinator(server->driver);
    uint64_t epoch = coordinator->claim.epoch;
    struct shard_view *shard = &world->checker->shards[coordinator->claim.index];
    bool older = epoch < shard->claimed_epoch;
    if (epoch == shard->claimed_epoch ||
        (older && ps_coordinator_is_proved(coordinator, sim_now(world))))
        sim_fail(world, "P4: %s claims shard %u with epoch %" PRIu64 " after %" PRIu64,
                 server->name, coordinator->claim.index, epoch, shard->claimed_epoch);
    if (!older)
        shard->claimed_epoch = epoch;
    world->checker->claims++;
}

uint64_t sim_checker_claims(const struct sim_world *world)
{
    return world->checker->claims;
}

/* Whatever a server says of a shard's state, it says as that shard's owner.
 *
 * A finish is answered when its checkpoint is published, which is so for ever: whoever owns the
 * shard by then, the answer is true. */
void sim_checker_replied(struct sim_world *world, const struct sim_server *server,
                         const struct sim_message *request, enum ps_status status)
{
    struct ps_status_reply now;
    char uuid[37];
    ps_service_status(server->service, &now, uuid);
    bool speaks = status == PS_OK || status == PS_ERR_EXISTS || status == PS_ERR_NOT_FOUND;
    if (speaks && now.index != request->shard)
        sim_fail(world, "P4: %s of shard %u said \"%s\" for shard %u", server->name, now.index,
                 ps_status_word(status), request->shard);
    if (status != PS_OK || request->method == PS_METHOD_FINISH)
        return;
    struct shard_view *shard = &world->checker->shards[now.index];
    uint64_t owner = owner_epoch(world, now.index);
    if (owner != now.epoch)
        sim_fail(world,
                 "P4: %s acknowledged for shard %u under epoch %" PRIu64 ", the owner is %" PRIu64,
                 server->name, now.index, now.epoch, owner);
    if (now.epoch < shard->acknowledged_epoch)
        sim_fail(world,
                 "P4: %s acknowledged for shard %u under epoch %" PRIu64 " after epoch %" PRIu64,
                 server->name, now.index, now.epoch, shard->acknowledged_epoch);
    shard->acknowledged_epoch = now.epoch;
}

static void check_pointer(struct sim_world *world, uint32_t index)
{
    struct shard_view *shard = &world->checker->shards[index];
    struct ps_kv_entries entries;
    struct ps_checkpoint_place place;
    if (!look(world, "/checkpoints/", index, &entries))
        return;
    const struct ps_kv_entry *entry = &entries.entries[0];
    bool moved = entry->modify_revision != shard->pointer_revision;
    shard->pointer_revision = entry->modify_revision;
    enum ps_status status = ps_catalog_pointer_read(
        (struct ps_bytes){entry->value, entry->value_size}, ps_allocator_heap(), &place, NULL);
    ps_kv_entries_release(&entries);
    if (!moved)
        return;
    uint64_t owner = owner_epoch(world, index);
    if (status != PS_OK)
        sim_fail(world, "P3: the pointer of shard %u cannot be read", index);
    else if (place.epoch != owner)
        sim_fail(world,
                 "P4: the pointer of shard %u was moved under epoch %" PRIu64 ", the owner is "
                 "%" PRIu64,
                 index, place.epoch, owner);
    else if (place.epoch < shard->pointer_epoch ||
             (place.epoch == shard->pointer_epoch && place.position < shard->pointer_position))
        sim_fail(world, "P4: the pointer of shard %u went back", index);
    shard->pointer_epoch = place.epoch;
    shard->pointer_position = place.position;
}

void sim_checker_store_changed(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->options.shard_count; i++)
        check_pointer(world, i);
}

/* ---- Files ---- */

static bool is_checkpoint(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".safetensors") == 0;
}

/* Names sort by age, so the greatest is the newest. */
/* Epoch and position of a checkpoint, from its name. */
static bool parse_name(const char *path, uint64_t *epoch, uint64_t *position)
{
    const char *name = strrchr(path, '/');
    return name != NULL && is_checkpoint(path) &&
           sscanf(name, "/%16" SCNx64 "-%16" SCNx64, epoch, position) == 2;
}

static bool came_late(const struct memory_files *disk, const char *path)
{
    uint64_t epoch, position, other_epoch, other_position;
    if (!parse_name(path, &epoch, &position))
        return false;
    for (size_t i = 0; i < memory_files_file_count(disk); i++)
        if (parse_name(memory_files_path(disk, i), &other_epoch, &other_position) &&
            other_epoch > epoch && other_position <= position)
            return true;
    return false;
}

void sim_checker_look_at_files(struct sim_world *world, uint32_t index, struct sim_files_view *view)
{
    const struct memory_files *disk = world->disks[index];
    const struct ps_files *files = memory_files_files(world->disks[index]);
    *view = (struct sim_files_view){.is_published =
                                        world->checker->shards[index].pointer_revision != 0};
    for (size_t i = 0; i < memory_files_file_count(disk); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", memory_files_path(disk, i));
        if (!is_checkpoint(path))
            continue;
        if (ps_checkpoint_verify(files, path, ps_allocator_heap(), NULL) != PS_OK) {
            view->damaged_count++;
            continue;
        }
        view->whole_count++;
        view->usable_count += came_late(disk, path) ? 0 : 1;
        if (strcmp(path, view->newest) > 0)
            memcpy(view->newest, path, sizeof path);
    }
}

/* Those that nobody has put aside: damaged ones are kept for people, a base together with all that
 * adds to it, and a world may damage as many as it likes. */
static size_t count_files(const struct memory_files *disk)
{
    static const char aside[] = ".damaged";
    size_t count = 0;
    for (size_t i = 0; i < memory_files_file_count(disk); i++) {
        const char *path = memory_files_path(disk, i);
        size_t size = strlen(path);
        count += size < strlen(aside) || strcmp(path + size - strlen(aside), aside) != 0;
    }
    return count;
}

void sim_checker_disk_changed(struct sim_world *world, uint32_t index)
{
    struct sim_files_view view;
    size_t files = count_files(world->disks[index]);
    size_t journals_max = world->options.save_interval_ms > 0 ? JOURNALS_MAX : JOURNALS_KEPT;
    /* The whole checkpoint before the newest one is that many checkpoints further back, and the
     * journal behind it stays. */
    journals_max *= 1 + world->options.increments;
    if (files > (world->options.journals ? journals_max : 0) + FILES_MAX)
        sim_fail(world, "P6: shard %u has %zu files", index, files);
    if (world->checker->shards[index].pointer_revision == 0)
        return;
    sim_checker_look_at_files(world, index, &view);
    if (view.whole_count == 0)
        sim_fail(world, "P3: shard %u was published and has no whole checkpoint", index);
}
