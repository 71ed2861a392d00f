/* SPDX-License-Identifier: Apache-2.0 */
/* base/partition.c: which shard has a key. Names in capitals are those of the reference's cases. */
#include "base/partition.h"
#include "base/row_hash.h"
#include "run_suite.h"

#include <check.h>

static struct ps_partition ranges(uint32_t shards, uint64_t keys_max, uint64_t chunk)
{
    return (struct ps_partition){
        .kind = PS_PARTITION_RANGE, .shard_count = shards, .keys_max = keys_max, .chunk = chunk};
}

/* [first, end); an empty one has equal ends. */
static void expect_range(const struct ps_partition *partition, uint32_t shard, uint64_t first,
                         uint64_t end)
{
    const struct ps_key_range range = ps_partition_range(partition, shard);

    ck_assert_uint_eq(range.first, first);
    ck_assert_int_eq(range.is_empty, first == end);
    if (!range.is_empty)
        ck_assert_uint_eq(range.last, end - 1);
}

/* Both questions have one answer: the ends of each range fall to its shard, and their neighbours do
 * not. */
static void expect_agreement(const struct ps_partition *partition)
{
    for (uint32_t shard = 0; shard < partition->shard_count; shard++) {
        const struct ps_key_range range = ps_partition_range(partition, shard);
        if (range.is_empty)
            continue;
        ck_assert_uint_eq(ps_partition_shard(partition, range.first), shard);
        ck_assert_uint_eq(ps_partition_shard(partition, range.last), shard);
        if (range.first > 0)
            ck_assert_uint_ne(ps_partition_shard(partition, range.first - 1), shard);
        if (range.last < UINT64_MAX)
            ck_assert_uint_ne(ps_partition_shard(partition, range.last + 1), shard);
    }
}

START_TEST(DefaultSetting)
{
    const struct ps_partition partition = ranges(1, UINT64_MAX, 100);

    expect_range(&partition, 0, 0, UINT64_MAX);
}
END_TEST

START_TEST(SetNumServers)
{
    for (uint32_t shards = 1; shards < 9; shards++) {
        const struct ps_partition partition = ranges(shards, 100, 1);

        ck_assert_uint_eq(ps_partition_shard(&partition, 99), shards - 1);
        ck_assert_uint_eq(ps_partition_shard(&partition, 100), shards);
    }
}
END_TEST

START_TEST(GetNumRanges)
{
    const struct ps_partition partition = ranges(5, 5, 1);

    for (uint32_t shard = 0; shard < 5; shard++)
        expect_range(&partition, shard, shard, shard + 1);
}
END_TEST

START_TEST(SetMaxKeyAndChunkSizeStrange)
{
    const struct ps_partition partition = ranges(3, 3, 10);

    expect_range(&partition, 0, 0, 3);
    expect_range(&partition, 1, 3, 3);
    expect_range(&partition, 2, 3, 3);
}
END_TEST

START_TEST(SetMaxKeyAndChunkSize)
{
    const struct ps_partition three = ranges(3, 9, 2), two = ranges(2, 13, 5);

    expect_range(&three, 0, 0, 4);
    expect_range(&three, 1, 4, 8);
    expect_range(&three, 2, 8, 9);
    expect_range(&two, 0, 0, 10);
    expect_range(&two, 1, 10, 13);
}
END_TEST

START_TEST(GetServer)
{
    const struct ps_partition partition = ranges(3, 9, 2);
    static const uint32_t expected[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 3};

    for (uint64_t key = 0; key < 10; key++)
        ck_assert_uint_eq(ps_partition_shard(&partition, key), expected[key]);
}
END_TEST

START_TEST(CustomizeRanges)
{
    static const uint64_t bounds[] = {4, 4, 7};
    const struct ps_partition partition = {
        .kind = PS_PARTITION_GIVEN, .shard_count = 4, .bounds = bounds, .bound_count = 3};

    ck_assert_int_eq(ps_partition_check(&partition, NULL), PS_OK);
    expect_range(&partition, 0, 0, 4);
    expect_range(&partition, 1, 4, 4);
    expect_range(&partition, 2, 4, 7);
    ck_assert_uint_eq(ps_partition_shard(&partition, 3), 0);
    ck_assert_uint_eq(ps_partition_shard(&partition, 4), 2);
    ck_assert_uint_eq(ps_partition_shard(&partition, UINT64_MAX), 3);
    expect_agreement(&partition);
}
END_TEST

START_TEST(ranges_and_shards_agree_whatever_the_numbers)
{
    for (uint32_t shards = 1; shards < 12; shards++)
        for (uint64_t keys_max = 1; keys_max < 40; keys_max++)
            for (uint64_t chunk = 0; chunk < 9; chunk++) {
                const struct ps_partition partition = ranges(shards, keys_max, chunk);
                uint64_t next = 0;
                for (uint32_t shard = 0; shard < shards; shard++) {
                    const struct ps_key_range range = ps_partition_range(&partition, shard);
                    ck_assert_uint_eq(range.first, next);
                    next = range.is_empty ? next : range.last + 1;
                }
                ck_assert_uint_eq(next, keys_max);
                expect_agreement(&partition);
            }
}
END_TEST

START_TEST(the_highest_keys_have_a_place)
{
    const struct ps_partition partition = ranges(7, UINT64_MAX, UINT64_MAX / 3);

    ck_assert_uint_eq(ps_partition_shard(&partition, UINT64_MAX - 1), 2);
    ck_assert_uint_eq(ps_partition_shard(&partition, UINT64_MAX), 7);
    ck_assert(ps_partition_range(&partition, 6).is_empty);
    expect_agreement(&partition);
}
END_TEST

/* Neighbours, as most keys are. */
START_TEST(hashed_keys_are_spread_evenly)
{
    const struct ps_partition partition = {.kind = PS_PARTITION_HASH, .shard_count = 7};
    uint32_t counts[7] = {0};

    for (uint64_t key = 0; key < 70000; key++)
        counts[ps_partition_shard(&partition, key)]++;

    for (uint32_t shard = 0; shard < 7; shard++) {
        ck_assert_uint_gt(counts[shard], 9500);
        ck_assert_uint_lt(counts[shard], 10500);
    }
}
END_TEST

/* The product of hash and shard count, computed in another way. */
START_TEST(a_hashed_key_has_the_shard_of_the_contract)
{
    const struct ps_partition partition = {.kind = PS_PARTITION_HASH, .shard_count = 4096};

    for (uint64_t key = 0; key < 1000; key++)
        ck_assert_uint_eq(ps_partition_shard(&partition, key * key),
                          ps_row_hash(key * key, 0) >> 52);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    static const uint64_t falling[] = {5, 4};
    struct ps_partition given = {
        .kind = PS_PARTITION_GIVEN, .shard_count = 3, .bounds = falling, .bound_count = 2};
    struct ps_partition none = ranges(0, 9, 1), without = ranges(3, 0, 1);
    struct ps_partition unknown = {.kind = (enum ps_partition_kind)3, .shard_count = 1};

    ck_assert_int_eq(ps_partition_check(&given, NULL), PS_ERR_BAD_INPUT);
    given.bound_count = 1;
    ck_assert_int_eq(ps_partition_check(&given, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_partition_check(&none, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_partition_check(&without, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_partition_check(&unknown, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("partition");
    TCase *tests = tcase_create("partition");
    tcase_add_test(tests, DefaultSetting);
    tcase_add_test(tests, SetNumServers);
    tcase_add_test(tests, GetNumRanges);
    tcase_add_test(tests, SetMaxKeyAndChunkSizeStrange);
    tcase_add_test(tests, SetMaxKeyAndChunkSize);
    tcase_add_test(tests, GetServer);
    tcase_add_test(tests, CustomizeRanges);
    tcase_add_test(tests, ranges_and_shards_agree_whatever_the_numbers);
    tcase_add_test(tests, the_highest_keys_have_a_place);
    tcase_add_test(tests, hashed_keys_are_spread_evenly);
    tcase_add_test(tests, a_hashed_key_has_the_shard_of_the_contract);
    tcase_add_test(tests, what_makes_no_sense_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
