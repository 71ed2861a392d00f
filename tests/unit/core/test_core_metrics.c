/* server/core/core_metrics.c: what a scrape sees of pushes and pulls. */
#include "server/core/core_metrics.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static const float ones[] = {1, 1};

START_TEST(pushes_and_pulls_are_counted)
{
    struct fake_clock fake = {1000};
    struct ps_clock clock = fake_clock_clock(&fake);
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = &clock, .metrics = metrics};
    struct core_world world = {0};
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

START_TEST(without_a_registry_every_metric_is_absent)
{
    struct ps_core_metrics metrics;

    ps_core_metrics_init(&metrics, NULL);

    ck_assert_ptr_null(metrics.pushes);
    ck_assert_ptr_null(metrics.checkpoint_timestamp);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("core_metrics");
    tcase_add_test(tests, pushes_and_pulls_are_counted);
    tcase_add_test(tests, without_a_registry_every_metric_is_absent);
    return run_tests("core_metrics", tests);
}
