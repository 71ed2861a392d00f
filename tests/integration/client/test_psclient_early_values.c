/* SPDX-License-Identifier: Apache-2.0 */
/* A large push and pull as one: each range of the gradient brings back what it makes of the
 * parameter, and no pull follows; where another push was first, one does. The server is in this
 * process: the linker puts our functions in the place of its service's, which count what is asked
 * of it, and push in between. */
#include "client/psclient.h"
#include "rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

/* 4 MiB and a bit: 9 ranges, of which the last is a short one. */
enum { COUNT = (1 << 20) + 4321, RANGES = 9, STEPS = 5 };

static struct rig rig;
static struct psclient *client;
static struct psclient_error error;
static float *gradient, *values;

static atomic_uint ranges, made_ranges, pulls;
static atomic_uint first_overtaken, last_overtaken; /* ranges before which another push comes */

enum ps_status __real_ps_service_push_range(struct ps_service *service,
                                            const struct ps_push_request *request,
                                            struct ps_push_reply *reply, struct ps_push_wait *wait,
                                            struct ps_pull *made, struct ps_error *error);
enum ps_status __real_ps_service_pull_or_wait(struct ps_service *service,
                                              const struct ps_pull_request *request,
                                              struct ps_pull *pull, struct ps_pull_wait *wait,
                                              struct ps_error *error);

static unsigned now(atomic_uint *counter)
{
    return atomic_load(counter);
}

/* Takes 1 from each element. */
static void overtake(struct ps_service *service)
{
    struct ps_push_reply reply;
    struct ps_push_wait wait;
    struct ps_error reason;
    float *ones = malloc(COUNT * sizeof *ones);
    ck_assert_ptr_nonnull(ones);
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1;
    const struct ps_bytes piece = {(const uint8_t *)ones, COUNT * sizeof *ones};
    const struct ps_push_request push = {
        .name = ps_bytes_of_text("w"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    ck_assert_int_eq(__real_ps_service_push_range(service, &push, &reply, &wait, NULL, &reason),
                     PS_OK);
    free(ones);
}

/* As a journal's thread does, but for the disk. */
static void write_journal(struct ps_service *service)
{
    struct ps_record record;
    while (ps_service_journal_take(service, &record, 1) > 0)
        ps_service_journal_written(service, UINT64_MAX, PS_OK, NULL);
}

enum ps_status __wrap_ps_service_push_range(struct ps_service *service,
                                            const struct ps_push_request *request,
                                            struct ps_push_reply *reply, struct ps_push_wait *wait,
                                            struct ps_pull *made, struct ps_error *reason)
{
    unsigned range = atomic_fetch_add(&ranges, 1) + 1;
    if (range >= atomic_load(&first_overtaken) && range <= atomic_load(&last_overtaken))
        overtake(service);
    enum ps_status status =
        __real_ps_service_push_range(service, request, reply, wait, made, reason);
    write_journal(service);
    atomic_fetch_add(&made_ranges, status == PS_OK && made != NULL && made->held != NULL);
    return status;
}

enum ps_status __wrap_ps_service_pull_or_wait(struct ps_service *service,
                                              const struct ps_pull_request *request,
                                              struct ps_pull *pull, struct ps_pull_wait *wait,
                                              struct ps_error *reason)
{
    atomic_fetch_add(&pulls, 1);
    return __real_ps_service_pull_or_wait(service, request, pull, wait, reason);
}

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static struct psclient_parameter parameter(void)
{
    return (struct psclient_parameter){.name = "w",
                                       .type = PSCLIENT_FLOAT32,
                                       .content = values,
                                       .content_size = COUNT * sizeof *values};
}

/* "w", all zeros, with plain SGD of rate 1. */
/* With a journal, ranges are kept until all are there, and need not come again. */
static void start(bool shares, bool journals)
{
    const struct rig_options wish = {.lane_count = 1, /* ranges one after the other */
                                     .saves = journals,
                                     .journals = journals,
                                     .shared_memory_bytes = shares ? UINT64_C(1) << 30 : 0};
    char address[32];
    rig_start(&rig, &wish);
    rig_make_ready(&rig, COUNT);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ps_rpc_server_port(rig.server));
    const struct psclient_options options = {.servers = address};
    expect_ok(psclient_open(&options, &client, &error));
    gradient = calloc(COUNT, sizeof *gradient);
    values = calloc(COUNT, sizeof *values);
    ck_assert(gradient != NULL && values != NULL);
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = -(float)(i % 1000);
}

static void finish(void)
{
    psclient_close(client);
    rig_stop(&rig);
    free(gradient);
    free(values);
}

/* The version that the push got; what was pulled must be of that one, or of a later. */
static uint64_t step(uint64_t *pulled)
{
    struct psclient_parameter w = parameter();
    struct psclient_result result;
    const struct psclient_gradient push = {.name = "w",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = gradient,
                                           .content_size = COUNT * sizeof *gradient};
    memset(values, 0x55, COUNT * sizeof *values);
    expect_ok(psclient_push_pull(client, &push, &w, 1, LONG_MS, &result, &error));
    ck_assert_uint_ge(w.version, result.version);
    *pulled = w.version;
    return result.version;
}

static void expect_values(unsigned steps, uint64_t others)
{
    expect_each(i, COUNT, values[i] == (float)steps * (float)(i % 1000) - (float)others);
}

static void forget_counts(void)
{
    atomic_store(&ranges, 0);
    atomic_store(&made_ranges, 0);
    atomic_store(&pulls, 0);
}

START_TEST(each_range_brings_what_it_makes_and_nothing_is_pulled)
{
    uint64_t pulled;
    start(_i % 2 == 1, _i >= 2);
    for (unsigned i = 1; i <= STEPS; i++) {
        forget_counts();
        ck_assert_uint_eq(step(&pulled), i);
        ck_assert_uint_eq(pulled, i);
        expect_values(i, 0);
        ck_assert_uint_eq(now(&ranges), RANGES);
        ck_assert_uint_eq(now(&made_ranges), RANGES);
        ck_assert_uint_eq(now(&pulls), 0);
    }
    finish();
}
END_TEST

/* Another push comes before each range in turn: before the first it does no harm. */
START_TEST(what_ranges_made_of_a_version_that_was_overtaken_is_not_taken)
{
    uint64_t pulled;
    unsigned overtaken = (unsigned)_i % RANGES + 1;
    start(_i / RANGES % 2 == 1, _i >= 2 * RANGES);
    atomic_store(&first_overtaken, overtaken);
    atomic_store(&last_overtaken, overtaken);

    ck_assert_uint_eq(step(&pulled), 2);

    ck_assert_uint_eq(pulled, 2);
    expect_values(1, 1);
    ck_assert((now(&pulls) > 0) == (overtaken > 1));
    finish();
}
END_TEST

START_TEST(a_push_that_is_always_overtaken_is_applied_once_all_the_same)
{
    uint64_t pulled;
    start(_i % 2 == 1, _i >= 2);
    atomic_store(&last_overtaken, ~0U);

    uint64_t version = step(&pulled);

    ck_assert_uint_gt(version, 1);
    ck_assert_uint_eq(pulled, now(&ranges) + 1);
    expect_values(1, pulled - 1);
    ck_assert_uint_gt(now(&pulls), 0);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_early_values");
    TCase *tests = tcase_create("psclient_early_values");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, each_range_brings_what_it_makes_and_nothing_is_pulled, 0, 4);
    tcase_add_loop_test(tests, what_ranges_made_of_a_version_that_was_overtaken_is_not_taken, 0,
                        4 * RANGES);
    tcase_add_loop_test(tests, a_push_that_is_always_overtaken_is_applied_once_all_the_same, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
