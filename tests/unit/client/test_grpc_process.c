/* SPDX-License-Identifier: Apache-2.0 */
/* client/channel/grpc_process.c: a child has gRPC only when nobody had it at the fork. */
#include "client/channel/grpc_process.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a child that is forked now may begin, and its own child, too. */
static int in_child(int depth)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (!ps_grpc_process_enter())
            _exit(depth > 1 ? in_child(depth - 1) : 0);
        ps_grpc_process_leave();
        _exit(1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(a_child_is_refused_while_its_parent_has_a_user)
{
    ck_assert(ps_grpc_process_enter());
    ck_assert(ps_grpc_process_enter());
    ck_assert_int_eq(in_child(1), 0);
    ps_grpc_process_leave();
    ck_assert_int_eq(in_child(1), 0);
    ck_assert_int_eq(in_child(2), 0);
    ps_grpc_process_leave();
    ck_assert_int_eq(in_child(1), 1);
}
END_TEST

START_TEST(whoever_is_the_first_has_it_again)
{
    ck_assert_int_eq(in_child(1), 1);
    ck_assert(ps_grpc_process_enter());
    ps_grpc_process_leave();
    ck_assert(ps_grpc_process_enter());
    ps_grpc_process_leave();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_process");
    TCase *cases = tcase_create("grpc_process");
    tcase_add_test(cases, a_child_is_refused_while_its_parent_has_a_user);
    tcase_add_test(cases, whoever_is_the_first_has_it_again);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
