/* SPDX-License-Identifier: Apache-2.0 */
/* base/options_help.c: --help. */
#include "base/options.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_option table[] = {
    {.name = "listen",
     .type = PS_OPTION_TEXT,
     .value_name = "HOST:PORT",
     .fallback = "0.0.0.0:8000",
     .help =
         "Address to serve on. This text is long enough that it has to be wrapped over more than "
         "one line of a terminal."},
    {.name = "reflection", .type = PS_OPTION_FLAG, .fallback = "true", .help = "Offer reflection."},
    {.name = "ack",
     .type = PS_OPTION_CHOICE,
     .choices = "memory|logged",
     .fallback = "memory",
     .help = ".dot at the start, a back\\slash and a da-sh."},
    {.name = "count", .type = PS_OPTION_UINT, .help = "How many."},
    {.name = "rule",
     .type = PS_OPTION_CHOICE,
     .value_name = "NAME",
     .choices = "sgd|adam",
     .help = "Which."},
};

static const struct ps_option_set set = {.program = "prog",
                                         .usage = "prog [--option VALUE]...",
                                         .summary = "tests options",
                                         .commands = "  look DIR   looks\n",
                                         .statuses = "  64   wrong usage\n",
                                         .examples = "  prog --count 3\n.hidden\n",
                                         .environment = "PROGTEST_",
                                         .options = table,
                                         .option_count = PS_ARRAY_COUNT(table)};

static char memory[8192];
static struct ps_buffer text;

#define ASSERT_HAS(part_) ck_assert_msg(strstr(memory, (part_)) != NULL, "%s", memory)

static void render(const struct ps_option_set *options)
{
    ps_buffer_init_fixed(&text, memory, sizeof memory);
    ps_options_help(options, &text);
    ck_assert_int_eq(ps_buffer_status(&text, NULL), PS_OK);
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
    struct ps_option_set bare = set;
    bare.environment = NULL;
    bare.examples = NULL;
    bare.commands = NULL;
    bare.statuses = NULL;

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
