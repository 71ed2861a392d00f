/* SPDX-License-Identifier: Apache-2.0 */
/* base/options_value.c: one text becomes one value. */
#include "base/options_value.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    uint64_t number;
    double real;
    bool flag;
    const char *choice;
};

static struct settings settings;

struct sample {
    enum ps_option_type type;
    const char *text;
    uint64_t number;
};

static enum ps_status set(enum ps_option_type type, const char *text)
{
    struct ps_option option = {.name = "x", .type = type, .choices = "a|bc|d", .help = ""};
    option.offset = type == PS_OPTION_REAL     ? offsetof(struct settings, real)
                    : type == PS_OPTION_FLAG   ? offsetof(struct settings, flag)
                    : type == PS_OPTION_CHOICE ? offsetof(struct settings, choice)
                                               : offsetof(struct settings, number);
    return ps_option_set_value(&option, "x", &settings, text, NULL);
}

static const struct sample numbers[] = {
    {PS_OPTION_UINT, "0", 0},
    {PS_OPTION_UINT, "007", 7},
    {PS_OPTION_UINT, "18446744073709551615", UINT64_MAX},
    {PS_OPTION_DURATION, "0", 0},
    {PS_OPTION_DURATION, "0s", 0},
    {PS_OPTION_DURATION, "500ms", 500},
    {PS_OPTION_DURATION, "10s", 10000},
    {PS_OPTION_DURATION, "5m", 300000},
    {PS_OPTION_DURATION, "2h", 7200000},
    {PS_OPTION_DURATION, "2", 2000},
    {PS_OPTION_BYTES, "2Gi", 2147483648},
    {PS_OPTION_BYTES, "2G", 2000000000},
    {PS_OPTION_BYTES, "0", 0},
    {PS_OPTION_BYTES, "4096", 4096},
    {PS_OPTION_BYTES, "64KiB", 65536},
    {PS_OPTION_BYTES, "4MiB", 4194304},
    {PS_OPTION_BYTES, "1GiB", 1073741824},
    {PS_OPTION_BYTES, "2TiB", 2199023255552},
    {PS_OPTION_BYTES, "16777215TiB", UINT64_MAX - 1099511627775},
};

START_TEST(numbers_with_their_units_are_read)
{
    ck_assert_int_eq(set(numbers[_i].type, numbers[_i].text), PS_OK);
    ck_assert_uint_eq(settings.number, numbers[_i].number);
}
END_TEST

static const struct sample refused[] = {
    {PS_OPTION_UINT, "", 0},
    {PS_OPTION_UINT, " 1", 0},
    {PS_OPTION_UINT, "1 ", 0},
    {PS_OPTION_UINT, "-1", 0},
    {PS_OPTION_UINT, "+1", 0},
    {PS_OPTION_UINT, "0x10", 0},
    {PS_OPTION_UINT, "1.5", 0},
    {PS_OPTION_UINT, "18446744073709551616", 0},
    {PS_OPTION_DURATION, "", 0},
    {PS_OPTION_DURATION, "s", 0},
    {PS_OPTION_DURATION, "10 s", 0},
    {PS_OPTION_DURATION, "10sec", 0},
    {PS_OPTION_DURATION, "-1s", 0},
    {PS_OPTION_DURATION, "18446744073709551615h", 0},
    {PS_OPTION_BYTES, "1kib", 0},
    {PS_OPTION_BYTES, "KiB", 0},
    {PS_OPTION_BYTES, "16777216TiB", 0},
    {PS_OPTION_REAL, "", 0},
    {PS_OPTION_REAL, " 1", 0},
    {PS_OPTION_REAL, "1x", 0},
    {PS_OPTION_REAL, "nan", 0},
    {PS_OPTION_REAL, "inf", 0},
    {PS_OPTION_REAL, "1e999", 0},
    {PS_OPTION_FLAG, "", 0},
    {PS_OPTION_FLAG, "TRUE", 0},
    {PS_OPTION_FLAG, "2", 0},
    {PS_OPTION_CHOICE, "", 0},
    {PS_OPTION_CHOICE, "b", 0},
    {PS_OPTION_CHOICE, "bcd", 0},
    {PS_OPTION_CHOICE, "a|bc", 0},
};

START_TEST(malformed_values_are_refused_and_change_nothing)
{
    memset(&settings, 0x55, sizeof settings);
    struct settings before = settings;

    ck_assert_int_eq(set(refused[_i].type, refused[_i].text), PS_ERR_BAD_INPUT);
    ck_assert_mem_eq(&settings, &before, sizeof settings);
}
END_TEST

START_TEST(reals_are_read)
{
    ck_assert_int_eq(set(PS_OPTION_REAL, "1e-3"), PS_OK);
    ck_assert_double_eq(settings.real, 0.001);
    ck_assert_int_eq(set(PS_OPTION_REAL, "-2.5"), PS_OK);
    ck_assert_double_eq(settings.real, -2.5);
}
END_TEST

START_TEST(flags_have_three_spellings)
{
    static const char *const words[] = {"true", "yes", "1", "false", "no", "0"};
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(set(PS_OPTION_FLAG, words[i]), PS_OK);
        ck_assert_int_eq(settings.flag, i < 3);
    }
}
END_TEST

START_TEST(every_choice_is_taken)
{
    static const char *const words[] = {"a", "bc", "d"};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(set(PS_OPTION_CHOICE, words[i]), PS_OK);
        ck_assert_ptr_eq(settings.choice, words[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_value");
    TCase *tests = tcase_create("options_value");
    tcase_add_loop_test(tests, numbers_with_their_units_are_read, 0, (int)PS_ARRAY_COUNT(numbers));
    tcase_add_loop_test(tests, malformed_values_are_refused_and_change_nothing, 0,
                        (int)PS_ARRAY_COUNT(refused));
    tcase_add_test(tests, reals_are_read);
    tcase_add_test(tests, flags_have_three_spellings);
    tcase_add_test(tests, every_choice_is_taken);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
