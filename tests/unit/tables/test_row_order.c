/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_order.c: by stripe, and in a stripe as they came. */
#include "server/core/tables/row_order.h"
#include "tests/unit/tables/row_model.h"

#define COUNT 5000

static uint64_t hashes[COUNT];
static uint32_t order[COUNT];

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
    tcase_add_test(tests, stripes_have_their_keys_in_the_order_of_arrival);
    return run_tests("row_order", tests);
}
