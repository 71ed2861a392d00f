/* SPDX-License-Identifier: Apache-2.0 */
/* client/row_deal.c: positions by shard, and by bucket. */
#include "client/row_deal.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>

enum { COUNT = 3000, KEYS = 700 };

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_error error;
static uint64_t keys[COUNT];

static void begin(void)
{
    struct ps_random random;
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_random_init(&random, 11);
    for (size_t i = 0; i < COUNT; i++)
        keys[i] = ps_random_below(&random, KEYS);
}

static void end(void)
{
    ck_assert_int_eq(heap.live, 0);
}

START_TEST(every_position_is_dealt_once_to_the_shard_of_its_key)
{
    const struct ps_partition partition = {.shard_count = (uint32_t)_i};
    bool seen[COUNT] = {false};
    struct ps_row_dealt dealt;

    ck_assert_int_eq(ps_row_deal(&memory, &partition, keys, COUNT, &dealt, &error), PS_OK);

    ck_assert_uint_eq(dealt.starts[0], 0);
    ck_assert_uint_eq(dealt.starts[partition.shard_count], COUNT);
    for (uint32_t shard = 0; shard < partition.shard_count; shard++)
        for (size_t i = dealt.starts[shard]; i < dealt.starts[shard + 1]; i++) {
            uint32_t position = dealt.order[i];
            ck_assert(!seen[position]);
            seen[position] = true;
            ck_assert_uint_eq(ps_partition_shard(&partition, keys[position]), shard);
            ck_assert(i == dealt.starts[shard] || dealt.order[i - 1] < position);
        }
    ps_row_deal_fini(&memory, &dealt);
}
END_TEST

START_TEST(buckets_have_all_positions_of_a_key_and_the_first_is_small)
{
    enum { BUCKETS = 5 };
    static uint32_t from[COUNT], to[COUNT], scratch[COUNT], bucket_of[KEYS];
    size_t starts[BUCKETS + 2];
    for (size_t i = 0; i < COUNT; i++)
        from[i] = (uint32_t)i;

    ps_row_deal_buckets(keys, 1, from, COUNT, BUCKETS, scratch, starts, to);

    ck_assert_uint_eq(starts[0], 0);
    ck_assert_uint_eq(starts[BUCKETS], COUNT);
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        size_t whole = COUNT * 4 / (4 * BUCKETS - 3);
        size_t expected = bucket == 0 ? whole / 4 : whole;
        ck_assert_uint_gt(starts[bucket + 1] - starts[bucket], expected * 3 / 4);
        ck_assert_uint_lt(starts[bucket + 1] - starts[bucket], expected * 5 / 4);
        for (size_t i = starts[bucket]; i < starts[bucket + 1]; i++) {
            uint32_t *of = &bucket_of[keys[to[i]]];
            ck_assert(*of == 0 || *of == bucket + 1);
            *of = bucket + 1;
            ck_assert(i == starts[bucket] || to[i - 1] < to[i]);
        }
    }
}
END_TEST

START_TEST(a_key_outside_the_ranges_leaves_nothing_behind)
{
    const struct ps_partition ranges = {
        .kind = PS_PARTITION_RANGE, .shard_count = 1, .keys_max = KEYS / 2};
    struct ps_row_dealt dealt;

    ck_assert_int_eq(ps_row_deal(&memory, &ranges, keys, COUNT, &dealt, &error),
                     PS_ERR_OUT_OF_RANGE);
    ck_assert_ptr_null(dealt.order);
}
END_TEST

START_TEST(refused_memory_leaves_nothing_behind)
{
    const struct ps_partition two = {.shard_count = 2};
    enum ps_status status = PS_ERR_NO_MEMORY;
    struct ps_row_dealt dealt;

    for (int64_t at = 0; status != PS_OK; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        status = ps_row_deal(&memory, &two, keys, COUNT, &dealt, &error);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        if (status == PS_OK)
            ps_row_deal_fini(&memory, &dealt);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row deal");
    TCase *tests = tcase_create("deal");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, every_position_is_dealt_once_to_the_shard_of_its_key, 1, 5);
    tcase_add_test(tests, buckets_have_all_positions_of_a_key_and_the_first_is_small);
    tcase_add_test(tests, a_key_outside_the_ranges_leaves_nothing_behind);
    tcase_add_test(tests, refused_memory_leaves_nothing_behind);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
