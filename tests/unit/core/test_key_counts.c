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

/* A hash whose home is one of six places that follow each other, some of them round the end of 64.
 * The inverse of the odd number is had by Newton's iteration. */
static uint64_t hash_in_run(uint64_t i)
{
    uint64_t inverse = counts.spread;
    ck_assert_uint_eq(counts.capacity, 64);
    for (int step = 0; step < 6; step++)
        inverse *= 2 - counts.spread * inverse;
    return ((60 + i % 6) << 58 | i << 32) * inverse;
}

START_TEST(pairs_in_one_run_are_found_whoever_goes)
{
    enum { PAIRS = 24, STEPS = 20000 };
    uint32_t expected[PAIRS] = {0};
    struct ps_random random;
    ps_random_init(&random, 5);
    ck_assert_int_eq(ps_key_counts_reserve(&counts, PAIRS, &error), PS_OK);

    for (int step = 0; step < STEPS; step++) {
        uint64_t i = ps_random_below(&random, PAIRS);
        uint64_t hash = hash_in_run(i);
        if (expected[i] > 0 && ps_random_below(&random, 2) == 0) {
            ps_key_counts_take(&counts, hash);
            expected[i]--;
        } else if (expected[i] < 3) {
            ps_key_counts_add(&counts, hash);
            expected[i]++;
        }
        for (uint64_t k = 0; k < PAIRS; k++)
            ck_assert_int_eq(ps_key_counts_has(&counts, hash_in_run(k)), expected[k] > 0);
    }
}
END_TEST

/* Hashes whose lower half somebody chose to be the same, or the upper one. Of one table the places
 * may be met unluckily, of several they are not. */
START_TEST(pairs_that_somebody_chose_are_spread_over_the_places)
{
    enum { TABLES = 8, PAIRS = 1000 };
    struct ps_key_counts tables[TABLES];
    size_t shortest = SIZE_MAX;
    for (size_t i = 0; i < TABLES; i++) {
        size_t run = 0, longest = 0;
        ps_key_counts_init(&tables[i], ps_allocator_heap());
        ck_assert_int_eq(ps_key_counts_reserve(&tables[i], PAIRS, &error), PS_OK);
        for (uint64_t pair = 0; pair < PAIRS; pair++)
            ps_key_counts_add(&tables[i], _i == 0 ? pair << 32 : pair);
        for (size_t place = 0; place < tables[i].capacity; place++) {
            run = tables[i].counts[place] > 0 ? run + 1 : 0;
            longest = run > longest ? run : longest;
        }
        shortest = longest < shortest ? longest : shortest;
    }
    ck_assert_uint_lt(shortest, PAIRS / 4);
    for (size_t i = 0; i < TABLES; i++)
        ps_key_counts_fini(&tables[i]);
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
    tcase_add_loop_test(tests, pairs_that_somebody_chose_are_spread_over_the_places, 0, 2);
    tcase_add_test(tests, a_table_that_grows_keeps_what_it_has);
    tcase_add_test(tests, without_memory_it_stays_as_it_was);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
