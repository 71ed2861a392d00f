/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psbench/psbench_team.c: workers that wait for each other also end together. */
#include "tools/psbench/psbench_team.h"

#include "base/clock.h"
#include "base/thread.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#define WORKERS 5

/* A round ends when all workers have come to it. */
static struct {
    struct ps_mutex lock;
    struct ps_condition full;
    uint64_t here, rounds;
    uint64_t last[WORKERS]; /* round that each worker was in */
    uint64_t fails_in;      /* 0: none does */
    bool broken;
} meeting;

static void set_up(void)
{
    memset(&meeting, 0, sizeof meeting);
    ps_mutex_init(&meeting.lock, PS_RANK_LEAF);
    ps_condition_init(&meeting.full);
}

static void tear_down(void)
{
    ps_condition_fini(&meeting.full);
    ps_mutex_fini(&meeting.lock);
}

static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error)
{
    (void)self;
    ps_mutex_lock(&meeting.lock);
    uint64_t present = meeting.rounds;
    meeting.last[worker] = round;
    meeting.broken = meeting.broken || (round == meeting.fails_in && worker == 3);
    if (++meeting.here == WORKERS) {
        meeting.here = 0;
        meeting.rounds++;
    }
    ps_condition_signal_all(&meeting.full);
    while (meeting.rounds == present && !meeting.broken)
        (void)ps_condition_wait(&meeting.full, &meeting.lock, PS_DEADLINE_NEVER);
    bool broken = meeting.broken;
    ps_mutex_unlock(&meeting.lock);
    return broken ? ps_fail(error, PS_ERR_IO, "it broke") : PS_OK;
}

START_TEST(all_workers_end_with_the_same_round_and_the_next_run_goes_on_behind_it)
{
    struct ps_bench_team team = {.step = step, .worker_count = WORKERS};
    struct ps_bench_figures figures;
    uint64_t before = 0;
    for (int run = 0; run < 3; run++) {
        ck_assert_int_eq(ps_bench_team_run(&team, 1, &figures, NULL), PS_OK);

        ck_assert_uint_ge(team.done, before + PS_BENCH_REFERENCE_COUNT_MIN);
        ck_assert_uint_eq(team.done, meeting.rounds);
        for (int worker = 0; worker < WORKERS; worker++)
            ck_assert_uint_eq(meeting.last[worker], team.done);
        ck_assert(figures.per_second > 0 && figures.p99_us >= figures.p50_us);
        before = team.done;
    }
}
END_TEST

START_TEST(a_worker_that_fails_ends_the_run_with_its_words)
{
    struct ps_bench_team team = {.step = step, .worker_count = WORKERS};
    struct ps_bench_figures figures;
    struct ps_error error = {0};
    meeting.fails_in = 2;

    ck_assert_int_eq(ps_bench_team_run(&team, 60000, &figures, &error), PS_ERR_IO);

    ck_assert_ptr_nonnull(strstr(error.text, "it broke"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("psbench_team");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, all_workers_end_with_the_same_round_and_the_next_run_goes_on_behind_it);
    tcase_add_test(tests, a_worker_that_fails_ends_the_run_with_its_words);
    Suite *suite = suite_create("psbench_team");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
