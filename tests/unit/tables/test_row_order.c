/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_order.c: sorted, and equal ones as they came. */
#include "server/core/tables/row_order.h"
#include "tests/unit/tables/row_model.h"

#define COUNT 5000

static uint64_t hashes[COUNT];
static uint32_t order[COUNT];
static uint64_t scratch[2 * COUNT];

static void expect_by_hash(uint32_t count)
{
    bool seen[COUNT] = {false};
    ps_row_order_by_hash(hashes, count, order, scratch);
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

START_TEST(stripes_have_their_keys_in_the_order_of_arrival)
{
    uint32_t begins[PS_ROW_STRIPES + 1];
    struct ps_random random;
    ps_random_init(&random, 4);
    for (uint32_t i = 0; i < COUNT; i++)
        hashes[i] = ps_random_next(&random);
    ps_row_order_by_stripe(hashes, COUNT, order, begins);
    ck_assert_uint_eq(begins[0], 0);
    ck_assert_uint_eq(begins[PS_ROW_STRIPES], COUNT);
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        for (uint32_t k = begins[i]; k < begins[i + 1]; k++) {
            ck_assert_uint_eq(hashes[order[k]] >> 56, i);
            ck_assert(k == begins[i] || order[k - 1] < order[k]);
        }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_order");
    tcase_add_test(tests, keys_are_sorted_whatever_bits_they_share);
    tcase_add_test(tests, stripes_have_their_keys_in_the_order_of_arrival);
    return run_tests("row_order", tests);
}
