/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/table_check.c: what may stand in the settings of a table. */
#include "optimizer/table_check.h"

#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* A table of that rule, which is sound. */
static struct ps_optimizer_settings table(enum ps_rule rule)
{
    return (struct ps_optimizer_settings){.rule = rule, .table = {.width = 16}};
}

static void expect_refused(struct ps_optimizer_settings settings, enum ps_dtype dtype,
                           const char *word)
{
    struct ps_error error = {.text = ""};
    ck_assert_int_eq(ps_table_check(&settings, dtype, &error), PS_ERR_BAD_INPUT);
    ck_assert_msg(strstr(error.text, word) != NULL, "no '%s' in: %s", word, error.text);
}

START_TEST(a_table_of_any_rule_is_sound)
{
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        struct ps_optimizer_settings settings = table(rule);
        ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    }
    struct ps_optimizer_settings settings = table(PS_RULE_ADAGRAD);
    settings.adagrad_row_wise = true;
    ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    settings.table.width = PS_TABLE_WIDTH_MAX;
    ck_assert_int_eq(ps_table_check(&settings, PS_F64, NULL), PS_OK);
    settings.table.width++;
    expect_refused(settings, PS_F32, "table.width is 4097");
}
END_TEST

START_TEST(what_a_table_cannot_do_is_refused)
{
    struct ps_optimizer_settings settings = table(PS_RULE_SGD);
    settings.rounds.workers = 2;
    ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    settings = table(PS_RULE_ADD);
    settings.overflow = PS_OVERFLOW_FAIL;
    expect_refused(settings, PS_I32, "overflow");
    settings = table(PS_RULE_SGD);
    settings.adagrad_row_wise = true;
    expect_refused(settings, PS_F32, "row_wise");
    settings = (struct ps_optimizer_settings){.rule = PS_RULE_ADAGRAD, .adagrad_row_wise = true};
    expect_refused(settings, PS_F32, "row_wise");
}
END_TEST

START_TEST(first_values_and_limits_are_within_their_bounds)
{
    struct ps_optimizer_settings settings = table(PS_RULE_SGD);
    settings.table.init = PS_TABLE_UNIFORM;
    expect_refused(settings, PS_I64, "begins with zeros");
    settings.table.low = 1;
    expect_refused(settings, PS_F32, "above table.high");
    settings.table.high = INFINITY;
    expect_refused(settings, PS_F32, "finite");
    settings = table(PS_RULE_SGD);
    settings.table.init = (enum ps_table_init)4;
    expect_refused(settings, PS_F32, "table.init 4");
    settings = table(PS_RULE_SGD);
    settings.table.full = PS_TABLE_OLDEST;
    expect_refused(settings, PS_F32, "rows_max");
    settings = table(PS_RULE_SGD);
    settings.table.candidates_max = 2;
    expect_refused(settings, PS_F32, "table.candidates_max wants table.admission");
    settings.table.admission = 1;
    expect_refused(settings, PS_F32, "table.candidates_max wants table.admission");
    settings.table.admission = 2;
    ck_assert_int_eq(ps_optimizer_settings_check(&settings, PS_F32, NULL), PS_OK);
    settings = table(PS_RULE_SGD);
    settings.table.expire_clocks = 3;
    expect_refused(settings, PS_F32, "table.clocks");
}
END_TEST

/* What is drawn is no infinity, at neither end, and of no type. */
START_TEST(first_values_are_numbers_of_the_type)
{
    struct ps_optimizer_settings settings = table(PS_RULE_SGD);
    settings.table.low = 1e39;
    ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    settings.table.init = PS_TABLE_CONSTANT;
    expect_refused(settings, PS_F32, "1e+39 and table.high 0: beyond f32");
    ck_assert_int_eq(ps_table_check(&settings, PS_F64, NULL), PS_OK);
    settings.table.init = PS_TABLE_UNIFORM;
    settings.table.low = -3e38;
    settings.table.high = 3e38;
    ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    settings.table.high = 1e39;
    expect_refused(settings, PS_F32, "beyond f32");
    settings.table.low = -1e308;
    settings.table.high = 1e308;
    expect_refused(settings, PS_F64, "beyond f64");
    settings.table.init = PS_TABLE_NORMAL;
    settings.table.low = 0;
    expect_refused(settings, PS_F64, "beyond f64");
    settings.table.high = 1e38;
    expect_refused(settings, PS_F32, "beyond f32");
    ck_assert_int_eq(ps_table_check(&settings, PS_F64, NULL), PS_OK);
}
END_TEST

START_TEST(a_partition_has_what_it_needs_and_nothing_else)
{
    struct ps_optimizer_settings settings = table(PS_RULE_SGD);
    settings.table.keys_max = 9;
    expect_refused(settings, PS_F32, "keys_max");
    settings.table.partition = PS_TABLE_RANGE;
    ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    settings.table.bound_count = 1;
    expect_refused(settings, PS_F32, "table.bounds");
    settings = table(PS_RULE_SGD);
    settings.table.partition = PS_TABLE_GIVEN;
    settings.table.bound_count = 3;
    memcpy(settings.table.bounds, (uint64_t[]){4, 4, 7}, 3 * sizeof(uint64_t));
    ck_assert_int_eq(ps_table_check(&settings, PS_F32, NULL), PS_OK);
    settings.table.bounds[2] = 3;
    expect_refused(settings, PS_F32, "3 comes behind 4");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table check");
    TCase *tests = tcase_create("table check");
    tcase_add_test(tests, a_table_of_any_rule_is_sound);
    tcase_add_test(tests, what_a_table_cannot_do_is_refused);
    tcase_add_test(tests, first_values_and_limits_are_within_their_bounds);
    tcase_add_test(tests, first_values_are_numbers_of_the_type);
    tcase_add_test(tests, a_partition_has_what_it_needs_and_nothing_else);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
