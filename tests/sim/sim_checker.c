/* SPDX-License-Identifier: Apache-2.0 */
/* The promises as code. */
#include "tests/sim/sim_checker.h"

#include "base/assert.h"
#include "checkpoint/catalog.h"
#include "tests/sim/sim_clocks_told.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_states.h"
#include "tests/sim/sim_table_leases.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 14      /* of one shard: two generations, two overtaken, what faults have left */
#define JOURNALS_MAX 120  /* segments of 4 KiB besides */
#define JOURNALS_KEPT 400 /* ... in a world without periodic saves, which keeps all */
#define LIVE_MAX 20000    /* allocations of all servers and clients together */

struct shard_view {
    uint64_t claimed_epoch;      /* the newest */
    uint64_t acknowledged_epoch; /* of the newest acknowledgement */
    int64_t pointer_revision;    /* as seen last; 0: none yet */
    uint64_t pointer_epoch, pointer_position;
};

struct sim_checker {
    uint64_t claims;
    struct shard_view shards[SIM_SHARDS_MAX];
    struct sim_history *histories[SIM_SHARDS_MAX];
    struct sim_states *states;
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
    checker->states = sim_states_create();
    checker->rounds = sim_rounds_create();
    checker->told = sim_told_create();
    checker->rows = sim_rows_create();
    return checker;
}

void sim_checker_destroy(struct sim_checker *checker)
{
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++)
        sim_history_destroy(checker->histories[i]);
    sim_states_destroy(checker->states);
    sim_rounds_destroy(checker->rounds);
    sim_told_destroy(checker->told);
    sim_rows_destroy(checker->rows);
    free(checker);
}

struct sim_states *sim_checker_states(const struct sim_world *world)
{
    return world->checker->states;
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
    if (world->options.rows_expire)
        sim_leases_look(sim_rows_leases(world), world);
    if (world->heap.live > LIVE_MAX)
        sim_fail(world, "P6: %" PRId64 " allocations live", world->heap.live);
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
