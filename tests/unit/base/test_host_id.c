/* SPDX-License-Identifier: Apache-2.0 */
/* One number for one host, in every process of it. */
#include "base/host_id.h"

#include "run_suite.h"

#include <check.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(every_process_finds_the_same)
{
    int pipes[2];
    uint64_t others = 0;
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        uint64_t own = ps_host_id();
        _exit(write(pipes[1], &own, sizeof own) == sizeof own ? 0 : 1);
    }
    ck_assert_int_eq(read(pipes[0], &others, sizeof others), sizeof others);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_uint_ne(others, 0);
    ck_assert_uint_eq(ps_host_id(), others);
    ck_assert_uint_eq(ps_host_id(), others);
    ck_assert_int_eq(close(pipes[0]) + close(pipes[1]), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_id");
    TCase *tests = tcase_create("host_id");
    tcase_add_test(tests, every_process_finds_the_same);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
