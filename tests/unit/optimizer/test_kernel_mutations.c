/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of the tests: with each of the errors that can be put into the kernels, the suite that
 * test_kernels runs has to fail, and without them it must not. */
#include "kernel_emulator_machine.h"
#include "kernel_suite.h"

#include "optimizer/emulator/kernel_emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t lengths[] = {1, 4, 7, 1023, 1024, 3001, UINT64_MAX};
static const uint32_t grids[] = {1, UINT32_MAX};

typedef void suite_test_fn(struct kernel_suite *suite);

/* How many comparisons fail with an error switched on. */
static int failures_with(enum ps_kernels_error error, suite_test_fn *test)
{
    struct expect found = {0};
    struct kernel_suite suite = {.expect = &found,
                                 .machine = &kernel_emulator_machine,
                                 .counts = lengths,
                                 .grids = grids,
                                 .guard = 4,
                                 .quick = true,
                                 .quiet = true};
    ps_kernels_mutate((int)error);
    test(&suite);
    ps_kernels_mutate(PS_KERNELS_NO_ERROR);
    return found.failures;
}

/* In a process of its own: with half a table's entry a kernel may well write anywhere. */
static bool fails_with(enum ps_kernels_error error, suite_test_fn *test)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        if (freopen("/dev/null", "w", stderr) == NULL)
            abort();
        int failures = failures_with(error, test);
        printf("  error %d: %d comparisons fail\n", (int)error, failures);
        (void)fflush(stdout);
        _exit(failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    if (WIFSIGNALED(status))
        printf("  error %d: signal %d\n", (int)error, WTERMSIG(status));
    return !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS;
}

/* The suite's tests that an error has to be found by. */
static void is_found_by(struct expect *expect, enum ps_kernels_error error, suite_test_fn *test)
{
    EXPECT(expect, fails_with(error, test));
}

static void without_an_error_nothing_fails(struct expect *expect)
{
    EXPECT(expect, !fails_with(PS_KERNELS_NO_ERROR, kernel_suite_run));
}

static void a_tail_one_too_long_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_TAIL_LONG, kernels_apply_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_TAIL_LONG, kernels_fill_as_the_cpu_does);
}

static void a_tail_one_too_short_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_TAIL_SHORT, kernels_apply_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_TAIL_SHORT, kernels_apply_a_table_as_the_cpu_does);
}

static void a_pack_left_out_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_LAST_SKIPPED, kernels_apply_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_LAST_SKIPPED, kernels_apply_a_table_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_LAST_SKIPPED, kernels_decode_as_the_cpu_does);
}

static void a_wrong_stride_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_WRONG_STRIDE, kernels_apply_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_WRONG_STRIDE, kernels_apply_a_table_as_the_cpu_does);
}

static void a_missing_barrier_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_NO_BARRIER, kernels_scan_and_judge_as_the_cpu_does);
}

static void a_missing_barrier_around_an_entry_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_ENTRY_EARLY, kernels_apply_a_table_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_ENTRY_LATE, kernels_apply_a_table_as_the_cpu_does);
}

static void a_missing_barrier_around_a_list_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_CHUNK_EARLY, kernels_scatter_lists_as_the_cpu_does);
    is_found_by(expect, PS_KERNELS_CHUNK_LATE, kernels_scatter_lists_as_the_cpu_does);
}

static void an_update_that_asks_no_verdict_is_found(struct expect *expect)
{
    is_found_by(expect, PS_KERNELS_NO_VERDICT, kernels_scan_and_judge_as_the_cpu_does);
}

int main(void)
{
    struct expect expect = {0};
    ps_optimizer_enter_thread();
    EXPECT_RUN(&expect, without_an_error_nothing_fails);
    EXPECT_RUN(&expect, a_tail_one_too_long_is_found);
    EXPECT_RUN(&expect, a_tail_one_too_short_is_found);
    EXPECT_RUN(&expect, a_pack_left_out_is_found);
    EXPECT_RUN(&expect, a_wrong_stride_is_found);
    EXPECT_RUN(&expect, a_missing_barrier_is_found);
    EXPECT_RUN(&expect, a_missing_barrier_around_an_entry_is_found);
    EXPECT_RUN(&expect, a_missing_barrier_around_a_list_is_found);
    EXPECT_RUN(&expect, an_update_that_asks_no_verdict_is_found);
    return expect_end(&expect);
}
