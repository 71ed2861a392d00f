/* SPDX-License-Identifier: Apache-2.0 */
/* tools/trainer.c: a whole run of one worker against a server that a test plays. */
#include "fake_client.h"
#include "run_suite.h"
#include "tools/trainer.h"

#include <check.h>
#include <string.h>

#define FEATURES 4

static const char *const rows = "+1 1:1 3:0.5\n-1 2:2\n-1 1:1 4:-1\n+1 3:1\n+1 1:0.5\n-1 4:1\n";

struct fixture {
    struct ps_dataset dataset;
    struct ps_class_map map;
    struct ps_trainer_options options;
    struct ps_trainer_progress progress;
    struct ps_trained trained;
    struct ps_error error;
};

static void begin(struct fixture *fixture, bool pipeline)
{
    fake_server_begin();
    memset(fixture, 0, sizeof *fixture);
    ck_assert_int_eq(
        ps_dataset_parse("text", rows, strlen(rows), ps_allocator_heap(), &fixture->dataset, NULL),
        PS_OK);
    ck_assert_int_eq(ps_class_map_init(&fixture->map, &fixture->dataset, NULL), PS_OK);
    fixture->options = (struct ps_trainer_options){.train = &fixture->dataset,
                                                   .map = &fixture->map,
                                                   .model = {.features = FEATURES, .outputs = 1},
                                                   .name = "m",
                                                   .workers = 1,
                                                   .parts = 1,
                                                   .epochs = 3,
                                                   .batch = 2,
                                                   .seed = 1,
                                                   .accumulate = 1,
                                                   .pipeline = pipeline,
                                                   .call_timeout_ms = 1000};
}

static enum ps_status run(struct fixture *fixture)
{
    return ps_trainer_run(&fixture->options, &fixture->progress, &fixture->trained,
                          &fixture->error);
}

static void end(struct fixture *fixture)
{
    ps_trained_release(&fixture->trained);
    ps_dataset_fini(&fixture->dataset);
}

/* All rows in one batch: then no order of rows matters, and the same steps may be done by hand. */
START_TEST(without_the_pipeline_a_run_is_gradient_descent_to_the_bit)
{
    struct fixture fixture;
    begin(&fixture, false);
    fixture.options.batch = 1;
    fixture.dataset.row_count = 1;
    float weights[FEATURES] = {0}, bias[1] = {0};
    double scratch[1];
    for (uint32_t epoch = 0; epoch < fixture.options.epochs; epoch++) {
        float weight_gradient[FEATURES] = {0}, bias_gradient[1] = {0};
        const size_t row[1] = {0};
        (void)ps_linear_gradient(&fixture.options.model, &fixture.dataset, &fixture.map, row, 1,
                                 weights, bias, weight_gradient, bias_gradient, scratch);
        for (size_t i = 0; i < FEATURES; i++)
            weights[i] -= weight_gradient[i];
        bias[0] -= bias_gradient[0];
    }

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_mem_eq(fixture.trained.weights, weights, sizeof weights);
    ck_assert_mem_eq(fixture.trained.bias, bias, sizeof bias);
    end(&fixture);
}
END_TEST

START_TEST(a_run_counts_every_step_and_ends_with_the_servers_values)
{
    struct fixture fixture;
    begin(&fixture, _i == 1);

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(atomic_load(&fixture.progress.steps), 9);
    ck_assert_uint_eq(atomic_load(&fixture.progress.pushes), 18);
    ck_assert_uint_eq(atomic_load(&fixture.progress.examples), 18);
    ck_assert_uint_eq(atomic_load(&fixture.progress.retries), 3);
    ck_assert_uint_ge(atomic_load(&fixture.progress.training_ns),
                      atomic_load(&fixture.progress.waiting_ns));
    ck_assert_mem_eq(fixture.trained.weights, fake_server.values, FEATURES * sizeof(float));
    ck_assert_float_eq(fixture.trained.bias[0], fake_server.values[FEATURES]);
    ck_assert_int_eq(fake_server.under_way_max, _i == 1 ? 2 : 1);
    end(&fixture);
}
END_TEST

/* A run ends at a multiple of its steps: who comes in the middle of one makes the rest of it. */
START_TEST(a_synchronous_run_goes_on_from_the_servers_version)
{
    struct fixture fixture;
    begin(&fixture, false);
    fixture.options.rounds = (struct ps_bytes){(const uint8_t *)"\x92\x0d\x02\x08\x04", 5};
    fake_server.initialised = true;
    fake_server.count = FEATURES + 1;
    fake_server.version = 9 + 5;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_server.version, 2 * 9);
    ck_assert_uint_eq(atomic_load(&fixture.progress.steps), 4);
    ck_assert_uint_eq(fake_server.rounds[0], 15);
    end(&fixture);
}
END_TEST

/* The same steps in one process as in several: a share of rows for each. */
START_TEST(batches_of_several_shares_make_one_step)
{
    struct fixture fixture;
    begin(&fixture, false);
    fixture.options.accumulate = 3;
    fixture.options.batch = 1;
    fixture.dataset.row_count = 5;
    fixture.options.epochs = 1;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(atomic_load(&fixture.progress.steps), 2);
    ck_assert_uint_eq(atomic_load(&fixture.progress.examples), 5);
    end(&fixture);
}
END_TEST

/* The rows of one epoch with a push for every row, and for every `_i`: at the server's rate the
 * same descent, but for the rounding of differences. The first push begins at zeros: it has
 * none. */
START_TEST(local_steps_come_where_the_servers_steps_come)
{
    struct fixture each;
    begin(&each, false);
    each.options.batch = 1;
    each.options.epochs = 1;
    ck_assert_int_eq(run(&each), PS_OK);
    struct fixture local;
    begin(&local, false);
    local.options = each.options;
    local.options.train = &local.dataset;
    local.options.map = &local.map;
    local.options.local_steps = (uint32_t)_i;
    local.options.local_rate = 1;

    ck_assert_int_eq(run(&local), PS_OK);

    ck_assert_uint_eq(atomic_load(&local.progress.examples), 6);
    ck_assert_uint_eq(atomic_load(&local.progress.steps), (6 + (unsigned)_i - 1) / (unsigned)_i);
    for (size_t i = 0; i <= FEATURES; i++)
        ck_assert_float_eq_tol(local.trained.weights[i], each.trained.weights[i], 1e-6F);
    if (_i >= 6)
        ck_assert_mem_eq(local.trained.weights, each.trained.weights, FEATURES * sizeof(float));
    end(&local);
    end(&each);
}
END_TEST

START_TEST(a_run_that_is_stopped_waits_for_its_steps)
{
    struct fixture fixture;
    begin(&fixture, _i == 1);
    atomic_store(&fixture.progress.stop, true);

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(atomic_load(&fixture.progress.steps), 0);
    ck_assert_str_eq(fake_server.trace, "open\ninit 0\npull 0\npull 0\nclose\n");
    end(&fixture);
}
END_TEST

START_TEST(a_failed_step_is_the_runs_failure_and_what_was_done_is_counted)
{
    struct fixture fixture;
    begin(&fixture, _i == 1);
    fake_server.fates[4] = FAKE_REFUSED;

    ck_assert_int_eq(run(&fixture), PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(fixture.error.text, "worker 0 could not push a gradient: as told (not ok)");
    ck_assert_uint_eq(atomic_load(&fixture.progress.pushes), 8);
    ck_assert_ptr_null(fixture.trained.weights);
    end(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer");
    TCase *tests = tcase_create("trainer");
    tcase_add_test(tests, without_the_pipeline_a_run_is_gradient_descent_to_the_bit);
    tcase_add_loop_test(tests, a_run_counts_every_step_and_ends_with_the_servers_values, 0, 2);
    tcase_add_test(tests, a_synchronous_run_goes_on_from_the_servers_version);
    tcase_add_test(tests, batches_of_several_shares_make_one_step);
    tcase_add_loop_test(tests, local_steps_come_where_the_servers_steps_come, 1, 9);
    tcase_add_loop_test(tests, a_run_that_is_stopped_waits_for_its_steps, 0, 2);
    tcase_add_loop_test(tests, a_failed_step_is_the_runs_failure_and_what_was_done_is_counted, 0,
                        2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
