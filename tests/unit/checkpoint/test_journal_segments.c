/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_segments.c: names of segments, and lists of them. */
#include "checkpoint/journal_segments.h"
#include "journal_disk.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void put(uint64_t epoch, uint64_t first)
{
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_journal_segment segment = {epoch, first};
    ck_assert_int_eq(ps_journal_path_write("j", segment, path, NULL), PS_OK);
    memory_files_put(disk, path, ps_bytes_of_text("x"));
}

START_TEST(a_name_comes_back)
{
    struct ps_journal_segment segment = {0x1f, 0xfedcba9876543210};
    struct ps_journal_segment read = {0};
    char name[PS_JOURNAL_NAME_BYTES];

    ps_journal_name_write(segment, name);

    ck_assert_str_eq(name, "000000000000001f-fedcba9876543210.journal");
    ck_assert(ps_journal_name_read(name, &read));
    ck_assert_uint_eq(read.epoch, segment.epoch);
    ck_assert_uint_eq(read.first, segment.first);
}
END_TEST

START_TEST(other_names_are_no_segments)
{
    static const char *const others[] = {
        "",
        "journal",
        "000000000000001f-fedcba9876543210.journal.tmp",
        "000000000000001f-fedcba9876543210.journal2",
        "000000000000001F-fedcba9876543210.journal",
        "000000000000001f_fedcba9876543210.journal",
        "00000000000001f-fedcba9876543210.journal",
        "000000000000001f-fedcba987654321g.journal",
        "0000000000000007-00000000000003e8-u-1.safetensors",
    };
    for (size_t i = 0; i < PS_ARRAY_COUNT(others); i++) {
        struct ps_journal_segment read = {5, 6};

        ck_assert_msg(!ps_journal_name_read(others[i], &read), "%s", others[i]);

        ck_assert_uint_eq(read.epoch, 5);
    }
}
END_TEST

START_TEST(segments_are_listed_by_epoch_and_position)
{
    put(2, 5);
    put(1, 9);
    put(3, 4);
    put(1, 1);
    memory_files_put(disk, "j/other", ps_bytes_of_text("x"));
    struct ps_journal_segments segments;

    ck_assert_int_eq(
        ps_journal_segments_init(&segments, files, "j", UINT64_MAX, ps_allocator_heap(), NULL),
        PS_OK);

    ck_assert_uint_eq(segments.count, 4);
    ck_assert_uint_eq(segments.entries[0].first, 1);
    ck_assert_uint_eq(segments.entries[1].first, 9);
    ck_assert_uint_eq(segments.entries[2].epoch, 2);
    ck_assert_uint_eq(segments.entries[3].epoch, 3);
    ck_assert(!ps_journal_segments_last(&segments, 0));
    ck_assert(ps_journal_segments_last(&segments, 1));
    ck_assert(ps_journal_segments_last(&segments, 3));
    ps_journal_segments_fini(&segments);
}
END_TEST

START_TEST(epochs_beyond_the_highest_wanted_are_left_out)
{
    put(1, 1);
    put(2, 5);
    struct ps_journal_segments segments;

    ck_assert_int_eq(ps_journal_segments_init(&segments, files, "j", 1, ps_allocator_heap(), NULL),
                     PS_OK);

    ck_assert_uint_eq(segments.count, 1);
    ps_journal_segments_fini(&segments);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_empty)
{
    struct ps_journal_segments segments;

    ck_assert_int_eq(
        ps_journal_segments_init(&segments, files, "no", UINT64_MAX, ps_allocator_heap(), NULL),
        PS_OK);

    ck_assert_uint_eq(segments.count, 0);
    ps_journal_segments_fini(&segments);
    ps_journal_segments_fini(NULL);
}
END_TEST

START_TEST(a_folder_that_cannot_be_listed_is_an_error)
{
    struct ps_journal_segments segments;
    memory_files_knobs(disk)->fail_at = 0;

    ck_assert_int_eq(
        ps_journal_segments_init(&segments, files, "no", UINT64_MAX, ps_allocator_heap(), NULL),
        PS_ERR_IO);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    for (uint64_t i = 0; i < 40; i++)
        put(1, i);
    enum ps_status status = PS_ERR_NO_MEMORY;
    int64_t refused = 0;
    for (; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_journal_segments segments;

        status = ps_journal_segments_init(&segments, files, "j", UINT64_MAX, &memory, NULL);

        if (status == PS_OK)
            ps_journal_segments_fini(&segments);
        ck_assert_int_eq(heap.live, 0);
    }
    ck_assert_int_eq(refused, 4);
}
END_TEST

START_TEST(a_path_that_is_too_long_is_an_error)
{
    char folder[PS_JOURNAL_PATH_BYTES];
    char path[PS_JOURNAL_PATH_BYTES];
    memset(folder, 'f', sizeof folder);
    folder[sizeof folder - 40] = '\0';

    ck_assert_int_eq(ps_journal_path_write(folder, (struct ps_journal_segment){1, 1}, path, NULL),
                     PS_ERR_IO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_segments");
    TCase *tests = tcase_create("journal_segments");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_name_comes_back);
    tcase_add_test(tests, other_names_are_no_segments);
    tcase_add_test(tests, segments_are_listed_by_epoch_and_position);
    tcase_add_test(tests, epochs_beyond_the_highest_wanted_are_left_out);
    tcase_add_test(tests, a_folder_that_is_not_there_is_empty);
    tcase_add_test(tests, a_folder_that_cannot_be_listed_is_an_error);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing);
    tcase_add_test(tests, a_path_that_is_too_long_is_an_error);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
