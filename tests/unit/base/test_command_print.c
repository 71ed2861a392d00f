/* SPDX-License-Identifier: Apache-2.0 */
/* base/command_print.c: what is printed, and which exit code comes of it. What the pages and the
 * scripts have in them is in test_command_page.c and test_completion.c. */
#include "base/command_print.h"

#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

static const struct ps_command_page pages[] = {{.name = "show", .summary = "shows something"}};
static const struct ps_command_table table = {pages, 1};
static const struct ps_option_set set = {.program = "tool", .summary = "A tool."};

/* Standard output (1) or error (2) goes to memory, until `printed`. */
static int memory, before, stream;

static void take(int number)
{
    (void)fflush(NULL);
    stream = number;
    before = dup(number);
    memory = memfd_create("printed", 0);
    ck_assert_int_ge(memory, 0);
    ck_assert_int_eq(dup2(memory, number), number);
}

/* What was printed since. */
static const char *printed(void)
{
    static char text[65536];
    (void)fflush(NULL);
    ck_assert_int_eq(dup2(before, stream), stream);
    (void)close(before);
    ssize_t size = pread(memory, text, sizeof text - 1, 0);
    ck_assert_int_ge(size, 0);
    text[size] = '\0';
    (void)close(memory);
    return text;
}

START_TEST(the_page_of_a_command_is_printed)
{
    take(1);
    int code = ps_command_print_help(&set, &table, "show");
    const char *text = printed();
    ck_assert_int_eq(code, EXIT_SUCCESS);
    ck_assert_ptr_nonnull(strstr(text, "tool show"));
}
END_TEST

START_TEST(an_unknown_command_is_wrong_usage)
{
    take(2);
    int code = ps_command_print_help(&set, &table, "shwo");
    const char *text = printed();
    ck_assert_int_eq(code, EX_USAGE);
    ck_assert_str_eq(text, "tool: unknown command \"shwo\"; see tool --help\n");
}
END_TEST

START_TEST(the_script_of_a_shell_is_printed)
{
    take(1);
    int code = ps_command_print_completion(&set, &table, "bash");
    const char *text = printed();
    ck_assert_int_eq(code, EXIT_SUCCESS);
    ck_assert_ptr_nonnull(strstr(text, "show"));
}
END_TEST

START_TEST(an_unknown_shell_is_wrong_usage)
{
    take(2);
    int code = ps_command_print_completion(&set, &table, "csh");
    const char *text = printed();
    ck_assert_int_eq(code, EX_USAGE);
    ck_assert_str_eq(text, "tool: completion \"csh\": expected one of bash|zsh|fish\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("command_print");
    TCase *tests = tcase_create("command_print");
    tcase_add_test(tests, the_page_of_a_command_is_printed);
    tcase_add_test(tests, an_unknown_command_is_wrong_usage);
    tcase_add_test(tests, the_script_of_a_shell_is_printed);
    tcase_add_test(tests, an_unknown_shell_is_wrong_usage);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
