/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's cases of recent request ids, under their names. */
#include "server/core/rendezvous/recent_ids.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>

static struct ps_recent_ids ids;

static void begin(uint32_t capacity)
{
    ps_recent_ids_init(&ids, ps_allocator_heap(), capacity);
    ck_assert_int_eq(ps_recent_ids_reserve(&ids, NULL), PS_OK);
}

START_TEST(zero)
{
    begin(1);
    for (int i = 0; i < 3; i++) {
        ck_assert(!ps_recent_ids_has(&ids, 0));
        ps_recent_ids_add(&ids, 0);
    }
    ps_recent_ids_fini(&ids);
}
END_TEST

START_TEST(unordered)
{
    static const uint64_t numbers[] = {53754, 23351, 164101, 7476, 162432, 130761};
    begin(6);
    for (int i = 0; i < 6; i++) {
        ck_assert(!ps_recent_ids_has(&ids, numbers[i]));
        ps_recent_ids_add(&ids, numbers[i]);
        ps_recent_ids_check(&ids);
        for (int j = 0; j <= i; j++)
            ck_assert(ps_recent_ids_has(&ids, numbers[j]));
    }

    ps_recent_ids_add(&ids, 164102);
    ck_assert(!ps_recent_ids_has(&ids, numbers[0]));
    ck_assert(ps_recent_ids_has(&ids, numbers[1]) && ps_recent_ids_has(&ids, 164102));
    ps_recent_ids_check(&ids);
    ps_recent_ids_fini(&ids);
}
END_TEST

/* Of 100 numbers that are kept the one 100 before the last is there, and none before that. */
START_TEST(ordered)
{
    const uint32_t capacities[] = {2, 5, 10, 100};
    for (size_t k = 0; k < 4; k++) {
        begin(capacities[k]);
        for (uint64_t i = 1; i <= 2000; i++) {
            ck_assert(!ps_recent_ids_has(&ids, i));
            ps_recent_ids_add(&ids, i);
            uint64_t first = i > capacities[k] ? i - capacities[k] + 1 : 1;
            ck_assert(ps_recent_ids_has(&ids, first));
            ck_assert(first == 1 || !ps_recent_ids_has(&ids, first - 1));
        }
        ps_recent_ids_check(&ids);
        ps_recent_ids_fini(&ids);
    }
}
END_TEST

START_TEST(a_number_that_comes_twice_counts_once)
{
    begin(3);
    for (int i = 0; i < 10; i++)
        ps_recent_ids_add(&ids, 5);

    ck_assert_uint_eq(ids.count, 1);
    ps_recent_ids_fini(&ids);
}
END_TEST

START_TEST(nothing_is_left_of_memory_that_was_refused)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    ps_recent_ids_init(&ids, &memory, 10);

    ck_assert_int_eq(ps_recent_ids_reserve(&ids, NULL), _i < 2 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(!ps_recent_ids_has(&ids, 1));
    ps_recent_ids_check(&ids);
    ps_recent_ids_fini(&ids);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recent_ids");
    TCase *tests = tcase_create("recent_ids");
    tcase_add_test(tests, zero);
    tcase_add_test(tests, unordered);
    tcase_add_test(tests, ordered);
    tcase_add_test(tests, a_number_that_comes_twice_counts_once);
    tcase_add_loop_test(tests, nothing_is_left_of_memory_that_was_refused, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
