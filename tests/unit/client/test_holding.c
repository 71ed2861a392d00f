/* SPDX-License-Identifier: Apache-2.0 */
/* Which operations wait for others, and when none do. */
#include "client/holding.h"

#include "run_suite.h"

#include <check.h>

static const uint64_t us = 1000;

static struct ps_item item = {.size = 4096};
static struct ps_batch_request request = {
    .method = PS_METHOD_PUSH, .items = &item, .item_count = 1};

static bool takes(struct ps_holding *holding, enum ps_method method, size_t size)
{
    struct ps_item one = {.size = size};
    struct ps_batch_request wish = {.method = method, .items = &one, .item_count = 1};
    return ps_holding_takes(holding, &wish);
}

START_TEST(small_pushes_and_pulls_are_held)
{
    struct ps_holding holding = {0};
    ck_assert(takes(&holding, PS_METHOD_PUSH, 4));
    ck_assert(takes(&holding, PS_METHOD_PULL, 4096));
    ck_assert(takes(&holding, PS_METHOD_PUSH_PULL, 16 * 1024));
}
END_TEST

START_TEST(what_is_large_and_what_is_no_push_or_pull_is_not)
{
    static const enum ps_method others[] = {PS_METHOD_INIT, PS_METHOD_FINISH, PS_METHOD_STATUS,
                                            PS_METHOD_LIST, PS_METHOD_SAVE,   PS_METHOD_SINCE};
    struct ps_holding holding = {0};
    ck_assert(!takes(&holding, PS_METHOD_PUSH, 16 * 1024 + 4));
    ck_assert(!takes(&holding, PS_METHOD_PUSH, SIZE_MAX));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert(!takes(&holding, others[i], 4));
}
END_TEST

START_TEST(a_batch_is_held_when_all_of_it_is_little)
{
    static struct ps_item items[5];
    struct ps_holding holding = {0};
    struct ps_batch_request wish = {.method = PS_METHOD_PUSH, .items = items};
    ck_assert(!ps_holding_takes(&holding, &wish));
    for (size_t i = 0; i < 5; i++)
        items[i].size = 4096;
    wish.item_count = 4;
    ck_assert(ps_holding_takes(&holding, &wish));
    items[3].size = 4100;
    ck_assert(!ps_holding_takes(&holding, &wish));
    items[3].size = 4;
    wish.item_count = 5;
    ck_assert(!ps_holding_takes(&holding, &wish));
}
END_TEST

START_TEST(no_more_are_held_than_make_a_message)
{
    struct ps_holding holding = {0};
    for (uint32_t i = 0; i < PS_HOLDING_MAX - 1; i++) {
        ck_assert(ps_holding_takes(&holding, &request));
        ps_holding_add(&holding, 1);
    }
    ck_assert(!ps_holding_takes(&holding, &request));
    ps_holding_release(&holding, 2);
    ck_assert(ps_holding_takes(&holding, &request));
}
END_TEST

/* One operation is held from 0 on, and leaves after so long. */
static void hold_for(struct ps_holding *holding, uint64_t ns)
{
    ck_assert(ps_holding_takes(holding, &request));
    ps_holding_add(holding, 5);
    ps_holding_release(holding, 5 + ns);
    ck_assert_uint_eq(holding->held, 0);
}

static uint32_t count_not_held(struct ps_holding *holding)
{
    uint32_t count = 0;
    while (!ps_holding_takes(holding, &request))
        count++;
    return count;
}

START_TEST(the_first_one_counts)
{
    struct ps_holding holding = {0};
    ps_holding_add(&holding, 10 * us);
    ps_holding_add(&holding, 0);
    ps_holding_release(&holding, 200 * us);
    ck_assert_uint_eq(count_not_held(&holding), 0);
    ps_holding_add(&holding, 1000 * us);
    ps_holding_add(&holding, 0);
    ps_holding_release(&holding, 1300 * us);
    ck_assert_uint_gt(count_not_held(&holding), 0);
}
END_TEST

START_TEST(a_caller_who_goes_away_is_held_up_ever_more_rarely)
{
    struct ps_holding holding = {0};
    uint32_t expected = 32;
    for (int i = 0; i < 12; i++) {
        hold_for(&holding, 10000 * us);
        ck_assert_uint_eq(count_not_held(&holding), expected);
        expected = expected < 4096 ? 2 * expected : 4096;
    }
}
END_TEST

START_TEST(one_who_comes_back_is_trusted_again)
{
    struct ps_holding holding = {0};
    hold_for(&holding, 10000 * us);
    ck_assert_uint_eq(count_not_held(&holding), 32);
    hold_for(&holding, 250 * us);
    hold_for(&holding, 251 * us);
    ck_assert_uint_eq(count_not_held(&holding), 32);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("holding");
    TCase *tests = tcase_create("holding");
    tcase_add_test(tests, small_pushes_and_pulls_are_held);
    tcase_add_test(tests, what_is_large_and_what_is_no_push_or_pull_is_not);
    tcase_add_test(tests, a_batch_is_held_when_all_of_it_is_little);
    tcase_add_test(tests, no_more_are_held_than_make_a_message);
    tcase_add_test(tests, the_first_one_counts);
    tcase_add_test(tests, a_caller_who_goes_away_is_held_up_ever_more_rarely);
    tcase_add_test(tests, one_who_comes_back_is_trusted_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
