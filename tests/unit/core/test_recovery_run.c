/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_run.c: the newest whole checkpoint, and what is said of the others. */
#include "checkpoint/catalog.h"
#include "checkpoint/checkpoint_name.h"
#include "tests/support/fault_files.h"
#include "tests/unit/core/core_disk.h"

#include <string.h>

static const float ones[] = {1, 1, 1, 1};

static struct core_world saved;
static struct memory_files *disk;
/* Of three saves at positions 0, 1 and 2; the sweep leaves the last two. */
static struct ps_checkpoint_place places[3];

static struct core_world world; /* what is loaded into */
static struct ps_recovered loaded;

static void setup(void)
{
    disk = memory_files_create(1);
    disk_world_init(&saved, 1);
    ps_service_begin_empty(saved.service);
    ck_assert_int_eq(
        world_init_param(&saved, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(&saved), PS_OK);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            ck_assert_int_eq(world_push(&saved, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
        disk_save(&saved, disk, &places[i]);
    }
    disk_world_init(&world, 2);
}

static void teardown(void)
{
    world_fini(&world);
    world_fini(&saved);
    memory_files_destroy(disk);
}

/* The pointer's JSON for `place`. Valid until the next call. */
static const char *pointer_to(const struct ps_checkpoint_place *place)
{
    static char json[4096];
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), sizeof json);
    ps_catalog_pointer_write(place, &buffer);
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    memcpy(json, buffer.text, buffer.size + 1);
    ps_buffer_fini(&buffer);
    return json;
}

START_TEST(an_empty_folder_without_a_pointer_has_nothing)
{
    struct memory_files *empty = memory_files_create(2);

    enum ps_status status = disk_load(&world, empty, NULL, &loaded);

    ck_assert_int_eq(status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(world.error.text, "checkpoint not found in etcd");
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
    memory_files_destroy(empty);
}
END_TEST

START_TEST(the_newest_of_the_folder_is_loaded)
{
    struct ps_checkpoint_place last;

    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
    ck_assert_uint_eq(loaded.place.epoch, 1);
    ck_assert_str_eq(loaded.place.uuid, places[2].uuid);
    ck_assert_uint_eq(loaded.damaged_count, 0);
    disk_expect_equal(&world, &saved);
    ck_assert(ps_service_last_saved(world.service, &last));
    ck_assert_str_eq(last.uuid, places[2].uuid);
    ck_assert_str_eq(last.path, places[2].path);
}
END_TEST

/* What was pushed after the last save is gone, and status says up to where the state goes. */
START_TEST(b23_what_a_crash_lost_can_be_seen)
{
    struct ps_status_reply reply;
    char uuid[37];
    ck_assert_int_eq(world_push(&saved, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_OK);

    ps_service_status(world.service, &reply, uuid);
    ck_assert_uint_eq(reply.position, 2);
    ck_assert_uint_eq(reply.checkpoint_position, 2);
    ck_assert_str_eq(reply.checkpoint_uuid, places[2].uuid);
    ck_assert_uint_eq(reply.push_count, 0);
}
END_TEST

START_TEST(a_damaged_newest_falls_back_to_the_older_one)
{
    disk_damage(disk, places[2].path);

    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 1);
    ck_assert_uint_eq(loaded.damaged_count, 1);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 1);
    ck_assert_uint_eq(disk_count(disk, ".safetensors.damaged"), 1);
}
END_TEST

START_TEST(a_truncated_newest_falls_back_to_the_older_one)
{
    struct ps_bytes content;
    uint8_t copy[65536];
    ck_assert(memory_files_get(disk, places[2].path, &content));
    ck_assert_uint_le(content.size, sizeof copy);
    memcpy(copy, content.data, content.size);
    memory_files_put(disk, places[2].path, (struct ps_bytes){copy, content.size * (size_t)_i / 4});

    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 1);
}
END_TEST

START_TEST(when_none_is_whole_all_are_named_and_stay)
{
    disk_damage(disk, places[1].path);
    disk_damage(disk, places[2].path);

    enum ps_status status = disk_load(&world, disk, pointer_to(&places[2]), &loaded);

    ck_assert_int_eq(status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "(2 tried)"));
    ck_assert_ptr_nonnull(strstr(world.error.text, places[1].uuid));
    ck_assert_ptr_nonnull(strstr(world.error.text, places[2].uuid));
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
}
END_TEST

START_TEST(names_of_damaged_ones_are_whole_however_many_there_are)
{
    disk_damage(disk, places[1].path);
    disk_damage(disk, places[2].path);
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, places[2].path, &content));
    for (uint64_t i = 0; i < 4; i++) {
        char path[PS_CHECKPOINT_NAME_BYTES + 64];
        size_t folder = (size_t)(strrchr(places[2].path, '/') + 1 - places[2].path);
        memcpy(path, places[2].path, folder);
        ps_checkpoint_name_write(1, 3 + i, places[2].uuid, "", PS_CHECKPOINT_SUFFIX, path + folder);
        memory_files_put(disk, path, (struct ps_bytes){content.data, content.size / 2});
    }

    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "(6 tried)"));
    size_t size = strlen(world.error.text);
    ck_assert_uint_lt(size, sizeof world.error.text - 1);
    ck_assert_str_eq(world.error.text + size - 17, ".safetensors, ...");
}
END_TEST

START_TEST(a_damaged_one_does_not_count_as_a_generation_to_keep)
{
    disk_damage(disk, places[2].path);
    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_OK);

    disk_save(&world, disk, NULL);

    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, places[1].path, &content));
}
END_TEST

/* The owner of epoch 2 went on from position 2 and saved; the one of epoch 1 does not know yet, and
 * writes a file of position 7, which it cannot publish. There is no journal. */
static void take_over_and_write_late(struct ps_checkpoint_place *newest)
{
    struct core_world next;
    struct ps_saver late = disk_saver(&saved, disk);
    struct ps_saving saving;
    disk_world_init(&next, 2);
    ck_assert_int_eq(disk_load(&next, disk, NULL, &loaded), PS_OK);
    ck_assert_int_eq(world_push(&next, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    disk_save(&next, disk, newest);
    world_fini(&next);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(world_push(&saved, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_begin(&late, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_write(&late, &saving, NULL), PS_OK);
    ck_assert_uint_eq(saving.place.position, 7);
}

START_TEST(p4_without_a_journal_too_a_late_file_of_a_former_owner_is_passed_over)
{
    struct ps_checkpoint_place newest;
    take_over_and_write_late(&newest);
    ck_assert_uint_eq(newest.position, 3);
    memory_files_flip(disk, newest.path, 8 * 100);

    ck_assert_int_eq(disk_load(&world, disk, NULL, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.epoch, 1);
    ck_assert_uint_eq(loaded.place.position, 2);
    ck_assert_uint_eq(disk_count(disk, ".stale"), 1);
}
END_TEST

/* The folder is another server's, the newest file is where the pointer says, and is damaged. */
START_TEST(p4_the_pointer_alone_tells_that_a_file_is_of_a_former_owner)
{
    struct ps_checkpoint_place newest;
    take_over_and_write_late(&newest);
    const struct ps_files *files = memory_files_files(disk);
    ck_assert_int_eq(files->remove(files->self, newest.path, NULL), PS_OK);
    strcpy(newest.path, "/elsewhere/file.safetensors");
    memory_files_put(disk, newest.path, text("damaged"));

    ck_assert_int_eq(disk_load(&world, disk, pointer_to(&newest), &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
}
END_TEST

START_TEST(a_pointer_to_another_folder_is_followed)
{
    struct ps_bytes content;
    struct ps_checkpoint_place elsewhere = places[2];
    struct memory_files *other = memory_files_create(3);
    strcpy(elsewhere.path, "/elsewhere/file.safetensors");
    ck_assert(memory_files_get(disk, places[2].path, &content));
    memory_files_put(other, elsewhere.path, content);
    ck_assert(memory_files_get(disk, places[1].path, &content));
    memory_files_put(other, places[1].path, content);

    ck_assert_int_eq(disk_load(&world, other, pointer_to(&elsewhere), &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
    ck_assert_str_eq(loaded.place.path, "/elsewhere/file.safetensors");
    ck_assert_uint_eq(loaded.place.crc32, places[2].crc32);
    memory_files_destroy(other);
}
END_TEST

START_TEST(a_pointer_to_another_folder_with_a_journal_is_not_followed)
{
    struct ps_bytes content;
    struct ps_checkpoint_place elsewhere = places[2];
    struct memory_files *other = memory_files_create(3);
    strcpy(elsewhere.path, "/elsewhere/file.safetensors");
    ck_assert(memory_files_get(disk, places[2].path, &content));
    memory_files_put(other, elsewhere.path, content);
    memory_files_put(other, "/elsewhere/0000000000000001-0000000000000001.journal", content);

    ck_assert_int_eq(disk_load(&world, other, pointer_to(&elsewhere), &loaded), PS_ERR_CORRUPT);

    memory_files_destroy(other);
}
END_TEST

START_TEST(a_file_newer_than_the_pointer_is_preferred)
{
    struct ps_checkpoint_place elsewhere = places[0];
    strcpy(elsewhere.path, "/elsewhere/file.safetensors");

    ck_assert_int_eq(disk_load(&world, disk, pointer_to(&elsewhere), &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
    ck_assert_uint_eq(loaded.damaged_count, 0);
}
END_TEST

START_TEST(p1_a_pointer_to_a_missing_file_is_a_loss)
{
    struct ps_checkpoint_place missing = places[2];
    strcpy(missing.uuid, "00000000-0000-4000-8000-000000000000");
    strcpy(missing.path, "/elsewhere/file.safetensors");
    missing.position = 100;
    missing.journal = (enum ps_checkpoint_journal)_i;

    ck_assert_int_eq(disk_load(&world, disk, pointer_to(&missing), &loaded), PS_ERR_CORRUPT);

    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
    if (missing.journal == PS_CHECKPOINT_JOURNAL_KEPT)
        return;
    ck_assert_ptr_nonnull(strstr(world.error.text, "98 pushes would be given up"));
    ck_assert_ptr_nonnull(strstr(world.error.text, "/elsewhere/file.safetensors"));
}
END_TEST

/* Without a journal nobody can tell that an epoch went the same way to the same position. */
START_TEST(a_missing_published_file_at_the_folders_own_position_is_no_proof)
{
    struct ps_checkpoint_place missing = places[2];
    strcpy(missing.uuid, "00000000-0000-4000-8000-000000000000");
    strcpy(missing.path, "/elsewhere/file.safetensors");
    missing.journal = PS_CHECKPOINT_JOURNAL_NONE;

    ck_assert_int_eq(disk_load(&world, disk, pointer_to(&missing), &loaded), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "nothing shows"));
}
END_TEST

/* As a server leaves it that is killed before its first checkpoint. */
START_TEST(a_published_file_that_was_put_aside_as_damaged_is_not_missing)
{
    disk_damage(disk, places[2].path);
    ck_assert_int_eq(disk_load(&world, disk, pointer_to(&places[2]), &loaded), PS_OK);
    ck_assert_uint_eq(disk_count(disk, ".damaged"), 1);
    struct core_world next;
    disk_world_init(&next, 3);

    ck_assert_int_eq(disk_load(&next, disk, pointer_to(&places[2]), &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 1);
    ck_assert_uint_eq(loaded.missing_count, 1);
    world_fini(&next);
}
END_TEST

START_TEST(what_an_operator_gave_up_is_counted_as_lost)
{
    struct ps_checkpoint_place older = places[2];
    struct ps_status_reply reply;
    char uuid[37];
    older.reached = 30;

    ck_assert_int_eq(disk_load(&world, disk, pointer_to(&older), &loaded), PS_OK);

    ps_service_status(world.service, &reply, uuid);
    ck_assert_uint_eq(reply.lost_count, 28);
    ck_assert_uint_eq(loaded.missing_count, 28);
}
END_TEST

START_TEST(a_pointer_to_a_missing_file_alone_is_no_empty_shard)
{
    struct memory_files *empty = memory_files_create(2);

    enum ps_status status = disk_load(&world, empty, pointer_to(&places[2]), &loaded);

    ck_assert_int_eq(status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(world.error.text, places[2].uuid));
    memory_files_destroy(empty);
}
END_TEST

START_TEST(a_pointer_that_is_none_is_no_empty_shard)
{
    struct memory_files *empty = memory_files_create(2);

    ck_assert_int_eq(disk_load(&world, empty, "{]", &loaded), PS_ERR_CORRUPT);
    ck_assert_int_eq(disk_load(&world, disk, "{]", &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
    memory_files_destroy(empty);
}
END_TEST

START_TEST(a_checkpoint_of_another_number_of_shards_is_not_passed_over)
{
    struct core_world other;
    world_init(&other, true, 0);
    ps_service_own(other.service, 0, 2, 2, "");

    enum ps_status status = disk_load(&other, disk, NULL, &loaded);

    ck_assert_int_eq(status, PS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
    world_fini(&other);
}
END_TEST

/* A lack of memory must not look like damage: an older state would throw updates away. */
START_TEST(loading_survives_any_refused_allocation_and_never_goes_back_for_it)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    int64_t live = world.heap.live;

    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        ck_assert_int_lt(refuse, 300);
        ck_assert_int_eq(world.heap.live, live);
        world.heap.refuse_at = world.heap.seen + refuse;
        status = disk_load(&world, disk, pointer_to(&places[2]), &loaded);
        world.heap.refuse_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
    }

    ck_assert_uint_eq(loaded.place.position, 2);
}
END_TEST

/* What could not be read may be whole: it is neither put aside nor passed over for an older one.
 * What nobody needs may stay unread: each file is asked for its history first, and a disk that
 * refuses that has said nothing. */
START_TEST(a_call_that_fails_is_no_damage)
{
    static const uint32_t kinds[] = {FAULT_OPEN, FAULT_READ, FAULT_SIZE, FAULT_LIST};
    struct fault_files fault = {.under = memory_files_files(disk), .calls = kinds[_i]};
    struct ps_files files = fault_files_files(&fault);
    int refused = 0;
    for (fault.fired = true; fault.fired; fault.fail_at++) {
        struct core_world fresh;
        disk_world_init(&fresh, 2);
        const struct ps_recovery recovery = {.service = fresh.service,
                                             .files = &files,
                                             .folder = DISK_FOLDER,
                                             .memory = &fresh.memory};
        fault.seen = 0;
        fault.fired = false;

        enum ps_status status = ps_recovery_run(&recovery, &loaded, &fresh.error);

        ck_assert_msg(status == PS_OK || (fault.fired && status == PS_ERR_IO), "%s",
                      fresh.error.text);
        refused += status == PS_ERR_IO;
        ck_assert_uint_eq(disk_count(disk, ".damaged"), 0);
        ck_assert_int_eq(fault.open, 0);
        if (status == PS_OK)
            ck_assert_uint_eq(loaded.place.position, 2);
        if (status == PS_OK)
            ps_service_give_up_recovery(fresh.service);
        world_fini(&fresh);
    }
    ck_assert_int_gt(fault.fail_at, 1);
    ck_assert_int_gt(refused, 0);
}
END_TEST

/* Whatever single call of the disk fails, the result is whole or a clear refusal. */
START_TEST(any_failing_file_call_gives_whole_state_or_a_refusal)
{
    for (int64_t fail_at = 0; fail_at < 60; fail_at++) {
        struct core_world fresh;
        disk_world_init(&fresh, 2);
        memory_files_knobs(disk)->seen = 0;
        memory_files_knobs(disk)->fail_at = fail_at;

        enum ps_status status = disk_load(&fresh, disk, NULL, &loaded);

        memory_files_knobs(disk)->fail_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_IO || status == PS_ERR_CORRUPT);
        if (status == PS_OK) {
            float values[4];
            size_t size;
            uint64_t version;
            ck_assert_int_eq(world_pull(&fresh, "w", values, sizeof values, &size, &version),
                             PS_OK);
            ck_assert_uint_eq(version, loaded.place.position);
            ck_assert_float_eq(values[3], 1 - (float)version);
        }
        world_fini(&fresh);
        /* What was put aside comes back for the next turn. */
        teardown();
        setup();
    }
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_run");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_empty_folder_without_a_pointer_has_nothing);
    tcase_add_test(tests, the_newest_of_the_folder_is_loaded);
    tcase_add_test(tests, b23_what_a_crash_lost_can_be_seen);
    tcase_add_test(tests, a_damaged_newest_falls_back_to_the_older_one);
    tcase_add_loop_test(tests, a_truncated_newest_falls_back_to_the_older_one, 0, 4);
    tcase_add_test(tests, when_none_is_whole_all_are_named_and_stay);
    tcase_add_test(tests, names_of_damaged_ones_are_whole_however_many_there_are);
    tcase_add_test(tests, a_damaged_one_does_not_count_as_a_generation_to_keep);
    tcase_add_test(tests, p4_without_a_journal_too_a_late_file_of_a_former_owner_is_passed_over);
    tcase_add_test(tests, p4_the_pointer_alone_tells_that_a_file_is_of_a_former_owner);
    tcase_add_test(tests, a_pointer_to_another_folder_is_followed);
    tcase_add_test(tests, a_pointer_to_another_folder_with_a_journal_is_not_followed);
    tcase_add_test(tests, a_file_newer_than_the_pointer_is_preferred);
    tcase_add_loop_test(tests, p1_a_pointer_to_a_missing_file_is_a_loss, 0, 3);
    tcase_add_test(tests, a_missing_published_file_at_the_folders_own_position_is_no_proof);
    tcase_add_test(tests, a_published_file_that_was_put_aside_as_damaged_is_not_missing);
    tcase_add_test(tests, what_an_operator_gave_up_is_counted_as_lost);
    tcase_add_test(tests, a_pointer_to_a_missing_file_alone_is_no_empty_shard);
    tcase_add_test(tests, a_pointer_that_is_none_is_no_empty_shard);
    tcase_add_test(tests, a_checkpoint_of_another_number_of_shards_is_not_passed_over);
    tcase_add_test(tests, loading_survives_any_refused_allocation_and_never_goes_back_for_it);
    tcase_add_loop_test(tests, a_call_that_fails_is_no_damage, 0, 4);
    tcase_add_test(tests, any_failing_file_call_gives_whole_state_or_a_refusal);
    return run_tests("recovery_run", tests);
}
