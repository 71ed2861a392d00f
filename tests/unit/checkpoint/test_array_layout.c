/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/array_layout.c. */
#include "checkpoint/array_layout.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static const struct ps_checkpoint_parameter dense = {
    .name = {(const uint8_t *)"w", 1}, .dtype = PS_F64, .count = 6, .state_count = 2};

static const struct ps_checkpoint_parameter rows = {.name = {(const uint8_t *)"t", 1},
                                                    .dtype = PS_F32,
                                                    .count = 15,
                                                    .state_count = 2,
                                                    .is_table = true,
                                                    .state_is_one = {false, true},
                                                    .width = 5,
                                                    .rows = 3};

START_TEST(states_are_as_their_values)
{
    ck_assert_uint_eq(ps_array_count(&dense), 3);
    for (uint32_t array = 0; array < 3; array++) {
        ck_assert_int_eq(ps_array_dtype(&dense, array), PS_F64);
        ck_assert_uint_eq(ps_array_elements(&dense, array), 6);
        ck_assert_uint_eq(ps_array_bytes(&dense, array), 48);
        ck_assert(!ps_array_shape(&dense, array).is_given);
        ck_assert(ps_array_is_wide(&dense, array));
    }
}
END_TEST

START_TEST(a_table_has_keys_and_a_clock_behind_its_states)
{
    static const uint64_t elements[] = {15, 15, 3, 3, 3};
    static const uint64_t bytes[] = {60, 60, 12, 24, 12};

    ck_assert_uint_eq(ps_array_count(&rows), 5);
    ck_assert_uint_eq(ps_array_of_keys(&rows), 3);
    for (uint32_t array = 0; array < 5; array++) {
        ck_assert_uint_eq(ps_array_elements(&rows, array), elements[array]);
        ck_assert_uint_eq(ps_array_bytes(&rows, array), bytes[array]);
        ck_assert_int_eq(ps_array_is_wide(&rows, array), array == 3);
    }
    ck_assert_int_eq(ps_array_dtype(&rows, 2), PS_F32);
    ck_assert_int_eq(ps_array_dtype(&rows, 3), PS_U64);
    ck_assert_int_eq(ps_array_dtype(&rows, 4), PS_U32);
}
END_TEST

START_TEST(elements_of_a_table_have_two_dimensions_also_without_rows)
{
    struct ps_checkpoint_parameter empty = rows;
    empty.rows = empty.count = 0;

    struct ps_shape values = ps_array_shape(&empty, 0);
    struct ps_shape one = ps_array_shape(&empty, 2);

    ck_assert_uint_eq(values.rank, 2);
    ck_assert_uint_eq(values.lengths[0], 0);
    ck_assert_uint_eq(values.lengths[1], 5);
    ck_assert_uint_eq(one.lengths[1], 1);
    ck_assert(!ps_array_shape(&empty, 3).is_given);
    ck_assert_uint_eq(ps_array_bytes(&empty, 3), 0);
}
END_TEST

START_TEST(every_array_has_a_name_of_its_own)
{
    static const char *names[] = {"t", "ps.state/0/t", "ps.state/1/t", "ps.keys/t", "ps.clock/t"};
    char name[PS_ARRAY_NAME_BYTES];

    for (uint32_t array = 0; array < 5; array++) {
        (void)ps_array_name(&rows, array, name);
        ck_assert_str_eq(name, names[array]);
    }
}
END_TEST

START_TEST(keys_that_went_are_one_array_more)
{
    char name[PS_ARRAY_NAME_BYTES];
    struct ps_checkpoint_parameter table = {.name = ps_bytes_of_text("t"),
                                            .dtype = PS_F32,
                                            .count = 10,
                                            .state_count = 1,
                                            .is_table = true,
                                            .state_is_one = {true},
                                            .width = 5,
                                            .rows = 2,
                                            .carry = PS_CARRY_ROWS};
    ck_assert_uint_eq(ps_array_carried(&table), 4);
    table.removed.size = 24;

    ck_assert_uint_eq(ps_array_count(&table), 4);
    ck_assert_uint_eq(ps_array_carried(&table), 5);
    ck_assert_int_eq(ps_array_dtype(&table, 4), PS_U64);
    ck_assert_uint_eq(ps_array_elements(&table, 4), 3);
    ck_assert_uint_eq(ps_array_bytes(&table, 4), 24);
    ck_assert(!ps_array_shape(&table, 4).is_given);
    (void)ps_array_name(&table, 4, name);
    ck_assert_str_eq(name, "ps.removed/t");

    table.carry = PS_CARRY_AS_BASE;
    ck_assert_uint_eq(ps_array_carried(&table), 0);
}
END_TEST

START_TEST(a_row_has_bytes_in_every_array_of_a_table)
{
    static const uint64_t bytes[] = {20, 4, 20, 8, 4};
    const struct ps_checkpoint_parameter table = {.dtype = PS_F32,
                                                  .state_count = 2,
                                                  .is_table = true,
                                                  .state_is_one = {true, false},
                                                  .width = 5};
    for (uint32_t array = 0; array < 5; array++)
        ck_assert_uint_eq(ps_array_row_bytes(&table, array), bytes[array]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("array_layout");
    TCase *tests = tcase_create("array_layout");
    tcase_add_test(tests, states_are_as_their_values);
    tcase_add_test(tests, a_table_has_keys_and_a_clock_behind_its_states);
    tcase_add_test(tests, elements_of_a_table_have_two_dimensions_also_without_rows);
    tcase_add_test(tests, every_array_has_a_name_of_its_own);
    tcase_add_test(tests, keys_that_went_are_one_array_more);
    tcase_add_test(tests, a_row_has_bytes_in_every_array_of_a_table);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
