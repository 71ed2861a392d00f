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

/* Two weights and a bias. */
static void begin(bool pipeline)
{
    fake_server_begin();
    static const struct psclient_options client;
    ck_assert_int_eq(ps_model_servers_open(&servers, &client, &error), PS_OK);
    const struct ps_remote_model_options options = {.servers = &servers,
                                                    .shape = {.features = 2, .outputs = 1},
                                                    .name = "m",
                                                    .call_timeout_ms = 1000,
                                                    .pipeline = pipeline};
    ck_assert_int_eq(ps_remote_model_init(&model, &options), PS_OK);
    ck_assert_int_eq(ps_remote_model_refresh(&model, &error), PS_OK);
    fake_server.trace[0] = '\0';
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
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
