/* SPDX-License-Identifier: Apache-2.0 */
/* Asks, repeats, takers that die, answers, gangs and lives by chance, beside a model of plain
 * arrays: what is taken, in which order, and how each request ends is what the model says. */
#include "mailbox_world.h"

#include "base/random.h"
#include "run_suite.h"

#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, REQUESTS = 4000, TAKERS = 3, STEPS = 20000, LEASE_MS = 100 };

enum state { WAITS, TAKEN, ANSWERED, FAILED, GONE };

struct request {
    enum state state;
    uint32_t worker;
    int32_t priority;
    int seq; /* by the model: the order of coming */
    int taker;
    uint64_t handle, token;
    int calls;
    struct ps_asking asking[3];
};

struct taker {
    bool is_known, again;
    uint64_t heard_ms, turn;
};

static struct request requests[REQUESTS];
static int request_count;
static struct taker takers[TAKERS];
static struct ps_random chance;

static uint32_t below(uint32_t count)
{
    return (uint32_t)(ps_random_next(&chance) % count);
}

/* The next of this worker, or of any: brute force over all that ever came. */
static int model_next(int worker)
{
    int best = -1;
    for (int i = 0; i < request_count; i++) {
        const struct request *request = &requests[i];
        if (request->state != WAITS || (worker >= 0 && request->worker != (uint32_t)worker))
            continue;
        if (best < 0 || request->priority > requests[best].priority ||
            (request->priority == requests[best].priority && request->seq < requests[best].seq))
            best = i;
    }
    return best;
}

static void ask_new(void)
{
    if (request_count == REQUESTS)
        return;
    struct request *request = &requests[request_count];
    struct ps_ask_request ask = world_request(below(WORKERS), request_count);
    ask.asked.priority = (int32_t)below(3) - 1;
    ask.token = below(2) == 0 ? 0 : (uint64_t)request_count + 1;
    *request = (struct request){.worker = ask.asked.worker,
                                .priority = ask.asked.priority,
                                .seq = request_count,
                                .taker = -1,
                                .token = ask.token,
                                .calls = 1};
    ck_assert_int_eq(world_ask(&ask, "q", &request->asking[0]), PS_OK);
    request_count++;
}

static void ask_again(struct request *request)
{
    struct ps_ask_request ask = world_request(request->worker, (int32_t)(request - requests));
    ask.token = request->token;
    ask.asked.priority = request->priority;
    if (request->token == 0 || request->calls == 3 || request->state == GONE)
        return;
    ck_assert_int_eq(world_ask(&ask, "q", &request->asking[request->calls]), PS_OK);
    request->calls++;
}

/* One whose last call goes without a token goes, too, unless somebody has it. */
static void leave(struct request *request)
{
    if (request->calls == 0)
        return;
    world_stop(&request->asking[--request->calls]);
    if (request->calls > 0 || request->token != 0)
        return;
    if (request->state != TAKEN)
        request->state = GONE;
}

static void look(struct request *request)
{
    char text[64], expected[64];
    if (request->calls == 0)
        return;
    enum ps_status status = world_look(&request->asking[0], text);
    (void)snprintf(expected, sizeof expected, "answer %d", (int)(request - requests));
    if (request->state == ANSWERED) {
        ck_assert_int_eq(status, PS_OK);
        ck_assert_str_eq(text, expected);
    } else {
        ck_assert_int_eq(status, request->state == FAILED ? PS_ERR_ABORTED : PS_ERR_NOT_READY);
    }
}

static void took(int taker, size_t count, const int32_t *commands, const uint64_t *handles,
                 const int *expected)
{
    for (size_t i = 0; i < count; i++) {
        struct request *request = &requests[commands[i]];
        ck_assert_int_eq(commands[i], expected[i]);
        request->state = TAKEN;
        request->taker = taker;
        request->handle = handles[i];
    }
}

static void begin_taking(int taker, struct ps_take_request *take, struct ps_taking *taking)
{
    bool wakes;
    takers[taker].turn++;
    *take = (struct ps_take_request){.app = WORLD_APP,
                                     .taker = (uint64_t)taker + 1,
                                     .turn = takers[taker].turn,
                                     .again = takers[taker].again,
                                     .workers = take->workers,
                                     .worker_count = take->worker_count,
                                     .partial = true,
                                     .max = 1 + below(4)};
    takers[taker].is_known = true;
    takers[taker].heard_ms = world_now.ms;
    ck_assert_int_eq(ps_mailbox_take(&world, take, world_now, taking, &wakes, &world_error), PS_OK);
}

static void take(int taker)
{
    static const uint32_t all[WORKERS] = {2, 0, 1};
    int expected[8], count = 0;
    int32_t commands[8];
    uint64_t handles[8];
    struct ps_taking taking;
    struct ps_take_request request = {.workers = all, .worker_count = below(2) == 0 ? 0 : WORKERS};
    begin_taking(taker, &request, &taking);
    bool is_gang = request.worker_count > 0;
    bool is_last = below(2) == 0;
    enum state before[8];
    while (count < (int)(is_gang ? WORKERS : request.max)) {
        int next = model_next(is_gang ? (int)all[count] : -1);
        if (next < 0)
            break;
        before[count] = requests[next].state;
        expected[count++] = next;
        requests[next].state = TAKEN;
    }
    for (int i = 0; i < count; i++)
        requests[expected[i]].state = before[i];
    enum ps_status status =
        ps_mailbox_collect(&world, &taking, 1 << 20, is_last, world_now, &world_error);
    bool is_whole = is_gang ? count == WORKERS : count > 0;
    if (is_whole || (is_last && !is_gang)) {
        ck_assert_int_eq(status, PS_OK);
        ck_assert_uint_eq(taking.row_count, (size_t)count);
    } else if (!is_last) {
        ck_assert_int_eq(status, PS_ERR_NOT_READY);
    } else {
        ck_assert_int_eq(status, PS_OK);
    }
    /* Of a gang that is not whole: one of each that has some, in the order of the gang. */
    for (size_t i = 0; i < taking.row_count; i++) {
        commands[i] = taking.rows[i].asked.command;
        handles[i] = taking.rows[i].handle;
        if (is_gang && !is_whole)
            expected[i] = model_next((int)requests[commands[i]].worker);
    }
    took(taker, taking.row_count, commands, handles, expected);
    ps_mailbox_stop_taking(&world, &taking, world_now);
    ps_mailbox_check(&world);
}

static void answer(struct request *request)
{
    char text[64];
    (void)snprintf(text, sizeof text, "answer %d", (int)(request - requests));
    if (request->handle == 0)
        return;
    /* Any taker tries; the one that has it may. */
    int taker = (int)below(TAKERS);
    bool may = request->state == TAKEN && request->taker == taker;
    enum ps_status status = world_answer((uint64_t)taker + 1, request->handle, text, below(2) + 1);
    ck_assert(may ? status == PS_OK : status != PS_OK || request->state == ANSWERED);
    if (may)
        request->state = request->token == 0 && request->calls == 0 ? GONE : ANSWERED;
}

static void model_lose(int taker)
{
    for (int i = 0; i < request_count; i++) {
        struct request *request = &requests[i];
        if (request->state != TAKEN || request->taker != taker)
            continue;
        if (takers[taker].again)
            request->state = WAITS;
        else
            request->state = request->token == 0 && request->calls == 0 ? GONE : FAILED;
    }
    takers[taker] = (struct taker){.again = below(2) == 0};
}

/* Those that said nothing for their lease die, as the model says. */
static void pass_time(void)
{
    world_pass(below(60));
    for (int i = 0; i < TAKERS; i++) {
        if (takers[i].is_known && world_now.ms - takers[i].heard_ms >= LEASE_MS)
            model_lose(i);
    }
    (void)ps_mailbox_sweep(&world, world_now);
    ps_mailbox_check(&world);
}

START_TEST(chance_beside_a_model)
{
    uint64_t seed = 20261128 + (uint64_t)_i;
    struct ps_mailbox_bounds bounds = world_bounds();
    (void)printf("seed %llu\n", (unsigned long long)seed);
    ps_random_init(&chance, seed);
    /* Nothing is forgotten within the test, and nobody's patience ends. */
    bounds.kept_ms = UINT32_MAX;
    bounds.kept_bytes_max = bounds.bytes_max = 1 << 30;
    bounds.kept_max = bounds.requests_max = 2 * REQUESTS;
    world_begin_with(ps_allocator_heap(), &bounds);
    request_count = 0;
    memset(takers, 0, sizeof takers);
    for (int step = 0; step < STEPS; step++) {
        struct request *request =
            request_count > 0 ? &requests[below((uint32_t)request_count)] : NULL;
        uint32_t what = below(20);
        if (what < 5 || request == NULL)
            ask_new();
        else if (what < 6)
            ask_again(request);
        else if (what < 7)
            leave(request);
        else if (what < 11)
            take((int)below(TAKERS));
        else if (what < 16)
            answer(request);
        else if (what < 19)
            look(request);
        else
            pass_time();
    }
    for (int i = 0; i < request_count; i++) {
        look(&requests[i]);
        while (requests[i].calls > 0)
            world_stop(&requests[i].asking[--requests[i].calls]);
    }
    world_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_model");
    TCase *tests = tcase_create("mailbox_model");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, chance_beside_a_model, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
