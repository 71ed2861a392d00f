/* SPDX-License-Identifier: Apache-2.0 */
/* tools/remote_model.c: steps against a server that a test plays. */
#include "fake_client.h"
#include "run_suite.h"
#include "tools/remote_model.h"

#include <check.h>
#include <string.h>

static struct ps_model_servers servers;
static struct ps_remote_model model;
static struct ps_error error;

static const uint8_t rounds[] = {0x92, 0x0d, 0x02, 0x08, 0x04};

/* Two weights and a bias. */
static void begin_as(bool pipeline, bool sync)
{
    fake_server_begin();
    static const struct psclient_options client;
    ck_assert_int_eq(ps_model_servers_open(&servers, &client, &error), PS_OK);
    const struct ps_remote_model_options options = {
        .servers = &servers,
        .shape = {.features = 2, .outputs = 1},
        .name = "m",
        .call_timeout_ms = 1000,
        .worker = sync ? 2 : 0,
        .pipeline = pipeline,
        .rounds = {sync ? rounds : NULL, sync ? sizeof rounds : 0}};
    ck_assert_int_eq(ps_remote_model_init(&model, &options), PS_OK);
    ck_assert_int_eq(ps_remote_model_refresh(&model, &error), PS_OK);
    ck_assert((strstr(fake_server.trace, "configure 2 parameters from m/weight, 5 bytes\n") !=
               NULL) == sync);
    fake_server.trace[0] = '\0';
}

static void begin(bool pipeline)
{
    begin_as(pipeline, false);
}

static void end(void)
{
    ps_remote_model_fini(&model);
    ps_model_servers_close(&servers);
}

/* Returns what the gradient would have been computed from: with rate 1 and a gradient of -1 each
 * value is the number of pushes in it. */
static float step(void)
{
    struct ps_model_values gradient;
    ck_assert_int_eq(ps_remote_model_ready(&model, &gradient, &error), PS_OK);
    float seen = model.at_hand.weights[0];
    gradient.weights[0] = gradient.weights[1] = gradient.bias[0] = -1;
    ck_assert_int_eq(ps_remote_model_push(&model, &error), PS_OK);
    return seen;
}

static void expect_at_hand(float value)
{
    ck_assert_float_eq(model.at_hand.weights[0], value);
    ck_assert_float_eq(model.at_hand.weights[1], value);
    ck_assert_float_eq(model.at_hand.bias[0], value);
}

START_TEST(without_the_pipeline_every_gradient_has_all_pushes_before_it)
{
    begin(false);

    for (int i = 0; i < 5; i++)
        ck_assert_float_eq(step(), (float)i);
    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    expect_at_hand(5);
    ck_assert_int_eq(fake_server.under_way_max, 1);
    ck_assert_uint_eq(model.counts.steps, 5);
    ck_assert_uint_eq(model.counts.pushes, 10);
    end();
}
END_TEST

START_TEST(with_the_pipeline_a_gradient_is_without_the_last_push_and_no_more)
{
    begin(true);

    ck_assert_float_eq(step(), 0);
    for (int i = 1; i < 6; i++)
        ck_assert_float_eq(step(), (float)(i - 1));
    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    expect_at_hand(6);
    ck_assert_int_eq(fake_server.under_way_max, 2);
    ck_assert_uint_eq(model.counts.steps, 6);
    ck_assert_uint_eq(model.counts.pushes, 12);
    end();
}
END_TEST

START_TEST(the_end_takes_answers_in_the_order_of_the_pushes)
{
    begin(true);
    (void)step();
    (void)step();

    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    ck_assert_str_eq(fake_server.trace, "push 0\npush 1\nend 0\nend 1\n");
    end();
}
END_TEST

START_TEST(a_push_of_unknown_fate_is_lost_and_not_made_again)
{
    begin(_i == 1);
    fake_server.fates[2] = FAKE_UNKNOWN;

    for (int i = 0; i < 6; i++)
        (void)step();
    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    ck_assert_uint_eq(fake_server.pushes, 6);
    ck_assert_uint_eq(model.counts.pushes, 10);
    ck_assert_uint_eq(model.counts.lost_pushes, 2);
    expect_at_hand(6);
    end();
}
END_TEST

START_TEST(servers_that_lost_everything_get_the_last_values_that_came_whole)
{
    begin(false);
    fake_server.fates[2] = FAKE_LOST;

    for (int i = 0; i < 4; i++)
        (void)step();

    ck_assert_str_eq(fake_server.trace, "push 0\nend 0\npush 1\nend 1\npush 2\nend 2\n"
                                        "init 2\npull 2\npush 3\nend 3\n");
    ck_assert_uint_eq(model.counts.lost_pushes, 2);
    expect_at_hand(3);
    end();
}
END_TEST

/* Both were computed for parameters that are gone, and neither is pushed to the new ones. */
START_TEST(a_step_that_is_under_way_meets_the_loss_before_anything_is_put_back)
{
    begin(true);
    fake_server.fates[2] = FAKE_LOST;

    for (int i = 0; i < 5; i++)
        (void)step();
    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    ck_assert_str_eq(fake_server.trace,
                     "push 0\npush 1\nend 0\npush 2\nend 1\npush 3\nend 2\nend 3\n"
                     "init 2\npull 2\npush 4\nend 4\n");
    ck_assert_uint_eq(model.counts.steps, 5);
    ck_assert_uint_eq(model.counts.pushes, 6);
    ck_assert_uint_eq(model.counts.lost_pushes, 4);
    expect_at_hand(3);
    end();
}
END_TEST

START_TEST(an_answer_that_is_missing_is_pulled)
{
    begin(_i == 1);
    fake_server.fates[1] = FAKE_PULL_FAILED;

    for (int i = 0; i < 4; i++)
        (void)step();
    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    ck_assert_uint_eq(model.counts.pushes, 8);
    ck_assert_uint_eq(model.counts.lost_pushes, 0);
    ck_assert_ptr_nonnull(strstr(fake_server.trace, "pull"));
    expect_at_hand(4);
    end();
}
END_TEST

START_TEST(a_refused_push_ends_the_run_and_what_is_under_way_is_waited_for)
{
    begin(true);
    fake_server.fates[0] = FAKE_REFUSED;
    (void)step();
    (void)step();
    struct ps_model_values gradient;

    ck_assert_int_eq(ps_remote_model_ready(&model, &gradient, &error), PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(error.text, "worker 0 could not push a gradient: as told (not ok)");
    expect_at_hand(0);
    end();
    ck_assert_int_eq(fake_server.under_way, 0);
}
END_TEST

START_TEST(a_job_that_others_initialised_is_pulled_and_not_written)
{
    fake_server_begin();
    fake_server.initialised = true;
    fake_server.count = 3;
    fake_server.values[0] = fake_server.values[1] = fake_server.values[2] = 7;
    static const struct psclient_options client;
    ck_assert_int_eq(ps_model_servers_open(&servers, &client, &error), PS_OK);
    const struct ps_remote_model_options options = {
        .servers = &servers, .shape = {.features = 2, .outputs = 1}, .name = "m"};
    ck_assert_int_eq(ps_remote_model_init(&model, &options), PS_OK);

    ck_assert_int_eq(ps_remote_model_refresh(&model, &error), PS_OK);

    ck_assert_str_eq(fake_server.trace, "open\npull 7\n");
    expect_at_hand(7);
    end();
}
END_TEST

START_TEST(servers_that_are_not_found_leave_nothing_to_close)
{
    fake_server_begin();
    fake_server.refuse_open = true;
    static const struct psclient_options client;

    ck_assert_int_eq(ps_model_servers_open(&servers, &client, &error), PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(error.text, "could not find the servers: as told (not ok)");
    ck_assert_str_eq(fake_server.trace, "");
}
END_TEST

START_TEST(an_asynchronous_step_names_no_worker)
{
    begin(_i == 1);
    (void)step();
    ck_assert_int_eq(ps_remote_model_end(&model, &error), PS_OK);

    ck_assert_uint_eq(fake_server.ranks[0], 0);
    ck_assert_uint_eq(fake_server.rounds[0], 0);
    end();
}
END_TEST

/* Also behind rounds that were made without this worker. */
START_TEST(a_synchronous_step_is_of_the_round_behind_the_values_at_hand)
{
    begin_as(false, true);
    (void)step();
    (void)step();
    fake_server.version = 9;
    (void)step();
    fake_server.late = true;
    (void)step();

    const uint64_t named[] = {1, 2, 3, 11};
    ck_assert_mem_eq(fake_server.rounds, named, sizeof named);
    ck_assert_uint_eq(fake_server.ranks[3], 3);
    ck_assert_uint_eq(model.counts.late_pushes, PS_MODEL_PARAMETERS);
    end();
}
END_TEST

/* A worker that was killed goes on from where the servers say that it stands. */
START_TEST(a_step_by_clocks_is_read_when_it_is_told)
{
    static const struct psclient_clocks clocks = {.workers = 4, .consistency = PSCLIENT_SSP};
    begin(false);
    model.options.clocks = &clocks;
    model.options.worker = 2;
    model.stale = true;
    fake_server.clock = 5;
    ck_assert_int_eq(ps_remote_model_refresh(&model, &error), PS_OK);
    ck_assert_uint_eq(ps_remote_model_position(&model), 5);
    ck_assert(ps_remote_model_begin_round(&model, false));

    (void)step();

    ck_assert_uint_eq(fake_server.read_at, 6);
    ck_assert_uint_eq(ps_remote_model_position(&model), 6);
    expect_at_hand(1);
    ck_assert(!ps_remote_model_begin_round(&model, true));
    end();
}
END_TEST

/* It waits for workers that do not come: at the next try it would wait as long. */
START_TEST(a_round_that_is_not_over_in_time_is_the_workers_failure)
{
    struct ps_model_values gradient;
    begin_as(false, true);
    fake_server.fates[0] = FAKE_UNKNOWN;

    ck_assert_int_eq(ps_remote_model_ready(&model, &gradient, &error), PS_OK);
    ck_assert_int_eq(ps_remote_model_push(&model, &error), PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(error.text, "worker 2 could not push a gradient: as told (not ok)");
    end();
}
END_TEST

/* Others of the process have contributed to it already, and would wait for ever. */
START_TEST(a_round_that_another_worker_has_begun_is_begun_by_all_before_a_stop)
{
    begin_as(false, true);
    ck_assert(ps_remote_model_begin_round(&model, false));

    ck_assert(ps_remote_model_begin_round(&model, true));
    (void)step();
    ck_assert(!ps_remote_model_begin_round(&model, true));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remote_model");
    TCase *tests = tcase_create("remote_model");
    tcase_add_test(tests, without_the_pipeline_every_gradient_has_all_pushes_before_it);
    tcase_add_test(tests, with_the_pipeline_a_gradient_is_without_the_last_push_and_no_more);
    tcase_add_test(tests, the_end_takes_answers_in_the_order_of_the_pushes);
    tcase_add_loop_test(tests, a_push_of_unknown_fate_is_lost_and_not_made_again, 0, 2);
    tcase_add_test(tests, servers_that_lost_everything_get_the_last_values_that_came_whole);
    tcase_add_test(tests, a_step_that_is_under_way_meets_the_loss_before_anything_is_put_back);
    tcase_add_loop_test(tests, an_answer_that_is_missing_is_pulled, 0, 2);
    tcase_add_test(tests, a_refused_push_ends_the_run_and_what_is_under_way_is_waited_for);
    tcase_add_test(tests, a_job_that_others_initialised_is_pulled_and_not_written);
    tcase_add_test(tests, servers_that_are_not_found_leave_nothing_to_close);
    tcase_add_loop_test(tests, an_asynchronous_step_names_no_worker, 0, 2);
    tcase_add_test(tests, a_synchronous_step_is_of_the_round_behind_the_values_at_hand);
    tcase_add_test(tests, a_step_by_clocks_is_read_when_it_is_told);
    tcase_add_test(tests, a_round_that_is_not_over_in_time_is_the_workers_failure);
    tcase_add_test(tests, a_round_that_another_worker_has_begun_is_begun_by_all_before_a_stop);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
