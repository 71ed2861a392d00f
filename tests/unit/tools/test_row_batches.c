/* SPDX-License-Identifier: Apache-2.0 */
/* tools/row_batches.c: the batches of several shares as one step. */
#include "run_suite.h"
#include "tools/row_batches.h"

#include <check.h>
#include <math.h>

static struct ps_row_batches batches;

/* Part i has these keys, each visited once. */
static void collect(uint32_t i, const uint64_t *keys, size_t count)
{
    ck_assert_int_eq(ps_row_batch_begin(&batches.parts[i], count, NULL), PS_OK);
    for (size_t k = 0; k < count; k++)
        ps_row_batch_visit(&batches.parts[i], keys[k]);
}

START_TEST(one_share_is_its_own_batch)
{
    const uint64_t keys[] = {3, 9};
    ck_assert_int_eq(ps_row_batches_init(&batches, 1, 2), PS_OK);
    collect(0, keys, 2);
    batches.parts[0].gradients[0] = 5;

    ck_assert_int_eq(ps_row_batches_join(&batches, NULL), PS_OK);
    ps_row_batches_spread(&batches);
    ps_row_batches_average(&batches);

    ck_assert_ptr_eq(batches.joined, &batches.parts[0]);
    ck_assert_float_eq(batches.joined->gradients[0], 5);
    ps_row_batches_fini(&batches);
}
END_TEST

START_TEST(rows_are_read_once_and_given_to_every_part_that_has_them)
{
    const uint64_t first[] = {3, 9}, second[] = {9, 4, 3};
    ck_assert_int_eq(ps_row_batches_init(&batches, 3, 1), PS_OK);
    collect(0, first, 2);
    collect(1, second, 3);
    collect(2, NULL, 0);

    ck_assert_int_eq(ps_row_batches_join(&batches, NULL), PS_OK);
    ck_assert_uint_eq(batches.joined->row_count, 3);
    for (size_t i = 0; i < 3; i++)
        batches.joined->rows[i] = (float)batches.joined->keys[i];
    ps_row_batches_spread(&batches);

    for (size_t i = 0; i < 2; i++)
        ck_assert_float_eq(batches.parts[0].rows[i], (float)first[i]);
    for (size_t i = 0; i < 3; i++)
        ck_assert_float_eq(batches.parts[1].rows[i], (float)second[i]);
    ps_row_batches_fini(&batches);
}
END_TEST

/* In another order the sum of 3 would be 1. */
START_TEST(gradients_are_added_in_the_order_of_the_parts_and_divided)
{
    const uint64_t keys[] = {3}, more[] = {8, 3};
    ck_assert_int_eq(ps_row_batches_init(&batches, 3, 1), PS_OK);
    collect(0, keys, 1);
    collect(1, more, 2);
    collect(2, keys, 1);
    ck_assert_int_eq(ps_row_batches_join(&batches, NULL), PS_OK);
    batches.parts[0].gradients[0] = 1e8F;
    batches.parts[1].gradients[0] = -0.0F;
    batches.parts[1].gradients[1] = 1;
    batches.parts[2].gradients[0] = -1e8F;

    ps_row_batches_average(&batches);

    ck_assert_uint_eq(batches.joined->keys[0], 3);
    ck_assert_float_eq(batches.joined->gradients[0], 0);
    ck_assert(signbit(batches.joined->gradients[1]));
    batches.parts[0].gradients[0] = 1;
    batches.parts[2].gradients[0] = 2;
    ps_row_batches_average(&batches);
    ck_assert_float_eq(batches.joined->gradients[0], 4.0F / 3.0F);
    ps_row_batches_fini(&batches);
}
END_TEST

START_TEST(what_was_never_used_is_ended_as_well)
{
    batches = (struct ps_row_batches){.count = 0};
    ps_row_batches_fini(&batches);
    ck_assert_ptr_null(batches.parts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_batches");
    TCase *tests = tcase_create("row_batches");
    tcase_add_test(tests, one_share_is_its_own_batch);
    tcase_add_test(tests, rows_are_read_once_and_given_to_every_part_that_has_them);
    tcase_add_test(tests, gradients_are_added_in_the_order_of_the_parts_and_divided);
    tcase_add_test(tests, what_was_never_used_is_ended_as_well);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
