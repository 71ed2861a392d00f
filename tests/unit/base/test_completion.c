/* SPDX-License-Identifier: Apache-2.0 */
/* base/completion.c: scripts for shells. What bash makes of one is tested from outside, by
 * tests/integration/blackbox/test_psctl_help.py. */
#include "base/attributes.h"
#include "base/completion.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_command_page pages[] = {
    {.name = "look", .summary = "looks: that's all"},
    {.name = "help", .argument = "[COMMAND]", .summary = "helps"},
    {.name = "paint", .argument = "red|blue", .summary = "paints"},
    {.name = "take", .argument = "NAME", .summary = "takes"},
};
static const struct ps_command_table table = {pages, PS_ARRAY_COUNT(pages)};
static const struct ps_option options[] = {
    {.name = "place", .type = PS_OPTION_TEXT, .help = "It's [there]. And more."},
    {.name = "form", .type = PS_OPTION_CHOICE, .choices = "table|json", .help = "How."},
    {.name = "color", .type = PS_OPTION_FLAG, .fallback = "true", .help = "Colors."},
    {.name = "help", .type = PS_OPTION_FLAG, .help = "Help."},
};
static const struct ps_option_set set = {
    .program = "prog", .options = options, .option_count = PS_ARRAY_COUNT(options)};

static char memory[8192];

static void write_script(const char *shell)
{
    struct ps_buffer text;
    ps_buffer_init_fixed(&text, memory, sizeof memory);
    ck_assert(ps_completion_write(&set, &table, shell, &text));
    ck_assert_int_eq(ps_buffer_status(&text, NULL), PS_OK);
}

#define ASSERT_HAS(part_) ck_assert_msg(strstr(memory, (part_)) != NULL, "%s", memory)

START_TEST(an_unknown_shell_has_no_script)
{
    struct ps_buffer text;
    ps_buffer_init_fixed(&text, memory, sizeof memory);
    ck_assert(!ps_completion_write(&set, &table, "csh", &text));
    ck_assert_uint_eq(text.size, 0);
}
END_TEST

START_TEST(bash_is_told_of_commands_options_choices_and_values)
{
    write_script("bash");

    ASSERT_HAS("'') words='look help paint take' ;;\n");
    ASSERT_HAS("        help) words='look help paint take' ;;\n");
    ASSERT_HAS("        paint) words='red blue' ;;\n");
    ASSERT_HAS("    --form) words='table json' ;;\n");
    ASSERT_HAS("    --place|--form|--) return ;;\n");
    ASSERT_HAS("words='--place --form --no-color --help -h'\n");
    ASSERT_HAS("complete -o default -F _prog prog\n");
    ck_assert_ptr_null(strstr(memory, "take)"));
}
END_TEST

START_TEST(zsh_is_told_in_quotes_that_hold)
{
    write_script("zsh");

    ck_assert_ptr_eq(strstr(memory, "#compdef prog\n"), memory);
    ASSERT_HAS("'look:looks\\: that'\\''s all'\n");
    ASSERT_HAS("'--place[It'\\''s \\[there\\]]:place:_files' \\\n");
    ASSERT_HAS("'--form[How.]:form:(table json)' \\\n");
    ASSERT_HAS("'--no-color[Colors.]' \\\n");
    ASSERT_HAS("paint) compadd -- red blue ;;\n");
}
END_TEST

START_TEST(fish_is_told_in_quotes_that_hold)
{
    write_script("fish");

    ASSERT_HAS("complete -c prog -n __fish_use_subcommand -a look -d 'looks: that\\'s all'\n");
    ASSERT_HAS("complete -c prog -n '__fish_seen_subcommand_from paint' -a 'red blue'\n");
    ASSERT_HAS("complete -c prog -l place -r -d 'It\\'s [there]'\n");
    ASSERT_HAS("complete -c prog -l form -x -a 'table json' -d 'How.'\n");
    ASSERT_HAS("complete -c prog -l help -s h -d 'Help.'\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("completion");
    TCase *tests = tcase_create("completion");
    tcase_add_test(tests, an_unknown_shell_has_no_script);
    tcase_add_test(tests, bash_is_told_of_commands_options_choices_and_values);
    tcase_add_test(tests, zsh_is_told_in_quotes_that_hold);
    tcase_add_test(tests, fish_is_told_in_quotes_that_hold);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
