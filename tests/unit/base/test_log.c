/* SPDX-License-Identifier: Apache-2.0 */
/* base/log.c: one line per event. */
#include "base/log.h"

#include "run_suite.h"
#include "tests/support/fake_clock.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 2026-01-01T00:00:00Z. */
#define NEW_YEAR_MS 1767225600000

static struct fake_clock fake;
static struct ps_clock at_new_year;
static int ends[2];

/* A log into a pipe, at a time that is known. */
static struct ps_log open_log(enum ps_log_format format)
{
    fake.now_ms = NEW_YEAR_MS + 7;
    at_new_year = fake_clock_clock(&fake);
    ck_assert_int_eq(pipe(ends), 0);
    return (struct ps_log){
        .clock = &at_new_year, .descriptor = ends[1], .level = PS_LOG_INFO, .format = format};
}

/* Everything written so far. */
static const char *written(void)
{
    static char text[65536];
    (void)close(ends[1]);
    ssize_t size = 0;
    ssize_t got;
    while ((got = read(ends[0], text + size, sizeof text - 1 - (size_t)size)) > 0)
        size += got;
    text[size] = '\0';
    (void)close(ends[0]);
    return text;
}

START_TEST(text_line_has_time_level_component_message_and_fields)
{
    struct ps_log log = open_log(PS_LOG_TEXT);

    PS_LOG(&log, PS_LOG_INFO, "checkpoint", "checkpoint saved", PS_FIELD_TEXT("path", "/data/1"),
           PS_FIELD_UINT("bytes", 18446744073709551615u), PS_FIELD_INT("delta", -3));

    ck_assert_str_eq(written(), "2026-01-01T00:00:00.007Z INFO  checkpoint checkpoint saved "
                                "path=/data/1 bytes=18446744073709551615 delta=-3\n");
}
END_TEST

START_TEST(json_line_has_the_same_as_members)
{
    struct ps_log log = open_log(PS_LOG_JSON);

    PS_LOG(&log, PS_LOG_WARN, "etcd", "no answer", PS_FIELD_TEXT("url", "a \"b\""),
           PS_FIELD_INT("tries", 2));

    ck_assert_str_eq(written(), "{\"ts\":\"2026-01-01T00:00:00.007Z\",\"level\":\"warn\","
                                "\"component\":\"etcd\",\"msg\":\"no answer\","
                                "\"url\":\"a \\\"b\\\"\",\"tries\":2}\n");
}
END_TEST

START_TEST(lines_without_fields_are_allowed)
{
    struct ps_log log = open_log(PS_LOG_TEXT);

    PS_LOG0(&log, PS_LOG_ERROR, "main", "stopping");

    ck_assert_str_eq(written(), "2026-01-01T00:00:00.007Z ERROR main stopping\n");
}
END_TEST

START_TEST(levels_below_the_logs_are_dropped)
{
    struct ps_log log = open_log(PS_LOG_TEXT);

    PS_LOG0(&log, PS_LOG_DEBUG, "main", "detail");

    ck_assert_str_eq(written(), "");
}
END_TEST

START_TEST(no_log_is_no_line)
{
    PS_LOG(NULL, PS_LOG_ERROR, "main", "nobody hears", PS_FIELD_INT("n", 1));
}
END_TEST

START_TEST(values_that_could_mislead_stand_in_quotes)
{
    struct ps_log log = open_log(PS_LOG_TEXT);

    PS_LOG(&log, PS_LOG_INFO, "a", "b", PS_FIELD_TEXT("space", "x y"), PS_FIELD_TEXT("empty", ""),
           PS_FIELD_TEXT("null", NULL), PS_FIELD_TEXT("line", "1\n2"),
           PS_FIELD_TEXT("equals", "k=v"), PS_FIELD_TEXT("bytes", "\xff"));

    ck_assert_str_eq(written(), "2026-01-01T00:00:00.007Z INFO  a b space=\"x y\" empty=\"\" "
                                "null=\"\" line=\"1\\n2\" equals=\"k=v\" "
                                "bytes=\"\xef\xbf\xbd\"\n");
}
END_TEST

START_TEST(message_with_a_line_break_stays_one_line)
{
    struct ps_log log = open_log(PS_LOG_TEXT);

    PS_LOG0(&log, PS_LOG_INFO, "a", "b\nc");

    ck_assert_str_eq(written(), "2026-01-01T00:00:00.007Z INFO  a b c\n");
}
END_TEST

START_TEST(error_field_says_status_and_text)
{
    struct ps_log log = open_log(PS_LOG_TEXT);
    struct ps_error error;
    (void)ps_fail(&error, PS_ERR_TIMEOUT, "too late");

    PS_LOG(&log, PS_LOG_INFO, "a", "b", PS_FIELD_ERROR(&error));

    ck_assert_str_eq(written(),
                     "2026-01-01T00:00:00.007Z INFO  a b status=timeout error=\"too late\"\n");
}
END_TEST

static char *long_text(size_t size, const char *unit)
{
    char *text = calloc(1, size + 8);
    for (size_t i = 0; i + strlen(unit) <= size; i += strlen(unit))
        memcpy(text + i, unit, strlen(unit));
    return text;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    return size >= strlen(end) && strcmp(text + size - strlen(end), end) == 0;
}

/* Sizes around the limit, so that every place of the cut is met. */
START_TEST(long_json_line_is_cut_and_still_closed)
{
    struct ps_log log = open_log(PS_LOG_JSON);
    char *text = long_text(3950 + (size_t)_i, _i % 2 == 0 ? "\n" : "\xe2\x82\xac");

    PS_LOG(&log, PS_LOG_INFO, "a", "b", PS_FIELD_TEXT("long", text), PS_FIELD_INT("last", 1));
    const char *line = written();

    ck_assert_uint_le(strlen(line), 4096);
    ck_assert(ends_with(line, "\"last\":1}\n") || ends_with(line, "\"cut\":true}\n"));
    ck_assert_ptr_eq(strstr(line, "\xef\xbf\xbd"), NULL);
    free(text);
}
END_TEST

START_TEST(long_text_line_is_cut_with_a_mark)
{
    struct ps_log log = open_log(PS_LOG_TEXT);
    char *text = long_text(5000, "x");

    PS_LOG(&log, PS_LOG_INFO, "a", "b", PS_FIELD_TEXT("long", text), PS_FIELD_INT("last", 1));
    const char *line = written();

    ck_assert_uint_le(strlen(line), 4096);
    ck_assert(ends_with(line, "x cut=true\n"));
    free(text);
}
END_TEST

START_TEST(long_component_and_message_leave_a_whole_line)
{
    struct ps_log log = open_log(_i == 0 ? PS_LOG_JSON : PS_LOG_TEXT);
    char *text = long_text(3000, "\x01");

    PS_LOG(&log, PS_LOG_INFO, text, text, PS_FIELD_TEXT("long", text));
    const char *line = written();

    ck_assert_uint_le(strlen(line), 4096);
    ck_assert(ends_with(line, _i == 0 ? "\"cut\":true}\n" : " cut=true\n"));
    free(text);
}
END_TEST

static struct ps_log shared_log;

static void *write_many(void *argument)
{
    for (int i = 0; i < 100; i++)
        PS_LOG(&shared_log, PS_LOG_INFO, argument, "line", PS_FIELD_INT("i", i));
    return NULL;
}

START_TEST(lines_of_many_threads_do_not_mix)
{
    shared_log = open_log(PS_LOG_TEXT);
    char names[4][8] = {"aaaa", "bbbb", "cccc", "dddd"};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, names[i]), 0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);

    int lines = 0;
    for (const char *line = written(); *line != '\0'; line = strchr(line, '\n') + 1) {
        ck_assert_mem_eq(line, "2026-01-01T00:00:00.007Z INFO  ", 31);
        lines++;
    }
    ck_assert_int_eq(lines, 400);
}
END_TEST

START_TEST(descriptor_that_is_closed_loses_the_line_only)
{
    struct ps_log log = open_log(PS_LOG_TEXT);
    log.descriptor = -1;

    PS_LOG0(&log, PS_LOG_INFO, "a", "b");

    ck_assert_str_eq(written(), "");
}
END_TEST

START_TEST(level_words_are_found)
{
    enum ps_log_level level = PS_LOG_DEBUG;

    ck_assert(ps_log_level_from_text("error", &level));
    ck_assert_int_eq(level, PS_LOG_ERROR);
    ck_assert(ps_log_level_from_text("debug", &level));
    ck_assert_int_eq(level, PS_LOG_DEBUG);
}
END_TEST

START_TEST(other_words_are_no_level)
{
    enum ps_log_level level = PS_LOG_WARN;

    ck_assert(!ps_log_level_from_text("INFO", &level));
    ck_assert(!ps_log_level_from_text("", &level));
    ck_assert_int_eq(level, PS_LOG_WARN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    tcase_add_test(tests, text_line_has_time_level_component_message_and_fields);
    tcase_add_test(tests, json_line_has_the_same_as_members);
    tcase_add_test(tests, lines_without_fields_are_allowed);
    tcase_add_test(tests, levels_below_the_logs_are_dropped);
    tcase_add_test(tests, no_log_is_no_line);
    tcase_add_test(tests, values_that_could_mislead_stand_in_quotes);
    tcase_add_test(tests, message_with_a_line_break_stays_one_line);
    tcase_add_test(tests, error_field_says_status_and_text);
    tcase_add_loop_test(tests, long_json_line_is_cut_and_still_closed, 0, 150);
    tcase_add_test(tests, long_text_line_is_cut_with_a_mark);
    tcase_add_loop_test(tests, long_component_and_message_leave_a_whole_line, 0, 2);
    tcase_add_test(tests, lines_of_many_threads_do_not_mix);
    tcase_add_test(tests, descriptor_that_is_closed_loses_the_line_only);
    tcase_add_test(tests, level_words_are_found);
    tcase_add_test(tests, other_words_are_no_level);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
