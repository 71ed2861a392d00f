/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_sweep.c: what a recovery needs stays. */
#include "journal_disk.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sample_shape any = {.epoch = 0, .content_bytes_max = 60};

static enum ps_status sweep(uint64_t epoch, uint64_t covered, size_t *removed)
{
    return ps_journal_sweep(files, SAMPLE_FOLDER, epoch, covered, PS_JOURNAL_REMOVE,
                            ps_allocator_heap(), removed, NULL);
}

static void assert_reads(uint64_t position, uint64_t last)
{
    struct sample_result result = sample_read_on(files, &any, position, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "from %u: %s", (unsigned)position,
                  result.error.text);
    ck_assert_uint_eq(result.last, last);
}

/* Three epochs, each of which the one before wrote on behind; so every position up to 90 is
 * read from one of them. */
static void three_epochs(void)
{
    journal(1, 1, 45);
    journal(2, 31, 70);
    journal(5, 61, 90);
}

START_TEST(no_sweep_takes_what_reading_from_the_covered_position_needs)
{
    for (uint64_t covered = 0; covered <= 100; covered++) {
        struct memory_files *whole = disk;
        disk = memory_files_create(1);
        files = memory_files_files(disk);
        three_epochs();
        size_t removed = 0;

        ck_assert_int_eq(sweep(5, covered, &removed), PS_OK);

        for (uint64_t position = covered; position <= 90; position += 6)
            assert_reads(position, 90);
        memory_files_destroy(disk);
        disk = whole;
        files = memory_files_files(disk);
    }
}
END_TEST

START_TEST(what_is_covered_goes_but_for_the_newest_segment)
{
    size_t removed = 0;
    three_epochs();
    size_t before = memory_files_file_count(disk);

    ck_assert_int_eq(sweep(5, 90, &removed), PS_OK);

    ck_assert_uint_eq(removed, before - 1);
    ck_assert_uint_eq(memory_files_file_count(disk), 1);
    assert_reads(90, 90);
}
END_TEST

START_TEST(the_newest_segment_stays_whatever_is_covered)
{
    size_t removed = 0;
    journal(1, 1, 3);

    ck_assert_int_eq(sweep(1, UINT64_MAX, &removed), PS_OK);

    ck_assert_uint_eq(removed, 0);
}
END_TEST

START_TEST(nothing_covered_nothing_removed)
{
    size_t removed = 7;
    three_epochs();

    ck_assert_int_eq(sweep(5, 0, &removed), PS_OK);

    ck_assert_uint_eq(removed, 0);
}
END_TEST

START_TEST(a_former_owner_removes_nothing)
{
    size_t removed = 7;
    three_epochs();
    size_t before = memory_files_file_count(disk);

    ck_assert_int_eq(sweep(2, 90, &removed), PS_ERR_STALE_EPOCH);

    ck_assert_uint_eq(removed, 0);
    ck_assert_uint_eq(memory_files_file_count(disk), before);
}
END_TEST

/* It began too late: the next owner had gone on from the epoch before it. By its name it would even
 * be in the way of what is still needed. */
START_TEST(a_void_epoch_goes_and_takes_nothing_with_it)
{
    char path[128];
    struct ps_bytes content;
    size_t removed = 0;
    journal(1, 1, 40);
    ps_journal_writer_close(sample_writer_from(files, 1, 6, 40, 800));
    ps_journal_writer_close(sample_writer_from(files, 1, 4, 20, 800));

    ck_assert_int_eq(sweep(6, 25, &removed), PS_OK);

    ck_assert_uint_gt(removed, 1);
    ck_assert(!memory_files_get(disk, sample_segment(4, 21, path), &content));
    assert_reads(25, 40);
}
END_TEST

START_TEST(other_files_stay)
{
    size_t removed = 0;
    three_epochs();
    memory_files_put(disk, "journal/0000000000000001-0000000000000001-u.safetensors",
                     ps_bytes_of_text("x"));

    ck_assert_int_eq(sweep(5, 90, &removed), PS_OK);

    ck_assert_uint_eq(memory_files_file_count(disk), 2);
}
END_TEST

START_TEST(segments_that_were_never_finished_go_with_their_epoch)
{
    char path[128];
    char left[3][160];
    struct ps_bytes content;
    size_t removed = 9;
    journal(3, 1, 2);
    for (uint64_t epoch = 2; epoch <= 4; epoch++) {
        (void)snprintf(left[epoch - 2], sizeof left[0], "%s.tmp", sample_segment(epoch, 1, path));
        memory_files_put(disk, left[epoch - 2], ps_bytes_of_text("begun"));
    }

    ck_assert_int_eq(sweep(3, 0, &removed), PS_OK);

    ck_assert(!memory_files_get(disk, left[0], &content));
    ck_assert(memory_files_get(disk, left[1], &content));
    ck_assert(memory_files_get(disk, left[2], &content));
    ck_assert_uint_eq(removed, 0);
    assert_reads(0, 2);
}
END_TEST

START_TEST(a_folder_that_is_not_there_has_nothing_to_sweep)
{
    size_t removed = 7;

    ck_assert_int_eq(sweep(5, 90, &removed), PS_OK);

    ck_assert_uint_eq(removed, 0);
}
END_TEST

START_TEST(a_file_that_cannot_be_removed_does_not_keep_the_others)
{
    size_t removed = 0;
    three_epochs();
    size_t before = memory_files_file_count(disk);
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_mask = 1u << MEMORY_REMOVE;
    knobs->seen = 0;
    knobs->fail_at = 1;

    ck_assert_int_eq(sweep(5, 90, &removed), PS_ERR_IO);

    ck_assert_uint_eq(removed, before - 2);
    assert_reads(90, 90);
}
END_TEST

START_TEST(a_crash_at_any_call_of_a_sweep_leaves_the_journal_readable)
{
    enum ps_status status = PS_ERR_IO;
    for (int64_t power = 0; status != PS_OK; power++) {
        struct memory_files *whole = disk;
        disk = memory_files_create((uint64_t)power);
        files = memory_files_files(disk);
        three_epochs();
        size_t removed = 0;
        memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + power;

        status = sweep(5, 80, &removed);
        memory_files_knobs(disk)->fail_from = -1;
        memory_files_crash(disk, MEMORY_CRASH_SEEDED);

        for (uint64_t position = 80; position <= 90; position++)
            assert_reads(position, 90);
        memory_files_destroy(disk);
        disk = whole;
        files = memory_files_files(disk);
    }
}
END_TEST

START_TEST(a_refused_allocation_removes_nothing)
{
    three_epochs();
    size_t before = memory_files_file_count(disk);
    size_t removed = 0;
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);

    ck_assert_int_eq(
        ps_journal_sweep(files, SAMPLE_FOLDER, 5, 90, PS_JOURNAL_REMOVE, &memory, &removed, NULL),
        PS_ERR_NO_MEMORY);

    ck_assert_uint_eq(memory_files_file_count(disk), before);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_sweep");
    TCase *tests = tcase_create("journal_sweep");
    tcase_add_checked_fixture(tests, set_up_format_2, tear_down);
    tcase_add_test(tests, no_sweep_takes_what_reading_from_the_covered_position_needs);
    tcase_add_test(tests, what_is_covered_goes_but_for_the_newest_segment);
    tcase_add_test(tests, the_newest_segment_stays_whatever_is_covered);
    tcase_add_test(tests, nothing_covered_nothing_removed);
    tcase_add_test(tests, a_former_owner_removes_nothing);
    tcase_add_test(tests, a_void_epoch_goes_and_takes_nothing_with_it);
    tcase_add_test(tests, other_files_stay);
    tcase_add_test(tests, segments_that_were_never_finished_go_with_their_epoch);
    tcase_add_test(tests, a_folder_that_is_not_there_has_nothing_to_sweep);
    tcase_add_test(tests, a_file_that_cannot_be_removed_does_not_keep_the_others);
    tcase_add_test(tests, a_crash_at_any_call_of_a_sweep_leaves_the_journal_readable);
    tcase_add_test(tests, a_refused_allocation_removes_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
