/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/engine.c with far more pushes than a server remembers: in whatever order they
 * break, are
 * refused and succeed, over several batches at once, the server can always tell a repeat. */
#include "client/engine/engine.h"

#include "base/random.h"
#include "client/engine/numbering.h"
#include "engine_bench.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 4
#define ITEMS 400

static struct bench bench;
static struct ps_random dice;
static const float one[1] = {1};
static struct ps_item items[BATCHES][ITEMS];
static struct ps_batch *batches[BATCHES];
static uint64_t slots[PS_NUMBERING_REMEMBERED];
static uint64_t applied;

/* As a server does; false: too old to tell. */
static bool take(uint64_t sequence)
{
    uint64_t *slot = &slots[sequence % PS_NUMBERING_REMEMBERED];
    if (*slot > sequence)
        return false;
    applied += *slot < sequence ? 1 : 0;
    *slot = sequence;
    return true;
}

static void check_span(void)
{
    uint64_t oldest = UINT64_MAX, newest = 0;
    for (uint32_t i = 0; i < bench.sent_count; i++) {
        uint64_t sequence = bench_id(&bench, i).sequence;
        oldest = sequence < oldest ? sequence : oldest;
        newest = sequence > newest ? sequence : newest;
    }
    if (bench.sent_count > 0)
        ck_assert_uint_lt(newest - oldest, PS_NUMBERING_SPAN_MAX);
}

static void answer_any(void)
{
    uint32_t i = (uint32_t)ps_random_below(&dice, bench.sent_count);
    uint64_t sequence = bench_id(&bench, i).sequence;
    switch (ps_random_below(&dice, 6)) {
    case 0: /* it never arrived */
        bench_answer(&bench, i, PS_ERR_UNAVAILABLE, false);
        return;
    case 1: /* its answer was lost */
        ck_assert(take(sequence));
        bench_answer(&bench, i, PS_ERR_UNAVAILABLE, false);
        return;
    case 2:
        bench_answer(&bench, i, PS_ERR_BUSY, true);
        return;
    default:
        ck_assert(take(sequence));
        bench_succeed(&bench, i, 1);
        return;
    }
}

START_TEST(a_server_can_always_tell_a_repeat)
{
    memset(slots, 0, sizeof slots);
    applied = 0;
    ps_random_init(&dice, (uint64_t)_i); /* Check prints _i behind the name of a test that fails */
    bench_open_wide(&bench, 1, 90);
    for (uint32_t i = 0; i < BATCHES; i++) {
        for (size_t k = 0; k < ITEMS; k++)
            items[i][k] = bench_push_item("w", one, 1);
        bench_start(&bench, PS_METHOD_PUSH, items[i], ITEMS, 10000000);
        batches[i] = bench.batch;
    }

    uint64_t most = 0;
    uint32_t left = BATCHES;
    while (left > 0) {
        check_span();
        most = bench.sent_count > most ? bench.sent_count : most;
        if (bench.sent_count > 0)
            answer_any();
        if (bench.sent_count == 0 || ps_random_below(&dice, 20) == 0)
            bench_at(&bench, bench.now_ms + 5);
        for (uint32_t i = 0; i < BATCHES; i++) {
            if (batches[i] == NULL || !ps_batch_is_finished(batches[i]))
                continue;
            ps_engine_end(bench.engine, batches[i]);
            batches[i] = NULL;
            left--;
        }
    }

    ck_assert_uint_eq(applied, BATCHES * ITEMS);
    ck_assert_uint_eq(most, PS_NUMBERING_SPAN_MAX);
    for (uint32_t i = 0; i < BATCHES * ITEMS; i++)
        ck_assert_int_eq(items[i / ITEMS][i % ITEMS].status, PS_OK);
    bench.batch = NULL;
    bench_close(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_window");
    TCase *tests = tcase_create("engine_window");
    tcase_add_loop_test(tests, a_server_can_always_tell_a_repeat, 0, 10);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
