/* SPDX-License-Identifier: Apache-2.0 */
/* base/metrics_process.c: what the kernel knows about us. */
#include "base/metrics_process.h"
#include "run_suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char text[16384];

/* The number behind a name at the start of a line. */
static double rendered(const char *name)
{
    struct ps_buffer page;
    ps_buffer_init_fixed(&page, text, sizeof text);
    ps_buffer_append_text(&page, "\n");
    ps_metrics_render_process(&page);
    char line[128] = "\n";
    strcat(strcat(line, name), " ");
    const char *found = strstr(text, line);
    ck_assert_msg(found != NULL, "%s is missing in %s", name, text);
    return atof(found + strlen(line));
}

START_TEST(open_descriptors_are_counted)
{
    double before = rendered("process_open_fds");
    int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);

    ck_assert_double_eq(rendered("process_open_fds"), before + 1);

    (void)close(descriptor);
    ck_assert_double_eq(rendered("process_open_fds"), before);
}
END_TEST

START_TEST(memory_and_threads_are_there)
{
    ck_assert_double_gt(rendered("process_resident_memory_bytes"), 4096);
    ck_assert_double_gt(rendered("process_virtual_memory_bytes"),
                        rendered("process_resident_memory_bytes"));
    ck_assert_double_eq(rendered("process_threads"), 1);
    ck_assert_double_ge(rendered("process_max_fds"), 3);
    ck_assert_double_ge(rendered("process_cpu_seconds_total"), 0);
}
END_TEST

START_TEST(start_lies_in_the_past_and_never_moves)
{
    double start = rendered("process_start_time_seconds");

    ck_assert_double_le(start, (double)time(NULL) + 2);
    ck_assert_double_gt(start, 1e9);
    ck_assert_double_eq(rendered("process_start_time_seconds"), start);
}
END_TEST

START_TEST(build_says_its_version)
{
    ck_assert_double_eq(rendered("ps_build_info{version=\"" PS_VERSION "\"}"), 1);
}
END_TEST

START_TEST(name_with_brackets_and_spaces_is_passed_over)
{
    struct ps_process_stat stat = {0};

    bool parsed = ps_process_stat_parse("42 (a) (b 9) S 1 2 3 4 -1 6 7 8 9 10 100 23 0 0 20 0 5 0 "
                                        "777 8192 12 18446744073709551615 1",
                                        &stat);

    ck_assert(parsed);
    ck_assert_uint_eq(stat.cpu_ticks, 123);
    ck_assert_uint_eq(stat.thread_count, 5);
    ck_assert_uint_eq(stat.start_ticks, 777);
    ck_assert_uint_eq(stat.virtual_bytes, 8192);
    ck_assert_uint_eq(stat.resident_pages, 12);
}
END_TEST

START_TEST(other_lines_are_refused)
{
    static const char *const lines[] = {"",
                                        "42",
                                        "42 (a)",
                                        "42 (a) S",
                                        "42 (a) S 1 2",
                                        "42 (a) S x y",
                                        "42 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"};
    struct ps_process_stat stat;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        ck_assert(!ps_process_stat_parse(lines[i], &stat));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics_process");
    TCase *tests = tcase_create("metrics_process");
    tcase_add_test(tests, open_descriptors_are_counted);
    tcase_add_test(tests, memory_and_threads_are_there);
    tcase_add_test(tests, start_lies_in_the_past_and_never_moves);
    tcase_add_test(tests, build_says_its_version);
    tcase_add_test(tests, name_with_brackets_and_spaces_is_passed_over);
    tcase_add_test(tests, other_lines_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
