/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of announced keys, against a plain array of numbers. */
#include "server/core/clocks/key_counts.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>

static struct ps_key_counts counts;
static struct ps_error error;
static struct ps_allocator memory; /* outlives a test's heap, of which nothing is left */

static void begin(void)
{
    ps_key_counts_init(&counts, ps_allocator_heap());
}

static void end(void)
{
    ps_key_counts_check(&counts);
    ps_key_counts_fini(&counts);
}

START_TEST(nothing_is_there_before_it_is_added)
{
    ck_assert(!ps_key_counts_has(&counts, ps_key_counts_hash(1, 1)));
    ck_assert_uint_eq(counts.capacity, 0);
}
END_TEST

START_TEST(a_pair_is_there_until_it_was_taken_as_often_as_added)
{
    uint64_t pair = ps_key_counts_hash(7, 3);
    ck_assert_int_eq(ps_key_counts_reserve(&counts, 2, &error), PS_OK);

    ps_key_counts_add(&counts, pair);
    ps_key_counts_add(&counts, pair);
    ps_key_counts_take(&counts, pair);
    ck_assert(ps_key_counts_has(&counts, pair));
    ck_assert(!ps_key_counts_has(&counts, ps_key_counts_hash(3, 7)));

    ps_key_counts_take(&counts, pair);
    ck_assert(!ps_key_counts_has(&counts, pair));
}
END_TEST

/* Hashes that share their lowest bits lie in one run, some of it round the end of the arrays. */
START_TEST(pairs_in_one_run_are_found_whoever_goes)
{
    enum { PAIRS = 24, STEPS = 20000 };
    uint32_t expected[PAIRS] = {0};
    struct ps_random random;
    ps_random_init(&random, 5);
    ck_assert_int_eq(ps_key_counts_reserve(&counts, PAIRS, &error), PS_OK);

    for (int step = 0; step < STEPS; step++) {
        uint64_t i = ps_random_below(&random, PAIRS);
        uint64_t hash = (i << 32) | (60 + i % 6);
        if (expected[i] > 0 && ps_random_below(&random, 2) == 0) {
            ps_key_counts_take(&counts, hash);
            expected[i]--;
        } else if (expected[i] < 3) {
            ps_key_counts_add(&counts, hash);
            expected[i]++;
        }
        for (uint64_t k = 0; k < PAIRS; k++)
            ck_assert_int_eq(ps_key_counts_has(&counts, (k << 32) | (60 + k % 6)), expected[k] > 0);
    }
}
END_TEST

START_TEST(a_table_that_grows_keeps_what_it_has)
{
    enum { PAIRS = 100000 };
    for (uint64_t key = 0; key < PAIRS; key++) {
        ck_assert_int_eq(ps_key_counts_reserve(&counts, 1, &error), PS_OK);
        ps_key_counts_add(&counts, ps_key_counts_hash(key, key % 5));
    }

    for (uint64_t key = 0; key < PAIRS; key++)
        ck_assert(ps_key_counts_has(&counts, ps_key_counts_hash(key, key % 5)));
    ck_assert_uint_eq(counts.used, PAIRS);
    ck_assert_uint_le(counts.capacity, 4 * PAIRS);
}
END_TEST

START_TEST(without_memory_it_stays_as_it_was)
{
    struct fault_heap heap = {.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    uint64_t pair = ps_key_counts_hash(1, 2);
    counts.memory = &memory;
    ck_assert_int_eq(ps_key_counts_reserve(&counts, 1, &error), PS_OK);
    ps_key_counts_add(&counts, pair);

    for (int refused = 0; refused < 2; refused++) {
        heap.refuse_at = heap.seen + refused;
        ck_assert_int_eq(ps_key_counts_reserve(&counts, 1000, &error), PS_ERR_NO_MEMORY);
        ck_assert(ps_key_counts_has(&counts, pair));
    }
    ps_key_counts_fini(&counts);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("key_counts");
    TCase *tests = tcase_create("key_counts");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, nothing_is_there_before_it_is_added);
    tcase_add_test(tests, a_pair_is_there_until_it_was_taken_as_often_as_added);
    tcase_add_test(tests, pairs_in_one_run_are_found_whoever_goes);
    tcase_add_test(tests, a_table_that_grows_keeps_what_it_has);
    tcase_add_test(tests, without_memory_it_stays_as_it_was);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
