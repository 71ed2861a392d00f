/* SPDX-License-Identifier: Apache-2.0 */
/* A call that a helper answers, and the wake-up that comes meanwhile: one method of the test's own
 * on one lane, so that the order of what happens is the test's. */
#include "raw_client.h"
#include "run_suite.h"
#include "server/rpc/lane.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/server_arguments.h"
#include "server/rpc/unary_call.h"

#include "base/assert.h"
#include "base/clock.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include <check.h>
#include <stdlib.h>

#define WAIT_MS 120000

/* What the large call waits for, and what is seen of the small one, which waits for ever. */
struct plan {
    struct ps_lane *lane;
    bool wake_is_handled;    /* before the helper returns; else it is still to be handled then */
    atomic_bool is_there;    /* what the large call asks for */
    atomic_uint small_asked; /* how often */
    atomic_bool lane_kept;   /* the small call's answer keeps the lane until this falls */
    atomic_bool lane_is_kept;
    atomic_bool ends; /* the small call is answered */
};

static struct plan plan;

static void wait_until(const atomic_bool *flag, bool wanted)
{
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    while (atomic_load(flag) != wanted)
        PS_ASSERT(ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
}

static bool answer_small(void)
{
    atomic_fetch_add(&plan.small_asked, 1);
    if (atomic_load(&plan.lane_kept)) {
        atomic_store(&plan.lane_is_kept, true);
        wait_until(&plan.lane_kept, false);
    }
    return atomic_load(&plan.ends);
}

/* In the helper: has looked in vain; then it comes true, and the wake-up is handled. */
static void let_wake_be_handled(void)
{
    unsigned asked = atomic_load(&plan.small_asked);
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    atomic_store(&plan.is_there, true);
    ps_lane_wake(plan.lane, PS_TOPIC_BIT(PS_TOPIC_LIFE));
    while (atomic_load(&plan.small_asked) == asked)
        PS_ASSERT(ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
}

/* In the helper: the lane is busy elsewhere; has looked in vain; then it comes true, and the
 * lane is woken. The helper's own wake-up is the same event: the lane has not come to it. */
static void let_wake_wait(void)
{
    atomic_store(&plan.lane_kept, true);
    ps_lane_wake(plan.lane, PS_TOPIC_BIT(PS_TOPIC_LIFE));
    wait_until(&plan.lane_is_kept, true);
    atomic_store(&plan.is_there, true);
    ps_lane_wake(plan.lane, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

static enum ps_serve_progress serve(struct ps_call_answer *answer)
{
    answer->status = PS_OK;
    if (answer->request.size < PS_SERVE_LONG_BYTES)
        return answer_small() ? PS_SERVE_DONE : PS_SERVE_WAITS;
    if (atomic_load(&plan.is_there))
        return PS_SERVE_DONE;
    if (plan.wake_is_handled)
        let_wake_be_handled();
    else
        let_wake_wait();
    return PS_SERVE_WAITS;
}

static const struct ps_unary_method method = {"/test/Wait", serve, 4, 16, PS_METHOD_COUNT};

/* ---- The server ---- */

static struct ps_rpc_context context;
static struct ps_metrics *metrics;
static struct raw_client client;

static void start(void)
{
    struct ps_server_arguments arguments;
    int port;
    grpc_init();
    metrics = ps_metrics_create(ps_allocator_heap());
    context = (struct ps_rpc_context){.memory = ps_allocator_heap(),
                                      .clock = ps_clock_real(),
                                      .message_bytes_max = PS_MESSAGE_BYTES_DEFAULT,
                                      .reply_ms_max = WAIT_MS};
    ps_mutex_init(&context.idle_lock, PS_RANK_QUEUE);
    ps_condition_init(&context.idle);
    ps_helpers_init(&context.helpers);
    ps_budgets_init(&context.budgets);
    ps_refusals_init(&context.refusals, metrics, NULL, NULL);
    ps_waiting_init(&context.waiting, 16, 16);
    ps_rpc_metrics_register(&context.metrics, metrics);
    ps_server_arguments_init(&arguments, context.message_bytes_max, 0);
    context.server = grpc_server_create(&arguments.arguments, NULL);
    void *registered = grpc_server_register_method(context.server, method.path, NULL,
                                                   GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    PS_ASSERT(registered != NULL);
    PS_ASSERT(ps_lane_create(&context, 1, &plan.lane, NULL) == PS_OK);
    PS_ASSERT(ps_unary_calls_add(plan.lane, &method, registered, NULL) == PS_OK);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    port = grpc_server_add_http2_port(context.server, "127.0.0.1:0", credentials);
    grpc_server_credentials_release(credentials);
    PS_ASSERT(port > 0);
    PS_ASSERT(ps_helpers_start(&context.helpers, 1, 1, NULL) == PS_OK);
    grpc_server_start(context.server);
    PS_ASSERT(ps_lane_start(plan.lane, NULL) == PS_OK);
    raw_client_open(&client, (uint16_t)port);
}

static void stop(void)
{
    grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
    raw_client_close(&client);
    grpc_server_shutdown_and_notify(context.server, queue, queue);
    grpc_server_cancel_all_calls(context.server);
    (void)grpc_completion_queue_pluck(queue, queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    ps_lane_stop(plan.lane);
    ps_helpers_stop(&context.helpers);
    grpc_server_destroy(context.server);
    ps_lane_destroy(plan.lane);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
    ps_budgets_fini(&context.budgets);
    ps_helpers_fini(&context.helpers);
    ps_condition_fini(&context.idle);
    ps_mutex_fini(&context.idle_lock);
    ps_metrics_destroy(metrics);
    grpc_shutdown();
}

static void begin_small(struct raw_pending *small)
{
    static const uint8_t byte[] = {0};
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    raw_start(&client, small, method.path, (struct ps_bytes){byte, 1}, 4 * WAIT_MS);
    while (atomic_load(&plan.small_asked) == 0)
        PS_ASSERT(ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
}

static void end_small(struct raw_pending *small)
{
    struct raw_answer answered;
    atomic_store(&plan.ends, true);
    ps_lane_wake(plan.lane, PS_TOPIC_BIT(PS_TOPIC_LIFE));
    ck_assert(raw_wait(&client, small, WAIT_MS, &answered));
    raw_answer_release(&answered);
}

/* The helper is done with all of it. */
static void wait_for_helper(void)
{
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    for (bool works = true; works;) {
        ps_mutex_lock(&context.helpers.lock);
        works = context.helpers.jobs > 0 || context.helpers.submitted != NULL;
        ps_mutex_unlock(&context.helpers.lock);
        PS_ASSERT(ps_time_left_ms(ps_clock_real(), deadline_ms) > 0);
    }
}

static void expect_large_call_is_answered(bool wake_is_handled)
{
    struct raw_pending small;
    struct raw_pending large;
    struct raw_answer answered;
    uint8_t *bytes = calloc(1, PS_SERVE_LONG_BYTES);
    ck_assert_ptr_nonnull(bytes);
    plan = (struct plan){.wake_is_handled = wake_is_handled};
    start();
    begin_small(&small);

    raw_start(&client, &large, method.path, (struct ps_bytes){bytes, PS_SERVE_LONG_BYTES}, WAIT_MS);
    if (!wake_is_handled) {
        wait_until(&plan.is_there, true);
        wait_for_helper();
        atomic_store(&plan.lane_kept, false);
    }

    ck_assert(raw_wait(&client, &large, 2 * WAIT_MS, &answered));
    ck_assert_int_eq(answered.code, GRPC_STATUS_OK);
    raw_answer_release(&answered);
    end_small(&small);
    stop();
    free(bytes);
}

START_TEST(a_wake_up_that_is_handled_before_a_helper_returns_is_not_lost)
{
    expect_large_call_is_answered(true);
}
END_TEST

START_TEST(one_wake_up_for_a_helper_and_for_what_it_missed_is_not_lost)
{
    expect_large_call_is_answered(false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unary_call");
    TCase *tests = tcase_create("helpers");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_wake_up_that_is_handled_before_a_helper_returns_is_not_lost);
    tcase_add_test(tests, one_wake_up_for_a_helper_and_for_what_it_missed_is_not_lost);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
