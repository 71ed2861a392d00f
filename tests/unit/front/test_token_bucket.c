/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/token_bucket.c: so many at once, then so many a second. */
#include "run_suite.h"
#include "server/front/token_bucket.h"

#include <check.h>
#include <stdlib.h>

enum { BURST = 5, PER_S = 2 };

static uint64_t spend_all(struct ps_tokens *tokens, uint64_t now_ms)
{
    uint64_t count = 0;
    while (ps_tokens_spend(tokens, BURST, PER_S, now_ms))
        count++;
    return count;
}

START_TEST(begins_full_and_fills_with_time)
{
    struct ps_tokens tokens = {0};
    ck_assert(ps_tokens_left(&tokens, BURST, PER_S, 1000));
    ck_assert_uint_eq(spend_all(&tokens, 1000), BURST);
    ck_assert(!ps_tokens_left(&tokens, BURST, PER_S, 1499));
    ck_assert(ps_tokens_left(&tokens, BURST, PER_S, 1500));
    ck_assert_uint_eq(spend_all(&tokens, 2000), PER_S);
}
END_TEST

START_TEST(never_holds_more_than_its_size)
{
    struct ps_tokens tokens = {0};
    spend_all(&tokens, 0);
    ck_assert_uint_eq(spend_all(&tokens, UINT64_MAX), BURST);
}
END_TEST

START_TEST(a_clock_that_goes_back_gives_nothing)
{
    struct ps_tokens tokens = {0};
    spend_all(&tokens, 10000);
    ck_assert_uint_eq(spend_all(&tokens, 9000), 0);
    ck_assert_uint_eq(spend_all(&tokens, 9500), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("token_bucket");
    TCase *tests = tcase_create("token_bucket");
    tcase_add_test(tests, begins_full_and_fills_with_time);
    tcase_add_test(tests, never_holds_more_than_its_size);
    tcase_add_test(tests, a_clock_that_goes_back_gives_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
