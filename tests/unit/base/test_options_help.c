/* SPDX-License-Identifier: Apache-2.0 */
/* base/options_help.c: --help. */
#include "run_suite.h"
#include "sample_options.h"

#include <check.h>
#include <stdlib.h>

static void render(const struct ps_option_set *options)
{
    render_by(ps_options_help, options);
}

START_TEST(help_begins_with_what_and_how)
{
    render(&set);

    ck_assert_mem_eq(memory,
                     "prog - tests options\n\nUsage: prog [--option VALUE]...\n\nCommands:\n"
                     "  look DIR   looks\n\nOptions:\n",
                     92);
}
END_TEST

START_TEST(every_option_shows_its_value_default_and_environment)
{
    render(&set);

    ASSERT_HAS("\n  --listen HOST:PORT\n        Address to serve on.");
    ASSERT_HAS("Default: 0.0.0.0:8000.\n        Environment: PROGTEST_LISTEN.\n");
    ASSERT_HAS("\n  --[no-]reflection\n        Offer reflection. Default: true. Environment: ");
    ASSERT_HAS("\n  --ack memory|logged\n");
    ASSERT_HAS("\n  --count VALUE\n        How many. Environment: PROGTEST_COUNT.\n");
}
END_TEST

START_TEST(a_choice_whose_value_has_a_name_says_what_there_is)
{
    render(&set);

    ASSERT_HAS("\n  --rule NAME\n        Which. One of sgd, adam. Environment: PROGTEST_RULE.\n");
    ck_assert_ptr_null(strstr(memory, "One of memory"));
}
END_TEST

START_TEST(exit_statuses_stand_as_they_are)
{
    render(&set);

    ASSERT_HAS("\nExit status:\n  64   wrong usage\n");
}
END_TEST

START_TEST(no_line_is_wider_than_a_terminal)
{
    render(&set);

    for (const char *line = memory; *line != '\0'; line = strchr(line, '\n') + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 80);
}
END_TEST

START_TEST(which_units_are_which_is_said_where_there_are_any)
{
    static const struct ps_option measures[] = {
        {.name = "size", .type = PS_OPTION_BYTES, .value_name = "SIZE", .help = "How large."},
        {.name = "wait", .type = PS_OPTION_DURATION, .value_name = "TIME", .help = "How long."}};
    struct ps_option_set other = set;
    other.options = measures;
    other.option_count = 2;

    render(&set);
    ck_assert_ptr_null(strstr(memory, "Units"));
    render(&other);

    ASSERT_HAS("\nUnits:\n        A SIZE is 4096, 64KiB or 64Ki (times 1024), 64KB or 64K (times ");
    ASSERT_HAS("10s or 10 (seconds)");
}
END_TEST

START_TEST(examples_stand_as_they_are)
{
    render(&set);

    ASSERT_HAS("\nExamples:\n  prog --count 3\n.hidden\n");
}
END_TEST

START_TEST(program_without_environment_or_examples_mentions_neither)
{
    const struct ps_option_set bare = bare_options();

    render(&bare);

    ck_assert_ptr_null(strstr(memory, "nvironment"));
    ck_assert_ptr_null(strstr(memory, "Examples"));
    ck_assert_ptr_null(strstr(memory, "Commands"));
    ck_assert_ptr_null(strstr(memory, "Exit"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_help");
    TCase *tests = tcase_create("options_help");
    tcase_add_test(tests, help_begins_with_what_and_how);
    tcase_add_test(tests, every_option_shows_its_value_default_and_environment);
    tcase_add_test(tests, a_choice_whose_value_has_a_name_says_what_there_is);
    tcase_add_test(tests, exit_statuses_stand_as_they_are);
    tcase_add_test(tests, no_line_is_wider_than_a_terminal);
    tcase_add_test(tests, which_units_are_which_is_said_where_there_are_any);
    tcase_add_test(tests, examples_stand_as_they_are);
    tcase_add_test(tests, program_without_environment_or_examples_mentions_neither);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
