/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/core_metrics.c: what a scrape sees of pushes and pulls. */
#include "server/core/requests/core_metrics.h"

#include "core_early.h"

#include <math.h>
#include <string.h>

static const float ones[] = {1, 1};

START_TEST(pushes_and_pulls_are_counted)
{
    struct fake_clock fake = {1000};
    struct ps_clock clock = fake_clock_clock(&fake);
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = &clock, .metrics = metrics};
    world = (struct core_world){0};
    struct ps_buffer page;
    float values[2];
    size_t size;
    ck_assert_int_eq(ps_service_create(&options, &world.service, NULL), PS_OK);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(world_push(&world, "v", PS_F32, ones, sizeof ones, NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(world_pull(&world, "w", values, sizeof values, &size, NULL), PS_OK);

    ps_buffer_init(&page, ps_allocator_heap(), 65536);
    ps_metrics_render(metrics, &page);

    ck_assert_ptr_nonnull(strstr(page.text, "\nps_pushes_total 1\n"));
    ck_assert_ptr_nonnull(strstr(page.text, "\nps_pushes_refused_total 1\n"));
    ck_assert_ptr_nonnull(strstr(page.text, "\nps_pulls_total 1\n"));
    ck_assert_ptr_nonnull(strstr(page.text, "\nps_parameters 1\n"));
    ck_assert_ptr_nonnull(strstr(page.text, "\nps_parameter_bytes 8\n"));
    ck_assert_ptr_nonnull(strstr(page.text, "\nps_position 1\n"));
    ck_assert_ptr_nonnull(strstr(page.text, "\nps_push_seconds_count 1\n"));
    ps_buffer_fini(&page);
    ps_service_destroy(world.service);
    ps_metrics_destroy(metrics);
}
END_TEST

/* Is that line on the page? */
static void expect_line(struct ps_metrics *metrics, const char *line)
{
    struct ps_buffer page;
    ps_buffer_init(&page, ps_allocator_heap(), 65536);
    ps_metrics_render(metrics, &page);
    if (strstr(page.text, line) == NULL)
        ck_abort_msg("no%s in%s", line, page.text);
    ps_buffer_fini(&page);
}

/* A shard whose pushes in ranges are applied as they come. */
static struct ps_metrics *begin_early(bool journals)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    early_begin(journals);
    ps_core_metrics_init(&world.service->metrics, metrics);
    return metrics;
}

static void end_early(struct ps_metrics *metrics)
{
    (void)world_write_journal(&world);
    early_end();
    ps_metrics_destroy(metrics);
}

START_TEST(pushes_that_were_applied_as_they_came_are_counted)
{
    struct ps_metrics *metrics = begin_early(false);

    early_push_ranges(1, 0, RANGES);
    early_push_ranges(1, 0, RANGES);
    early_push_whole(&world, "b", 1);

    expect_line(metrics, "\nps_pushes_ahead_total 1\n");
    expect_line(metrics, "\nps_pushes_total 2\n");
    expect_line(metrics, "\nps_ahead_failed_total{reason=\"overtaken\"} 0\n");
    end_early(metrics);
}
END_TEST

START_TEST(attempts_that_were_overtaken_are_counted)
{
    struct ps_metrics *metrics = begin_early(_i == 1);

    early_push_ranges(1, 0, RANGES - 1);
    early_push_whole(&world, "b", 1);
    early_push_ranges(1, RANGES - 1, RANGES);
    if (world.reply.staged)
        early_push_ranges(1, 0, RANGES);

    ck_assert_uint_eq(world.reply.version, 2);
    expect_line(metrics, "\nps_pushes_ahead_total 0\n");
    expect_line(metrics, "\nps_ahead_failed_total{reason=\"overtaken\"} 1\n");
    end_early(metrics);
}
END_TEST

START_TEST(attempts_that_met_what_is_not_finite_are_counted_once)
{
    struct ps_metrics *metrics = begin_early(true);
    float *elements = (float *)(void *)content;
    elements[ranges[1].first] = NAN;
    elements[ranges[2].first] = NAN;

    for (size_t i = 0; i < RANGES; i++)
        (void)early_push_range(1, i);

    expect_line(metrics, "\nps_pushes_ahead_total 0\n");
    expect_line(metrics, "\nps_ahead_failed_total{reason=\"not_finite\"} 1\n");
    end_early(metrics);
}
END_TEST

START_TEST(attempts_without_memory_are_counted)
{
    struct ps_metrics *metrics = begin_early(false);
    bool counted = false;

    /* Some refused allocation is that of the new blocks. */
    for (int i = 0; i < 20 && !counted; i++) {
        world.heap.seen = 0;
        world.heap.refuse_at = i;
        (void)early_push_range((uint64_t)i + 1, 0);
        world.heap.refuse_at = -1;
        ps_staging_clear(&world.service->staging);
        counted = ps_counter_value(world.service->metrics.early_without_memory) == 1;
    }

    ck_assert(counted);
    expect_line(metrics, "\nps_ahead_failed_total{reason=\"no_memory\"} 1\n");
    end_early(metrics);
}
END_TEST

START_TEST(what_was_dropped_is_counted_once)
{
    struct ps_metrics *metrics = begin_early(false);

    early_push_ranges(1, 0, 1);
    expect_line(metrics, "\nps_staged_expired_requests_total 0\n");
    world.fake.now_ms += PS_STAGING_IDLE_MS;
    early_push_ranges(2, 0, RANGES);
    early_push_ranges(3, 0, RANGES);

    expect_line(metrics, "\nps_staged_expired_requests_total 1\n");
    expect_line(metrics, "\nps_staged_requests 0\n");
    end_early(metrics);
}
END_TEST

START_TEST(without_a_registry_every_metric_is_absent)
{
    struct ps_core_metrics metrics;

    ps_core_metrics_init(&metrics, NULL);

    ck_assert_ptr_null(metrics.pushes);
    ck_assert_ptr_null(metrics.checkpoint_timestamp);
    ck_assert_ptr_null(metrics.early_overtaken);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("core_metrics");
    tcase_add_test(tests, pushes_and_pulls_are_counted);
    tcase_add_test(tests, pushes_that_were_applied_as_they_came_are_counted);
    tcase_add_loop_test(tests, attempts_that_were_overtaken_are_counted, 0, 2);
    tcase_add_test(tests, attempts_that_met_what_is_not_finite_are_counted_once);
    tcase_add_test(tests, attempts_without_memory_are_counted);
    tcase_add_test(tests, what_was_dropped_is_counted_once);
    tcase_add_test(tests, without_a_registry_every_metric_is_absent);
    return run_tests("core_metrics", tests);
}
