/* SPDX-License-Identifier: Apache-2.0 */
/* client/process_mark.c: a child knows that it is one. */
#include "client/process_mark.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child that is forked now finds. */
static int in_child(const struct ps_process_mark *mark)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(ps_process_mark_is_child(mark) ? 1 : 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(only_a_child_is_a_child)
{
    struct ps_process_mark mark;
    ps_process_mark_init(&mark);

    ck_assert(!ps_process_mark_is_child(&mark));
    ck_assert_int_eq(in_child(&mark), 1);
    ck_assert(!ps_process_mark_is_child(&mark));

    ps_process_mark_fini(&mark);
}
END_TEST

START_TEST(a_zeroed_mark_is_nobodys)
{
    struct ps_process_mark mark = {0};

    ck_assert(!ps_process_mark_is_child(&mark));
    ck_assert_int_eq(in_child(&mark), 0);

    ps_process_mark_fini(&mark);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process_mark");
    TCase *cases = tcase_create("process_mark");
    tcase_add_test(cases, only_a_child_is_a_child);
    tcase_add_test(cases, a_zeroed_mark_is_nobodys);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
