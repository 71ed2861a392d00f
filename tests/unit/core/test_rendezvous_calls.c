/* SPDX-License-Identifier: Apache-2.0 */
/* Values at a service: whom it tells, when a receive gives up, what becomes of it when the shard
 * goes. */
#include "server/core/requests/rendezvous_calls.h"

#include "core_world.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct core_world world;
static struct ps_tensor_wait waits[2];
static uint64_t epoch;

static void begin(void)
{
    world_init(&world, false, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);
    world.topics = 0;
}

static void end(void)
{
    for (size_t i = 0; i < 2; i++)
        ps_service_leave_tensors(world.service, &waits[i]);
    world_fini(&world);
}

static enum ps_status send_with(uint64_t step, uint64_t known, uint32_t shard)
{
    const struct ps_bytes hello = ps_bytes_of_text("hello");
    const struct ps_hold none = {.keep = NULL};
    const struct ps_send_tensor_request request = {.step = step,
                                                   .epoch = known,
                                                   .key = ps_bytes_of_text("k"),
                                                   .content = ps_view_of(&hello),
                                                   .shard = shard};
    struct ps_send_tensor_reply reply = {0};
    enum ps_status status =
        ps_service_send_tensor(world.service, &request, &none, &reply, &world.error);
    if (status == PS_OK)
        epoch = reply.epoch;
    return status;
}

static enum ps_status receive(int number, uint64_t step, uint64_t wait_ms)
{
    const struct ps_rendezvous_wish wish = {.id = 10 + (uint64_t)number,
                                            .key = ps_bytes_of_text("k")};
    const struct ps_recv_tensors_request request = {.step = step, .wishes = &wish, .wish_count = 1};
    return ps_service_recv_tensors(world.service, &request, wait_ms, &waits[number], &world.error);
}

static enum ps_status control(enum ps_step_act act, uint64_t step)
{
    const struct ps_step_request request = {
        .act = act, .step = step, .session = ps_bytes_of_text("s"), .reason = ""};
    return ps_service_control_step(world.service, &request, &epoch, &world.error);
}

START_TEST(a_receive_that_waits_is_told_by_its_steps_topic)
{
    ck_assert_int_eq(receive(0, 3, 500), PS_ERR_NOT_READY);
    ck_assert_uint_eq(ps_service_tensors_again_ms(world.service, &waits[0]), 500);
    ck_assert_uint_eq(world.topics, 0);

    ck_assert_int_eq(send_with(3, 0, 1), PS_OK);

    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(waits[0].topic));
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error), PS_OK);
    ck_assert_uint_eq(waits[0].receiving.rows[0].value->content.size, 5);
    ck_assert_uint_eq(waits[0].receiving.epoch, epoch);
    ps_service_check(world.service);
}
END_TEST

START_TEST(a_value_that_nobody_waits_for_tells_nobody)
{
    ck_assert_int_eq(send_with(3, 0, 0), PS_OK);

    ck_assert_uint_eq(world.topics, 0);
    ck_assert_int_eq(receive(0, 3, 500), PS_OK);
}
END_TEST

START_TEST(a_receive_whose_time_is_over_has_nothing)
{
    ck_assert_int_eq(receive(0, 3, 500), PS_ERR_NOT_READY);
    world.fake.now_ms += 499;
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error),
                     PS_ERR_NOT_READY);
    ck_assert_uint_eq(ps_service_tensors_again_ms(world.service, &waits[0]), 1);

    world.fake.now_ms += 1;
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error), PS_OK);
    ck_assert_ptr_null(waits[0].receiving.rows[0].value);
    ck_assert_int_eq(waits[0].receiving.rows[0].status, PS_ERR_NOT_READY);
}
END_TEST

START_TEST(steps_are_begun_aborted_and_cleaned_up)
{
    ck_assert_int_eq(control(PS_STEP_BEGIN, 3), PS_OK);
    ck_assert_uint_ne(epoch, 0);
    ck_assert_int_eq(receive(0, 3, 500), PS_ERR_NOT_READY);
    ck_assert_int_eq(control(PS_STEP_ABORT, 3), PS_OK);
    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(waits[0].topic));
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error),
                     PS_ERR_ABORTED);

    ck_assert_int_eq(send_with(3, 0, 0), PS_ERR_ABORTED);
    ck_assert_int_eq(control(PS_STEP_CLEANUP, 3), PS_OK);
    ck_assert_int_eq(send_with(3, 0, 0), PS_OK);
    ck_assert_int_eq(receive(1, 4, 500), PS_ERR_NOT_READY);
    ck_assert_int_eq(control(PS_STEP_CLEANUP_ALL, 0), PS_OK);
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[1], &world.error),
                     PS_ERR_ABORTED);
    ck_assert_str_eq(world.error.text, "Shutdown");
    ck_assert_int_eq(control(PS_STEP_NOTHING, 3), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(values_are_lost_with_the_shard)
{
    ck_assert_int_eq(send_with(3, 0, 0), PS_OK);
    uint64_t known = epoch;
    ck_assert_int_eq(receive(0, 5, 500), PS_ERR_NOT_READY);
    ps_service_reset(world.service);
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error),
                     PS_ERR_ABORTED);
    ck_assert_int_eq(send_with(3, known, 0), PS_ERR_UNAVAILABLE);

    world_own(&world, 8);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(send_with(3, known, 0), PS_ERR_ABORTED);
    ck_assert_str_eq(world.error.text, "step 3: the server of shard 0 is another one");
    ck_assert_int_eq(receive(1, 3, 0), PS_OK);
    ck_assert_ptr_null(waits[1].receiving.rows[0].value);
}
END_TEST

START_TEST(a_server_without_the_shard_takes_and_gives_nothing)
{
    ck_assert_int_eq(send_with(3, 0, 2), PS_ERR_NOT_OWNER);
    ck_assert_int_eq(receive(0, 3, 500), PS_ERR_NOT_READY);
    ps_service_prove(world.service, 0);

    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(send_with(3, 0, 1), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(receive(1, 3, 500), PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(a_step_that_nobody_uses_is_swept_and_told)
{
    ck_assert_int_eq(receive(0, 3, 10000000), PS_ERR_NOT_READY);
    world.fake.now_ms += 600001;
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    world.topics = 0;
    ps_service_sweep(world.service);

    ck_assert(world.topics & PS_TOPIC_BIT(waits[0].topic));
    ck_assert_int_eq(ps_service_await_tensors(world.service, &waits[0], &world.error),
                     PS_ERR_ABORTED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_calls");
    TCase *tests = tcase_create("rendezvous_calls");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_receive_that_waits_is_told_by_its_steps_topic);
    tcase_add_test(tests, a_value_that_nobody_waits_for_tells_nobody);
    tcase_add_test(tests, a_receive_whose_time_is_over_has_nothing);
    tcase_add_test(tests, steps_are_begun_aborted_and_cleaned_up);
    tcase_add_test(tests, values_are_lost_with_the_shard);
    tcase_add_test(tests, a_server_without_the_shard_takes_and_gives_nothing);
    tcase_add_test(tests, a_step_that_nobody_uses_is_swept_and_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
