/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_file_lock.c: one at a time, with a deadline. */
#include "file_store_words.h"

#include "tests/support/temp_folder.h"

#include "etcd/kv_file_lock.h"
#include "run_suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

static struct temp_folder folder;

static void setup(void)
{
    temp_folder_init(&folder);
}

static void teardown(void)
{
    temp_folder_fini(&folder);
}

static struct ps_kv *open_real(void)
{
    struct ps_kv *kv = NULL;
    ck_assert_int_eq(ps_kv_file_open(folder.path, ps_clock_real(), ps_allocator_heap(), &kv, NULL),
                     PS_OK);
    return kv;
}

START_TEST(a_lock_given_back_is_free)
{
    struct ps_kv_file_lock first = {-1, -1};
    struct ps_kv_file_lock second = {-1, -1};
    char path[600];
    (void)temp_folder_path(&folder, "lock", path, sizeof path);
    const struct ps_clock *clock = ps_clock_real();

    ck_assert_int_eq(ps_kv_file_lock_acquire(&first, path, clock, 0, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_file_lock_acquire(&second, path, clock, 0, NULL), PS_ERR_UNAVAILABLE);
    ps_kv_file_lock_release(&first);
    ck_assert_int_eq(ps_kv_file_lock_acquire(&second, path, clock, 0, NULL), PS_OK);
    ps_kv_file_lock_release(&second);
    ps_kv_file_lock_fini(&first);
    ps_kv_file_lock_fini(&second);
}
END_TEST

START_TEST(what_a_wait_needs_is_set_up_once)
{
    struct ps_kv_file_lock first = {-1, -1};
    struct ps_kv_file_lock second = {-1, -1};
    char path[600];
    (void)temp_folder_path(&folder, "lock", path, sizeof path);
    const struct ps_clock *clock = ps_clock_real();
    ck_assert_int_eq(ps_kv_file_lock_acquire(&first, path, clock, 0, NULL), PS_OK);

    ck_assert_int_eq(ps_kv_file_lock_acquire(&second, path, clock, 0, NULL), PS_ERR_UNAVAILABLE);
    int closings = second.closings;
    ck_assert_int_eq(ps_kv_file_lock_acquire(&second, path, clock, 0, NULL), PS_ERR_UNAVAILABLE);

    ck_assert_int_ge(closings, 0);
    ck_assert_int_eq(second.closings, closings);
    ck_assert_int_eq(first.closings, -1);
    ps_kv_file_lock_release(&first);
    ps_kv_file_lock_fini(&first);
    ps_kv_file_lock_fini(&second);
    ck_assert_int_eq(second.closings, -1);
}
END_TEST

START_TEST(a_lock_file_that_cannot_be_made_is_reported)
{
    struct ps_kv_file_lock lock = {-1, -1};
    char path[600];
    (void)temp_folder_path(&folder, "absent/lock", path, sizeof path);

    ck_assert_int_eq(ps_kv_file_lock_acquire(&lock, path, ps_clock_real(), 0, NULL), PS_ERR_IO);
}
END_TEST

START_TEST(a_lock_held_elsewhere_is_waited_for_until_the_deadline)
{
    struct ps_kv *kv = open_real();
    char path[600];
    (void)temp_folder_path(&folder, "store.lock", path, sizeof path);
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    ck_assert_int_eq(flock(descriptor, LOCK_EX), 0);
    struct ps_kv_entries entries = {0};
    uint64_t deadline = ps_deadline_after(ps_clock_real(), 30);

    ck_assert_int_eq(ps_kv_read(kv, "/a", false, deadline, &entries, NULL), PS_ERR_UNAVAILABLE);
    (void)close(descriptor);
    ck_assert_int_eq(read_number(kv, "/a"), -1);
    ps_kv_destroy(kv);
}
END_TEST

/* Before somebody waits, or meanwhile. */
static void *give_up(void *descriptor)
{
    close(*(int *)descriptor);
    return NULL;
}

/* The lock's file takes the last descriptor that there is. */
START_TEST(a_lock_is_waited_for_without_inotify)
{
    struct ps_kv_file_lock lock = {-1, -1};
    struct rlimit before;
    pthread_t thread;
    char path[600];
    (void)temp_folder_path(&folder, "lock", path, sizeof path);
    int holder = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(flock(holder, LOCK_EX | LOCK_NB), 0);
    int next = dup(holder);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit short_of = {(rlim_t)next + 1, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &short_of), 0);

    enum ps_status early = ps_kv_file_lock_acquire(&lock, path, ps_clock_real(),
                                                   ps_deadline_after(ps_clock_real(), 120), NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, give_up, &holder), 0);
    enum ps_status late = ps_kv_file_lock_acquire(&lock, path, ps_clock_real(),
                                                  ps_deadline_after(ps_clock_real(), 60000), NULL);
    (void)pthread_join(thread, NULL);

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(early, PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(late, PS_OK);
    ck_assert_int_eq(lock.closings, -1);
    ps_kv_file_lock_release(&lock);
    ps_kv_file_lock_fini(&lock);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_file_lock");
    TCase *tests = tcase_create("kv_file_lock");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_lock_given_back_is_free);
    tcase_add_test(tests, what_a_wait_needs_is_set_up_once);
    tcase_add_test(tests, a_lock_file_that_cannot_be_made_is_reported);
    tcase_add_test(tests, a_lock_is_waited_for_without_inotify);
    tcase_add_test(tests, a_lock_held_elsewhere_is_waited_for_until_the_deadline);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
