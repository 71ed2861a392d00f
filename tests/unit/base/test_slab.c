/* SPDX-License-Identifier: Apache-2.0 */
/* base/slab.c: large aligned pieces of memory from the system. */
#include "base/slab.h"
#include "run_suite.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

START_TEST(a_slab_is_aligned_to_its_size_and_zero)
{
    uint8_t *slab = ps_slab_take();

    ck_assert_ptr_nonnull(slab);
    ck_assert_uint_eq((uintptr_t)slab % PS_SLAB_BYTES, 0);
    for (size_t i = 0; i < PS_SLAB_BYTES; i += 511)
        ck_assert_uint_eq(slab[i], 0);
    ps_slab_give(slab);
}
END_TEST

START_TEST(slabs_do_not_overlap)
{
    uint8_t *slabs[8];
    for (int i = 0; i < 8; i++) {
        slabs[i] = ps_slab_take();
        ck_assert_ptr_nonnull(slabs[i]);
        memset(slabs[i], i + 1, PS_SLAB_BYTES);
    }

    for (int i = 0; i < 8; i++) {
        ck_assert_uint_eq(slabs[i][0], (uint8_t)(i + 1));
        ck_assert_uint_eq(slabs[i][PS_SLAB_BYTES - 1], (uint8_t)(i + 1));
        ps_slab_give(slabs[i]);
    }
}
END_TEST

START_TEST(nothing_may_be_given)
{
    ps_slab_give(NULL);
}
END_TEST

START_TEST(giving_what_is_no_slab_aborts)
{
    uint8_t *slab = ps_slab_take();

    ps_slab_give(slab + 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slab");
    TCase *tests = tcase_create("slab");
    tcase_add_test(tests, a_slab_is_aligned_to_its_size_and_zero);
    tcase_add_test(tests, slabs_do_not_overlap);
    tcase_add_test(tests, nothing_may_be_given);
    tcase_add_test_raise_signal(tests, giving_what_is_no_slab_aborts, 6);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
