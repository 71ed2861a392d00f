/* SPDX-License-Identifier: Apache-2.0 */
/* Disk and store of a core_world. */
#include "tests/unit/core/core_disk.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/snapshot.h"

#include <stdlib.h>
#include <string.h>

struct ps_saver disk_saver(struct core_world *world, struct memory_files *disk)
{
    return (struct ps_saver){.service = world->service,
                             .files = memory_files_files(disk),
                             .folder = DISK_FOLDER,
                             .memory = &world->memory,
                             .clock = &world->clock};
}

void disk_save(struct core_world *world, struct memory_files *disk,
               struct ps_checkpoint_place *place)
{
    struct ps_checkpoint_place unused;
    struct ps_saver saver = disk_saver(world, disk);
    enum ps_status status =
        ps_saver_save(&saver, PS_DEADLINE_NEVER, place != NULL ? place : &unused, &world->error);
    ck_assert_msg(status == PS_OK, "%s", world->error.text);
}

void disk_world_init(struct core_world *world, uint64_t epoch)
{
    world_init(world, true, 0);
    world_own(world, epoch);
}

enum ps_status disk_load(struct core_world *world, struct memory_files *disk, const char *pointer,
                         struct ps_recovered *recovered)
{
    struct ps_recovery recovery = {.service = world->service,
                                   .files = memory_files_files(disk),
                                   .folder = DISK_FOLDER,
                                   .pointer = text(pointer),
                                   .memory = &world->memory};
    enum ps_status status = ps_recovery_run(&recovery, recovered, &world->error);
    if (status == PS_OK)
        ps_recovery_finish(world->service, recovered->position);
    return status;
}

enum ps_status disk_load_only(struct core_world *world, struct memory_files *disk,
                              const struct ps_replay_sink *sink, struct ps_recovered *recovered)
{
    struct ps_recovery recovery = {.service = world->service,
                                   .files = memory_files_files(disk),
                                   .folder = DISK_FOLDER,
                                   .memory = &world->memory,
                                   .sink = sink};
    return ps_recovery_run(&recovery, recovered, &world->error);
}

void disk_journal_world_init(struct core_world *world, uint64_t epoch)
{
    world_init_journal_only(world);
    world_own(world, epoch);
}

enum ps_status disk_recover(struct core_world *world, struct memory_files *disk, uint64_t epoch,
                            struct ps_journal_writer **writer, struct ps_recovered *recovered)
{
    enum ps_status status = disk_load_only(world, disk, NULL, recovered);
    bool found = status == PS_OK;
    if (status != PS_OK && status != PS_ERR_NOT_FOUND)
        return status;
    const struct ps_journal_facts facts = {.index = 0,
                                           .shard_count = 1,
                                           .epoch = epoch,
                                           .position = found ? recovered->durable : 0,
                                           .previous_epoch = found ? recovered->epoch : 0,
                                           .history = ps_service_history(world->service),
                                           .repeat_to = found ? recovered->position : 0};
    status = ps_journal_writer_open(
        memory_files_files(disk), DISK_FOLDER, &facts,
        &(struct ps_journal_setup){.segment_bytes = 20480, .buffer_bytes = 8192}, &world->memory,
        writer, &world->error);
    if (status != PS_OK && found)
        ps_service_give_up_recovery(world->service);
    if (status != PS_OK)
        return status;
    if (found)
        ps_recovery_finish(world->service, recovered->position);
    else
        ps_service_begin_empty(world->service);
    return PS_OK;
}

enum ps_status disk_write_journal(struct core_world *world, struct ps_journal_writer *writer,
                                  size_t batch)
{
    struct ps_record records[8];
    for (;;) {
        struct ps_error why = {0};
        size_t count = ps_service_journal_take(world->service, records, batch < 8 ? batch : 8);
        if (count == 0)
            return PS_OK;
        enum ps_status status = ps_journal_write(writer, records, count, &why);
        ps_service_journal_written(world->service, UINT64_MAX, status, &why);
        if (status != PS_OK)
            return status;
    }
}

static void expect_equal_views(struct ps_view a, struct ps_view b)
{
    ck_assert_uint_eq(a.size, b.size);
    uint8_t *left = malloc(a.size + 1);
    uint8_t *right = malloc(b.size + 1);
    ck_assert(left != NULL && right != NULL);
    ps_view_copy(a, 0, left, a.size);
    ps_view_copy(b, 0, right, b.size);
    ck_assert_mem_eq(left, right, a.size);
    free(left);
    free(right);
}

static void expect_equal_parameters(const struct ps_checkpoint_parameter *a,
                                    const struct ps_checkpoint_parameter *b)
{
    ck_assert(ps_bytes_equal(a->name, b->name));
    ck_assert(ps_bytes_equal(a->config, b->config));
    ck_assert_int_eq(a->dtype, b->dtype);
    ck_assert_uint_eq(a->count, b->count);
    ck_assert(ps_shape_equal(&a->shape, &b->shape));
    ck_assert_uint_eq(a->version, b->version);
    ck_assert_uint_eq(a->step, b->step);
    ck_assert_uint_eq(a->id, b->id);
    ck_assert_uint_eq(a->state_count, b->state_count);
    expect_equal_views(a->values, b->values);
    for (uint32_t i = 0; i < a->state_count; i++)
        expect_equal_views(a->states[i], b->states[i]);
}

void disk_expect_equal(struct core_world *a, struct core_world *b)
{
    struct ps_snapshot left;
    struct ps_snapshot right;
    ck_assert_int_eq(ps_snapshot_take(a->service, &left, NULL), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(b->service, &right, NULL), PS_OK);
    ck_assert_uint_eq(left.facts.position, right.facts.position);
    ck_assert_uint_eq(left.parameter_count, right.parameter_count);
    ck_assert(ps_bytes_equal(left.facts.sessions, right.facts.sessions));
    for (size_t i = 0; i < left.parameter_count; i++)
        expect_equal_parameters(&left.parameters[i], &right.parameters[i]);
    ps_snapshot_release(&left);
    ps_snapshot_release(&right);
}

void disk_damage(struct memory_files *disk, const char *path)
{
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, path, &content));
    /* At the end are the sessions, 20 bytes when nobody has an id, and before them the data. */
    memory_files_flip(disk, path, ((uint64_t)content.size - 24) * 8 + 5);
}

size_t disk_count(const struct memory_files *disk, const char *ending)
{
    size_t count = 0;
    for (size_t i = 0; i < memory_files_file_count(disk); i++) {
        const char *path = memory_files_path(disk, i);
        size_t length = strlen(path);
        if (length >= strlen(ending) && strcmp(path + length - strlen(ending), ending) == 0)
            count++;
    }
    return count;
}

void disk_store_init(struct disk_store *store, struct core_world *world)
{
    *store = (struct disk_store){0};
    struct ps_kv_lease lease;
    uint32_t shard_count;
    ck_assert_int_eq(ps_kv_hub_create(&world->clock, ps_allocator_heap(), &store->hub), PS_OK);
    ck_assert_int_eq(ps_kv_memory_open(store->hub, &store->kv), PS_OK);
    ck_assert_int_eq(ps_registry_init(&store->registry, store->kv, "", NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_desired(&store->registry, 1, PS_DEADLINE_NEVER, &shard_count, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_grant(store->kv, 1000000, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_claim(&store->registry, 1, UINT32_MAX, lease, PS_DEADLINE_NEVER,
                                       &store->claim, NULL),
                     PS_OK);
}

void disk_store_fini(struct disk_store *store)
{
    ps_kv_destroy(store->kv);
    ps_kv_hub_destroy(store->hub);
}

void disk_store_lose(struct disk_store *store)
{
    struct ps_kv_lease lease;
    struct ps_claim claim;
    ck_assert_int_eq(ps_kv_lease_revoke(store->kv, store->claim.lease, PS_DEADLINE_NEVER, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_kv_lease_grant(store->kv, 1000000, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_claim(&store->registry, 1, UINT32_MAX, lease, PS_DEADLINE_NEVER, &claim, NULL),
        PS_OK);
    ck_assert_uint_ne(claim.epoch, store->claim.epoch);
}
