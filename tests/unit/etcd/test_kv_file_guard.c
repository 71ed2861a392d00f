/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_file_guard.c, and kv_file.c with it: leases end with the process, and not before. */
#include "etcd/kv_file_guard.h"

#include "file_store_words.h"
#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct temp_folder folder;
static char path[1200];

static void setup(void)
{
    temp_folder_init(&folder);
    (void)snprintf(path, sizeof path, "%s/alive", folder.path);
}

static void teardown(void)
{
    temp_folder_fini(&folder);
}

START_TEST(a_held_lease_is_not_dead_for_anybody)
{
    struct ps_kv_file_guard owner;
    struct ps_kv_file_guard other;
    ck_assert_int_eq(ps_kv_file_guard_open(&owner, path, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_file_guard_open(&other, path, NULL), PS_OK);

    ck_assert(ps_kv_file_guard_hold(&owner, 7));

    ck_assert(!ps_kv_file_guard_is_dead(&owner, 7));
    ck_assert(!ps_kv_file_guard_is_dead(&other, 7));
    ck_assert(ps_kv_file_guard_is_dead(&other, 6));
    ck_assert(ps_kv_file_guard_is_dead(&other, 8));
    ps_kv_file_guard_close(&owner);
    ck_assert(ps_kv_file_guard_is_dead(&other, 7));
    ps_kv_file_guard_close(&other);
}
END_TEST

START_TEST(a_lease_let_go_is_dead_and_the_others_are_not)
{
    struct ps_kv_file_guard guard;
    ck_assert_int_eq(ps_kv_file_guard_open(&guard, path, NULL), PS_OK);
    ck_assert(ps_kv_file_guard_hold(&guard, 1));
    ck_assert(ps_kv_file_guard_hold(&guard, INT64_MAX));

    ps_kv_file_guard_let_go(&guard, 1);

    ck_assert(ps_kv_file_guard_is_dead(&guard, 1));
    ck_assert(!ps_kv_file_guard_is_dead(&guard, INT64_MAX));
    ps_kv_file_guard_close(&guard);
}
END_TEST

START_TEST(a_guard_that_is_closed_says_dead_of_nobody)
{
    struct ps_kv_file_guard guard = {-1, -1};

    ck_assert(!ps_kv_file_guard_hold(&guard, 1));
    ck_assert(!ps_kv_file_guard_is_dead(&guard, 1));
    ps_kv_file_guard_close(&guard);
}
END_TEST

START_TEST(a_file_that_cannot_be_made_is_reported)
{
    struct ps_kv_file_guard guard;
    struct ps_error error = {0};

    ck_assert_int_eq(ps_kv_file_guard_open(&guard, "/proc/none/alive", &error), PS_ERR_IO);

    ck_assert_str_ne(error.text, "");
    ps_kv_file_guard_close(&guard);
}
END_TEST

static struct ps_kv *open_real(void)
{
    struct ps_kv *kv = NULL;
    struct ps_error error = {0};
    enum ps_status status =
        ps_kv_file_open(folder.path, ps_clock_real(), ps_allocator_heap(), &kv, &error);
    ck_assert_msg(status == PS_OK, "open: %s", error.text);
    return kv;
}

/* A process that claims "/a" and then does nothing; returns when it has. */
static pid_t start_owner(void)
{
    int told[2];
    char byte;
    ck_assert_int_eq(pipe(told), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct ps_kv *kv = open_real();
        struct ps_kv_lease lease;
        ck_assert_int_eq(ps_kv_lease_grant(kv, 3600000, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
        ck_assert_int_eq(try_put(kv, "/a", "1", lease, NULL), PS_OK);
        ck_assert_int_eq(write(told[1], "x", 1), 1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(told[0], &byte, 1), 1);
    (void)close(told[0]);
    (void)close(told[1]);
    return child;
}

START_TEST(the_lease_of_a_killed_process_ends_at_once)
{
    pid_t owner = start_owner();
    struct ps_kv *kv = open_real();
    ck_assert_int_eq(read_number(kv, "/a"), 1);

    ck_assert_int_eq(kill(owner, SIGKILL), 0);
    ck_assert_int_eq(waitpid(owner, NULL, 0), owner);

    ck_assert_int_eq(read_number(kv, "/a"), -1);
    ps_kv_destroy(kv);
}
END_TEST

/* It may go on at any time, and has its lease till then. */
START_TEST(p4_the_lease_of_a_stopped_process_stays)
{
    int status = 0;
    pid_t owner = start_owner();
    struct ps_kv *kv = open_real();

    ck_assert_int_eq(kill(owner, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(owner, &status, WUNTRACED), owner);
    ck_assert(WIFSTOPPED(status));

    ck_assert_int_eq(read_number(kv, "/a"), 1);
    ck_assert_int_eq(kill(owner, SIGKILL), 0);
    ck_assert_int_eq(waitpid(owner, NULL, 0), owner);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_watch_hears_of_a_process_that_was_killed)
{
    bool changed = false;
    pid_t owner = start_owner();
    struct ps_kv *kv = open_real();
    ck_assert_int_eq(ps_kv_watch_open(kv, "/", 0, PS_DEADLINE_NEVER, NULL), PS_OK);

    ck_assert_int_eq(kill(owner, SIGKILL), 0);
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), 60000);
    ck_assert_int_eq(ps_kv_watch_wait(kv, deadline_ms, &changed, NULL), PS_OK);

    ck_assert(changed);
    ck_assert_int_eq(read_number(kv, "/a"), -1);
    ck_assert_int_eq(waitpid(owner, NULL, 0), owner);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_lease_ends_with_the_store_it_was_granted_through)
{
    struct ps_kv *first = open_real();
    struct ps_kv *second = open_real();
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_lease_grant(first, 3600000, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
    ck_assert_int_eq(try_put(first, "/a", "1", lease, NULL), PS_OK);
    ck_assert_int_eq(read_number(first, "/a"), 1);
    ck_assert_int_eq(read_number(second, "/a"), 1);

    ps_kv_destroy(first);

    ck_assert_int_eq(read_number(second, "/a"), -1);
    ps_kv_destroy(second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_file_guard");
    TCase *tests = tcase_create("kv_file_guard");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_held_lease_is_not_dead_for_anybody);
    tcase_add_test(tests, a_lease_let_go_is_dead_and_the_others_are_not);
    tcase_add_test(tests, a_guard_that_is_closed_says_dead_of_nobody);
    tcase_add_test(tests, a_file_that_cannot_be_made_is_reported);
    tcase_add_test(tests, the_lease_of_a_killed_process_ends_at_once);
    tcase_add_test(tests, p4_the_lease_of_a_stopped_process_stays);
    tcase_add_test(tests, a_watch_hears_of_a_process_that_was_killed);
    tcase_add_test(tests, a_lease_ends_with_the_store_it_was_granted_through);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
