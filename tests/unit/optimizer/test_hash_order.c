/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/hash_order.c: sorted, and equal ones as they came. */
#include "optimizer/hash_order.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdbool.h>

#define COUNT 5000

static uint64_t hashes[COUNT];
static uint32_t order[COUNT];
static uint64_t scratch[2 * COUNT];

static void expect_by_hash(uint32_t count)
{
    bool seen[COUNT] = {false};
    ps_hash_order(hashes, count, order, scratch);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert(!seen[order[i]]);
        seen[order[i]] = true;
        if (i > 0 && hashes[order[i]] == hashes[order[i - 1]])
            ck_assert_uint_lt(order[i - 1], order[i]);
        else if (i > 0)
            ck_assert_uint_lt(hashes[order[i - 1]], hashes[order[i]]);
    }
}

START_TEST(keys_are_sorted_whatever_bits_they_share)
{
    struct ps_random random;
    ps_random_init(&random, 3);
    static const uint64_t masks[] = {
        UINT64_MAX, 0xFF, 0xFFFF, (uint64_t)0xFF << 56, (uint64_t)0xF0F << 28, 0x7FFFFFFF, 0};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        for (uint32_t count = 0; count <= COUNT; count = count * 5 + 1) {
            for (uint32_t k = 0; k < count; k++)
                hashes[k] = (ps_random_next(&random) & masks[i]) | (uint64_t)1 << 40;
            expect_by_hash(count);
        }
}
END_TEST

START_TEST(what_is_in_order_stays)
{
    for (uint32_t count = 0; count <= COUNT; count = count * 5 + 1) {
        for (uint32_t i = 0; i < count; i++)
            hashes[i] = (uint64_t)(i / 3) << 40;
        expect_by_hash(count);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_uint_eq(order[i], i);
        /* All but the last. */
        if (count > 1)
            hashes[count - 1] = 0;
        expect_by_hash(count);
    }
}
END_TEST

/* Of two hashes that agree in all sorted bits the rest decides, wherever the two came from. */
START_TEST(two_that_agree_in_their_upper_bits_are_put_right)
{
    for (uint32_t at = 0; at + 1 < 100; at++) {
        for (uint32_t i = 0; i < 100; i++)
            hashes[i] = (uint64_t)(i * 7 % 100) << 40;
        hashes[at + 1] = hashes[at];
        hashes[at] |= 1;
        expect_by_hash(100);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash_order");
    TCase *tests = tcase_create("hash_order");
    tcase_add_test(tests, keys_are_sorted_whatever_bits_they_share);
    tcase_add_test(tests, what_is_in_order_stays);
    tcase_add_test(tests, two_that_agree_in_their_upper_bits_are_put_right);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
