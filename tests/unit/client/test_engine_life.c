/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine_life.c: requests to server programs, and what of them goes to which life of
 * a server. */
#include "client/engine/engine.h"

#include "engine_bench.h"
#include "proto/program_messages.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct bench bench;

/* One outcome of the request that is in flight, and the life that it names then. */
struct turn {
    enum ps_status status;
    bool refused;
    uint64_t told; /* a life */
    uint64_t named;
    bool at_once;
};

enum { TURNS_MAX = 2, ENDED = 12345 }; /* names no life any more: the request is over */

static const struct life {
    const char *what;
    uint64_t epoch; /* that the request names first; 0: its sender knows none */
    struct turn turns[TURNS_MAX];
    enum ps_status end; /* PS_OK: behind the turns it is answered */
} lives[] = {
    {"a first request names no life, and its repeat only one that knows it",
     0,
     {{PS_ERR_UNAVAILABLE, .named = PS_EPOCH_BY_TOKEN},
      {PS_ERR_ABORTED, .refused = true, .told = 77, .named = ENDED}},
     PS_ERR_ABORTED},
    {"what a server certainly did not take is asked as before",
     0,
     {{PS_ERR_BUSY, .refused = true, .named = 0}},
     PS_OK},
    /* The server had none, perhaps for the answer. */
    {"a refusal for want of memory proves nothing",
     0,
     {{PS_ERR_NO_MEMORY, .refused = true, .named = PS_EPOCH_BY_TOKEN}},
     PS_OK},
    {"a request for a former life goes to the next one at once",
     5,
     {{PS_ERR_ABORTED, .refused = true, .told = 6, .named = 6, .at_once = true}},
     PS_OK},
    {"a request that may have run never leaves its life",
     5,
     {{PS_ERR_UNAVAILABLE, .named = 5},
      {PS_ERR_ABORTED, .refused = true, .told = 6, .named = ENDED}},
     PS_ERR_ABORTED},
    /* Others are repeated when a server is busy. */
    {"a status of the program is its answer",
     0,
     {{PS_ERR_BUSY, .refused = true, .told = 5, .named = ENDED}},
     PS_ERR_BUSY},
    /* A taker is gone, or the answer is not kept any more. */
    {"an abort that tells no life is the end",
     5,
     {{PS_ERR_ABORTED, .refused = true, .named = ENDED}},
     PS_ERR_ABORTED},
};

static struct ps_item item;
static const char *what = ""; /* the row, or none */

#define HOLDS(condition_) ck_assert_msg((condition_), "%s: not %s", what, #condition_)

static void ask(uint64_t epoch, uint64_t timeout_ms)
{
    static const uint8_t message[] = {8, 1};
    item = (struct ps_item){.ask = {message, sizeof message}, .ask_epoch = epoch};
    bench_open(&bench, 1, 1000);
    bench_start(&bench, PS_METHOD_ASK, &item, 1, timeout_ms);
    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert_uint_eq(bench.sent[0].request->ask_epoch, epoch);
}

/* Until it is in flight again, or over. */
static void ends_with(const struct turn *turn)
{
    const struct ps_call_outcome outcome = {.status = turn->status,
                                            .refused = turn->refused,
                                            .session = turn->told,
                                            .text = "it was refused"};
    uint64_t before_ms = bench.now_ms;
    bench_give(&bench, 0, &outcome);
    for (int i = 0; i < 10 && bench.sent_count == 0 && bench.finished == NULL; i++)
        bench_at(&bench, ps_engine_wake_ms(bench.engine));
    HOLDS(bench.sent_count == (turn->named == ENDED ? 0 : 1));
    if (turn->named != ENDED)
        HOLDS(bench.sent[0].request->ask_epoch == turn->named);
    HOLDS(!turn->at_once || bench.now_ms == before_ms);
}

static void is_answered(void)
{
    bench_succeed(&bench, 0, 0);
    ck_assert_int_eq(item.status, PS_OK);
    bench_close(&bench);
}

START_TEST(what_a_request_names_follows_from_what_became_of_it)
{
    const struct life *life = &lives[_i];
    what = life->what;
    ask(life->epoch, 100000);
    for (size_t i = 0; i < TURNS_MAX && life->turns[i].status != PS_OK; i++)
        ends_with(&life->turns[i]);
    if (life->end == PS_OK) {
        is_answered();
        return;
    }
    HOLDS(item.status == life->end);
    bench_close(&bench);
}
END_TEST

/* As of a process that was stopped for minutes: by then the server may have forgotten it. */
START_TEST(a_late_repeat_is_for_nobody_but_who_knows_it)
{
    const struct turn stays = {PS_ERR_UNAVAILABLE, .named = 5};
    ask(5, 3600 * 1000);
    ends_with(&stays);
    const struct ps_call_outcome broken = {.status = PS_ERR_UNAVAILABLE, .text = "it broke"};
    bench_give(&bench, 0, &broken);

    bench_at(&bench, bench.now_ms + 4 * 60 * 1000);

    ck_assert_uint_eq(bench.sent_count, 1);
    ck_assert(bench.sent[0].request->ask_epoch == PS_EPOCH_BY_TOKEN);
    is_answered();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_life");
    TCase *tests = tcase_create("lives");
    tcase_add_loop_test(tests, what_a_request_names_follows_from_what_became_of_it, 0,
                        (int)PS_ARRAY_COUNT(lives));
    tcase_add_test(tests, a_late_repeat_is_for_nobody_but_who_knows_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
