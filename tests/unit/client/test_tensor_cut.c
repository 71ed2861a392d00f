/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of values: nothing is left out, and no part is smaller than servers take. */
#include "client/tensors/tensor_cut.h"

#include "run_suite.h"

#include <check.h>

START_TEST(small_values_are_one_part)
{
    ck_assert_uint_eq(ps_tensor_cut_count(0), 1);
    ck_assert_uint_eq(ps_tensor_cut_count(PS_TENSOR_RANGE_BYTES), 1);
    ck_assert_uint_eq(ps_tensor_cut_part(0, 0).size, 0);
    ck_assert_uint_eq(ps_tensor_cut_part(77, 0).size, 77);
}
END_TEST

START_TEST(parts_cover_a_value_without_gaps)
{
    const uint64_t sizes[] = {PS_TENSOR_RANGE_BYTES + 1, 2 * PS_TENSOR_RANGE_BYTES,
                              2 * PS_TENSOR_RANGE_BYTES + 1, (uint64_t)3 << 30};
    uint64_t size = sizes[_i];
    uint64_t end = 0;
    for (size_t i = 0; i < ps_tensor_cut_count(size); i++) {
        struct ps_tensor_part part = ps_tensor_cut_part(size, i);
        ck_assert_uint_eq(part.offset, end);
        ck_assert_uint_gt(part.size, 0);
        end += part.size;
        /* What servers ask of a part. */
        ck_assert(part.size >= PS_TENSOR_PART_BYTES_MIN || end == size);
    }
    ck_assert_uint_eq(end, size);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor_cut");
    TCase *tests = tcase_create("tensor_cut");
    tcase_add_test(tests, small_values_are_one_part);
    tcase_add_loop_test(tests, parts_cover_a_value_without_gaps, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
