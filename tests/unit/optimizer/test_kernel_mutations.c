/* The tests of the tests: with each of the errors that can be put into the kernels, the suite that
 * test_kernels runs has to fail, and without them it must not. */
#include "kernel_emulator_machine.h"
#include "kernel_suite.h"

#include "optimizer/emulator/kernel_emulator.h"

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

/* The suite's tests that an error has to be found by. */
static void is_found_by(struct expect *expect, enum ps_kernels_error error, suite_test_fn *test)
{
    int failures = failures_with(error, test);
    printf("  error %d: %d comparisons fail\n", (int)error, failures);
    EXPECT(expect, failures > 0);
}

static void without_an_error_nothing_fails(struct expect *expect)
{
    EXPECT(expect, failures_with(PS_KERNELS_NO_ERROR, kernel_suite_run) == 0);
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
    return expect_end(&expect);
}
