/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_run.c and recovery_replay.c with a journal: what recovery takes, what it
 * passes over, and what it refuses. */
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_segments.h"
#include "tests/unit/core/core_disk.h"

#include <stdio.h>
#include <string.h>

static const float ones[] = {1, 1, 1, 1};

static struct memory_files *disk;
static struct core_world old;   /* epoch 1 */
static struct core_world world; /* what recovers, epoch 5 */
static struct ps_journal_writer *writer;
static struct ps_journal_writer *writer_after;
static struct ps_recovered loaded;

static void push(struct core_world *to, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(world_push(to, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
}

static void push_durably(int count)
{
    push(&old, count);
    ck_assert_int_eq(disk_write_journal(&old, writer, 8), PS_OK);
}

/* Checkpoints at 0, 2 and 4, of which the sweep leaves the last two; then two pushes more. */
static struct ps_checkpoint_place places[3];

static void begin_test(void)
{
    disk = memory_files_create(1);
    writer_after = NULL;
    disk_journal_world_init(&old, 1);
    ck_assert_int_eq(disk_recover(&old, disk, 1, &writer, &loaded), PS_OK);
    ck_assert_int_eq(
        world_init_param(&old, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}), PS_OK);
    ck_assert_int_eq(world_finish(&old), PS_OK);
    for (int i = 0; i < 3; i++) {
        disk_save(&old, disk, &places[i]);
        push_durably(2);
    }
    disk_journal_world_init(&world, 5);
}

static void end_test(void)
{
    ps_journal_writer_close(writer);
    ps_journal_writer_close(writer_after);
    world_fini(&old);
    world_fini(&world);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

static enum ps_status recover(void)
{
    return disk_recover(&world, disk, 5, &writer_after, &loaded);
}

static void expect_refusal(enum ps_status status, const char *words)
{
    ck_assert_int_eq(recover(), status);
    ck_assert_msg(strstr(world.error.text, words) != NULL, "%s", world.error.text);
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
    ps_service_check(world.service);
}

static const char *segment_path(uint64_t epoch, uint64_t first)
{
    static char path[PS_JOURNAL_PATH_BYTES];
    ck_assert_int_eq(
        ps_journal_path_write(DISK_FOLDER, (struct ps_journal_segment){epoch, first}, path, NULL),
        PS_OK);
    return path;
}

static void remove_file(const char *path)
{
    const struct ps_files *files = memory_files_files(disk);
    ck_assert_int_eq(files->remove(files->self, path, NULL), PS_OK);
}

/* The path of segment `i` of the folder, by age. */
static const char *nth_segment(size_t i)
{
    struct ps_journal_segments segments;
    ck_assert_int_eq(ps_journal_segments_init(&segments, memory_files_files(disk), DISK_FOLDER,
                                              UINT64_MAX, ps_allocator_heap(), NULL),
                     PS_OK);
    ck_assert_uint_lt(i, segments.count);
    struct ps_journal_segment segment = segments.entries[i];
    ps_journal_segments_fini(&segments);
    return segment_path(segment.epoch, segment.first);
}

START_TEST(the_journal_behind_the_newest_checkpoint_is_replayed)
{
    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 4);
    ck_assert_uint_eq(loaded.position, 6);
    ck_assert_uint_eq(loaded.replayed_count, 2);
    ck_assert_uint_eq(loaded.epoch, 1);
    ck_assert_uint_eq(loaded.missing_count, 0);
    disk_expect_equal(&old, &world);
    uint64_t position;
    uint64_t durable;
    ps_service_positions(world.service, &position, &durable);
    ck_assert_uint_eq(position, 6);
    ck_assert_uint_eq(durable, 6);
}
END_TEST

START_TEST(p1_a_damaged_newest_checkpoint_costs_nothing_with_a_journal)
{
    disk_damage(disk, places[2].path);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 2);
    ck_assert_uint_eq(loaded.position, 6);
    ck_assert_uint_eq(loaded.damaged_count, 1);
    ck_assert_uint_eq(loaded.missing_count, 0);
    disk_expect_equal(&old, &world);
    ck_assert_uint_eq(disk_count(disk, ".safetensors.damaged"), 1);
}
END_TEST

START_TEST(p1_a_gap_between_checkpoint_and_journal_is_not_passed_over)
{
    push_durably(20);
    ck_assert_uint_eq(disk_count(disk, ".journal"), 2);
    remove_file(nth_segment(0));

    expect_refusal(PS_ERR_CORRUPT, "missing");

    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
}
END_TEST

START_TEST(p1_a_journal_that_ends_before_a_damaged_checkpoint_is_not_enough)
{
    struct ps_bytes content;
    static uint8_t copy[65536];
    disk_damage(disk, places[2].path);
    ck_assert(memory_files_get(disk, segment_path(1, 1), &content));
    memcpy(copy, content.data, content.size);
    /* Positions 3 and on are cut off as if they had never been written. */
    for (size_t size = content.size; size > 0; size -= 8) {
        memory_files_put(disk, segment_path(1, 1), (struct ps_bytes){copy, size});
        struct ps_journal_reader *reader;
        struct ps_journal_row row;
        uint64_t cut;
        ck_assert_int_eq(ps_journal_reader_open(memory_files_files(disk), DISK_FOLDER, 2, 9,
                                                ps_allocator_heap(), &reader, NULL),
                         PS_OK);
        enum ps_status status = ps_journal_next(reader, &row, &cut, NULL, NULL);
        if (status == PS_OK)
            ps_journal_row_release(&row);
        ps_journal_reader_close(reader);
        if (status == PS_ERR_NOT_FOUND)
            break;
    }

    expect_refusal(PS_ERR_CORRUPT, "it ends at position 2, but 4 had been reached");

    ck_assert_ptr_nonnull(strstr(world.error.text, "not whole"));
}
END_TEST

START_TEST(an_epoch_without_a_journal_goes_back_and_says_what_it_lost)
{
    disk_damage(disk, places[2].path);
    for (size_t count = disk_count(disk, ".journal"); count > 0; count--)
        remove_file(nth_segment(0));

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.position, 2);
    ck_assert_uint_eq(loaded.missing_count, 2);
}
END_TEST

START_TEST(damage_in_the_middle_ends_recovery_and_is_named)
{
    struct ps_bytes content;
    const char *path = segment_path(1, 1);
    char words[64];
    ck_assert(memory_files_get(disk, path, &content));
    /* Into the record of position 5: two of them, each in a block of its own, are behind the
     * checkpoint. */
    memory_files_flip(disk, path, (content.size - 2 * PS_JOURNAL_BLOCK_BYTES + 16) * 8);

    ck_assert_int_eq(recover(), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(world.error.text, strrchr(path, '/') + 1));
    snprintf(words, sizeof words, "position");
    ck_assert_ptr_nonnull(strstr(world.error.text, words));
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
    ck_assert_uint_eq(disk_count(disk, ".damaged"), 0);
}
END_TEST

START_TEST(a_torn_end_is_cut_and_counted)
{
    struct ps_bytes content;
    static uint8_t copy[65536];
    const char *path = segment_path(1, 1);
    ck_assert(memory_files_get(disk, path, &content));
    memcpy(copy, content.data, content.size);
    /* Behind the last record stand zeros up to the end of a block. */
    size_t size = content.size;
    while (copy[size - 1] == 0)
        size--;
    memory_files_put(disk, path, (struct ps_bytes){copy, size - 3});

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.position, 5);
    ck_assert_uint_gt(loaded.cut_bytes, 0);
}
END_TEST

START_TEST(a_journal_of_which_the_checkpoints_are_gone_is_no_empty_shard)
{
    remove_file(places[1].path);
    remove_file(places[2].path);
    const struct ps_files *files = memory_files_files(disk);
    char from[PS_JOURNAL_PATH_BYTES];
    strcpy(from, segment_path(1, 1));
    ck_assert_int_eq(files->rename(files->self, from, segment_path(1, 3), NULL), PS_OK);

    expect_refusal(PS_ERR_CORRUPT, "no checkpoint that it goes on from");
}
END_TEST

START_TEST(a_journal_before_the_first_checkpoint_has_nothing_to_lose)
{
    remove_file(places[1].path);
    remove_file(places[2].path);

    ck_assert_int_eq(disk_load_only(&world, disk, NULL, &loaded), PS_ERR_NOT_FOUND);

    ck_assert_int_eq(recover(), PS_OK);
    ck_assert_str_eq(ps_service_state_name(world.service), "uninitialized");
}
END_TEST

/* ---- Former owners ---- */

/* Somebody goes on from epoch 1, behind that position. */
static void take_over(uint64_t epoch, uint64_t position)
{
    const struct ps_journal_facts facts = {
        .shard_count = 1, .epoch = epoch, .position = position, .previous_epoch = 1};
    ck_assert_int_eq(ps_journal_writer_open(memory_files_files(disk), DISK_FOLDER, &facts,
                                            &(struct ps_journal_setup){.segment_bytes = 1024},
                                            ps_allocator_heap(), &writer_after, NULL),
                     PS_OK);
    ps_journal_writer_close(writer_after);
    writer_after = NULL;
}

/* The shard goes over to `epoch` at the position of the checkpoint `places[2]`, and a checkpoint of
 * the former owner comes behind that. */
static void take_over_and_save_late(uint64_t epoch, struct ps_checkpoint_place *late)
{
    take_over(epoch, 6);
    push_durably(3);
    struct ps_saver saver = disk_saver(&old, disk);
    struct ps_saving saving;
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    *late = saving.place;
}

START_TEST(p4_a_checkpoint_of_a_former_owner_is_never_read_as_current)
{
    struct ps_checkpoint_place late;
    take_over_and_save_late(3, &late);
    ck_assert_uint_eq(late.position, 9);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 4);
    ck_assert_uint_eq(loaded.position, 6);
    ck_assert_uint_eq(loaded.damaged_count, 0);
    ck_assert_uint_eq(disk_count(disk, ".safetensors.stale"), 1);
}
END_TEST

START_TEST(a_checkpoint_at_which_the_next_owner_began_is_not_stale)
{
    disk_save(&old, disk, NULL);
    take_over(3, 6);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 6);
    ck_assert_uint_eq(disk_count(disk, ".stale"), 0);
}
END_TEST

/* Epoch 3 had read no more than 4 when it lost the shard; epoch 4 went on from all of epoch 1. Then
 * epoch 3 began a segment all the same, of which no state has a push. */
START_TEST(p1_a_segment_of_a_void_epoch_overtakes_no_checkpoint)
{
    disk_save(&old, disk, NULL);
    take_over(4, 6);
    take_over(3, 4);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 6);
    ck_assert_uint_eq(disk_count(disk, ".stale"), 0);
    disk_expect_equal(&old, &world);
}
END_TEST

START_TEST(p4_segments_of_later_claims_are_not_looked_at)
{
    struct ps_checkpoint_place late;
    take_over_and_save_late(8, &late);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 9);
}
END_TEST

START_TEST(p4_records_of_a_former_owner_are_not_put_on_a_later_checkpoint)
{
    /* Epoch 3 ran without a journal; its checkpoint is at 7, and epoch 1 wrote on up to 9. */
    struct core_world next;
    struct ps_checkpoint_place place;
    disk_world_init(&next, 3);
    ck_assert_int_eq(disk_load(&next, disk, NULL, &loaded), PS_OK);
    push(&next, 1);
    disk_save(&next, disk, &place);
    ck_assert_uint_eq(place.position, 7);
    push_durably(3);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 7);
    ck_assert_uint_eq(loaded.position, 7);
    disk_expect_equal(&next, &world);
    world_fini(&next);
}
END_TEST

START_TEST(recovery_goes_over_several_epochs)
{
    struct core_world third;
    struct ps_journal_writer *third_writer;
    ck_assert_int_eq(recover(), PS_OK);
    push(&world, 3);
    ck_assert_int_eq(disk_write_journal(&world, writer_after, 2), PS_OK);
    disk_journal_world_init(&third, 7);

    ck_assert_int_eq(disk_recover(&third, disk, 7, &third_writer, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 4);
    ck_assert_uint_eq(loaded.position, 9);
    ck_assert_uint_eq(loaded.epoch, 5);
    disk_expect_equal(&world, &third);
    ps_journal_writer_close(third_writer);
    world_fini(&third);
}
END_TEST

/* ---- The disk ---- */

START_TEST(any_failing_file_call_gives_everything_or_a_refusal)
{
    enum ps_status status = PS_ERR_IO;
    int64_t fail_at = 0;
    for (; fail_at < 400; fail_at++) {
        struct core_world fresh;
        struct ps_journal_writer *fresh_writer = NULL;
        disk_journal_world_init(&fresh, 5);
        memory_files_knobs(disk)->seen = 0;
        memory_files_knobs(disk)->fail_at = fail_at;

        status = disk_recover(&fresh, disk, 5, &fresh_writer, &loaded);

        bool failed = memory_files_knobs(disk)->seen > fail_at;
        memory_files_knobs(disk)->fail_at = -1;
        ck_assert(failed || status == PS_OK);
        ck_assert(status == PS_OK || status == PS_ERR_IO || status == PS_ERR_CORRUPT);
        if (status == PS_OK)
            disk_expect_equal(&old, &fresh);
        else
            ck_assert_str_eq(ps_service_state_name(fresh.service), "starting");
        ps_journal_writer_close(fresh_writer);
        world_fini(&fresh);
        end_test();
        begin_test();
        if (!failed)
            break;
    }
    ck_assert_int_lt(fail_at, 400);
    ck_assert_int_gt(fail_at, 10);
}
END_TEST

START_TEST(a_saver_removes_segments_that_the_oldest_checkpoint_covers)
{
    for (int i = 0; i < 3; i++)
        push_durably(20);
    size_t before = disk_count(disk, ".journal");
    ck_assert_uint_gt(before, 2);
    struct ps_saver saver = disk_saver(&old, disk);
    saver.keeps_journal = _i == 1;
    struct ps_checkpoint_place place;
    ck_assert_int_eq(ps_saver_save(&saver, PS_DEADLINE_NEVER, &place, NULL), PS_OK);
    push_durably(1);
    before = disk_count(disk, ".journal");
    ck_assert_int_eq(ps_saver_save(&saver, PS_DEADLINE_NEVER, &place, NULL), PS_OK);

    ck_assert_uint_eq(disk_count(disk, ".journal"), _i == 1 ? before : 1);
    ck_assert_int_eq(recover(), PS_OK);
    disk_expect_equal(&old, &world);
}
END_TEST

START_TEST(what_the_older_checkpoint_needs_is_not_removed)
{
    struct ps_checkpoint_place place;
    push_durably(20);
    disk_save(&old, disk, &place);
    push_durably(20);
    disk_save(&old, disk, &place);
    disk_damage(disk, place.path);

    ck_assert_int_eq(recover(), PS_OK);

    ck_assert_uint_eq(loaded.position, 46);
    disk_expect_equal(&old, &world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_replay");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, the_journal_behind_the_newest_checkpoint_is_replayed);
    tcase_add_test(tests, p1_a_damaged_newest_checkpoint_costs_nothing_with_a_journal);
    tcase_add_test(tests, p1_a_gap_between_checkpoint_and_journal_is_not_passed_over);
    tcase_add_test(tests, p1_a_journal_that_ends_before_a_damaged_checkpoint_is_not_enough);
    tcase_add_test(tests, an_epoch_without_a_journal_goes_back_and_says_what_it_lost);
    tcase_add_test(tests, damage_in_the_middle_ends_recovery_and_is_named);
    tcase_add_test(tests, a_torn_end_is_cut_and_counted);
    tcase_add_test(tests, a_journal_of_which_the_checkpoints_are_gone_is_no_empty_shard);
    tcase_add_test(tests, a_journal_before_the_first_checkpoint_has_nothing_to_lose);
    tcase_add_test(tests, p4_a_checkpoint_of_a_former_owner_is_never_read_as_current);
    tcase_add_test(tests, a_checkpoint_at_which_the_next_owner_began_is_not_stale);
    tcase_add_test(tests, p1_a_segment_of_a_void_epoch_overtakes_no_checkpoint);
    tcase_add_test(tests, p4_segments_of_later_claims_are_not_looked_at);
    tcase_add_test(tests, p4_records_of_a_former_owner_are_not_put_on_a_later_checkpoint);
    tcase_add_test(tests, recovery_goes_over_several_epochs);
    tcase_add_test(tests, any_failing_file_call_gives_everything_or_a_refusal);
    tcase_add_loop_test(tests, a_saver_removes_segments_that_the_oldest_checkpoint_covers, 0, 2);
    tcase_add_test(tests, what_the_older_checkpoint_needs_is_not_removed);
    return run_tests("recovery_replay", tests);
}
