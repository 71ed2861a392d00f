/* SPDX-License-Identifier: Apache-2.0 */
/* A thread whose floating-point unit somebody has put into a fast and wrong mode is put right. */
#include "optimizer/optimizer.h"
#include "run_suite.h"

#include <check.h>
#include <fenv.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static float half_of(float x)
{
    volatile float number = x;
    volatile float half = 0.5F;
    return number * half;
}

#if defined(__x86_64__)
START_TEST(subnormals_come_back_after_flush_to_zero)
{
    _mm_setcsr(0x9fc0); /* what start-up code of -ffast-math libraries leaves behind */
    ck_assert_float_eq(half_of(1e-40F), 0);

    ps_optimizer_enter_thread();

    ck_assert_float_gt(half_of(1e-40F), 0);
    ck_assert_uint_eq(_mm_getcsr() & ~0x3fU, 0x1f80);
}
END_TEST
#endif

START_TEST(rounding_is_to_nearest_again)
{
    volatile float one = 1;
    volatile float tiny = 1e-10F;
    ck_assert_int_eq(fesetround(FE_UPWARD), 0);
    ck_assert_float_gt(one + tiny, 1);

    ps_optimizer_enter_thread();

    ck_assert_float_eq(one + tiny, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("float_mode");
    TCase *cases = tcase_create("float_mode");
#if defined(__x86_64__)
    tcase_add_test(cases, subnormals_come_back_after_flush_to_zero);
#endif
    tcase_add_test(cases, rounding_is_to_nearest_again);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
