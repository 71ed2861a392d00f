/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/merged_sums.c: runs of bytes in any order, from any thread, make the sum of all. */
#include "checkpoint/merged_sums.h"

#include "base/random.h"
#include "base/thread.h"
#include "checkpoint/checksum.h"
#include "run_suite.h"

#include <check.h>

#define BYTES 5000
#define ADDERS 4

static uint8_t bytes[BYTES];
static size_t ends[BYTES]; /* of the runs, in their order */
static size_t run_count;
static struct ps_merged_sums sums;

/* Runs of up to 99 bytes, some of them empty. */
static void make(uint64_t seed)
{
    struct ps_random random;
    ps_random_init(&random, seed);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)ps_random_next(&random);
    run_count = 0;
    for (size_t end = 0; end < BYTES;) {
        end += (size_t)ps_random_below(&random, 100);
        ends[run_count++] = end = end < BYTES ? end : BYTES;
    }
    ps_merged_sums_clear(&sums);
}

static void add(size_t run)
{
    size_t from = run > 0 ? ends[run - 1] : 0;
    const struct ps_bytes piece = {bytes + from, ends[run] - from};
    ps_merged_sums_add(&sums.base, ps_checksum_crc32c(0, piece), BYTES - ends[run]);
}

static uint32_t expected(void)
{
    return ps_checksum_crc32c(0, (struct ps_bytes){bytes, BYTES});
}

START_TEST(runs_come_in_any_order)
{
    make((uint64_t)_i);
    for (size_t i = 0; i < run_count; i += 2)
        add(i);
    for (size_t i = run_count; i > 0; i--)
        if (i % 2 == 0)
            add(i - 1);

    ck_assert_uint_eq(atomic_load(&sums.base), expected());
    ck_assert_uint_eq(atomic_load(&sums.own), 0);
}
END_TEST

static void add_some(void *first)
{
    for (size_t i = *(size_t *)first; i < run_count; i += ADDERS)
        add(i);
}

START_TEST(and_from_any_thread)
{
    struct ps_thread threads[ADDERS];
    size_t first[ADDERS];
    make(17);
    for (size_t i = 0; i < ADDERS; i++) {
        first[i] = i;
        ck_assert_int_eq(ps_thread_start(&threads[i], "adder", add_some, &first[i], NULL), PS_OK);
    }
    for (size_t i = 0; i < ADDERS; i++)
        ps_thread_join(&threads[i]);

    ck_assert_uint_eq(atomic_load(&sums.base), expected());
}
END_TEST

/* Also one that is of the right bytes at the wrong place. */
START_TEST(a_run_that_is_missing_or_comes_twice_shows)
{
    make(3);
    for (size_t i = 1; i < run_count; i++)
        add(i);
    ck_assert_uint_ne(atomic_load(&sums.base), expected());
    add(0);
    ck_assert_uint_eq(atomic_load(&sums.base), expected());
    add(0);
    ck_assert_uint_ne(atomic_load(&sums.base), expected());
    ps_merged_sums_clear(&sums);
    ck_assert_uint_eq(atomic_load(&sums.base), 0);
    const struct ps_bytes whole = {bytes, BYTES};
    ps_merged_sums_add(&sums.base, ps_checksum_crc32c(0, whole), 1);
    ck_assert_uint_ne(atomic_load(&sums.base), expected());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merged_sums");
    TCase *tests = tcase_create("merged_sums");
    tcase_add_loop_test(tests, runs_come_in_any_order, 0, 20);
    tcase_add_test(tests, and_from_any_thread);
    tcase_add_test(tests, a_run_that_is_missing_or_comes_twice_shows);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
