/* SPDX-License-Identifier: Apache-2.0 */
/* base/slab.c: large aligned pieces of memory from the system. */
#include "base/assert.h"
#include "base/slab.h"
#include "base/thread.h"
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

/* More than three regions, of which some are prepared, in pieces that do not go into a region
 * evenly. */
START_TEST(slabs_of_many_regions_do_not_overlap)
{
    enum { TAKES = 120 };
    static const size_t counts[] = {1, 16, 3, 1, 33, 1, 7};
    uint8_t *slabs[TAKES];
    for (size_t i = 0; i < TAKES; i++) {
        size_t count = counts[i % 7];
        if (i % 5 == 0)
            ps_slabs_prepare();
        slabs[i] = ps_slabs_take(count);
        ck_assert_ptr_nonnull(slabs[i]);
        ck_assert_uint_eq((uintptr_t)slabs[i] % PS_SLAB_BYTES, 0);
        for (size_t k = 0; k < count; k++) {
            ck_assert_uint_eq(slabs[i][k * PS_SLAB_BYTES], 0);
            slabs[i][k * PS_SLAB_BYTES] = (uint8_t)(i + 1);
            slabs[i][(k + 1) * PS_SLAB_BYTES - 1] = (uint8_t)(i + 1);
        }
    }
    for (size_t i = 0; i < TAKES; i++) {
        size_t count = counts[i % 7];
        for (size_t k = 0; k < count; k++) {
            ck_assert_uint_eq(slabs[i][k * PS_SLAB_BYTES], (uint8_t)(i + 1));
            ck_assert_uint_eq(slabs[i][(k + 1) * PS_SLAB_BYTES - 1], (uint8_t)(i + 1));
        }
        ps_slabs_give(slabs[i], count);
    }
}
END_TEST

/* Each writes all over what it has, and nobody else's byte shows up in it. */
static void take_and_give(void *argument)
{
    uint8_t mark = *(const uint8_t *)argument;
    for (int i = 0; i < 200; i++) {
        size_t count = (size_t)(i % 3 + 1);
        uint8_t *slabs = ps_slabs_take(count);
        PS_ASSERT(slabs != NULL);
        for (size_t k = 0; k < count * PS_SLAB_BYTES; k += 65536) {
            PS_ASSERT(slabs[k] == 0);
            slabs[k] = mark;
        }
        ps_slabs_prepare();
        for (size_t k = 0; k < count * PS_SLAB_BYTES; k += 65536)
            PS_ASSERT(slabs[k] == mark);
        ps_slabs_give(slabs, count);
    }
}

START_TEST(threads_have_slabs_of_their_own)
{
    enum { THREADS = 4 };
    struct ps_thread threads[THREADS];
    uint8_t marks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        marks[i] = (uint8_t)(i + 1);
        ck_assert_int_eq(ps_thread_start(&threads[i], "slabs", take_and_give, &marks[i], NULL),
                         PS_OK);
    }
    for (int i = 0; i < THREADS; i++)
        ps_thread_join(&threads[i]);
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
    tcase_add_test(tests, slabs_of_many_regions_do_not_overlap);
    tcase_add_test(tests, threads_have_slabs_of_their_own);
    tcase_add_test(tests, nothing_may_be_given);
    tcase_add_test_raise_signal(tests, giving_what_is_no_slab_aborts, 6);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
