/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_writer.c: what is durable when, and what a failure does. */
#include "journal_disk.h"
#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct sample_shape shape = {.epoch = 7, .content_bytes_max = 100};

static uint64_t count_of(enum memory_files_operation operation)
{
    return memory_files_knobs(disk)->count[operation];
}

static void assert_reads(uint64_t last)
{
    struct sample_result result = sample_read_on(files, &shape, 0, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_eq(result.last, last);
    ck_assert_uint_eq(result.cut, 0);
}

START_TEST(an_open_journal_is_durable_before_anything_is_written)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 41, 800);
    char path[128];
    struct ps_bytes content;

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    ck_assert(memory_files_get(disk, sample_segment(7, 42, path), &content));
    ck_assert_uint_eq(content.size, 4096);
    ck_assert_uint_eq(ps_journal_writer_position(writer), 41);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(one_sync_makes_a_batch_durable)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, PS_JOURNAL_SEGMENT_BYTES);
    uint64_t syncs = count_of(MEMORY_SYNC);

    ck_assert_int_eq(sample_append(writer, &shape, 1, 200, 200), PS_OK);

    ck_assert_uint_eq(count_of(MEMORY_SYNC), syncs + 1);
    ck_assert_uint_eq(ps_journal_writer_position(writer), 200);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ps_journal_writer_close(writer);
    assert_reads(200);
}
END_TEST

START_TEST(no_records_are_nothing_to_sync)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    uint64_t syncs = count_of(MEMORY_SYNC);

    ck_assert_int_eq(ps_journal_write(writer, NULL, 0, NULL), PS_OK);

    ck_assert_uint_eq(count_of(MEMORY_SYNC), syncs);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(a_full_segment_is_followed_by_another)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    size_t segments = 0;

    ck_assert_int_eq(sample_append(writer, &shape, 1, 100, 4), PS_OK);

    ps_journal_writer_close(writer);
    for (size_t i = 0; i < memory_files_file_count(disk); i++) {
        struct ps_bytes content;
        ck_assert(memory_files_get(disk, memory_files_path(disk, i), &content));
        ck_assert_uint_le(content.size, 8192);
        segments++;
    }
    ck_assert_uint_gt(segments, 5);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    assert_reads(100);
}
END_TEST

/* More pieces than one write takes: heads, contents and zeros of one record go on in the next. */
START_TEST(a_content_of_very_many_pieces_is_written_whole)
{
    enum { PIECES = 5000 };
    static uint8_t bytes[PIECES];
    static struct ps_bytes pieces[PIECES];
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, PS_JOURNAL_SEGMENT_BYTES);
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    for (size_t i = 0; i < PIECES; i++) {
        bytes[i] = (uint8_t)(i * 31);
        pieces[i] = (struct ps_bytes){&bytes[i], 1};
    }
    struct ps_record record = {.type = PS_RECORD_PUSH,
                               .position = 1,
                               .epoch = 7,
                               .name = ps_bytes_of_text("w"),
                               .content = {pieces, PIECES, PIECES}};
    ck_assert_int_eq(ps_journal_write(writer, &record, 1, NULL), PS_OK);
    ps_journal_writer_close(writer);

    ck_assert_int_eq(
        ps_journal_reader_open(files, SAMPLE_FOLDER, 0, 7, ps_allocator_heap(), &reader, NULL),
        PS_OK);
    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
    ck_assert(ps_bytes_equal(row.piece, (struct ps_bytes){bytes, PIECES}));
    ps_journal_row_release(&row);
    ps_journal_reader_close(reader);
}
END_TEST

START_TEST(the_same_epoch_and_position_is_not_begun_twice)
{
    struct ps_journal_facts facts = {.epoch = 7};
    struct ps_journal_writer *second = NULL;
    ps_journal_writer_close(sample_writer(files, 7, 0, 8192));

    ck_assert_int_eq(ps_journal_writer_open(files, SAMPLE_FOLDER, &facts,
                                            &(struct ps_journal_setup){.segment_bytes = 8192},
                                            ps_allocator_heap(), &second, NULL),
                     PS_ERR_EXISTS);

    ck_assert_ptr_null(second);
    ck_assert_uint_eq(memory_files_file_count(disk), 1);
}
END_TEST

START_TEST(there_is_no_position_behind_the_last)
{
    struct ps_journal_facts facts = {.epoch = 7, .position = UINT64_MAX};
    struct ps_journal_writer *writer = NULL;

    ck_assert_int_eq(ps_journal_writer_open(files, SAMPLE_FOLDER, &facts,
                                            &(struct ps_journal_setup){.segment_bytes = 8192},
                                            ps_allocator_heap(), &writer, NULL),
                     PS_ERR_OUT_OF_RANGE);
}
END_TEST

START_TEST(a_gap_in_the_positions_aborts)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);

    (void)sample_append(writer, &shape, 2, 2, 1);
}
END_TEST

START_TEST(a_record_of_another_epoch_aborts)
{
    struct ps_journal_writer *writer = sample_writer(files, 8, 0, 800);

    (void)sample_append(writer, &shape, 1, 1, 1);
}
END_TEST

START_TEST(a_failed_sync_is_final)
{
    struct fault_files fault = {.under = files, .calls = FAULT_SYNC, .fail_at = 2};
    struct ps_files faulty = fault_files_files(&fault);
    struct ps_journal_writer *writer = sample_writer(&faulty, 7, 0, 8192);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 1, 1), PS_OK);

    ck_assert_int_eq(sample_append(writer, &shape, 2, 2, 1), PS_ERR_IO);

    ck_assert_int_eq(sample_append(writer, &shape, 2, 2, 1), PS_ERR_IO);
    ck_assert_int_eq(sample_append(writer, &shape, 3, 3, 1), PS_ERR_IO);
    ck_assert_int_eq(fault.seen, 3);
    ck_assert_int_eq(fault.open, 0);
    ck_assert_uint_eq(ps_journal_writer_position(writer), 1);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(every_later_call_repeats_the_first_failure)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, PS_JOURNAL_SEGMENT_BYTES);
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    struct ps_record record = {
        .type = PS_RECORD_PUSH, .position = 1, .epoch = 7, .name = ps_bytes_of_text("w")};
    struct ps_error first = {0};
    struct ps_error second = {0};
    knobs->fail_at = knobs->seen;
    ck_assert_int_eq(ps_journal_write(writer, &record, 1, &first), PS_ERR_IO);
    int64_t calls = knobs->seen;

    ck_assert_int_eq(ps_journal_write(writer, &record, 1, &second), PS_ERR_IO);

    ck_assert_str_eq(first.text, second.text);
    ck_assert_int_eq(knobs->seen, calls);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(a_full_disk_ends_the_journal_where_it_is)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    uint64_t durable = 0;
    memory_files_knobs(disk)->bytes_max = 100000;
    while (sample_append(writer, &shape, durable + 1, durable + 1, 1) == PS_OK)
        durable++;
    ps_journal_writer_close(writer);

    ck_assert_uint_gt(durable, 10);
    ck_assert_uint_ge(sample_read_on(files, &shape, 0, ps_allocator_heap()).last, durable);
    ck_assert_int_eq(sample_read_on(files, &shape, 0, ps_allocator_heap()).status,
                     PS_ERR_NOT_FOUND);
}
END_TEST

/* Makes the next operation fail, or the one after, and so on; writes 4..6, which fails. */
static struct ps_journal_writer *dead_writer(int64_t operation)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, PS_JOURNAL_SEGMENT_BYTES);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 3, 1), PS_OK);
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen + operation;
    ck_assert_int_eq(sample_append(writer, &shape, 4, 6, 3), PS_ERR_IO);
    ck_assert_uint_eq(ps_journal_writer_position(writer), 3);
    return writer;
}

/* The write and the sync, as each may fail; what the failed one left is not read. */
START_TEST(a_revived_writer_goes_on_in_another_file)
{
    char path[128];
    struct ps_bytes content;
    struct ps_journal_writer *writer = dead_writer(_i);

    ck_assert_int_eq(ps_journal_writer_revive(writer, NULL), PS_OK);

    ck_assert_uint_eq(ps_journal_writer_position(writer), 3);
    ck_assert(memory_files_get(disk, sample_segment(7, 4, path), &content));
    ck_assert_int_eq(sample_append(writer, &shape, 4, 9, 2), PS_OK);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    assert_reads(9);
    ps_journal_writer_close(writer);
}
END_TEST

/* Nothing in the file had become durable but its beginning: the new one has the same name. */
START_TEST(a_file_with_nothing_durable_is_replaced)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen + 1;
    ck_assert_int_eq(sample_append(writer, &shape, 1, 3, 3), PS_ERR_IO);

    ck_assert_int_eq(ps_journal_writer_revive(writer, NULL), PS_OK);

    ck_assert_uint_eq(memory_files_file_count(disk), 1);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 20, 3), PS_OK);
    assert_reads(20);
    ps_journal_writer_close(writer);
}
END_TEST

/* And the power may go in the middle of it: what was durable is, and the epoch has not vanished. */
START_TEST(a_revival_that_fails_can_be_tried_again)
{
    struct ps_journal_writer *writer = dead_writer(1);
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_at = knobs->seen + _i;

    enum ps_status status = ps_journal_writer_revive(writer, NULL);
    if (status != PS_OK) {
        ck_assert_int_eq(status, PS_ERR_IO);
        ck_assert_int_ne(sample_append(writer, &shape, 4, 4, 1), PS_OK);
        knobs->fail_at = -1;
        ck_assert_int_eq(ps_journal_writer_revive(writer, NULL), PS_OK);
    }
    ck_assert(status != PS_OK || _i == 0 || _i == 6); /* removing leftovers may fail */

    ck_assert_int_eq(sample_append(writer, &shape, 4, 9, 2), PS_OK);
    ck_assert_uint_eq(memory_files_file_count(disk), 2);
    assert_reads(9);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(a_crash_in_a_revival_loses_nothing)
{
    struct ps_journal_writer *writer = dead_writer(1);
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_from = knobs->seen + _i;

    (void)!ps_journal_writer_revive(writer, NULL);
    knobs->fail_from = -1;
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    struct sample_result result = sample_read_on(files, &shape, 0, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_ge(result.last, 3);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(a_living_writer_is_not_revived)
{
    (void)!ps_journal_writer_revive(sample_writer(files, 7, 0, 8192), NULL);
}
END_TEST

/* Each call of opening fails in turn; nothing is left that would be in the way. */
/* Writes to it go on well, as on a real disk. */
START_TEST(a_segment_that_was_removed_is_left)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 64 * 1024);
    char path[128];
    ck_assert_int_eq(sample_append(writer, &shape, 1, 10, 2), PS_OK);
    ck_assert(ps_journal_writer_look(writer));
    ck_assert_int_eq(files->remove(files->self, sample_segment(7, 1, path), NULL), PS_OK);
    ck_assert_int_eq(sample_append(writer, &shape, 11, 12, 2), PS_OK);

    ck_assert(!ps_journal_writer_look(writer));
    ck_assert_int_eq(sample_append(writer, &shape, 13, 20, 2), PS_OK);
    ck_assert(ps_journal_writer_look(writer));
    ps_journal_writer_close(writer);

    /* A checkpoint has what was before. */
    struct sample_result result = sample_read_on(files, &shape, 12, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_eq(result.last, 20);
}
END_TEST

START_TEST(an_open_that_fails_leaves_no_segment)
{
    int64_t fail_at = 0;
    bool fired = true;
    for (; fired; fail_at++) {
        struct fault_files fault = {
            .under = files, .calls = FAULT_ANY & ~(uint32_t)FAULT_REMOVE, .fail_at = fail_at};
        struct ps_files faulty = fault_files_files(&fault);
        struct ps_journal_facts facts = {.epoch = 7};
        struct ps_journal_writer *writer = NULL;

        enum ps_status status = ps_journal_writer_open(
            &faulty, SAMPLE_FOLDER, &facts, &(struct ps_journal_setup){.segment_bytes = 8192},
            ps_allocator_heap(), &writer, NULL);

        fired = fault.fired;
        ck_assert_int_eq(status, fired ? PS_ERR_IO : PS_OK);
        ck_assert_uint_eq(memory_files_file_count(disk), fired ? 0 : 1);
        ps_journal_writer_close(writer);
        ck_assert_int_eq(fault.open, 0);
    }
    ck_assert_int_gt(fail_at, 5);
}
END_TEST

START_TEST(a_refused_allocation_touches_no_file)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    int64_t refused = 0;
    for (; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_journal_facts facts = {.epoch = 7};
        struct ps_journal_writer *writer = NULL;

        status = ps_journal_writer_open(files, SAMPLE_FOLDER, &facts,
                                        &(struct ps_journal_setup){.segment_bytes = 8192}, &memory,
                                        &writer, NULL);

        ck_assert_uint_eq(memory_files_file_count(disk), status == PS_OK ? 1 : 0);
        ps_journal_writer_close(writer);
        ck_assert_int_eq(heap.live, 0);
    }
    ck_assert_int_eq(refused, 4);
}
END_TEST

START_TEST(writing_allocates_nothing)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_journal_facts facts = {.epoch = 7};
    struct ps_journal_writer *writer = NULL;
    ck_assert_int_eq(ps_journal_writer_open(files, SAMPLE_FOLDER, &facts,
                                            &(struct ps_journal_setup){.segment_bytes = 8192},
                                            &memory, &writer, NULL),
                     PS_OK);
    int64_t seen = heap.seen;

    ck_assert_int_eq(sample_append(writer, &shape, 1, 100, 7), PS_OK);

    ck_assert_int_eq(heap.seen, seen);
    ps_journal_writer_close(writer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_writer");
    TCase *tests = tcase_create("journal_writer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_open_journal_is_durable_before_anything_is_written);
    tcase_add_test(tests, one_sync_makes_a_batch_durable);
    tcase_add_test(tests, no_records_are_nothing_to_sync);
    tcase_add_test(tests, a_full_segment_is_followed_by_another);
    tcase_add_test(tests, a_content_of_very_many_pieces_is_written_whole);
    tcase_add_test(tests, the_same_epoch_and_position_is_not_begun_twice);
    tcase_add_test(tests, there_is_no_position_behind_the_last);
    tcase_add_test_raise_signal(tests, a_gap_in_the_positions_aborts, SIGABRT);
    tcase_add_test_raise_signal(tests, a_record_of_another_epoch_aborts, SIGABRT);
    tcase_add_test(tests, a_failed_sync_is_final);
    tcase_add_test(tests, every_later_call_repeats_the_first_failure);
    tcase_add_test(tests, a_full_disk_ends_the_journal_where_it_is);
    tcase_add_loop_test(tests, a_revived_writer_goes_on_in_another_file, 0, 2);
    tcase_add_test(tests, a_file_with_nothing_durable_is_replaced);
    tcase_add_loop_test(tests, a_revival_that_fails_can_be_tried_again, 0, 7);
    tcase_add_loop_test(tests, a_crash_in_a_revival_loses_nothing, 0, 7);
    tcase_add_test_raise_signal(tests, a_living_writer_is_not_revived, SIGABRT);
    tcase_add_test(tests, a_segment_that_was_removed_is_left);
    tcase_add_test(tests, an_open_that_fails_leaves_no_segment);
    tcase_add_test(tests, a_refused_allocation_touches_no_file);
    tcase_add_test(tests, writing_allocates_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
