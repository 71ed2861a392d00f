/* SPDX-License-Identifier: Apache-2.0 */
/* tools/row_batch.c: each key of a mini-batch once. */
#include "run_suite.h"
#include "tools/row_batch.h"

#include <check.h>

START_TEST(a_key_that_comes_twice_has_one_row_and_the_mean_of_its_gradients)
{
    struct ps_row_batch batch;
    ps_row_batch_init(&batch, 2);
    ck_assert_int_eq(ps_row_batch_begin(&batch, 3, NULL), PS_OK);

    ps_row_batch_visit(&batch, UINT64_MAX);
    ps_row_batch_visit(&batch, 7);
    ps_row_batch_visit(&batch, UINT64_MAX);
    ps_row_batch_gradient(&batch, 0)[1] += 1;
    ps_row_batch_gradient(&batch, 1)[0] += 4;
    ps_row_batch_gradient(&batch, 2)[1] += 2;
    ps_row_batch_average(&batch);

    ck_assert_uint_eq(batch.row_count, 2);
    ck_assert_uint_eq(batch.keys[0], UINT64_MAX);
    ck_assert_uint_eq(batch.keys[1], 7);
    ck_assert_ptr_eq(ps_row_batch_row(&batch, 0), ps_row_batch_row(&batch, 2));
    ck_assert_float_eq(batch.gradients[1], 1.5f);
    ck_assert_float_eq(batch.gradients[2], 4.0f);
    ps_row_batch_fini(&batch);
}
END_TEST

/* Keys that differ in high bits alone, and more of them than there was room for at first. */
START_TEST(a_batch_that_is_used_again_forgets_its_keys_and_grows)
{
    struct ps_row_batch batch;
    ps_row_batch_init(&batch, 1);
    for (uint64_t count = 1; count <= 1000; count *= 10) {
        ck_assert_int_eq(ps_row_batch_begin(&batch, 2 * count, NULL), PS_OK);
        for (uint64_t i = 0; i < 2 * count; i++)
            ps_row_batch_visit(&batch, i % count << 48);

        ck_assert_uint_eq(batch.row_count, count);
        for (uint64_t i = 0; i < count; i++) {
            ck_assert_uint_eq(batch.keys[i], i << 48);
            ck_assert_uint_eq(batch.visits[i], 2);
            ck_assert_float_eq(batch.gradients[i], 0.0f);
            batch.gradients[i] = 9; /* to be forgotten */
        }
    }
    ps_row_batch_fini(&batch);
}
END_TEST

START_TEST(a_batch_without_keys_is_allowed_and_one_beyond_all_numbers_is_refused)
{
    struct ps_row_batch batch;
    ps_row_batch_init(&batch, 1);

    ck_assert_int_eq(ps_row_batch_begin(&batch, 0, NULL), PS_OK);
    ps_row_batch_average(&batch);
    ck_assert_uint_eq(batch.row_count, 0);
    ck_assert_int_eq(ps_row_batch_begin(&batch, SIZE_MAX / 2, NULL), PS_ERR_BAD_INPUT);

    ps_row_batch_fini(&batch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_batch");
    TCase *tests = tcase_create("row_batch");
    tcase_add_test(tests, a_key_that_comes_twice_has_one_row_and_the_mean_of_its_gradients);
    tcase_add_test(tests, a_batch_that_is_used_again_forgets_its_keys_and_grows);
    tcase_add_test(tests, a_batch_without_keys_is_allowed_and_one_beyond_all_numbers_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
