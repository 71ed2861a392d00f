/* SPDX-License-Identifier: Apache-2.0 */
/* base/program.c: what a program does before its work, and which command it is asked for. */
#include "base/program.h"

#include "base/bytes.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

struct values {
    const char *name;
    bool help, man, version;
};

#define FLAG(field)                                              \
    {                                                            \
        .name = #field, .type = PS_OPTION_FLAG, .help = "Asks.", \
        .offset = offsetof(struct values, field)                 \
    }

static const struct ps_option table[] = {
    {.name = "name",
     .type = PS_OPTION_TEXT,
     .value_name = "TEXT",
     .fallback = "nobody",
     .help = "A name.",
     .offset = offsetof(struct values, name)},
    FLAG(help),
    FLAG(man),
    FLAG(version),
};

static const struct ps_option_set set = {.program = "example",
                                         .usage = "example COMMAND",
                                         .summary = "Shows.",
                                         .environment = "EXAMPLE_",
                                         .options = table,
                                         .option_count = PS_ARRAY_COUNT(table)};

struct entry {
    struct ps_command about;
    int number;
};

static const struct entry entries[] = {{{"look", 0}, 7}, {{"take", 2}, 8}, {{"many", -1}, 9}};

/* What was written to the stream since redirect. */
static char written[4096];
static int kept, ends[2];

static void redirect(FILE *stream)
{
    ck_assert_int_eq(pipe(ends), 0);
    kept = dup(fileno(stream));
    ck_assert_int_ge(dup2(ends[1], fileno(stream)), 0);
}

static void restore(FILE *stream)
{
    (void)fflush(stream);
    ck_assert_int_ge(dup2(kept, fileno(stream)), 0);
    (void)close(ends[1]);
    ssize_t size = read(ends[0], written, sizeof written - 1);
    ck_assert_int_ge(size, 0);
    written[size] = '\0';
    (void)close(ends[0]);
    (void)close(kept);
}

static bool begin(char *word, struct values *values, int *words, int *code)
{
    char program[] = "example";
    char *argv[] = {program, word, NULL};
    return ps_program_begin(&set, values, 2, argv, words, code);
}

START_TEST(a_program_that_is_asked_for_nothing_goes_on)
{
    char word[] = "--name=you";
    struct values values;
    int words = 9;
    int code = 9;

    ck_assert(begin(word, &values, &words, &code));

    ck_assert_str_eq(values.name, "you");
    ck_assert_int_eq(words, 0);
}
END_TEST

START_TEST(environment_stands_behind_arguments_and_before_defaults)
{
    char word[] = "look";
    struct values values;
    int words = 0;
    int code = 0;
    ck_assert_int_eq(setenv("EXAMPLE_NAME", "them", 1), 0);

    ck_assert(begin(word, &values, &words, &code));

    ck_assert_str_eq(values.name, "them");
    ck_assert_int_eq(words, 1);
}
END_TEST

static const struct {
    const char *word, *start;
} pages[] = {{"--help", "Usage: example COMMAND"},
             {"-h", "Usage: example COMMAND"},
             {"--man", ".TH"},
             {"--version", "example "}};

START_TEST(a_page_that_is_asked_for_is_all_that_happens)
{
    char word[16];
    struct values values;
    int words = 0;
    int code = 9;
    (void)snprintf(word, sizeof word, "%s", pages[_i].word);

    redirect(stdout);
    bool goes_on = begin(word, &values, &words, &code);
    restore(stdout);

    ck_assert(!goes_on);
    ck_assert_int_eq(code, EXIT_SUCCESS);
    ck_assert_msg(strstr(written, pages[_i].start) != NULL, "%s", written);
}
END_TEST

START_TEST(a_wrong_option_ends_it_with_the_usage_status)
{
    char word[] = "--nmae=you";
    struct values values;
    int words = 0;
    int code = 0;

    redirect(stderr);
    bool goes_on = begin(word, &values, &words, &code);
    restore(stderr);

    ck_assert(!goes_on);
    ck_assert_int_eq(code, EX_USAGE);
    ck_assert_ptr_eq(strstr(written, "example: "), written);
    ck_assert_ptr_nonnull(strstr(written, "nmae"));
}
END_TEST

static const struct entry *command(int word_count, const char *name)
{
    char program[] = "example";
    char word[16];
    char *argv[] = {program, word, NULL, NULL, NULL};
    (void)snprintf(word, sizeof word, "%s", name);
    redirect(stderr);
    const struct entry *found = ps_program_command(&set, entries, PS_ARRAY_COUNT(entries),
                                                   sizeof entries[0], word_count, argv);
    restore(stderr);
    return found;
}

START_TEST(a_command_is_found_by_its_name_and_number_of_words)
{
    ck_assert_ptr_eq(command(1, "look"), &entries[0]);
    ck_assert_ptr_eq(command(3, "take"), &entries[1]);
    ck_assert_str_eq(written, "");
}
END_TEST

START_TEST(a_command_with_other_words_is_refused)
{
    ck_assert_ptr_null(command(2, "take"));
    ck_assert_str_eq(written, "example: take takes 2 arguments, not 1; see example --help\n");
}
END_TEST

START_TEST(a_command_may_take_more_words_but_not_fewer)
{
    ck_assert_ptr_eq(command(2, "many"), &entries[2]);
    ck_assert_ptr_eq(command(4, "many"), &entries[2]);
    ck_assert_ptr_null(command(1, "many"));
    ck_assert_str_eq(written,
                     "example: many takes at least 1 argument, not 0; see example --help\n");
}
END_TEST

START_TEST(an_unknown_command_is_named)
{
    ck_assert_ptr_null(command(1, "tkae"));
    ck_assert_str_eq(written, "example: unknown command \"tkae\"; see example --help\n");
}
END_TEST

START_TEST(no_command_at_all_lists_them)
{
    ck_assert_ptr_null(command(0, ""));
    ck_assert_str_eq(written, "example: which command? look, take, many; see example --help\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *tests = tcase_create("program");
    tcase_add_test(tests, a_program_that_is_asked_for_nothing_goes_on);
    tcase_add_test(tests, environment_stands_behind_arguments_and_before_defaults);
    tcase_add_loop_test(tests, a_page_that_is_asked_for_is_all_that_happens, 0,
                        (int)PS_ARRAY_COUNT(pages));
    tcase_add_test(tests, a_wrong_option_ends_it_with_the_usage_status);
    tcase_add_test(tests, a_command_is_found_by_its_name_and_number_of_words);
    tcase_add_test(tests, a_command_with_other_words_is_refused);
    tcase_add_test(tests, a_command_may_take_more_words_but_not_fewer);
    tcase_add_test(tests, an_unknown_command_is_named);
    tcase_add_test(tests, no_command_at_all_lists_them);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
