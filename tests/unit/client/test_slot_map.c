/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of units: the lowest free one, never two over each other. */
#include "client/local/slot_map.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

#define UNIT PS_SLOT_UNIT_BYTES

static struct ps_slot_map map;
static size_t offset;

START_TEST(the_lowest_run_that_is_long_enough_is_taken)
{
    ps_slot_map_init(&map, 10);
    ck_assert(ps_slot_map_take(&map, 2 * UNIT, &offset));
    ck_assert_uint_eq(offset, 0);
    ck_assert(ps_slot_map_take(&map, UNIT, &offset));
    ck_assert_uint_eq(offset, 2 * UNIT);
    ck_assert(ps_slot_map_take(&map, 3 * UNIT, &offset));
    ck_assert_uint_eq(offset, 3 * UNIT);

    ps_slot_map_release(&map, UNIT, 2 * UNIT);

    ck_assert(ps_slot_map_take(&map, 2 * UNIT, &offset));
    ck_assert_uint_eq(offset, 6 * UNIT);
    ck_assert(ps_slot_map_take(&map, 1, &offset));
    ck_assert_uint_eq(offset, 2 * UNIT);
}
END_TEST

START_TEST(a_size_that_is_no_whole_number_of_units_takes_one_more)
{
    ps_slot_map_init(&map, 4);
    ck_assert(ps_slot_map_take(&map, UNIT + 1, &offset));
    ck_assert_uint_eq(map.used_count, 2);
    ck_assert(ps_slot_map_take(&map, 2 * UNIT - 1, &offset));
    ck_assert_uint_eq(offset, 2 * UNIT);
    ps_slot_map_release(&map, UNIT + 1, 0);
    ps_slot_map_release(&map, 2 * UNIT - 1, 2 * UNIT);
    ck_assert_uint_eq(map.used_count, 0);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_and_changes_nothing)
{
    ps_slot_map_init(&map, PS_SLOT_UNITS_MAX);
    ck_assert(!ps_slot_map_take(&map, SIZE_MAX, &offset));
    ck_assert(!ps_slot_map_take(&map, PS_SLOT_UNITS_MAX * UNIT + 1, &offset));
    ck_assert_uint_eq(map.used_count, 0);
    ck_assert(ps_slot_map_take(&map, PS_SLOT_UNITS_MAX * UNIT, &offset));
    ck_assert(!ps_slot_map_take(&map, 1, &offset));
    ps_slot_map_release(&map, PS_SLOT_UNITS_MAX * UNIT, 0);
    ck_assert(ps_slot_map_take(&map, 1, &offset));
}
END_TEST

/* Free units that are apart make no run. */
START_TEST(a_run_is_never_made_of_pieces)
{
    ps_slot_map_init(&map, 6);
    for (int i = 0; i < 6; i++)
        ck_assert(ps_slot_map_take(&map, UNIT, &offset));
    for (size_t i = 0; i < 6; i += 2)
        ps_slot_map_release(&map, UNIT, i * UNIT);
    ck_assert(!ps_slot_map_take(&map, 2 * UNIT, &offset));
    ps_slot_map_release(&map, UNIT, 5 * UNIT);
    ck_assert(ps_slot_map_take(&map, 2 * UNIT, &offset));
    ck_assert_uint_eq(offset, 4 * UNIT);
}
END_TEST

START_TEST(no_two_that_are_in_use_overlap)
{
    struct {
        size_t size, offset;
    } held[64];
    size_t count = 0;
    static uint8_t owner[256];
    struct ps_random random;
    ps_random_init(&random, 20260601);
    ps_slot_map_init(&map, 256);
    for (int turn = 0; turn < 20000; turn++) {
        size_t size = 1 + (size_t)ps_random_below(&random, 20 * UNIT);
        if (count < 64 && ps_random_below(&random, 2) == 0 &&
            ps_slot_map_take(&map, size, &offset)) {
            size_t end = (offset + size + UNIT - 1) / UNIT;
            for (size_t unit = offset / UNIT; unit < end; unit++)
                ck_assert_uint_eq(owner[unit]++, 0);
            held[count].size = size;
            held[count++].offset = offset;
        } else if (count > 0) {
            size_t i = (size_t)ps_random_below(&random, count);
            size_t end = (held[i].offset + held[i].size + UNIT - 1) / UNIT;
            for (size_t unit = held[i].offset / UNIT; unit < end; unit++)
                ck_assert_uint_eq(owner[unit]--, 1);
            ps_slot_map_release(&map, held[i].size, held[i].offset);
            held[i] = held[--count];
        }
    }
}
END_TEST

START_TEST(giving_back_what_is_not_taken_is_a_bug)
{
    ps_slot_map_init(&map, 4);
    ps_slot_map_release(&map, UNIT, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slot_map");
    TCase *tests = tcase_create("slot_map");
    tcase_add_test(tests, the_lowest_run_that_is_long_enough_is_taken);
    tcase_add_test(tests, a_size_that_is_no_whole_number_of_units_takes_one_more);
    tcase_add_test(tests, what_does_not_fit_is_refused_and_changes_nothing);
    tcase_add_test(tests, a_run_is_never_made_of_pieces);
    tcase_add_test(tests, no_two_that_are_in_use_overlap);
    tcase_add_test_raise_signal(tests, giving_back_what_is_not_taken_is_a_bug, 6);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
