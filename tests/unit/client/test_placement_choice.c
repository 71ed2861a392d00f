/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/placement_choice.c: the number is the same for everybody, and worth having. */
#include "client/engine/placement_choice.h"

#include "base/hash.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 3000
#define SHARDS_MAX 16

static struct ps_placed placed[MANY];
static char names[MANY][64];
static size_t count;

static void add(uint64_t size, const char *format, int a, int b)
{
    (void)snprintf(names[count], sizeof names[count], "%s.%d.%d", format, a, b);
    placed[count].name = ps_bytes_of_text(names[count]);
    placed[count++].size = size;
}

static uint64_t choose(uint32_t shard_count)
{
    uint64_t placement = 0;
    ck_assert_int_eq(
        ps_placement_choose(placed, count, shard_count, ps_allocator_heap(), &placement, NULL),
        PS_OK);
    return placement;
}

/* Of the fullest shard, beside the mean. */
static double unevenness(uint64_t placement, uint32_t shard_count)
{
    uint64_t loads[SHARDS_MAX], most = 0, sum = 0;
    ps_placement_loads(placed, count, placement, shard_count, loads);
    for (uint32_t i = 0; i < shard_count; i++) {
        most = loads[i] > most ? loads[i] : most;
        sum += loads[i];
    }
    return (double)most * shard_count / (double)sum;
}

/* The shapes of a residual network of 50 layers. */
static void add_network(void)
{
    static const int widths[] = {64, 128, 256, 512}, blocks[] = {3, 4, 6, 3};
    int input = 64;
    for (int layer = 0; layer < 4; layer++) {
        uint64_t width = (uint64_t)widths[layer];
        for (int block = 0; block < blocks[layer]; block++) {
            add((uint64_t)input * width * 4, "conv1", layer, block);
            add(width * width * 36, "conv2", layer, block);
            add(width * width * 16, "conv3", layer, block);
            add(width * 4, "bias", layer, block);
            input = 4 * widths[layer];
        }
    }
    add(2048 * 1000 * 4, "fc", 0, 0);
}

START_TEST(a_network_is_spread_nearly_evenly)
{
    count = 0;
    add_network();
    ck_assert_double_lt(unevenness(choose(2), 2), 1.01);
    ck_assert_double_lt(unevenness(choose(4), 4), 1.05);
    ck_assert_double_lt(unevenness(choose(8), 8), 1.20);
}
END_TEST

START_TEST(equal_parameters_are_spread_in_equal_numbers)
{
    for (uint32_t shards = 2; shards <= 8; shards *= 2) {
        count = 0;
        for (int i = 0; i < (int)shards; i++)
            add(4096, "same", i, 0);
        double classic = unevenness(1, shards);
        ck_assert_double_le(unevenness(choose(shards), shards), classic);
        ck_assert_double_lt(unevenness(choose(shards), shards), shards > 4 ? 2.01 : 1.01);
    }
}
END_TEST

START_TEST(the_order_of_the_parameters_does_not_count)
{
    count = 0;
    add_network();
    uint64_t first = choose(4);
    for (size_t i = 0; i < count / 2; i++) {
        struct ps_placed other = placed[i];
        placed[i] = placed[count - 1 - i];
        placed[count - 1 - i] = other;
    }
    ck_assert_uint_gt(first, PS_PLACEMENT_CLASSIC);
    ck_assert_uint_eq(choose(4), first);
}
END_TEST

START_TEST(the_classic_rule_is_kept_where_nothing_is_gained)
{
    count = 0;
    ck_assert_uint_eq(choose(4), PS_PLACEMENT_CLASSIC);
    add(4000000, "weights", 0, 0);
    ck_assert_uint_eq(choose(4), PS_PLACEMENT_CLASSIC);
    add(4, "bias", 0, 0);
    ck_assert_uint_eq(choose(4), PS_PLACEMENT_CLASSIC);
    ck_assert_uint_eq(choose(1), PS_PLACEMENT_CLASSIC);
    for (int i = 0; count < MANY; i++)
        add(1000, "many", i, 0);
    ck_assert_uint_eq(choose(2), PS_PLACEMENT_CLASSIC);
}
END_TEST

START_TEST(a_choice_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    uint64_t placement = 0;
    count = 0;
    add_network();
    enum ps_status status = ps_placement_choose(placed, count, 2, &memory, &placement, NULL);
    ck_assert_int_eq(status, _i < 2 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("placement_choice");
    TCase *tests = tcase_create("placement_choice");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_network_is_spread_nearly_evenly);
    tcase_add_test(tests, equal_parameters_are_spread_in_equal_numbers);
    tcase_add_test(tests, the_order_of_the_parameters_does_not_count);
    tcase_add_test(tests, the_classic_rule_is_kept_where_nothing_is_gained);
    tcase_add_loop_test(tests, a_choice_survives_any_refused_allocation, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
