/* SPDX-License-Identifier: Apache-2.0 */
/* base/row_hash.h: what is part of the contract, and that keys spread. */
#include "base/row_hash.h"
#include "tests/unit/tables/row_model.h"

START_TEST(hashes_are_those_of_the_contract)
{
    ck_assert_uint_eq(ps_row_hash(0, 0), 0);
    ck_assert_uint_eq(ps_row_hash(1, 0), 0x5692161D100B05E5u);
    ck_assert_uint_eq(ps_row_hash(2, 0), 0xDBD238973A2B148Au);
}
END_TEST

START_TEST(every_hash_is_of_one_key)
{
    struct ps_random random;
    ps_random_init(&random, 1);
    for (int i = 0; i < 10000; i++) {
        uint64_t key = ps_random_next(&random);
        uint64_t seed = ps_random_next(&random);
        ck_assert_uint_eq(row_unhash(ps_row_hash(key, seed), seed), key);
    }
}
END_TEST

START_TEST(keys_of_one_shard_are_spread_over_all_stripes)
{
    uint32_t counts[256] = {0};
    uint32_t keys = 0;
    uint64_t seed = row_seed(0);
    for (uint64_t key = 0; keys < 25600; key++) {
        if (ps_row_hash(key, 0) >> 62 != 2)
            continue;
        counts[ps_row_hash(key, seed) >> 56]++;
        keys++;
    }
    for (int i = 0; i < 256; i++)
        ck_assert_msg(counts[i] > 50 && counts[i] < 160, "stripe %d has %u keys", i, counts[i]);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_hash");
    tcase_add_test(tests, hashes_are_those_of_the_contract);
    tcase_add_test(tests, every_hash_is_of_one_key);
    tcase_add_test(tests, keys_of_one_shard_are_spread_over_all_stripes);
    return run_tests("row_hash", tests);
}
