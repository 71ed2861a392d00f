/* SPDX-License-Identifier: Apache-2.0 */
/* base/options_parse.c: where options come from, and which of them wins. */
#include "base/options.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *listen;
    const char *data_dir;
    bool reflection;
    uint64_t count;
    uint64_t ttl_ms;
    const char *ack;
};

static const struct ps_option table[] = {
    {.name = "listen",
     .type = PS_OPTION_TEXT,
     .value_name = "HOST:PORT",
     .fallback = "0.0.0.0:8000",
     .help = "Address.",
     .offset = offsetof(struct settings, listen)},
    {.name = "data-dir",
     .type = PS_OPTION_TEXT,
     .value_name = "DIR",
     .help = "Folder.",
     .offset = offsetof(struct settings, data_dir)},
    {.name = "reflection",
     .type = PS_OPTION_FLAG,
     .fallback = "true",
     .help = "Offer reflection.",
     .offset = offsetof(struct settings, reflection)},
    {.name = "count",
     .type = PS_OPTION_UINT,
     .value_name = "N",
     .help = "How many.",
     .offset = offsetof(struct settings, count)},
    {.name = "ttl",
     .type = PS_OPTION_DURATION,
     .value_name = "TIME",
     .fallback = "10s",
     .help = "How long.",
     .offset = offsetof(struct settings, ttl_ms)},
    {.name = "ack",
     .type = PS_OPTION_CHOICE,
     .choices = "memory|logged",
     .fallback = "memory",
     .help = "What is promised.",
     .offset = offsetof(struct settings, ack)},
};

static const struct ps_option_set set = {.program = "prog",
                                         .usage = "prog [--option VALUE]...",
                                         .summary = "tests options",
                                         .environment = "PROGTEST_",
                                         .options = table,
                                         .option_count = PS_ARRAY_COUNT(table)};

static struct settings settings;
static struct ps_error error;
static int words;

/* Parses up to 15 arguments after the program's name; leaves them in argv. */
static char *argv[17];

static enum ps_status parse(const char *const *arguments)
{
    memset(&settings, 0xee, sizeof settings);
    ck_assert_int_eq(ps_options_defaults(&set, &settings, &error), PS_OK);
    int argc = 1;
    argv[0] = (char *)(uintptr_t) "prog";
    for (; arguments[argc - 1] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    argv[argc] = NULL;
    return ps_options_arguments(&set, &settings, argc, argv, &words, &error);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

#define ASSERT_REFUSED(status_, text_, ...)              \
    do {                                                 \
        ck_assert_int_eq(PARSE(__VA_ARGS__), (status_)); \
        ck_assert_str_eq(error.text, (text_));           \
    } while (0)

START_TEST(defaults_fill_every_field)
{
    ck_assert_int_eq(parse((const char *const[]){NULL}), PS_OK);

    ck_assert_str_eq(settings.listen, "0.0.0.0:8000");
    ck_assert_ptr_null(settings.data_dir);
    ck_assert(settings.reflection);
    ck_assert_uint_eq(settings.count, 0);
    ck_assert_uint_eq(settings.ttl_ms, 10000);
    ck_assert_str_eq(settings.ack, "memory");
    ck_assert_int_eq(words, 0);
}
END_TEST

START_TEST(values_follow_their_option_or_an_equals_sign)
{
    ck_assert_int_eq(PARSE("--listen", "a:1", "--count=7", "--ttl", "5m", "--ack=logged"), PS_OK);

    ck_assert_str_eq(settings.listen, "a:1");
    ck_assert_uint_eq(settings.count, 7);
    ck_assert_uint_eq(settings.ttl_ms, 300000);
    ck_assert_str_eq(settings.ack, "logged");
}
END_TEST

START_TEST(last_of_two_wins)
{
    ck_assert_int_eq(PARSE("--count", "1", "--count", "2"), PS_OK);

    ck_assert_uint_eq(settings.count, 2);
}
END_TEST

START_TEST(flags_take_no_following_value)
{
    ck_assert_int_eq(PARSE("--no-reflection", "word"), PS_OK);
    ck_assert(!settings.reflection);
    ck_assert_int_eq(words, 1);

    ck_assert_int_eq(PARSE("--no-reflection", "--reflection"), PS_OK);
    ck_assert(settings.reflection);

    ck_assert_int_eq(PARSE("--reflection=false"), PS_OK);
    ck_assert(!settings.reflection);
}
END_TEST

START_TEST(words_move_to_the_front_in_order)
{
    ck_assert_int_eq(PARSE("get", "--count", "1", "w", "-", "--ttl=1s", "b"), PS_OK);

    ck_assert_int_eq(words, 4);
    ck_assert_str_eq(argv[1], "get");
    ck_assert_str_eq(argv[2], "w");
    ck_assert_str_eq(argv[3], "-");
    ck_assert_str_eq(argv[4], "b");
}
END_TEST

START_TEST(second_reading_of_the_same_arguments_agrees)
{
    ck_assert_int_eq(PARSE("get", "--count", "1", "w", "--ttl=1s"), PS_OK);
    settings.count = 0;

    ck_assert_int_eq(ps_options_arguments(&set, &settings, 6, argv, &words, &error), PS_OK);

    ck_assert_uint_eq(settings.count, 1);
    ck_assert_int_eq(words, 2);
    ck_assert_str_eq(argv[2], "w");
}
END_TEST

START_TEST(two_dashes_alone_end_the_options)
{
    ck_assert_int_eq(PARSE("--count", "1", "--", "--listen", "-x"), PS_OK);

    ck_assert_int_eq(words, 2);
    ck_assert_str_eq(argv[1], "--listen");
    ck_assert_str_eq(argv[2], "-x");
}
END_TEST

START_TEST(unknown_option_names_the_nearest)
{
    ASSERT_REFUSED(PS_ERR_NOT_FOUND, "unknown option --lisen; did you mean --listen?", "--lisen",
                   "a:1");
    ASSERT_REFUSED(PS_ERR_NOT_FOUND, "unknown option --datadir; did you mean --data-dir?",
                   "--datadir=x");
}
END_TEST

START_TEST(unknown_option_far_from_all_names_none)
{
    ASSERT_REFUSED(PS_ERR_NOT_FOUND, "unknown option --zzzzzzzzzz", "--zzzzzzzzzz");
    ASSERT_REFUSED(PS_ERR_NOT_FOUND, "unknown option --", "--=3");
}
END_TEST

START_TEST(missing_value_says_what_is_wanted)
{
    ASSERT_REFUSED(PS_ERR_BAD_INPUT, "--listen needs a value: HOST:PORT", "--listen");
    ASSERT_REFUSED(PS_ERR_BAD_INPUT, "--ack needs a value: memory|logged", "--ack", "--count", "1");
}
END_TEST

START_TEST(bad_values_say_what_is_allowed)
{
    ASSERT_REFUSED(PS_ERR_BAD_INPUT,
                   "--count: \"x\" is not a whole number from 0 to 18446744073709551615", "--count",
                   "x");
    ASSERT_REFUSED(PS_ERR_BAD_INPUT, "--ack: \"disk\" is not memory|logged", "--ack=disk");
    ASSERT_REFUSED(PS_ERR_BAD_INPUT,
                   "--ttl: \"5x\" is not a duration such as 500ms, 10s, 5m or 2h (10 alone is "
                   "seconds)",
                   "--ttl", "5x");
}
END_TEST

START_TEST(only_flags_have_a_no_form)
{
    ck_assert_int_eq(PARSE("--no-listen"), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(PARSE("--no-reflection=true"), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_program_without_help_knows_no_h)
{
    ASSERT_REFUSED(PS_ERR_BAD_INPUT, "-h: options begin with two dashes (prog --help lists them)",
                   "-h");
}
END_TEST

START_TEST(single_dash_is_explained)
{
    ASSERT_REFUSED(PS_ERR_BAD_INPUT, "-v: options begin with two dashes (prog --help lists them)",
                   "-v");
}
END_TEST

START_TEST(very_long_arguments_are_refused_in_a_short_sentence)
{
    char name[5000];
    memset(name, 'a', sizeof name);
    name[0] = name[1] = '-';
    name[sizeof name - 1] = '\0';

    ck_assert_int_eq(PARSE(name), PS_ERR_NOT_FOUND);
    name[4000] = '=';
    ck_assert_int_eq(PARSE(name), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(PARSE("--count", name + 4001), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(environment_names_are_upper_case_with_underscores)
{
    ck_assert_int_eq(parse((const char *const[]){NULL}), PS_OK);
    (void)setenv("PROGTEST_DATA_DIR", "/data", 1);
    (void)setenv("PROGTEST_REFLECTION", "no", 1);
    (void)setenv("PROGTEST_SERVICE_HOST", "10.0.0.1", 1);

    ck_assert_int_eq(ps_options_environment(&set, &settings, &error), PS_OK);

    ck_assert_str_eq(settings.data_dir, "/data");
    ck_assert(!settings.reflection);
}
END_TEST

START_TEST(empty_environment_counts_as_unset)
{
    ck_assert_int_eq(parse((const char *const[]){NULL}), PS_OK);
    (void)setenv("PROGTEST_TTL", "", 1);

    ck_assert_int_eq(ps_options_environment(&set, &settings, &error), PS_OK);

    ck_assert_uint_eq(settings.ttl_ms, 10000);
}
END_TEST

START_TEST(bad_environment_names_the_variable)
{
    ck_assert_int_eq(parse((const char *const[]){NULL}), PS_OK);
    (void)setenv("PROGTEST_COUNT", "-1", 1);

    ck_assert_int_eq(ps_options_environment(&set, &settings, &error), PS_ERR_BAD_INPUT);

    ck_assert_str_eq(error.text, "PROGTEST_COUNT: \"-1\" is not a whole number from 0 to "
                                 "18446744073709551615");
}
END_TEST

START_TEST(set_without_environment_reads_none)
{
    struct ps_option_set silent = set;
    silent.environment = NULL;

    ck_assert_int_eq(ps_options_environment(&silent, &settings, &error), PS_OK);
}
END_TEST

START_TEST(pairs_of_a_file_are_set_by_name)
{
    ck_assert_int_eq(parse((const char *const[]){NULL}), PS_OK);

    ck_assert_int_eq(ps_options_set(&set, &settings, "ttl", "2h", &error), PS_OK);

    ck_assert_uint_eq(settings.ttl_ms, 7200000);
}
END_TEST

START_TEST(unknown_pair_names_the_nearest)
{
    ck_assert_int_eq(ps_options_set(&set, &settings, "reflexion", "no", &error), PS_ERR_NOT_FOUND);

    ck_assert_str_eq(error.text, "unknown option reflexion; did you mean reflection?");
}
END_TEST

START_TEST(a_misspelt_variable_is_told_with_the_one_that_is_meant)
{
    ck_assert(ps_options_misspelt(&set, "PROGTEST_REFLEXION=no", &error));
    ck_assert_str_eq(error.text, "PROGTEST_REFLEXION is not an option; did you mean "
                                 "PROGTEST_REFLECTION?");
}
END_TEST

START_TEST(variables_that_are_options_or_somebody_elses_are_not_misspelt)
{
    static const char *const others[] = {"PROGTEST_REFLECTION=no",
                                         "PROGTEST_REFLECTION",
                                         "PROGTEST_SERVICE_HOST=10.0.0.1",
                                         "PROGTEST_=1",
                                         "PROGTEST_",
                                         "REFLEXION=no",
                                         "progtest_REFLEXION=no",
                                         "=1",
                                         ""};
    for (size_t i = 0; i < PS_ARRAY_COUNT(others); i++)
        ck_assert_msg(!ps_options_misspelt(&set, others[i], &error), "%s", others[i]);

    char longest[200];
    memset(longest, 'X', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "PROGTEST_", 9);
    ck_assert(!ps_options_misspelt(&set, longest, &error));

    struct ps_option_set bare = set;
    bare.environment = NULL;
    ck_assert(!ps_options_misspelt(&bare, "PROGTEST_REFLEXION=no", &error));
}
END_TEST

START_TEST(bad_default_is_told)
{
    static const struct ps_option bad[] = {{.name = "count",
                                            .type = PS_OPTION_UINT,
                                            .fallback = "many",
                                            .help = "",
                                            .offset = offsetof(struct settings, count)}};
    struct ps_option_set bad_set = {.program = "prog", .options = bad, .option_count = 1};

    ck_assert_int_eq(ps_options_defaults(&bad_set, &settings, &error), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_parse");
    TCase *tests = tcase_create("options_parse");
    tcase_add_test(tests, defaults_fill_every_field);
    tcase_add_test(tests, values_follow_their_option_or_an_equals_sign);
    tcase_add_test(tests, last_of_two_wins);
    tcase_add_test(tests, flags_take_no_following_value);
    tcase_add_test(tests, words_move_to_the_front_in_order);
    tcase_add_test(tests, second_reading_of_the_same_arguments_agrees);
    tcase_add_test(tests, two_dashes_alone_end_the_options);
    tcase_add_test(tests, unknown_option_names_the_nearest);
    tcase_add_test(tests, unknown_option_far_from_all_names_none);
    tcase_add_test(tests, missing_value_says_what_is_wanted);
    tcase_add_test(tests, bad_values_say_what_is_allowed);
    tcase_add_test(tests, only_flags_have_a_no_form);
    tcase_add_test(tests, a_program_without_help_knows_no_h);
    tcase_add_test(tests, single_dash_is_explained);
    tcase_add_test(tests, very_long_arguments_are_refused_in_a_short_sentence);
    tcase_add_test(tests, environment_names_are_upper_case_with_underscores);
    tcase_add_test(tests, empty_environment_counts_as_unset);
    tcase_add_test(tests, bad_environment_names_the_variable);
    tcase_add_test(tests, set_without_environment_reads_none);
    tcase_add_test(tests, pairs_of_a_file_are_set_by_name);
    tcase_add_test(tests, unknown_pair_names_the_nearest);
    tcase_add_test(tests, a_misspelt_variable_is_told_with_the_one_that_is_meant);
    tcase_add_test(tests, variables_that_are_options_or_somebody_elses_are_not_misspelt);
    tcase_add_test(tests, bad_default_is_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
