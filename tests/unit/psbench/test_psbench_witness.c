/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psbench/psbench_witness.c: a process that turns while somebody wants it. */
#include "tools/psbench/psbench_witness.h"

#include "base/clock.h"
#include "run_suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

START_TEST(a_witness_turns_while_it_watches_and_ends_with_close)
{
    struct ps_bench_witness witness;
    ck_assert_int_eq(ps_bench_witness_open(&witness, NULL), PS_OK);
    pid_t process = witness.process;
    ck_assert(ps_bench_witness_longest_us(&witness) == 0);
    /* Twice, since the second watch must know nothing of the first. */
    for (int i = 0; i < 2; i++) {
        uint64_t before_ns = ps_clock_precise_ns();
        ck_assert_int_eq(ps_bench_witness_watch(&witness, NULL), PS_OK);
        /* Until its first turn; a witness that is dead ends the test, and one that does not turn
         * the test's own limit does. */
        while (ps_bench_witness_longest_us(&witness) == 0)
            ck_assert_int_eq(waitpid(process, NULL, WNOHANG), 0);
        ps_bench_witness_rest(&witness);
        /* Whatever the machine did since: before there was a watch it was not seen. */
        ck_assert(!ps_bench_witness_stood_still(&witness, 0, before_ns));
    }
    ps_bench_witness_close(&witness);
    ck_assert(kill(process, 0) != 0 && errno == ESRCH);
    ps_bench_witness_close(&witness);
}
END_TEST

START_TEST(a_witness_that_is_gone_is_no_endless_wait)
{
    struct ps_bench_witness witness;
    struct ps_error error = {0};
    ck_assert_int_eq(ps_bench_witness_open(&witness, &error), PS_OK);
    ck_assert_int_eq(kill(witness.process, SIGKILL), 0);
    ck_assert_int_eq(ps_bench_witness_watch(&witness, &error), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "witness"));
    ps_bench_witness_close(&witness);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("witness");
    tcase_add_test(tests, a_witness_turns_while_it_watches_and_ends_with_close);
    tcase_add_test(tests, a_witness_that_is_gone_is_no_endless_wait);
    tcase_set_timeout(tests, 60);
    Suite *suite = suite_create("psbench_witness");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
