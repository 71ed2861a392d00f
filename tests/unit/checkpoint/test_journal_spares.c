/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_spares.c, and segments that are written over: what was is never read again. */
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_spares.h"
#include "journal_disk.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const struct sample_shape shape = {.epoch = 7, .content_bytes_max = 100};

static size_t files_with(const char *suffix)
{
    size_t count = 0;
    for (size_t i = 0; i < memory_files_file_count(disk); i++) {
        const char *path = memory_files_path(disk, i);
        size_t length = strlen(path);
        count += length > strlen(suffix) && strcmp(path + length - strlen(suffix), suffix) == 0;
    }
    return count;
}

static size_t sweep(uint64_t epoch, uint64_t covered)
{
    size_t removed = 0;
    ck_assert_int_eq(ps_journal_sweep(files, SAMPLE_FOLDER, epoch, covered, PS_JOURNAL_KEEP,
                                      ps_allocator_heap(), &removed, NULL),
                     PS_OK);
    return removed;
}

static void assert_reads(uint64_t from, uint64_t last)
{
    struct sample_result result = sample_read_on(files, &shape, from, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_eq(result.last, last);
    ck_assert_uint_eq(result.cut, 0);
}

START_TEST(swept_segments_become_the_next_ones)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 40, 2), PS_OK);
    size_t before = memory_files_file_count(disk);
    ck_assert_uint_gt(before, 5);

    ck_assert_uint_gt(sweep(7, 40), 3);
    ck_assert_uint_eq(memory_files_file_count(disk), before);
    ck_assert_uint_eq(files_with(".spare"), before - files_with(".journal"));
    ck_assert_int_eq(sample_append(writer, &shape, 41, 60, 2), PS_OK);

    ck_assert_uint_eq(memory_files_file_count(disk), before);
    ck_assert_uint_eq(files_with(".tmp"), 0);
    ps_journal_writer_close(writer);
    assert_reads(40, 60);
}
END_TEST

/* The remains of the file's former life follow the end without a gap, and fit in all but the salt:
 * the same epoch, records of the same sizes at the same places. */
START_TEST(records_of_a_former_life_are_not_read)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 64 * 1024);
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t first = round * 300;
        ck_assert_int_eq(sample_append(writer, &shape, first + 1, first + 290, 7), PS_OK);
        assert_reads(first, first + 290);
        ck_assert_int_eq(sample_append(writer, &shape, first + 291, first + 300, 10), PS_OK);
        (void)sweep(7, first + 300);
    }
    ps_journal_writer_close(writer);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    assert_reads(1200, 1200);
}
END_TEST

START_TEST(what_was_not_wanted_is_removed_by_the_next_sweep)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 40, 2), PS_OK);
    (void)sweep(7, 40);
    ck_assert_uint_gt(files_with(".spare"), 2);

    (void)sweep(7, 40);

    ck_assert_uint_eq(files_with(".spare"), 0);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(segments_and_spares_of_other_epochs_are_removed)
{
    struct sample_shape later = shape;
    later.epoch = 8;
    sample_journal(files, &shape, 1, 20, 2, 8192);
    struct ps_journal_writer *writer = sample_writer(files, 8, 20, 65536);
    memory_files_put(disk, SAMPLE_FOLDER "/0000000000000007-0000000000000001.spare",
                     ps_bytes_of_text("old"));
    memory_files_put(disk, SAMPLE_FOLDER "/0000000000000009-0000000000000001.spare",
                     ps_bytes_of_text("later"));
    ck_assert_int_eq(sample_append(writer, &later, 21, 24, 2), PS_OK);

    (void)sweep(8, 20);

    ck_assert_uint_eq(files_with(".spare"), 1);
    ck_assert_uint_eq(files_with(".journal"), 1);
    ps_journal_writer_close(writer);
}
END_TEST

START_TEST(only_the_own_epochs_spares_are_taken)
{
    bool taken = true;
    memory_files_put(disk, SAMPLE_FOLDER "/0000000000000007-0000000000000001.spare",
                     ps_bytes_of_text("old"));

    ck_assert_int_eq(ps_journal_spare_take(files, SAMPLE_FOLDER, (struct ps_journal_segment){8, 0},
                                           SAMPLE_FOLDER "/new", &taken, NULL),
                     PS_OK);

    ck_assert(!taken);
    ck_assert_uint_eq(files_with(".spare"), 1);
    ck_assert_int_eq(ps_journal_spare_take(files, SAMPLE_FOLDER, (struct ps_journal_segment){7, 0},
                                           SAMPLE_FOLDER "/new", &taken, NULL),
                     PS_OK);
    ck_assert(taken);
    ck_assert_uint_eq(files_with("/new"), 1);
}
END_TEST

/* The power goes at any call while segments are swept and written over: what was durable and is not
 * covered can be read, and nothing looks damaged. */
/* A file of which a sync has failed is not believed again. */
START_TEST(a_segment_that_failed_is_not_written_over)
{
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 10, 2), PS_OK);
    memory_files_knobs(disk)->fail_mask = 1u << MEMORY_SYNC;
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen;
    ck_assert_int_eq(sample_append(writer, &shape, 11, 12, 2), PS_ERR_IO);
    memory_files_knobs(disk)->fail_at = -1;
    ck_assert_int_eq(ps_journal_writer_revive(writer, NULL), PS_OK);
    ck_assert_int_eq(sample_append(writer, &shape, 11, 20, 2), PS_OK);
    (void)sweep(7, 20);
    size_t before = memory_files_file_count(disk);
    ck_assert_uint_gt(files_with(".spare"), 3);

    ck_assert_int_eq(sample_append(writer, &shape, 21, 80, 2), PS_OK);

    ck_assert_uint_gt(memory_files_file_count(disk), before);
    ck_assert_uint_gt(files_with(".spare"), 2);
    ps_journal_writer_close(writer);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    assert_reads(20, 80);
}
END_TEST

/* A backup copies segments while the server goes on: it has opened them, and they were swept. */
START_TEST(what_somebody_reads_is_not_written_over)
{
    static uint8_t before[64 * 1024];
    static uint8_t after[64 * 1024];
    struct ps_journal_segment first = {7, 1};
    char path[PS_JOURNAL_PATH_BYTES];
    struct ps_file reader;
    size_t size = 0;
    size_t got = 0;
    struct ps_journal_writer *writer = sample_writer(files, 7, 0, 8192);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 40, 2), PS_OK);
    ck_assert_int_eq(ps_journal_path_write(SAMPLE_FOLDER, first, path, NULL), PS_OK);
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_READ, &reader, NULL), PS_OK);
    ck_assert_int_eq(files->read(files->self, reader, 0, before, sizeof before, &size, NULL),
                     PS_OK);
    ck_assert_uint_gt(sweep(7, 40), 3);
    size_t kept = files_with(".spare");

    ck_assert_int_eq(sample_append(writer, &shape, 41, 60, 2), PS_OK);

    ck_assert_int_eq(files->read(files->self, reader, 0, after, sizeof after, &got, NULL), PS_OK);
    ck_assert_uint_eq(got, size);
    ck_assert_mem_eq(after, before, size);
    /* It is not kept for later either, and the others were written over. */
    ck_assert_uint_lt(files_with(".spare"), kept - 1);
    files->close(files->self, reader);
    ps_journal_writer_close(writer);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    assert_reads(40, 60);
}
END_TEST

START_TEST(a_crash_at_any_call_keeps_what_is_not_covered)
{
    bool whole = false;
    int64_t power = 0;
    for (; !whole; power++) {
        struct memory_files *other = memory_files_create((uint64_t)power);
        const struct ps_files *calls = memory_files_files(other);
        struct ps_journal_writer *writer = sample_writer(calls, 7, 0, 8192);
        uint64_t covered = 0;
        memory_files_knobs(other)->fail_from = memory_files_knobs(other)->seen + power;
        whole = true;
        for (uint64_t round = 0; round < 4 && whole; round++) {
            size_t removed = 0;
            whole = sample_append(writer, &shape, round * 10 + 1, round * 10 + 10, 3) == PS_OK;
            if (whole)
                covered = round * 10 + 5;
            whole = whole && ps_journal_sweep(calls, SAMPLE_FOLDER, 7, covered, PS_JOURNAL_KEEP,
                                              ps_allocator_heap(), &removed, NULL) == PS_OK;
        }
        uint64_t durable = ps_journal_writer_position(writer);
        ps_journal_writer_close(writer);
        memory_files_knobs(other)->fail_from = -1;
        memory_files_crash(other, MEMORY_CRASH_SEEDED);

        struct sample_result result = sample_read_on(calls, &shape, covered, ps_allocator_heap());
        ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "power %d: %s", (int)power,
                      result.error.text);
        ck_assert_uint_ge(result.last, durable);
        memory_files_destroy(other);
    }
    ck_assert_int_gt(power, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_spares");
    TCase *tests = tcase_create("journal_spares");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, swept_segments_become_the_next_ones);
    tcase_add_test(tests, records_of_a_former_life_are_not_read);
    tcase_add_test(tests, what_was_not_wanted_is_removed_by_the_next_sweep);
    tcase_add_test(tests, segments_and_spares_of_other_epochs_are_removed);
    tcase_add_test(tests, only_the_own_epochs_spares_are_taken);
    tcase_add_test(tests, a_segment_that_failed_is_not_written_over);
    tcase_add_test(tests, what_somebody_reads_is_not_written_over);
    tcase_add_test(tests, a_crash_at_any_call_keeps_what_is_not_covered);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
