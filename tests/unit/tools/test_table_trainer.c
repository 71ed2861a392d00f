/* SPDX-License-Identifier: Apache-2.0 */
/* tools/table_trainer.c and tools/remote_table.c: whole runs against a server that a test plays. */
#include "fake_table.h"
#include "run_suite.h"
#include "tools/matrix_factors.h"
#include "tools/table_trainer.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Four users and three items; the values are those of a bias each, so that they can be learnt. */
#define COUNT 12
static struct ps_rating list[COUNT];
static const struct ps_ratings ratings = {.count = COUNT, .list = list, .mean = 3};
static const struct ps_matrix_factors factors = {&ratings, 3, 1};

struct fixture {
    struct ps_keyed_model model;
    struct psclient_clocks clocks;
    struct ps_table_trainer_options options;
    struct ps_trainer_progress progress;
    struct ps_table_trained trained;
    struct ps_error error;
};

static void begin(struct fixture *fixture)
{
    for (uint64_t i = 0; i < COUNT; i++)
        list[i] = (struct ps_rating){1 + i % 4, 1 + i % 3,
                                     3 + 0.5f * (float)(i % 4) - 0.25f * (float)(i % 3) - 0.5f};
    fake_table_begin(0.3f);
    memset(fixture, 0, sizeof *fixture);
    fixture->model = ps_matrix_factors_model(&factors);
    fixture->options = (struct ps_table_trainer_options){
        .train = &fixture->model,
        .test = &fixture->model,
        .table = {.name = "t", .type = PSCLIENT_FLOAT32, .width = fixture->model.width},
        .accumulate = 1,
        .workers = 1,
        .parts = 1,
        .epochs = 10,
        .batch = 3,
        .seed = 1,
        .call_timeout_ms = 1000};
}

static void by_clocks(struct fixture *fixture, uint32_t workers, uint32_t staleness)
{
    fixture->clocks = (struct psclient_clocks){
        .workers = workers, .consistency = PSCLIENT_SSP, .staleness = staleness};
    fixture->options.clocks = &fixture->clocks;
}

static enum ps_status run(struct fixture *fixture)
{
    return ps_table_trainer_run(&fixture->options, &fixture->progress, &fixture->trained,
                                &fixture->error);
}

static double rmse(const struct ps_row_score *score)
{
    return sqrt(score->measure / (double)score->examples);
}

START_TEST(a_run_learns_and_has_a_point_for_each_epoch)
{
    struct fixture fixture;
    begin(&fixture);

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.row_count, 7);
    ck_assert_uint_eq(fake_table.pushes, 40);
    ck_assert_uint_eq(atomic_load(&fixture.progress.steps), 40);
    ck_assert_uint_eq(atomic_load(&fixture.progress.pushes), 40);
    ck_assert_uint_eq(atomic_load(&fixture.progress.examples), 120);
    ck_assert_uint_eq(fixture.trained.epoch_count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        const struct ps_table_epoch *epoch = &fixture.trained.epochs[i];
        ck_assert_uint_eq(epoch->number, i + 1);
        ck_assert_uint_eq(epoch->train.examples, COUNT);
        ck_assert_uint_eq(epoch->test.examples, COUNT);
    }
    ck_assert_double_gt(rmse(&fixture.trained.epochs[0].train), 0.2);
    ck_assert_double_lt(rmse(&fixture.trained.test), 0.02);
    ck_assert_double_eq(rmse(&fixture.trained.test), rmse(&fixture.trained.epochs[9].test));
    ps_table_trained_release(&fixture.trained);
}
END_TEST

START_TEST(workers_are_never_further_apart_than_their_clocks_allow)
{
    struct fixture fixture;
    begin(&fixture);
    by_clocks(&fixture, 3, (uint32_t)_i);
    fixture.options.workers = 3;
    fixture.options.batch = 2;

    ck_assert_int_eq(run(&fixture), PS_OK);

    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(fake_table.clocks[i], 20);
    ck_assert_uint_eq(fake_table.read_at_max, 19);
    ck_assert_uint_le(fake_table.ahead_max, (uint64_t)_i);
    ck_assert_double_lt(rmse(&fixture.trained.test), 0.1);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* Two epochs of four steps were made before it was killed, and one step. */
START_TEST(a_worker_that_comes_back_goes_on_at_its_clock)
{
    struct fixture fixture;
    begin(&fixture);
    by_clocks(&fixture, 1, 0);
    fake_table.initialised = true;
    fake_table.defined = true;
    fake_table.clocks[0] = 9;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.clocks[0], 40);
    ck_assert_uint_eq(fake_table.pushes, 31);
    ck_assert_uint_eq(fixture.trained.epochs[0].number, 3);
    ck_assert_uint_eq(fixture.trained.epoch_count, 8);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* With clocks, and without, where a push and a read are one call. */
START_TEST(a_push_whose_fate_is_open_is_counted_and_not_made_again)
{
    struct fixture fixture;
    begin(&fixture);
    if (_i == 1)
        by_clocks(&fixture, 1, 0);
    fake_table.fates[5] = FAKE_TABLE_UNKNOWN;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.pushes, 40);
    ck_assert_uint_eq(atomic_load(&fixture.progress.pushes), 39);
    ck_assert_uint_eq(atomic_load(&fixture.progress.lost_pushes), 1);
    ck_assert_uint_eq(atomic_load(&fixture.progress.steps), 40);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

START_TEST(servers_that_have_lost_the_table_get_a_new_one)
{
    struct fixture fixture;
    begin(&fixture);
    if (_i == 1)
        by_clocks(&fixture, 1, 0);
    fake_table.fates[5] = FAKE_TABLE_LOST;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.pushes, 40);
    ck_assert_uint_eq(atomic_load(&fixture.progress.lost_pushes), 1);
    /* Whoever initialises defines it, and so does whoever opens it. */
    ck_assert_uint_eq(fake_table.definitions, 4);
    ck_assert_double_lt(rmse(&fixture.trained.test), 0.05);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* The first call of a worker asks where it stands; the fifth is behind its fourth push. */
START_TEST(clocks_that_are_lost_behind_a_push_are_set_again)
{
    struct fixture fixture;
    begin(&fixture);
    by_clocks(&fixture, 1, 0);
    fake_table.clocks_lost_at = 5;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.clocks[0], 40);
    ck_assert_uint_eq(fake_table.pushes, 40);
    ck_assert_uint_eq(atomic_load(&fixture.progress.lost_pushes), 0);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

static const uint8_t some_rounds[] = {0x92, 0x0D, 0};

/* A run that goes on from a version in its middle makes the steps that are missing. */
START_TEST(in_rounds_the_version_says_which_steps_are_left)
{
    struct fixture fixture;
    begin(&fixture);
    fixture.options.rounds = (struct ps_bytes){some_rounds, sizeof some_rounds};
    fake_table.version = 15;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.pushes, 25);
    ck_assert_uint_eq(fake_table.version, 40);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

START_TEST(in_rounds_a_table_that_was_lost_is_trained_from_its_beginning)
{
    struct fixture fixture;
    begin(&fixture);
    fixture.options.rounds = (struct ps_bytes){some_rounds, sizeof some_rounds};
    fake_table.fates[5] = FAKE_TABLE_LOST;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.pushes, 46);
    ck_assert_uint_eq(fake_table.version, 40);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

START_TEST(in_rounds_a_push_whose_fate_is_open_ends_the_run)
{
    struct fixture fixture;
    begin(&fixture);
    fixture.options.rounds = (struct ps_bytes){some_rounds, sizeof some_rounds};
    fake_table.fates[5] = FAKE_TABLE_UNKNOWN;

    ck_assert_int_eq(run(&fixture), PS_ERR_UNAVAILABLE);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* The rows are those of as many workers, and each push has the average of their gradients. */
START_TEST(one_worker_that_accumulates_has_the_examples_of_several)
{
    struct fixture fixture;
    begin(&fixture);
    fixture.options.accumulate = 2;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.pushes, 20);
    ck_assert_uint_eq(atomic_load(&fixture.progress.examples), (size_t)10 * COUNT);
    ck_assert_double_lt(rmse(&fixture.trained.test), 0.3);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* A server that was restarted without its state holds reads back until somebody asks. */
START_TEST(a_read_that_is_held_back_asks_whether_there_is_a_table)
{
    struct fixture fixture;
    begin(&fixture);
    if (_i == 1)
        by_clocks(&fixture, 1, 0);
    fake_table.reads_held = 2;

    ck_assert_int_eq(run(&fixture), PS_OK);

    ck_assert_uint_eq(fake_table.pushes, 40);
    ck_assert_uint_eq(fake_table.definitions, 4);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

START_TEST(a_refusal_ends_the_run_for_all_workers)
{
    struct fixture fixture;
    begin(&fixture);
    fixture.options.workers = 3;
    fake_table.fates[5] = FAKE_TABLE_REFUSED;

    ck_assert_int_eq(run(&fixture), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(fixture.error.text, "push gradients: as told"));
    ck_assert_uint_lt(fake_table.pushes, 30 * 3);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* Whoever was told to stop still makes the step that another one has begun: all end at one clock,
 * and nobody waits for ever. */
START_TEST(a_run_that_is_told_to_stop_ends_at_one_clock)
{
    struct fixture fixture;
    begin(&fixture);
    by_clocks(&fixture, 3, 0);
    fixture.options.workers = 3;
    atomic_store(&fixture.progress.stop, true);

    ck_assert_int_eq(run(&fixture), PS_OK);

    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(fake_table.clocks[i], 0);
    ck_assert_uint_eq(fixture.trained.epoch_count, 0);
    ck_assert_uint_eq(fixture.trained.test.examples, COUNT);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

/* More workers than a step of the last batch has examples for. */
START_TEST(a_worker_without_examples_makes_its_steps_all_the_same)
{
    struct fixture fixture;
    begin(&fixture);
    by_clocks(&fixture, 5, 1);
    fixture.options.workers = 5;
    fixture.options.batch = 1;

    ck_assert_int_eq(run(&fixture), PS_OK);

    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(fake_table.clocks[i], 30);
    ck_assert_uint_eq(atomic_load(&fixture.progress.examples), 120);
    ps_table_trained_release(&fixture.trained);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table_trainer");
    TCase *tests = tcase_create("table_trainer");
    tcase_add_test(tests, in_rounds_the_version_says_which_steps_are_left);
    tcase_add_test(tests, in_rounds_a_table_that_was_lost_is_trained_from_its_beginning);
    tcase_add_test(tests, in_rounds_a_push_whose_fate_is_open_ends_the_run);
    tcase_add_test(tests, one_worker_that_accumulates_has_the_examples_of_several);
    tcase_add_test(tests, a_run_learns_and_has_a_point_for_each_epoch);
    tcase_add_loop_test(tests, workers_are_never_further_apart_than_their_clocks_allow, 0, 3);
    tcase_add_test(tests, a_worker_that_comes_back_goes_on_at_its_clock);
    tcase_add_loop_test(tests, a_push_whose_fate_is_open_is_counted_and_not_made_again, 0, 2);
    tcase_add_loop_test(tests, servers_that_have_lost_the_table_get_a_new_one, 0, 2);
    tcase_add_test(tests, clocks_that_are_lost_behind_a_push_are_set_again);
    tcase_add_loop_test(tests, a_read_that_is_held_back_asks_whether_there_is_a_table, 0, 2);
    tcase_add_test(tests, a_refusal_ends_the_run_for_all_workers);
    tcase_add_test(tests, a_run_that_is_told_to_stop_ends_at_one_clock);
    tcase_add_test(tests, a_worker_without_examples_makes_its_steps_all_the_same);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
