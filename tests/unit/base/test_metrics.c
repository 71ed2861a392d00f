/* SPDX-License-Identifier: Apache-2.0 */
/* base/metrics.c and base/metrics_render.c: counting and the page. */
#include "base/metrics.h"

#include "base/metrics_rows.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[262144];
static struct ps_buffer page;

static const char *render(const struct ps_metrics *metrics)
{
    ps_buffer_init_fixed(&page, text, sizeof text);
    ps_metrics_render(metrics, &page);
    ck_assert_int_eq(ps_buffer_status(&page, NULL), PS_OK);
    return text;
}

#define ASSERT_HAS(page_, part_) ck_assert_msg(strstr((page_), (part_)) != NULL, "%s", (page_))

START_TEST(counter_counts)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_counter *counter = ps_metrics_counter(metrics, "ps_x_total", "Xs.", NULL);

    ps_counter_add(counter, 2);
    ps_counter_add(counter, 3);

    ck_assert_uint_eq(ps_counter_value(counter), 5);
    ASSERT_HAS(render(metrics), "# HELP ps_x_total Xs.\n# TYPE ps_x_total counter\nps_x_total 5\n");
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(gauge_goes_up_and_down)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_gauge *gauge = ps_metrics_gauge(metrics, "ps_y", "Ys.", NULL);

    ps_gauge_set(gauge, 2.5);
    ps_gauge_add(gauge, -4);

    ck_assert_double_eq(ps_gauge_value(gauge), -1.5);
    ASSERT_HAS(render(metrics), "# TYPE ps_y gauge\nps_y -1.5\n");
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(family_with_many_labels_is_printed_once)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_counter *a = ps_metrics_counter(metrics, "ps_x_total", "Xs.", "m=\"a\"");
    (void)ps_metrics_gauge(metrics, "ps_y", "Ys.", NULL);
    struct ps_counter *b = ps_metrics_counter(metrics, "ps_x_total", "Xs.", "m=\"b\"");

    ps_counter_add(a, 1);
    ps_counter_add(b, 2);

    ASSERT_HAS(render(metrics), "# TYPE ps_x_total counter\nps_x_total{m=\"a\"} 1\n"
                                "ps_x_total{m=\"b\"} 2\n# HELP ps_y");
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(same_name_and_labels_are_the_same_row)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_counter *first = ps_metrics_counter(metrics, "ps_x_total", "Xs.", "m=\"a\"");

    ck_assert_ptr_eq(ps_metrics_counter(metrics, "ps_x_total", "Xs.", "m=\"a\""), first);

    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(name_of_another_type_is_refused)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    (void)ps_metrics_counter(metrics, "ps_x_total", "Xs.", NULL);

    ck_assert_ptr_null(ps_metrics_gauge(metrics, "ps_x_total", "Xs.", NULL));

    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(histogram_sums_its_buckets_up)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_histogram *histogram =
        ps_metrics_histogram(metrics, "ps_t_seconds", "Times.", "m=\"a\"");

    ps_histogram_observe(histogram, 50e-6);
    ps_histogram_observe(histogram, 51e-6);
    ps_histogram_observe(histogram, 30);

    const char *rendered = render(metrics);
    ASSERT_HAS(rendered, "# TYPE ps_t_seconds histogram\n"
                         "ps_t_seconds_bucket{m=\"a\",le=\"5e-05\"} 1\n"
                         "ps_t_seconds_bucket{m=\"a\",le=\"0.0001\"} 2\n");
    ASSERT_HAS(rendered, "ps_t_seconds_bucket{m=\"a\",le=\"26.2144\"} 2\n"
                         "ps_t_seconds_bucket{m=\"a\",le=\"+Inf\"} 3\n");
    ASSERT_HAS(rendered, "ps_t_seconds_count{m=\"a\"} 3\n");
    const char *sum = strstr(rendered, "ps_t_seconds_sum{m=\"a\"} ");
    ck_assert_double_eq_tol(atof(strchr(sum, ' ')), 30.000101, 1e-6);
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(odd_observations_do_no_harm)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_histogram *histogram = ps_metrics_histogram(metrics, "ps_t_seconds", "Times.", NULL);

    ps_histogram_observe(histogram, NAN);
    ps_histogram_observe(histogram, -1);
    ps_histogram_observe(histogram, INFINITY);

    const char *rendered = render(metrics);
    ASSERT_HAS(rendered, "ps_t_seconds_bucket{le=\"5e-05\"} 1\n");
    ASSERT_HAS(rendered, "ps_t_seconds_count 2\n");
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(gauge_without_a_number_is_spelled_as_prometheus_does)
{
    static const double values[] = {INFINITY, -INFINITY, NAN};
    static const char *const lines[] = {"\nps_y +Inf\n", "\nps_y -Inf\n", "\nps_y NaN\n"};
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());

    ps_gauge_set(ps_metrics_gauge(metrics, "ps_y", "Ys.", NULL), values[_i]);

    ASSERT_HAS(render(metrics), lines[_i]);
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(help_text_stays_one_line)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    (void)ps_metrics_gauge(metrics, "ps_y", "a\nb\\c", NULL);

    ASSERT_HAS(render(metrics), "# HELP ps_y a\\nb\\\\c\n");
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(updates_of_missing_metrics_do_nothing)
{
    ps_counter_add(NULL, 1);
    ps_gauge_set(NULL, 1);
    ps_gauge_add(NULL, 1);
    ps_histogram_observe(NULL, 1);
    ps_metrics_destroy(NULL);

    ck_assert_uint_eq(ps_counter_value(NULL), 0);
    ck_assert_ptr_null(ps_metrics_counter(NULL, "ps_x_total", "Xs.", NULL));
}
END_TEST

START_TEST(full_registry_gives_null)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    for (int i = 0; i < PS_METRICS_ROWS_MAX; i++) {
        char labels[32];
        (void)snprintf(labels, sizeof labels, "i=\"%d\"", i);
        ck_assert_ptr_nonnull(ps_metrics_counter(metrics, "ps_x_total", "Xs.", labels));
    }

    ck_assert_ptr_null(ps_metrics_counter(metrics, "ps_x_total", "Xs.", "one=\"more\""));
    ck_assert_ptr_null(ps_metrics_counter(metrics, "ps_z_total", "Zs.", NULL));
    ck_assert_ptr_nonnull(ps_metrics_counter(metrics, "ps_x_total", "Xs.", "i=\"7\""));

    render(metrics);
    ck_assert_ptr_null(strstr(text, "ps_z_total"));
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(refused_allocation_costs_a_metric_only)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);

    struct ps_metrics *metrics = ps_metrics_create(&memory);
    struct ps_counter *counter = ps_metrics_counter(metrics, "ps_x_total", "Xs.", "m=\"a\"");
    ps_counter_add(counter, 1);

    bool refused = heap.seen > _i;
    ck_assert(refused == (counter == NULL));
    ck_assert(refused || _i == 4);
    if (metrics != NULL)
        render(metrics);
    ps_metrics_destroy(metrics);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

struct shared {
    struct ps_counter *counter;
    struct ps_gauge *gauge;
    struct ps_histogram *histogram;
};

static void *update_many(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < 1000; i++) {
        ps_counter_add(shared->counter, 1);
        ps_gauge_add(shared->gauge, 1);
        ps_histogram_observe(shared->histogram, 0.001);
    }
    return NULL;
}

START_TEST(updates_of_many_threads_are_all_counted)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct shared shared = {ps_metrics_counter(metrics, "ps_x_total", "Xs.", NULL),
                            ps_metrics_gauge(metrics, "ps_y", "Ys.", NULL),
                            ps_metrics_histogram(metrics, "ps_t_seconds", "Times.", NULL)};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, update_many, &shared), 0);
    render(metrics);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);

    ck_assert_uint_eq(ps_counter_value(shared.counter), 4000);
    ck_assert_double_eq(ps_gauge_value(shared.gauge), 4000);
    ASSERT_HAS(render(metrics), "ps_t_seconds_count 4000\n");
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(promtool_accepts_the_page)
{
    if (system("command -v promtool >/dev/null") != 0)
        return;
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    (void)ps_metrics_counter(metrics, "ps_x_total", "Counts Xs.", "m=\"a\"");
    (void)ps_metrics_gauge(metrics, "ps_y_bytes", "Ys in use.", NULL);
    struct ps_histogram *histogram =
        ps_metrics_histogram(metrics, "ps_t_seconds", "Times.", "m=\"a\"");
    ps_histogram_observe(histogram, 0.1);

    FILE *promtool = popen("promtool check metrics 2>&1", "w");
    ck_assert_ptr_nonnull(promtool);
    ck_assert_int_ge(fputs(render(metrics), promtool), 0);

    ck_assert_int_eq(pclose(promtool), 0);
    ps_metrics_destroy(metrics);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("metrics");
    tcase_add_test(tests, counter_counts);
    tcase_add_test(tests, gauge_goes_up_and_down);
    tcase_add_test(tests, family_with_many_labels_is_printed_once);
    tcase_add_test(tests, same_name_and_labels_are_the_same_row);
    tcase_add_test(tests, name_of_another_type_is_refused);
    tcase_add_test(tests, histogram_sums_its_buckets_up);
    tcase_add_test(tests, odd_observations_do_no_harm);
    tcase_add_loop_test(tests, gauge_without_a_number_is_spelled_as_prometheus_does, 0, 3);
    tcase_add_test(tests, help_text_stays_one_line);
    tcase_add_test(tests, updates_of_missing_metrics_do_nothing);
    tcase_add_test(tests, full_registry_gives_null);
    tcase_add_loop_test(tests, refused_allocation_costs_a_metric_only, 0, 5);
    tcase_add_test(tests, updates_of_many_threads_are_all_counted);
    tcase_add_test(tests, promtool_accepts_the_page);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
