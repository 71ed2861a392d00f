/* SPDX-License-Identifier: Apache-2.0 */
/* base/write_behind.c: the caller goes on while a write is at work, and hears of every failure. */
#include "base/write_behind.h"

#include "base/clock.h"
#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A disk whose writes wait at a gate: memory, behind files that fail on demand. */
static struct memory_files *disk;
static struct fault_files fault;
static struct ps_files faulty;
static struct ps_files files;
static struct ps_mutex mutex; /* guards what follows */
static struct ps_condition changed;
static bool gate_is_shut;
static uint32_t arrived; /* writes that came to the gate */

static struct ps_write_behind *behind;
static struct ps_file file;
static struct ps_error error;

static enum ps_status write_at_gate(void *self, struct ps_file into, uint64_t offset,
                                    struct ps_bytes bytes, struct ps_error *why)
{
    ps_mutex_lock(&mutex);
    arrived++;
    ps_condition_signal_all(&changed);
    while (gate_is_shut)
        (void)ps_condition_wait(&changed, &mutex, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&mutex);
    return faulty.write_over(self, into, offset, bytes, why);
}

static void begin(struct ps_write_behind *at, uint64_t offset, const char *text, bool sync)
{
    const struct ps_write_piece piece = {offset, ps_bytes_of_text(text)};
    ps_write_behind_begin(at, file, &piece, 1, sync);
}

static void shut_gate(bool shut)
{
    ps_mutex_lock(&mutex);
    gate_is_shut = shut;
    ps_condition_signal_all(&changed);
    ps_mutex_unlock(&mutex);
}

static void expect_arrivals(uint32_t count)
{
    ps_mutex_lock(&mutex);
    while (arrived < count)
        (void)ps_condition_wait(&changed, &mutex, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&mutex);
}

static void set_up(void)
{
    disk = memory_files_create(3);
    fault = (struct fault_files){.under = memory_files_files(disk), .fail_at = -1};
    faulty = fault_files_files(&fault);
    files = faulty;
    files.write_over = write_at_gate;
    gate_is_shut = false;
    arrived = 0;
    ps_mutex_init(&mutex, PS_RANK_LEAF);
    ps_condition_init(&changed);
    ck_assert_int_eq(files.open(files.self, "a", PS_FILE_CREATE_NEW, &file, &error), PS_OK);
    ck_assert_int_eq(files.sync_folder(files.self, ".", &error), PS_OK);
    ck_assert_int_eq(
        ps_write_behind_create(&files, "write-behind", ps_allocator_heap(), &behind, &error),
        PS_OK);
}

static void tear_down(void)
{
    ps_write_behind_destroy(behind);
    files.close(files.self, file);
    memory_files_destroy(disk);
    ps_condition_fini(&changed);
    ps_mutex_fini(&mutex);
}

/* After a wait, so that the disk is this thread's again. */
static void expect_after_power_loss(const char *expected)
{
    struct ps_bytes content;
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ck_assert(memory_files_get(disk, "a", &content));
    ck_assert(ps_bytes_equal(content, ps_bytes_of_text(expected)));
}

START_TEST(nothing_begun_is_nothing_to_wait_for)
{
    ck_assert(!ps_write_behind_busy(behind));
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);
}
END_TEST

START_TEST(the_caller_goes_on_while_a_write_is_at_work)
{
    shut_gate(true);
    begin(behind, 0, "abc", true);
    expect_arrivals(1);
    ck_assert(ps_write_behind_busy(behind));

    shut_gate(false);

    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);
    ck_assert(!ps_write_behind_busy(behind));
    expect_after_power_loss("abc");
}
END_TEST

START_TEST(writes_follow_each_other_and_only_the_asked_ones_are_durable)
{
    begin(behind, 0, "one ", false);
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);
    begin(behind, 4, "two ", true);
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);
    begin(behind, 8, "three", false);
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);

    expect_after_power_loss("one two ");
}
END_TEST

START_TEST(pieces_go_where_they_belong_and_what_they_leave_out_is_zeros)
{
    const struct ps_write_piece pieces[] = {{6, ps_bytes_of_text("six")},
                                            {0, ps_bytes_of_text("zero")}};
    ps_write_behind_begin(behind, file, pieces, 2, true);
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);

    struct ps_bytes content;
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ck_assert(memory_files_get(disk, "a", &content));
    ck_assert(ps_bytes_equal(content, (struct ps_bytes){(const uint8_t *)"zero\0\0six", 9}));
}
END_TEST

static void fail_next(enum fault_call call)
{
    fault.calls = (uint32_t)call;
    fault.fail_at = fault.seen;
}

START_TEST(a_failure_is_told_once_with_its_reason)
{
    fail_next(_i == 0 ? FAULT_WRITE : FAULT_SYNC);
    begin(behind, 0, "abc", true);

    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_ERR_IO);

    ck_assert_str_eq(error.text, _i == 0 ? "injected: write file" : "injected: sync file");
    ck_assert_int_eq(ps_write_behind_wait(behind, &error), PS_OK);
    begin(behind, 0, "abc", false);
    ck_assert_int_eq(ps_write_behind_wait(behind, NULL), PS_OK);
}
END_TEST

START_TEST(a_failed_write_is_not_synced)
{
    fail_next(FAULT_WRITE);
    begin(behind, 0, "abc", true);

    ck_assert_int_eq(ps_write_behind_wait(behind, NULL), PS_ERR_IO);

    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_SYNC], 0);
}
END_TEST

START_TEST(behind_a_piece_that_failed_none_is_written)
{
    const struct ps_write_piece pieces[] = {{0, ps_bytes_of_text("abc")},
                                            {3, ps_bytes_of_text("def")}};
    fail_next(FAULT_WRITE);
    ps_write_behind_begin(behind, file, pieces, 2, false);

    ck_assert_int_eq(ps_write_behind_wait(behind, NULL), PS_ERR_IO);

    ck_assert_uint_eq(arrived, 1);
}
END_TEST

START_TEST(the_end_waits_for_the_write_at_work)
{
    begin(behind, 0, "abc", true);

    ps_write_behind_destroy(behind);
    behind = NULL;

    expect_after_power_loss("abc");
}
END_TEST

START_TEST(without_a_thread_the_write_is_made_at_once)
{
    struct ps_write_behind *alone = NULL;
    ck_assert_int_eq(ps_write_behind_create(&files, NULL, ps_allocator_heap(), &alone, &error),
                     PS_OK);

    begin(alone, 0, "abc", true);

    ck_assert(!ps_write_behind_busy(alone));
    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_SYNC], 1);
    ck_assert_int_eq(ps_write_behind_wait(alone, &error), PS_OK);
    ps_write_behind_destroy(alone);
    expect_after_power_loss("abc");
}
END_TEST

START_TEST(without_memory_there_is_none)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_write_behind *none = NULL;

    ck_assert_int_eq(ps_write_behind_create(&files, "none", &memory, &none, &error),
                     PS_ERR_NO_MEMORY);

    ck_assert_ptr_null(none);
    ck_assert_int_eq(heap.live, 0);
    ps_write_behind_destroy(NULL);
}
END_TEST

START_TEST(a_write_begun_before_the_wait_aborts)
{
    begin(behind, 0, "abc", false);
    begin(behind, 0, "def", false);
}
END_TEST

/* Two buffers in turn, as a writer of large files uses them. */
START_TEST(a_real_file_is_whole)
{
    enum { PART = PS_FILE_DIRECT_BYTES, PARTS = 64 };
    struct temp_folder folder;
    char path[600];
    struct ps_write_behind *real = NULL;
    struct ps_file into;
    temp_folder_init(&folder);
    temp_folder_path(&folder, "file", path, sizeof path);
    const struct ps_files *machine = ps_files_real();
    ck_assert_int_eq(machine->open(machine->self, path, PS_FILE_CREATE_DIRECT, &into, &error),
                     PS_OK);
    ck_assert_int_eq(
        ps_write_behind_create(machine, "write-behind", ps_allocator_heap(), &real, &error), PS_OK);
    uint8_t *buffers = aligned_alloc(PART, (size_t)2 * PART);

    for (int i = 0; i < PARTS; i++) {
        uint8_t *buffer = buffers + (size_t)(i % 2) * PART;
        memset(buffer, i, PART);
        ck_assert_int_eq(ps_write_behind_wait(real, &error), PS_OK);
        const struct ps_write_piece piece = {(uint64_t)i * PART, {buffer, PART}};
        ps_write_behind_begin(real, into, &piece, 1, i % 8 == 7);
    }
    ck_assert_int_eq(ps_write_behind_wait(real, &error), PS_OK);

    ps_write_behind_destroy(real);
    machine->close(machine->self, into);
    uint8_t *content = NULL;
    size_t size = 0;
    ck_assert_int_eq(ps_file_read_all(machine, path, (size_t)PARTS * PART, ps_allocator_heap(),
                                      &content, &size, &error),
                     PS_OK);
    ck_assert_uint_eq(size, (size_t)PARTS * PART);
    for (size_t i = 0; i < size; i++)
        ck_assert_uint_eq(content[i], i / PART);
    free(content);
    free(buffers);
    temp_folder_fini(&folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("write_behind");
    TCase *tests = tcase_create("write_behind");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, nothing_begun_is_nothing_to_wait_for);
    tcase_add_test(tests, the_caller_goes_on_while_a_write_is_at_work);
    tcase_add_test(tests, writes_follow_each_other_and_only_the_asked_ones_are_durable);
    tcase_add_test(tests, pieces_go_where_they_belong_and_what_they_leave_out_is_zeros);
    tcase_add_loop_test(tests, a_failure_is_told_once_with_its_reason, 0, 2);
    tcase_add_test(tests, a_failed_write_is_not_synced);
    tcase_add_test(tests, behind_a_piece_that_failed_none_is_written);
    tcase_add_test(tests, the_end_waits_for_the_write_at_work);
    tcase_add_test(tests, without_a_thread_the_write_is_made_at_once);
    tcase_add_test(tests, without_memory_there_is_none);
    tcase_add_test_raise_signal(tests, a_write_begun_before_the_wait_aborts, SIGABRT);
    tcase_add_test(tests, a_real_file_is_whole);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
