/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_file.c: what is left after crashes, full disks and refused memory; several processes. */
#include "file_store_words.h"

#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tests/support/temp_folder.h"

#include "base/thread.h"
#include "etcd/kv_file_text.h"
#include "run_suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct temp_folder folder;
static struct memory_files *disk;

static void setup(void)
{
    temp_folder_init(&folder);
    disk = memory_files_create((uint64_t)7);
}

static void teardown(void)
{
    memory_files_destroy(disk);
    temp_folder_fini(&folder);
}

static struct ps_kv *open_real(void)
{
    struct ps_kv *kv = NULL;
    struct ps_error error = {0};
    enum ps_status status =
        ps_kv_file_open(folder.path, ps_clock_real(), ps_allocator_heap(), &kv, &error);
    ck_assert_msg(status == PS_OK, "open: %s", error.text);
    return kv;
}

static struct ps_kv *open_on_disk(const struct ps_clock *clock)
{
    struct ps_kv *kv = NULL;
    ck_assert_int_eq(ps_kv_file_open_on(memory_files_files(disk), folder.path, clock,
                                        ps_allocator_heap(), &kv, NULL),
                     PS_OK);
    return kv;
}

START_TEST(content_outlives_the_connection)
{
    struct ps_kv *kv = open_real();
    put(kv, "/a", "5");
    ps_kv_destroy(kv);

    kv = open_real();

    ck_assert_int_eq(read_number(kv, "/a"), 5);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(an_answered_write_survives_power_loss)
{
    for (int i = 0; i < 5; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        struct ps_kv *kv = open_on_disk(ps_clock_real());
        put(kv, "/a", text);
        ps_kv_destroy(kv);

        memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

        kv = open_on_disk(ps_clock_real());
        ck_assert_int_eq(read_number(kv, "/a"), i);
        ps_kv_destroy(kv);
    }
}
END_TEST

/* Loop test: the power goes at the n-th operation of a write. */
START_TEST(a_write_cut_by_power_loss_happened_or_not)
{
    struct ps_kv *kv = open_on_disk(ps_clock_real());
    put(kv, "/a", "1");
    put(kv, "/b", "1");
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_from = knobs->seen + _i;
    enum ps_status status = try_put(kv, "/a", "2", (struct ps_kv_lease){0}, NULL);
    ps_kv_destroy(kv);
    memory_files_crash(disk, MEMORY_CRASH_SEEDED);
    knobs->fail_from = -1;

    kv = open_on_disk(ps_clock_real());

    int number = read_number(kv, "/a");
    ck_assert(number == 2 || (number == 1 && status != PS_OK));
    ck_assert_int_eq(read_number(kv, "/b"), 1);
    put(kv, "/a", "3");
    ck_assert_int_eq(read_number(kv, "/a"), 3);
    ps_kv_destroy(kv);
}
END_TEST

/* Loop test: the n-th operation fails, the disk goes on. */
START_TEST(a_write_whose_disk_fails_once_is_reported_and_leaves_the_store_whole)
{
    struct ps_kv *kv = open_on_disk(ps_clock_real());
    put(kv, "/a", "1");
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_at = knobs->seen + _i;

    enum ps_status status = try_put(kv, "/a", "2", (struct ps_kv_lease){0}, NULL);

    knobs->fail_at = -1;
    int number = read_number(kv, "/a");
    ck_assert(number == 2 || (number == 1 && status == PS_ERR_IO));
    put(kv, "/a", "3");
    ck_assert_int_eq(read_number(kv, "/a"), 3);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_full_disk_keeps_what_was_there)
{
    struct ps_kv *kv = open_on_disk(ps_clock_real());
    put(kv, "/a", "1");
    memory_files_knobs(disk)->bytes_max = memory_files_bytes(disk) + 10;

    ck_assert_int_eq(try_put(kv, "/a", "2", (struct ps_kv_lease){0}, NULL), PS_ERR_IO);

    ck_assert_int_eq(read_number(kv, "/a"), 1);
    memory_files_knobs(disk)->bytes_max = 0;
    put(kv, "/a", "3");
    ck_assert_int_eq(read_number(kv, "/a"), 3);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_damaged_file_is_reported_and_not_replaced)
{
    struct ps_kv *kv = open_on_disk(ps_clock_real());
    put(kv, "/a", "1");
    char path[600];
    (void)temp_folder_path(&folder, "store", path, sizeof path);
    memory_files_flip(disk, path, 300);
    struct ps_kv_entries entries = {0};
    struct ps_error error = {0};

    ck_assert_int_eq(ps_kv_read(kv, "/a", false, PS_DEADLINE_NEVER, &entries, &error),
                     PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "/store: "));
    ck_assert_int_eq(try_put(kv, "/a", "2", (struct ps_kv_lease){0}, NULL), PS_ERR_CORRUPT);
    memory_files_flip(disk, path, 300);
    ck_assert_int_eq(read_number(kv, "/a"), 1);
    ps_kv_destroy(kv);
}
END_TEST

/* As a version wrote it that knew no guards, or a file system without such locks. */
static void put_unguarded_lease(const struct ps_clock *clock)
{
    char path[1100];
    struct ps_kv *kv = open_on_disk(clock);
    struct ps_kv_lease lease;
    struct ps_bytes content;
    ck_assert_int_eq(ps_kv_lease_grant(kv, 10000, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
    ck_assert_int_eq(try_put(kv, "/a", "1", lease, NULL), PS_OK);
    (void)snprintf(path, sizeof path, "%s/store", folder.path);
    ck_assert(memory_files_get(disk, path, &content));

    struct ps_kv_table table;
    struct ps_buffer text;
    ps_kv_table_init(&table, ps_allocator_heap());
    ck_assert_int_eq(ps_kv_file_read(content, &table, NULL), PS_OK);
    ck_assert(table.leases[0].guarded);
    table.leases[0].guarded = false;
    ps_buffer_init(&text, ps_allocator_heap(), PS_KV_FILE_BYTES_MAX);
    ps_kv_file_write(&table, &text);
    memory_files_put(disk, path, (struct ps_bytes){(const uint8_t *)text.text, text.size});
    ps_buffer_fini(&text);
    ps_kv_table_fini(&table);
    ps_kv_destroy(kv);
}

START_TEST(an_unguarded_lease_from_before_a_reboot_ends_within_its_length)
{
    struct fake_clock fake = {.now_ms = 900000};
    struct ps_clock fake_time = fake_clock_clock(&fake);
    put_unguarded_lease(&fake_time);

    fake.now_ms = 50;
    struct ps_kv *kv = open_on_disk(&fake_time);
    ck_assert_int_eq(read_number(kv, "/a"), 1);
    fake.now_ms = 10049;
    ck_assert_int_eq(read_number(kv, "/a"), 1);
    fake.now_ms = 10050;
    ck_assert_int_eq(read_number(kv, "/a"), -1);
    ps_kv_destroy(kv);
}
END_TEST

/* Adds one to /count as often as told, each time by comparing first. */
static void count_up(int times)
{
    struct ps_kv *kv = open_real();
    while (times > 0) {
        struct ps_kv_entries entries = {0};
        ck_assert_int_eq(ps_kv_read(kv, "/count", false, PS_DEADLINE_NEVER, &entries, NULL), PS_OK);
        char text[16];
        (void)snprintf(text, sizeof text, "%d", atoi((char *)entries.entries[0].value) + 1);
        const struct ps_kv_compare same = {"/count", PS_KV_MODIFIED_AT,
                                           entries.entries[0].modify_revision};
        const struct ps_kv_change change = {PS_KV_PUT, "/count", ps_bytes_of_text(text), {0}};
        const struct ps_kv_transaction transaction = {&same, 1, &change, 1};
        bool done = false;
        int64_t revision = 0;
        ck_assert_int_eq(ps_kv_commit(kv, &transaction, PS_DEADLINE_NEVER, &done, &revision, NULL),
                         PS_OK);
        times -= done ? 1 : 0;
        ps_kv_entries_release(&entries);
    }
    ps_kv_destroy(kv);
}

START_TEST(processes_that_share_a_folder_lose_no_update)
{
    struct ps_kv *kv = open_real();
    put(kv, "/count", "0");
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            count_up(20);
            _exit(0);
        }
    }
    for (int i = 0; i < 3; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }

    ck_assert_int_eq(read_number(kv, "/count"), 60);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_writer_killed_at_any_time_leaves_what_it_was_told_is_done)
{
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct ps_kv *kv = open_real();
        for (uint8_t i = 1;; i++) {
            char text[16];
            (void)snprintf(text, sizeof text, "%d", i);
            put(kv, "/a", text);
            if (write(pipes[1], &i, 1) != 1 || i == 200)
                _exit(0);
        }
    }
    (void)close(pipes[1]);
    uint8_t answered = 0;
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(read(pipes[0], &answered, 1), 1);

    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);

    while (read(pipes[0], &answered, 1) == 1)
        continue;
    (void)close(pipes[0]);
    struct ps_kv *kv = open_real();
    ck_assert_int_ge(read_number(kv, "/a"), answered);
    put(kv, "/a", "250");
    ck_assert_int_eq(read_number(kv, "/a"), 250);
    ps_kv_destroy(kv);
}
END_TEST

/* No descriptor is left for inotify. A watch from a revision on needs no other. */
static void open_watch_without_inotify(struct ps_kv *kv)
{
    struct rlimit before;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {(rlim_t)next, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum ps_status status = ps_kv_watch_open(kv, "/w/", 1, PS_DEADLINE_NEVER, NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(status, PS_OK);
}

START_TEST(a_watch_sees_what_another_process_writes)
{
    struct ps_kv *kv = open_real();
    if (_i == 0)
        ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, PS_DEADLINE_NEVER, NULL), PS_OK);
    else
        open_watch_without_inotify(kv);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct ps_kv *writer = open_real();
        put(writer, "/v/1", "1");
        put(writer, "/w/1", "1");
        ps_kv_destroy(writer);
        _exit(0);
    }
    bool changed = false;

    ck_assert_int_eq(
        ps_kv_watch_wait(kv, ps_deadline_after(ps_clock_real(), 30000), &changed, NULL), PS_OK);

    ck_assert(changed);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_watch_sees_a_lease_end_without_any_write)
{
    struct ps_kv *kv = open_real();
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_lease_grant(kv, 50, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, PS_DEADLINE_NEVER, NULL), PS_OK);
    enum ps_status status = try_put(kv, "/w/1", "1", lease, NULL);
    ck_assert(status == PS_OK || status == PS_ERR_LEASE_LOST);
    bool changed = false;

    if (status == PS_OK)
        ck_assert_int_eq(
            ps_kv_watch_wait(kv, ps_deadline_after(ps_clock_real(), 30000), &changed, NULL), PS_OK);
    while (read_number(kv, "/w/1") != -1)
        ck_assert_int_eq(
            ps_kv_watch_wait(kv, ps_deadline_after(ps_clock_real(), 30000), &changed, NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

static void interrupt(void *context)
{
    ps_kv_interrupt(context);
}

START_TEST(another_thread_ends_a_wait)
{
    struct ps_kv *kv = open_real();
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, PS_DEADLINE_NEVER, NULL), PS_OK);
    struct ps_thread thread;
    ck_assert_int_eq(ps_thread_start(&thread, "interrupter", interrupt, kv, NULL), PS_OK);
    bool changed = true;

    ck_assert_int_eq(ps_kv_watch_wait(kv, PS_DEADLINE_NEVER, &changed, NULL), PS_OK);

    ck_assert(!changed);
    ps_thread_join(&thread);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_key_that_is_no_text_is_refused)
{
    struct ps_kv *kv = open_real();

    ck_assert_int_eq(try_put(kv, "/\xff", "1", (struct ps_kv_lease){0}, NULL), PS_ERR_BAD_INPUT);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_reported)
{
    char path[600];
    struct ps_kv *kv = NULL;
    (void)temp_folder_path(&folder, "file", path, sizeof path);
    ck_assert_int_ge(close(open(path, O_CREAT | O_WRONLY, 0640)), 0);
    (void)temp_folder_path(&folder, "file/below", path, sizeof path);

    enum ps_status status = ps_kv_file_open(path, ps_clock_real(), ps_allocator_heap(), &kv, NULL);

    ck_assert_int_ne(status, PS_OK);
    ck_assert_int_eq(ps_kv_file_open("", ps_clock_real(), ps_allocator_heap(), &kv, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(kv);
}
END_TEST

/* Loop test: the n-th allocation is refused. */
START_TEST(any_refused_allocation_is_survived)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_kv *kv = NULL;
    struct ps_kv_lease lease = {0};
    struct ps_kv_entries entries = {0};
    bool refused = false;

    enum ps_status opened = ps_kv_file_open(folder.path, ps_clock_real(), &memory, &kv, NULL);
    if (opened == PS_OK) {
        refused |= ps_kv_lease_grant(kv, 60000, PS_DEADLINE_NEVER, &lease, NULL) != PS_OK;
        refused |= try_put(kv, "/a", "\xff", lease, NULL) != PS_OK;
        refused |= try_put(kv, "/b", "2", (struct ps_kv_lease){0}, NULL) != PS_OK;
        refused |= ps_kv_read(kv, "/", true, PS_DEADLINE_NEVER, &entries, NULL) != PS_OK;
        refused |= ps_kv_watch_open(kv, "/", 0, PS_DEADLINE_NEVER, NULL) != PS_OK;
    }

    ck_assert(refused || opened != PS_OK || heap.seen <= _i);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_file");
    TCase *tests = tcase_create("kv_file");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, content_outlives_the_connection);
    tcase_add_test(tests, an_answered_write_survives_power_loss);
    tcase_add_loop_test(tests, a_write_cut_by_power_loss_happened_or_not, 0, 16);
    tcase_add_loop_test(tests, a_write_whose_disk_fails_once_is_reported_and_leaves_the_store_whole,
                        0, 16);
    tcase_add_test(tests, a_full_disk_keeps_what_was_there);
    tcase_add_test(tests, a_damaged_file_is_reported_and_not_replaced);
    tcase_add_test(tests, an_unguarded_lease_from_before_a_reboot_ends_within_its_length);
    tcase_add_test(tests, processes_that_share_a_folder_lose_no_update);
    tcase_add_test(tests, a_writer_killed_at_any_time_leaves_what_it_was_told_is_done);
    tcase_add_loop_test(tests, a_watch_sees_what_another_process_writes, 0, 2);
    tcase_add_test(tests, a_watch_sees_a_lease_end_without_any_write);
    tcase_add_test(tests, another_thread_ends_a_wait);
    tcase_add_test(tests, a_key_that_is_no_text_is_refused);
    tcase_add_test(tests, a_folder_that_cannot_be_made_is_reported);
    tcase_add_loop_test(tests, any_refused_allocation_is_survived, 0, 80);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
