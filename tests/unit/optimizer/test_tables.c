/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/cuda/tables.c: what a launch is given, as far as it needs no kernel. */
#include "optimizer/cuda/launch.h"

#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

START_TEST(sums_are_one_for_each_group_and_one_for_each_group_of_groups)
{
    const uint64_t group = PS_SUM_ELEMENTS;
    ck_assert_uint_eq(ps_cuda_sums(0), 0);
    ck_assert_uint_eq(ps_cuda_sums(1), 2);
    ck_assert_uint_eq(ps_cuda_sums(group), 2);
    ck_assert_uint_eq(ps_cuda_sums(group + 1), 3);
    ck_assert_uint_eq(ps_cuda_sums(group * group), group + 1);
    ck_assert_uint_eq(ps_cuda_sums(group * group + 1), group + 1 + 2);
}
END_TEST

START_TEST(the_most_elements_that_can_be_counted_do_not_wrap)
{
    ck_assert_uint_gt(ps_cuda_sums(UINT64_MAX), UINT64_MAX / PS_SUM_ELEMENTS);
}
END_TEST

START_TEST(chunks_cover_a_run_whose_end_is_not_a_chunks)
{
    struct ps_cuda_chunk chunks[5];
    memset(chunks, 0xff, sizeof chunks);

    ck_assert_uint_eq(ps_cuda_chunks_fill(9, 0, chunks), 0);
    ck_assert_uint_eq(ps_cuda_chunks_fill(9, 1, NULL), 1);
    ck_assert_uint_eq(ps_cuda_chunks_fill(9, PS_CUDA_CHUNK, NULL), 1);
    ck_assert_uint_eq(ps_cuda_chunks_fill(9, 3 * PS_CUDA_CHUNK + 1, chunks), 4);

    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(chunks[i].entry, 9);
        ck_assert_uint_eq(chunks[i].chunk, i);
    }
    ck_assert_uint_eq(chunks[4].entry, UINT32_MAX);
}
END_TEST

static struct ps_optimizer_step prepare(const struct ps_optimizer_settings *settings,
                                        enum ps_dtype dtype)
{
    const struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    ck_assert_int_eq(ps_optimizer_prepare(settings, dtype, 1, 0, &scan, &step, NULL), PS_OK);
    return step;
}

START_TEST(an_entry_has_the_step_of_its_type_and_no_garbage)
{
    const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD, .learning_rate = {.rate = 0.5}};
    const struct ps_optimizer_settings add = {.rule = PS_RULE_ADD};
    const enum ps_dtype dtypes[] = {PS_F32, PS_F64, PS_I64};
    const struct ps_cuda_verdict verdict = {0};
    uint8_t values[64];
    const struct ps_cuda_run run = {.first = 3, .count = 4, .values = values};
    for (size_t i = 0; i < PS_ARRAY_COUNT(dtypes); i++) {
        struct ps_optimizer_step step = prepare(dtypes[i] == PS_I64 ? &add : &sgd, dtypes[i]);
        struct ps_cuda_entry first;
        struct ps_cuda_entry second;
        memset(&first, 0xa5, sizeof first);
        memset(&second, 0x5a, sizeof second);

        ps_cuda_entry_fill(&step, &run, &verdict, &first);
        ps_cuda_entry_fill(&step, &run, &verdict, &second);

        ck_assert_mem_eq(&first.step, &second.step, sizeof first.step);
        ck_assert_uint_eq(first.run.first, 3);
        ck_assert_uint_eq(first.run.count, 4);
        ck_assert_ptr_eq(first.run.values, values);
        ck_assert_ptr_eq(first.verdict, &verdict);
        const void *wanted = dtypes[i] == PS_F32   ? (const void *)&step.f32
                             : dtypes[i] == PS_F64 ? (const void *)&step.f64
                                                   : (const void *)&step.whole;
        size_t size = dtypes[i] == PS_F32   ? sizeof step.f32
                      : dtypes[i] == PS_F64 ? sizeof step.f64
                                            : sizeof step.whole;
        ck_assert_mem_eq(&first.step, wanted, size);
    }
}
END_TEST

START_TEST(a_step_that_is_to_be_skipped_goes_into_no_table)
{
    const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD, .learning_rate = {.rate = 0.5}};
    struct ps_optimizer_step step = prepare(&sgd, PS_F32);
    const struct ps_cuda_run run = {.count = 1};
    struct ps_cuda_entry entry;
    step.skip = true;
    ps_cuda_entry_fill(&step, &run, NULL, &entry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tables");
    TCase *tests = tcase_create("tables");
    tcase_add_test(tests, sums_are_one_for_each_group_and_one_for_each_group_of_groups);
    tcase_add_test(tests, the_most_elements_that_can_be_counted_do_not_wrap);
    tcase_add_test(tests, chunks_cover_a_run_whose_end_is_not_a_chunks);
    tcase_add_test(tests, an_entry_has_the_step_of_its_type_and_no_garbage);
    tcase_add_test_raise_signal(tests, a_step_that_is_to_be_skipped_goes_into_no_table, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
