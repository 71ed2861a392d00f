/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_verdict.c, and the recovery with it: a pointer, a journal, and files that
 * are not there. */
#include "server/core/recovery/recovery_verdict.h"

#include "checkpoint/catalog.h"
#include "tests/unit/core/core_disk.h"

#include <string.h>

static const float ones[] = {1, 1, 1, 1};

static struct memory_files *disk;
static struct core_world old; /* epoch 1, with a journal */
static struct core_world world;
static struct ps_journal_writer *writer;
static struct ps_recovered loaded;
static struct ps_checkpoint_place places[3]; /* at 0, 2 and 4; the first was swept */

/* Checkpoints at 0, 2 and 4; the journal goes on to 6. */
static void setup(void)
{
    disk = memory_files_create(1);
    disk_journal_world_init(&old, 1);
    ck_assert_int_eq(disk_recover(&old, disk, 1, &writer, &loaded), PS_OK);
    ck_assert_int_eq(
        world_init_param(&old, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}), PS_OK);
    ck_assert_int_eq(world_finish(&old), PS_OK);
    for (int i = 0; i < 3; i++) {
        disk_save(&old, disk, &places[i]);
        places[i].journal = PS_CHECKPOINT_JOURNAL_KEPT;
        for (int pushes = 0; pushes < 2; pushes++)
            ck_assert_int_eq(world_push(&old, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
        ck_assert_int_eq(disk_write_journal(&old, writer, 8), PS_OK);
    }
    ps_journal_writer_close(writer);
    disk_world_init(&world, 5);
}

static void teardown(void)
{
    world_fini(&world);
    world_fini(&old);
    memory_files_destroy(disk);
}

static enum ps_status load(const struct ps_checkpoint_place *published)
{
    struct ps_buffer json;
    ps_buffer_init(&json, ps_allocator_heap(), 4096);
    ps_catalog_pointer_write(published, &json);
    ck_assert_int_eq(ps_buffer_status(&json, NULL), PS_OK);
    enum ps_status status = disk_load(&world, disk, json.text, &loaded);
    ps_buffer_fini(&json);
    return status;
}

static void remove_journal(void)
{
    const struct ps_files *files = memory_files_files(disk);
    struct ps_journal_segments segments;
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, DISK_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);
    for (size_t i = 0; i < segments.count; i++) {
        char path[PS_JOURNAL_PATH_BYTES];
        ck_assert_int_eq(ps_journal_path_write(DISK_FOLDER, segments.entries[i], path, NULL),
                         PS_OK);
        ck_assert_int_eq(files->remove(files->self, path, NULL), PS_OK);
    }
    ps_journal_segments_fini(&segments);
}

static void remove_file(const char *path)
{
    const struct ps_files *files = memory_files_files(disk);
    ck_assert_int_eq(files->remove(files->self, path, NULL), PS_OK);
}

START_TEST(p1_a_missing_published_file_costs_nothing_when_the_journal_leads_to_it)
{
    remove_file(places[2].path);

    ck_assert_int_eq(load(&places[2]), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
    ck_assert_uint_eq(loaded.position, 6);
    ck_assert_uint_eq(loaded.missing_count, 0);
    disk_expect_equal(&old, &world);
}
END_TEST

START_TEST(p1_a_folder_older_than_the_pointer_is_refused_with_the_number_of_pushes)
{
    struct ps_checkpoint_place later = places[2];
    strcpy(later.uuid, "00000000-0000-4000-8000-000000000000");
    strcpy(later.path, DISK_FOLDER "/later.safetensors");
    later.position = 26;

    ck_assert_int_eq(load(&later), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "20 pushes would be given up"));
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
}
END_TEST

/* A former owner may have written records of the same positions, which never happened. */
START_TEST(p4_records_of_another_epoch_are_no_bridge_to_the_published_state)
{
    struct ps_checkpoint_place later = places[2];
    strcpy(later.uuid, "00000000-0000-4000-8000-000000000000");
    strcpy(later.path, DISK_FOLDER "/later.safetensors");
    later.position = 5;
    later.epoch = 3;
    later.journal = PS_CHECKPOINT_JOURNAL_NONE;

    ck_assert_int_eq(load(&later), PS_ERR_CORRUPT);
}
END_TEST

START_TEST(p1_a_journal_that_is_gone_altogether_is_a_loss)
{
    remove_journal();

    ck_assert_int_eq(load(&places[2]), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "the journal behind the published checkpoint"));
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
}
END_TEST

START_TEST(p1_a_damaged_published_file_without_its_journal_is_no_way_back_to_the_older_one)
{
    disk_damage(disk, places[2].path);
    remove_journal();

    ck_assert_int_eq(load(&places[2]), PS_ERR_CORRUPT);
}
END_TEST

START_TEST(a_pointer_that_says_that_there_is_no_journal_needs_none)
{
    remove_journal();
    places[2].journal = PS_CHECKPOINT_JOURNAL_NONE;

    ck_assert_int_eq(load(&places[2]), PS_OK);

    ck_assert_uint_eq(loaded.position, 4);
}
END_TEST

START_TEST(every_cause_but_none_has_advice)
{
    for (int cause = 1; cause < PS_RECOVERY_CAUSE_COUNT; cause++)
        ck_assert_uint_gt(strlen(ps_recovery_advice((enum ps_recovery_cause)cause)), 20);
    ck_assert_str_eq(ps_recovery_advice(PS_RECOVERY_NONE), "");
    ck_assert_ptr_null(strstr(ps_recovery_advice(PS_RECOVERY_ELSEWHERE), "repair"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_verdict");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, p1_a_missing_published_file_costs_nothing_when_the_journal_leads_to_it);
    tcase_add_test(tests, p1_a_folder_older_than_the_pointer_is_refused_with_the_number_of_pushes);
    tcase_add_test(tests, p4_records_of_another_epoch_are_no_bridge_to_the_published_state);
    tcase_add_test(tests, p1_a_journal_that_is_gone_altogether_is_a_loss);
    tcase_add_test(tests,
                   p1_a_damaged_published_file_without_its_journal_is_no_way_back_to_the_older_one);
    tcase_add_test(tests, a_pointer_that_says_that_there_is_no_journal_needs_none);
    tcase_add_test(tests, every_cause_but_none_has_advice);
    return run_tests("recovery_verdict", tests);
}
