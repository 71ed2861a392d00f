/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_history.c: two shards whose positions and epochs fit each other, and files
 * of one in the folder of the other. */
#include "server/core/recovery/recovery_history.h"

#include "tests/unit/core/core_disk.h"

#include <stdio.h>
#include <string.h>

static const float ones[] = {1, 1, 1, 1};
static const float twos[] = {2, 2, 2, 2};

/* Two trainings of as many pushes. Of `stranger` the second owner is still at work. */
static struct memory_files *disk, *strange_disk;
static struct core_world own, stranger, world;
static struct ps_journal_writer *own_writer, *strange_writer, *writer;
static struct ps_checkpoint_place own_places[2], strange_places[2];
static struct ps_recovered loaded;
static char json[4096]; /* of the pointer */

/* One save, two pushes, another save, two pushes. */
static void train(struct core_world *trained, struct memory_files *on, uint64_t epoch,
                  struct ps_journal_writer **to, struct ps_checkpoint_place places[2],
                  const float *gradient)
{
    disk_journal_world_init(trained, epoch);
    ck_assert_int_eq(disk_recover(trained, on, epoch, to, &loaded), PS_OK);
    ck_assert_int_eq(
        world_init_param(trained, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(trained), PS_OK);
    for (int i = 0; i < 2; i++) {
        disk_save(trained, on, &places[i]);
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(world_push(trained, "w", PS_F32, gradient, sizeof ones, NULL), PS_OK);
        ck_assert_int_eq(disk_write_journal(trained, *to, 8), PS_OK);
    }
}

static void setup(void)
{
    disk = memory_files_create(1);
    strange_disk = memory_files_create(2);
    writer = NULL;
    json[0] = '\0';
    train(&own, disk, 2, &own_writer, own_places, ones);
    train(&stranger, strange_disk, 3, &strange_writer, strange_places, twos);
    disk_journal_world_init(&world, 9);
}

static void teardown(void)
{
    ps_journal_writer_close(own_writer);
    ps_journal_writer_close(strange_writer);
    ps_journal_writer_close(writer);
    world_fini(&own);
    world_fini(&stranger);
    world_fini(&world);
    memory_files_destroy(disk);
    memory_files_destroy(strange_disk);
}

/* Copies every file of the stranger's whose name ends so; how many. */
static size_t bring(const char *ending)
{
    size_t count = 0;
    for (size_t i = 0; i < memory_files_file_count(strange_disk); i++) {
        const char *path = memory_files_path(strange_disk, i);
        size_t length = strlen(path);
        struct ps_bytes content;
        if (length < strlen(ending) || strcmp(path + length - strlen(ending), ending) != 0)
            continue;
        ck_assert(memory_files_get(strange_disk, path, &content));
        memory_files_put(disk, path, content);
        count++;
    }
    return count;
}

/* And takes them away. */
static void take_away(void)
{
    const struct ps_files *files = memory_files_files(disk);
    for (size_t i = 0; i < memory_files_file_count(strange_disk); i++)
        (void)files->remove(files->self, memory_files_path(strange_disk, i), NULL);
}

static void publish(const struct ps_checkpoint_place *place)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), sizeof json);
    ps_catalog_pointer_write(place, &buffer);
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    memcpy(json, buffer.text, buffer.size + 1);
    ps_buffer_fini(&buffer);
}

static enum ps_status load(void)
{
    return disk_load(&world, disk, json[0] != '\0' ? json : NULL, &loaded);
}

static void expect_refusal(const char *name)
{
    size_t files_before = memory_files_file_count(disk);
    ck_assert_int_eq(load(), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(world.error.text, "files of another history") != NULL, "%s",
                  world.error.text);
    ck_assert_msg(strstr(world.error.text, name) != NULL, "%s", world.error.text);
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
    /* Nothing was put aside. */
    ck_assert_uint_eq(memory_files_file_count(disk), files_before);
    ck_assert_uint_eq(disk_count(disk, ".stale") + disk_count(disk, ".damaged"), 0);
}

static void expect_own_state(void)
{
    ck_assert_msg(load() == PS_OK, "%s", world.error.text);
    ck_assert_uint_eq(loaded.position, 4);
    disk_expect_equal(&world, &own);
}

START_TEST(a_recovery_goes_on_with_the_history_that_it_found)
{
    struct ps_history of_own = ps_service_history(own.service);
    expect_own_state();
    struct ps_history of_world = ps_service_history(world.service);
    ck_assert(ps_history_known(&of_own));
    ck_assert_mem_eq(&of_own, &of_world, sizeof of_own);
    ck_assert_mem_eq(&loaded.history, &of_own, sizeof of_own);
    ck_assert_mem_eq(&own_places[1].history, &of_own, sizeof of_own);
}
END_TEST

START_TEST(another_shard_has_another)
{
    struct ps_history of_own = ps_service_history(own.service);
    struct ps_history of_stranger = ps_service_history(stranger.service);
    ck_assert(ps_history_differ(&of_own, &of_stranger));
}
END_TEST

/* They begin where the checkpoint ends, in a later epoch, with whole records of the same name. */
START_TEST(a_journal_of_another_history_is_not_replayed)
{
    publish(&own_places[1]);
    ck_assert_uint_gt(bring(".journal"), 0);
    expect_refusal("0000000000000003-0000000000000001.journal");
    take_away();
    expect_own_state();
}
END_TEST

START_TEST(a_newer_checkpoint_of_another_history_is_not_loaded)
{
    publish(&own_places[1]);
    ck_assert_uint_gt(bring(".safetensors"), 0);
    expect_refusal(strrchr(strange_places[1].path, '/') + 1);
    take_away();
    expect_own_state();
}
END_TEST

/* And where no store tells whose the folder is, the older ones are not thrown away for it. */
/* The newest checkpoint decides, which is the stranger's: the journal behind the folder's own is in
 * its way. */
START_TEST(without_a_pointer_neither_is_taken)
{
    ck_assert_uint_gt(bring(".safetensors"), 0);
    expect_refusal(".journal");
    take_away();
    expect_own_state();
}
END_TEST

/* What a server that lost the race for an empty shard leaves is passed over, and put aside. */
START_TEST(a_void_checkpoint_of_another_history_is_passed_over)
{
    struct core_world late;
    struct ps_journal_writer *late_writer = NULL;
    struct ps_checkpoint_place places[2];
    struct memory_files *late_disk = memory_files_create(3);
    train(&late, late_disk, 1, &late_writer, places, twos);
    struct ps_bytes content;
    ck_assert(memory_files_get(late_disk, places[1].path, &content));
    memory_files_put(disk, places[1].path, content);
    publish(&own_places[1]);
    /* Were it tried, it would come after these two. */
    disk_damage(disk, own_places[0].path);
    disk_damage(disk, own_places[1].path);

    ck_assert_int_eq(load(), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "is whole"));
    ps_journal_writer_close(late_writer);
    world_fini(&late);
    memory_files_destroy(late_disk);
}
END_TEST

/* A later life of which there is no checkpoint: its segments would end the epochs before. */
START_TEST(a_later_life_without_a_checkpoint_is_passed_over)
{
    ck_assert_uint_gt(bring(".journal"), 0);
    expect_own_state();
}
END_TEST

/* The file is elsewhere, so that the survey of the folder has not seen it. */
START_TEST(a_published_file_of_another_folder_has_to_be_of_the_same)
{
    struct ps_checkpoint_place elsewhere = strange_places[1];
    struct ps_bytes content;
    ck_assert(memory_files_get(strange_disk, strange_places[1].path, &content));
    (void)snprintf(elsewhere.path, sizeof elsewhere.path, "/elsewhere/c.safetensors");
    memory_files_put(disk, elsewhere.path, content);
    elsewhere.history = (struct ps_history){{0}};
    elsewhere.journal = PS_CHECKPOINT_JOURNAL_UNSAID;
    publish(&elsewhere);

    ck_assert_int_eq(load(), PS_ERR_CORRUPT);

    ck_assert_msg(strstr(world.error.text, "of another history") != NULL, "%s", world.error.text);
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_history");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_recovery_goes_on_with_the_history_that_it_found);
    tcase_add_test(tests, another_shard_has_another);
    tcase_add_test(tests, a_journal_of_another_history_is_not_replayed);
    tcase_add_test(tests, a_newer_checkpoint_of_another_history_is_not_loaded);
    tcase_add_test(tests, without_a_pointer_neither_is_taken);
    tcase_add_test(tests, a_void_checkpoint_of_another_history_is_passed_over);
    tcase_add_test(tests, a_later_life_without_a_checkpoint_is_passed_over);
    tcase_add_test(tests, a_published_file_of_another_folder_has_to_be_of_the_same);
    return run_tests("recovery_history", tests);
}
