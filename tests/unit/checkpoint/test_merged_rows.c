/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/merged_rows.c: sets of keys, and which rows survive, against plain arrays. */
#include "checkpoint/merged_rows.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <signal.h>

#define ROWS_MAX 3000

static struct ps_merged_rows rows;
static bool kept[ROWS_MAX];

/* A row in `of` survives of each `some`; all when `some` is 0. */
static void make(uint64_t count, uint64_t some, uint64_t of, uint64_t seed)
{
    struct ps_random random;
    ps_random_init(&random, seed);
    ck_assert_int_eq(ps_merged_rows_init(&rows, count, ps_allocator_heap(), NULL), PS_OK);
    for (uint64_t row = 0; row < count; row++) {
        kept[row] = ps_random_next(&random) % of < some;
        if (!kept[row])
            ps_merged_rows_drop(&rows, row);
    }
    ps_merged_rows_seal(&rows);
}

static void assert_as_kept(uint64_t count)
{
    uint64_t survivors = 0;
    for (uint64_t row = 0; row < count; row++) {
        if (!kept[row])
            continue;
        ck_assert_uint_eq(ps_merged_rows_place(&rows, survivors), row);
        survivors++;
    }
    ck_assert_uint_eq(rows.survivors, survivors);
    for (uint64_t row = 0; row < count; row += 1 + row % 5)
        for (uint64_t end = row + 1; end <= count; end += 1 + end % 97) {
            uint64_t run = 1;
            bool survives = false;
            while (row + run < end && kept[row + run] == kept[row])
                run++;
            ck_assert_uint_eq(ps_merged_rows_run(&rows, row, end, &survives), run);
            ck_assert_int_eq(survives, kept[row]);
            ck_assert_int_eq(ps_merged_rows_has(&rows, row), kept[row]);
        }
}

/* Sizes around a word of 64 rows and a group of 512, and shares from none to all. */
START_TEST(survivors_are_found_as_in_a_plain_array)
{
    static const uint64_t counts[] = {0,   1,   2,   63,  64,   65,   127,  128,
                                      511, 512, 513, 576, 1023, 1024, 1025, 2999};
    static const uint64_t shares[] = {0, 1, 50, 99, 100};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
            make(counts[i], shares[k], 100, i + k);
            assert_as_kept(counts[i]);
            ps_merged_rows_fini(&rows);
        }
}
END_TEST

START_TEST(a_row_beyond_the_base_aborts)
{
    make(65, 1, 1, 1);
    ps_merged_rows_drop(&rows, 65);
}
END_TEST

START_TEST(a_survivor_that_there_is_not_aborts)
{
    make(65, 1, 2, 1);
    (void)ps_merged_rows_place(&rows, rows.survivors);
}
END_TEST

START_TEST(a_set_has_the_keys_that_were_added_and_no_others)
{
    struct ps_key_set set;
    ck_assert_int_eq(ps_key_set_init(&set, 1003, ps_allocator_heap(), NULL), PS_OK);
    ck_assert(!ps_key_set_has(&set, 0));
    ck_assert(!ps_key_set_has(&set, UINT64_MAX));
    for (uint64_t key = 1; key <= 1000; key++)
        ps_key_set_add(&set, key << 40);
    ps_key_set_add(&set, UINT64_MAX);
    ck_assert(!ps_key_set_has(&set, 0));

    ps_key_set_add(&set, 0);
    ps_key_set_add(&set, 0);

    ck_assert(ps_key_set_has(&set, 0));
    ck_assert(ps_key_set_has(&set, UINT64_MAX));
    for (uint64_t key = 1; key <= 1000; key++) {
        ck_assert(ps_key_set_has(&set, key << 40));
        ck_assert(!ps_key_set_has(&set, key));
    }
    ps_key_set_fini(&set);
}
END_TEST

/* A file may say a key twice; whoever takes the rows refuses it, not the set. */
START_TEST(a_key_takes_one_place_however_often_it_is_added)
{
    struct ps_key_set set;
    ck_assert_int_eq(ps_key_set_init(&set, 1, ps_allocator_heap(), NULL), PS_OK);

    for (int i = 0; i < 100; i++)
        ps_key_set_add(&set, 9);

    ck_assert(ps_key_set_has(&set, 9));
    ps_key_set_fini(&set);
}
END_TEST

START_TEST(an_empty_set_has_nothing)
{
    struct ps_key_set set;
    ck_assert_int_eq(ps_key_set_init(&set, 0, ps_allocator_heap(), NULL), PS_OK);
    ck_assert(!ps_key_set_has(&set, 0));
    ck_assert(!ps_key_set_has(&set, 1));
    ps_key_set_fini(&set);
    ps_key_set_fini(&set);
    ps_key_set_fini(NULL);
}
END_TEST

START_TEST(refused_memory_leaves_nothing)
{
    struct ps_key_set set;
    for (int refused = 0; refused < 2; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        ck_assert_int_eq(ps_merged_rows_init(&rows, 100, &memory, NULL), PS_ERR_NO_MEMORY);
        ck_assert_int_eq(heap.live, 0);
    }
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    ck_assert_int_eq(ps_key_set_init(&set, 100, &memory, NULL), PS_ERR_NO_MEMORY);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Of sets of any size, with keys that are in them and some that are not. */
START_TEST(rows_whose_keys_are_in_a_set_are_dropped)
{
    static uint64_t keys[ROWS_MAX];
    struct ps_key_set set;
    struct ps_random random;
    uint64_t in_set = (uint64_t)_i * (uint64_t)_i * 7;
    ps_random_init(&random, (uint64_t)_i);
    ck_assert_int_eq(ps_merged_rows_init(&rows, ROWS_MAX, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_int_eq(ps_key_set_init(&set, in_set, ps_allocator_heap(), NULL), PS_OK);
    for (uint64_t i = 0; i < ROWS_MAX; i++) {
        keys[i] = i % 3 == 0 ? i : ps_random_next(&random);
        kept[i] = i % 2 == 0 || i / 2 >= in_set;
        if (!kept[i])
            ps_key_set_add(&set, keys[i]);
    }
    for (uint64_t first = 0, count = 1; first < ROWS_MAX; first += count, count += 100) {
        count = count < ROWS_MAX - first ? count : ROWS_MAX - first;
        ps_merged_rows_drop_keys(&rows, first, keys + first, (size_t)count, &set);
    }
    ps_merged_rows_seal(&rows);

    assert_as_kept(ROWS_MAX);

    ps_key_set_fini(&set);
    ps_merged_rows_fini(&rows);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merged_rows");
    TCase *tests = tcase_create("merged_rows");
    tcase_add_test(tests, survivors_are_found_as_in_a_plain_array);
    tcase_add_test_raise_signal(tests, a_row_beyond_the_base_aborts, SIGABRT);
    tcase_add_test_raise_signal(tests, a_survivor_that_there_is_not_aborts, SIGABRT);
    tcase_add_test(tests, a_set_has_the_keys_that_were_added_and_no_others);
    tcase_add_test(tests, a_key_takes_one_place_however_often_it_is_added);
    tcase_add_test(tests, an_empty_set_has_nothing);
    tcase_add_test(tests, refused_memory_leaves_nothing);
    tcase_add_loop_test(tests, rows_whose_keys_are_in_a_set_are_dropped, 0, 16);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
