/* SPDX-License-Identifier: Apache-2.0 */
/* base/command_page.c: what is said of a program's commands. */
#include "base/attributes.h"
#include "base/command_page.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_command_page pages[] = {
    {.name = "look", .summary = "looks"},
    {.name = "take",
     .argument = "NAME",
     .summary = "takes something",
     .text = "Gently.\n",
     .examples = "  prog take it\n"},
};
static const struct ps_command_table table = {pages, PS_ARRAY_COUNT(pages)};
static const struct ps_option_set set = {.program = "prog"};

static char memory[2048];
static struct ps_buffer text;

static void setup(void)
{
    ps_buffer_init_fixed(&text, memory, sizeof memory);
}

START_TEST(a_command_is_found_by_its_whole_name)
{
    ck_assert_ptr_eq(ps_command_find(&table, "take"), &pages[1]);
    ck_assert_ptr_null(ps_command_find(&table, "tak"));
    ck_assert_ptr_null(ps_command_find(&table, ""));
}
END_TEST

START_TEST(the_list_has_a_line_for_each_with_what_follows_it)
{
    ps_command_list(&table, &text);

    ck_assert_str_eq(memory, "  look       looks\n  take NAME  takes something\n");
}
END_TEST

START_TEST(a_page_has_usage_text_and_examples)
{
    ps_command_help(&set, &pages[1], &text);

    ck_assert_str_eq(memory, "prog take - takes something\n\nUsage: prog take NAME [OPTION]...\n\n"
                             "Gently.\n\nExamples:\n  prog take it\n\n"
                             "Options are those of prog --help.\n");
}
END_TEST

START_TEST(a_page_without_text_says_what_there_is)
{
    ps_command_help(&set, &pages[0], &text);

    ck_assert_str_eq(memory, "prog look - looks\n\nUsage: prog look [OPTION]...\n\n"
                             "Options are those of prog --help.\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("command_page");
    TCase *tests = tcase_create("command_page");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_command_is_found_by_its_whole_name);
    tcase_add_test(tests, the_list_has_a_line_for_each_with_what_follows_it);
    tcase_add_test(tests, a_page_has_usage_text_and_examples);
    tcase_add_test(tests, a_page_without_text_says_what_there_is);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
