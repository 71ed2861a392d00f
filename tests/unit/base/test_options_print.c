/* SPDX-License-Identifier: Apache-2.0 */
/* base/options_print.c: values out again. */
#include "base/options.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *text;
    const char *unset;
    const char *password;
    bool flag;
    uint64_t count;
    double rate;
    uint64_t time_ms;
    uint64_t bytes;
    const char *choice;
};

#define FIELD(name_) .offset = offsetof(struct settings, name_), .help = ""

static const struct ps_option table[] = {
    {.name = "text", .type = PS_OPTION_TEXT, FIELD(text)},
    {.name = "unset", .type = PS_OPTION_TEXT, FIELD(unset)},
    {.name = "password", .type = PS_OPTION_TEXT, .secret = true, FIELD(password)},
    {.name = "flag", .type = PS_OPTION_FLAG, FIELD(flag)},
    {.name = "count", .type = PS_OPTION_UINT, FIELD(count)},
    {.name = "rate", .type = PS_OPTION_REAL, FIELD(rate)},
    {.name = "time", .type = PS_OPTION_DURATION, FIELD(time_ms)},
    {.name = "bytes", .type = PS_OPTION_BYTES, FIELD(bytes)},
    {.name = "choice", .type = PS_OPTION_CHOICE, .choices = "a|b", FIELD(choice)},
};

static const struct ps_option_set set = {
    .program = "prog", .options = table, .option_count = PS_ARRAY_COUNT(table)};

static char memory[2048];

static const char *print(const struct settings *settings)
{
    struct ps_buffer text;
    ps_buffer_init_fixed(&text, memory, sizeof memory);
    ps_options_print(&set, settings, &text);
    return memory;
}

START_TEST(every_type_is_printed_as_a_file_may_hold_it)
{
    struct settings settings = {.text = "a: \"b\" # c",
                                .password = "12345",
                                .flag = true,
                                .count = UINT64_MAX,
                                .rate = 0.5,
                                .time_ms = 90000,
                                .bytes = 65536,
                                .choice = "b"};

    ck_assert_str_eq(print(&settings), "text: \"a: \\\"b\\\" # c\"\n"
                                       "# unset:\n"
                                       "# password: (hidden)\n"
                                       "flag: true\n"
                                       "count: 18446744073709551615\n"
                                       "rate: 0.5\n"
                                       "time: 90s\n"
                                       "bytes: 64KiB\n"
                                       "choice: \"b\"\n");
}
END_TEST

struct sample {
    uint64_t value;
    const char *as_time;
    const char *as_bytes;
};

static const struct sample samples[] = {
    {0, "time: 0ms\n", "bytes: 0\n"},
    {1, "time: 1ms\n", "bytes: 1\n"},
    {1000, "time: 1s\n", "bytes: 1000\n"},
    {1024, "time: 1024ms\n", "bytes: 1KiB\n"},
    {7200000, "time: 2h\n", "bytes: 7200000\n"},
    {300000, "time: 5m\n", "bytes: 300000\n"},
    {3221225472, "time: 3221225472ms\n", "bytes: 3GiB\n"},
    {UINT64_MAX, "time: 18446744073709551615ms\n", "bytes: 18446744073709551615\n"},
};

START_TEST(units_are_the_largest_that_leave_no_rest)
{
    struct settings settings = {.time_ms = samples[_i].value, .bytes = samples[_i].value};

    print(&settings);

    ck_assert_ptr_nonnull(strstr(memory, samples[_i].as_time));
    ck_assert_ptr_nonnull(strstr(memory, samples[_i].as_bytes));
}
END_TEST

START_TEST(units_read_back_as_the_same_values)
{
    struct settings settings = {.time_ms = samples[_i].value, .bytes = samples[_i].value};
    struct settings again = {0};
    print(&settings);

    char *time = strstr(memory, "time: ") + 6;
    char *bytes = strstr(memory, "bytes: ") + 7;
    time[strcspn(time, "\n")] = '\0';
    bytes[strcspn(bytes, "\n")] = '\0';
    ck_assert_int_eq(ps_options_set(&set, &again, "time", time, NULL), PS_OK);
    ck_assert_int_eq(ps_options_set(&set, &again, "bytes", bytes, NULL), PS_OK);

    ck_assert_uint_eq(again.time_ms, samples[_i].value);
    ck_assert_uint_eq(again.bytes, samples[_i].value);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_print");
    TCase *tests = tcase_create("options_print");
    tcase_add_test(tests, every_type_is_printed_as_a_file_may_hold_it);
    tcase_add_loop_test(tests, units_are_the_largest_that_leave_no_rest, 0,
                        (int)PS_ARRAY_COUNT(samples));
    tcase_add_loop_test(tests, units_read_back_as_the_same_values, 0, (int)PS_ARRAY_COUNT(samples));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
