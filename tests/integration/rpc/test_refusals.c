/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of refusals, and how often a line is written. */
#include "run_suite.h"
#include "server/rpc/refusals.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t now_ms;
static int ends[2];
static struct ps_metrics *metrics;
static struct ps_log log_;
static struct ps_refusals refusals;

static uint64_t tell_now(void *self)
{
    (void)self;
    return now_ms;
}

static const struct ps_clock test_clock = {.now_ms = tell_now, .unix_ns = tell_now};

static void setup(void)
{
    now_ms = 5000;
    ck_assert_int_eq(pipe(ends), 0);
    log_ = (struct ps_log){&test_clock, ends[1], PS_LOG_INFO, PS_LOG_TEXT};
    metrics = ps_metrics_create(ps_allocator_heap());
    ps_refusals_init(&refusals, metrics, &log_, &test_clock);
}

static void teardown(void)
{
    (void)close(ends[0]);
    ps_metrics_destroy(metrics);
}

static void note(enum ps_refusal refusal)
{
    ps_refusals_note(&refusals, refusal, 1, ps_bytes_of_text("ipv4:10.0.0.7:5"), "too much");
}

static int lines_written(char *text, size_t size)
{
    int lines = 0;
    (void)close(ends[1]);
    ssize_t got = read(ends[0], text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

START_TEST(the_first_of_a_kind_in_a_minute_is_logged_with_who_and_why)
{
    char text[4096];
    note(PS_REFUSED_STAGING);
    note(PS_REFUSED_STAGING);
    now_ms += 59999;
    note(PS_REFUSED_STAGING);

    ck_assert_int_eq(lines_written(text, sizeof text), 1);
    ck_assert_ptr_nonnull(strstr(text, "staging"));
    ck_assert_ptr_nonnull(strstr(text, "ipv4:10.0.0.7:5"));
    ck_assert_ptr_nonnull(strstr(text, "too much"));
    ck_assert_uint_eq(ps_counter_value(refusals.counters[PS_REFUSED_STAGING]), 3);
}
END_TEST

START_TEST(after_a_minute_another_line_is_written)
{
    char text[4096];
    note(PS_REFUSED_STAGING);
    now_ms += 60000;
    note(PS_REFUSED_STAGING);

    ck_assert_int_eq(lines_written(text, sizeof text), 2);
}
END_TEST

START_TEST(each_kind_has_its_own_line_and_row)
{
    char text[4096];
    note(PS_REFUSED_STAGING);
    note(PS_REFUSED_SESSIONS);

    ck_assert_int_eq(lines_written(text, sizeof text), 2);
    ck_assert_uint_eq(ps_counter_value(refusals.counters[PS_REFUSED_STAGING]), 1);
    ck_assert_uint_eq(ps_counter_value(refusals.counters[PS_REFUSED_SESSIONS]), 1);
}
END_TEST

START_TEST(nothing_refused_is_nothing_logged)
{
    char text[4096];
    ps_refusals_note(&refusals, PS_REFUSED_STAGING, 0, ps_bytes_of_text(""), NULL);

    ck_assert_int_eq(lines_written(text, sizeof text), 0);
}
END_TEST

START_TEST(without_metrics_log_and_clock_it_does_nothing)
{
    ps_refusals_init(&refusals, NULL, NULL, NULL);

    note(PS_REFUSED_ROLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("refusals");
    TCase *tests = tcase_create("refusals");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_first_of_a_kind_in_a_minute_is_logged_with_who_and_why);
    tcase_add_test(tests, after_a_minute_another_line_is_written);
    tcase_add_test(tests, each_kind_has_its_own_line_and_row);
    tcase_add_test(tests, nothing_refused_is_nothing_logged);
    tcase_add_test(tests, without_metrics_log_and_clock_it_does_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
