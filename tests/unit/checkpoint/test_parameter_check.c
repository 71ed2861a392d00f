/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/parameter_check.c: what the writer refuses, and what aborts it. */
#include "checkpoint/parameter_check.h"

#include "run_suite.h"
#include "sample_increment.h"

#include <check.h>
#include <signal.h>

static const float values[2] = {1, 2};
static const struct ps_bytes run = {(const uint8_t *)values, sizeof values};
static const struct sample_row list[] = {{1, 1}, {2, 1}};
static const uint64_t gone[] = {3};
static struct ps_checkpoint_facts facts;
static struct ps_checkpoint_parameter dense;
static struct sample_rows table;
static struct ps_error error;

static void set_up(void)
{
    facts = sample_own_facts();
    dense = (struct ps_checkpoint_parameter){
        .name = ps_bytes_of_text("w"), .dtype = PS_F32, .count = 2, .values = ps_view_of(&run)};
    sample_rows_init(&table, "t", PS_F32, 2, list, 2);
}

static void tear_down(void)
{
    sample_rows_fini(&table);
}

static enum ps_status check(const struct ps_checkpoint_parameter *parameter)
{
    return ps_checkpoint_check_parameters(&facts, parameter, 1, &error);
}

START_TEST(what_a_file_can_hold_is_taken)
{
    ck_assert_int_eq(check(&dense), PS_OK);
    dense.carry = PS_CARRY_AS_BASE;
    dense.values = (struct ps_view){0};
    ck_assert_int_eq(check(&dense), PS_OK);
    sample_rows_remove(&table, gone, 1);
    ck_assert_int_eq(check(&table.parameter), PS_OK);
}
END_TEST

START_TEST(names_of_the_files_own_are_refused)
{
    static const char *const names[] = {"",           "ps.removed/w", "ps.keys/w",
                                        "ps.clock/w", "ps.state/0/w", "ps.sessions"};
    dense.name = ps_bytes_of_text(names[_i]);

    ck_assert_int_eq(check(&dense), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(what_relies_on_a_base_that_is_not_named_aborts)
{
    facts.base = "";
    dense.carry = PS_CARRY_AS_BASE;
    (void)check(&dense);
}
END_TEST

START_TEST(rows_of_what_is_no_table_abort)
{
    dense.carry = PS_CARRY_ROWS;
    (void)check(&dense);
}
END_TEST

START_TEST(keys_that_went_of_a_whole_table_abort)
{
    sample_rows_remove(&table, gone, 1);
    table.parameter.carry = PS_CARRY_WHOLE;
    (void)check(&table.parameter);
}
END_TEST

START_TEST(a_view_of_another_size_than_its_array_aborts)
{
    dense.count = 3;
    (void)check(&dense);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parameter_check");
    TCase *tests = tcase_create("parameter_check");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_a_file_can_hold_is_taken);
    tcase_add_loop_test(tests, names_of_the_files_own_are_refused, 0, 6);
    tcase_add_test_raise_signal(tests, what_relies_on_a_base_that_is_not_named_aborts, SIGABRT);
    tcase_add_test_raise_signal(tests, rows_of_what_is_no_table_abort, SIGABRT);
    tcase_add_test_raise_signal(tests, keys_that_went_of_a_whole_table_abort, SIGABRT);
    tcase_add_test_raise_signal(tests, a_view_of_another_size_than_its_array_aborts, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
