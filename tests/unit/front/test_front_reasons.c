/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/front_reasons.h: every reason has its words. */
#include "server/front/front_reasons.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_reason_is_counted_and_said)
{
    ck_assert_int_gt(ps_front_reason_refusal((enum ps_front_reason)_i), PS_REFUSED_NOT);
    ck_assert_int_lt(ps_front_reason_refusal((enum ps_front_reason)_i), PS_REFUSAL_COUNT);
    size_t length = strlen(ps_front_reason_text((enum ps_front_reason)_i));
    ck_assert_uint_gt(length, 20);
    ck_assert_uint_lt(length, 128);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("front reasons");
    TCase *tests = tcase_create("front reasons");
    tcase_add_loop_test(tests, every_reason_is_counted_and_said, PS_FRONT_FINE + 1,
                        PS_FRONT_REASON_COUNT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
