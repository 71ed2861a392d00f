/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_reader.c: what was written comes back. */
#include "journal_disk.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct sample_result read_all(uint64_t position)
{
    return sample_read_on(files, &small, position, ps_allocator_heap());
}

START_TEST(records_come_back_with_and_without_ids)
{
    sample_journal(files, &small, 1, 100, 9, PS_JOURNAL_SEGMENT_BYTES);

    struct sample_result result = read_all(0);

    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.last, 100);
    ck_assert_uint_eq(result.cut, 0);
    ck_assert_uint_eq(result.epoch, 7);
}
END_TEST

START_TEST(ten_thousand_records_come_back_from_many_segments)
{
    sample_journal(files, &small, 1, 10000, 200, 100000);

    struct sample_result result = read_all(0);

    ck_assert_uint_eq(result.last, 10000);
    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_gt(memory_files_file_count(disk), 10);
}
END_TEST

/* Larger than what is read at once, larger than a window, and small ones between. */
START_TEST(contents_of_every_size_come_back)
{
    static const size_t sizes[] = {3000000, 500, 2000, 400000, 5000000, 300, 300, 200000};
    struct sample_shape shape = {.epoch = 7, .format = disk_format};
    struct journal_maker maker;
    sample_maker(&maker, files, &shape, 6, 0, 4000000);
    for (size_t i = 0; i < PS_ARRAY_COUNT(sizes); i++) {
        shape.content_bytes_max = sizes[i];
        sample_make(&maker, &shape, i + 1, i + 1, 1);
    }
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    struct ps_journal_reader *reader = NULL;
    ck_assert_int_eq(
        ps_journal_reader_open(files, SAMPLE_FOLDER, 0, 7, ps_allocator_heap(), &reader, NULL),
        PS_OK);

    for (size_t i = 0; i < PS_ARRAY_COUNT(sizes); i++) {
        struct ps_journal_row row = {0};
        uint64_t cut = 0;
        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
        shape.content_bytes_max = sizes[i];
        sample_assert_row(&row, &shape, i + 1);
        ps_journal_row_release(&row);
    }
    ps_journal_reader_close(reader);
}
END_TEST

START_TEST(reading_begins_behind_any_position)
{
    sample_journal(files, &small, 1, 50, 3, short_segment());
    for (uint64_t position = 0; position <= 50; position++) {
        struct sample_result result = read_all(position);

        ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
        ck_assert_uint_eq(result.last, 50);
    }
}
END_TEST

START_TEST(a_position_behind_the_end_gives_an_empty_journal)
{
    sample_journal(files, &small, 1, 5, 1, short_segment());

    ck_assert_uint_eq(read_all(6).last, 6);
    ck_assert_int_eq(read_all(6).status, PS_ERR_NOT_FOUND);
    ck_assert_int_eq(read_all(UINT64_MAX).status, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(no_folder_and_no_segments_are_an_empty_journal)
{
    ck_assert_int_eq(read_all(0).status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(read_all(0).epoch, 0);
    memory_files_put(disk, "journal/0000000000000007-0000000000000001.journal.tmp",
                     ps_bytes_of_text("x"));
    ck_assert_int_eq(read_all(3).status, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_journal_that_begins_later_is_missing_records)
{
    sample_journal(files, &small, 11, 20, 1, short_segment());

    ck_assert_int_eq(read_all(9).status, PS_ERR_CORRUPT);
    ck_assert_int_eq(read_all(10).status, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_missing_segment_is_damage)
{
    sample_journal(files, &small, 1, 50, 1, short_segment());
    char removed[128];
    (void)strcpy(removed, memory_files_path(disk, 2));
    ck_assert_int_eq(files->remove(files->self, removed, NULL), PS_OK);

    struct sample_result result = read_all(0);

    ck_assert_int_eq(result.status, PS_ERR_CORRUPT);
    ck_assert_str_eq(result.damage.segment, strchr(memory_files_path(disk, 1), '/') + 1);
    ck_assert_uint_eq(result.damage.position, result.last + 1);
}
END_TEST

START_TEST(a_moved_row_keeps_its_content)
{
    sample_journal(files, &small, 1, 1, 1, short_segment());
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    struct ps_journal_row moved = {0};
    uint64_t cut = 0;
    ck_assert_int_eq(
        ps_journal_reader_open(files, SAMPLE_FOLDER, 0, 7, ps_allocator_heap(), &reader, NULL),
        PS_OK);
    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
    ps_journal_reader_close(reader);

    ps_journal_row_move(&moved, &row);

    sample_assert_row(&moved, &small, 1);
    ck_assert_ptr_null(row.block);
    ps_journal_row_release(&row);
    ps_journal_row_release(&moved);
    ps_journal_row_release(&moved);
    ps_journal_row_release(NULL);
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_leaves_nothing_open)
{
    sample_journal(files, &small, 1, 3, 1, short_segment());
    int64_t refused = 0;
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);

        status = sample_read_on(files, &small, 0, &memory).status;

        ck_assert_int_eq(heap.live, 0);
        ck_assert_uint_eq(memory_files_open_count(disk), 0);
    }
    ck_assert_int_eq(status, PS_ERR_NOT_FOUND);
    ck_assert_int_ge(refused, 8);
}
END_TEST

/* Fails the first call of the disk, then the second, and so on. */
START_TEST(a_failing_disk_is_an_error_and_leaves_nothing_open)
{
    sample_journal(files, &small, 1, 30, 1, short_segment());
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    enum ps_status status = PS_ERR_IO;
    int64_t failures = 0;
    for (; status == PS_ERR_IO; failures++) {
        knobs->seen = 0;
        knobs->fail_at = failures;
        status = read_all(0).status;
        ck_assert_uint_eq(memory_files_open_count(disk), 0);
    }
    ck_assert_int_eq(status, PS_ERR_NOT_FOUND);
    ck_assert_int_gt(failures, 10);
}
END_TEST

START_TEST(a_read_that_failed_can_be_repeated)
{
    sample_journal(files, &small, 1, 60, 1, short_segment());
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    struct ps_journal_reader *reader = NULL;
    uint64_t cut = 0;
    uint64_t last = 0;
    size_t failures = 0;
    ck_assert_int_eq(
        ps_journal_reader_open(files, SAMPLE_FOLDER, 0, 7, ps_allocator_heap(), &reader, NULL),
        PS_OK);
    enum ps_status status = PS_OK;
    while (status != PS_ERR_NOT_FOUND) {
        struct ps_journal_row row = {0};
        knobs->fail_at = status == PS_OK ? knobs->seen : -1;
        status = ps_journal_next(reader, &row, &cut, NULL, NULL);
        failures += status == PS_ERR_IO;
        if (status == PS_OK)
            sample_assert_row(&row, &small, ++last);
        ps_journal_row_release(&row);
    }
    knobs->fail_at = -1;
    ck_assert_uint_eq(last, 60);
    ck_assert_uint_gt(failures, 5);
    ps_journal_reader_close(reader);
}
END_TEST

static TCase *make_case(const char *name, SFun set_up_format)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, set_up_format, tear_down);
    tcase_add_test(tests, records_come_back_with_and_without_ids);
    tcase_add_test(tests, ten_thousand_records_come_back_from_many_segments);
    tcase_add_test(tests, contents_of_every_size_come_back);
    tcase_add_test(tests, reading_begins_behind_any_position);
    tcase_add_test(tests, a_position_behind_the_end_gives_an_empty_journal);
    tcase_add_test(tests, no_folder_and_no_segments_are_an_empty_journal);
    tcase_add_test(tests, a_journal_that_begins_later_is_missing_records);
    tcase_add_test(tests, a_missing_segment_is_damage);
    tcase_add_test(tests, a_moved_row_keeps_its_content);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing_open);
    tcase_add_test(tests, a_failing_disk_is_an_error_and_leaves_nothing_open);
    tcase_add_test(tests, a_read_that_failed_can_be_repeated);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("journal_reader");
    suite_add_tcase(suite, make_case("format 1", set_up_format_1));
    suite_add_tcase(suite, make_case("format 2", set_up_format_2));
    return run_suite(suite);
}
