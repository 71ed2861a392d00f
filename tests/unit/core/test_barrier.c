/* SPDX-License-Identifier: Apache-2.0 */
/* Members meet at a service: whom it tells, when it gives up, what becomes of them when it goes. */
#include "server/core/requests/barrier.h"

#include "core_world.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct core_world world;

static void begin(void)
{
    world_init(&world, false, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);
    world.topics = 0;
}

static void end(void)
{
    world_fini(&world);
}

static enum ps_status arrive(uint32_t member, uint64_t wait_ms, struct ps_barrier_wait *wait)
{
    const struct ps_arrival arrival = {ps_bytes_of_text("b"), 1, member, 2, 0};
    return ps_service_arrive(world.service, &arrival, wait_ms, wait, &world.error);
}

START_TEST(members_meet_before_anything_is_initialised)
{
    struct ps_barrier_wait first;
    struct ps_barrier_wait last;
    ck_assert_int_eq(arrive(0, 0, &first), PS_ERR_NOT_READY);
    ck_assert_uint_eq(ps_service_again_ms(world.service, &first), 0);
    ck_assert_uint_eq(world.topics, 0);

    ck_assert_int_eq(arrive(1, 0, &last), PS_OK);

    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(first.topic));
    ck_assert_int_eq(ps_service_await_members(world.service, &first, &world.error), PS_OK);
    ps_service_leave(world.service, &first);
    ps_service_leave(world.service, &first);
    ps_service_leave(world.service, &last);
    ps_service_check(world.service);
}
END_TEST

START_TEST(a_member_whose_time_is_over_hears_who_is_missing)
{
    struct ps_barrier_wait wait;
    ck_assert_int_eq(arrive(0, 500, &wait), PS_ERR_NOT_READY);
    ck_assert_uint_eq(ps_service_again_ms(world.service, &wait), 500);
    world.fake.now_ms += 499;
    ck_assert_int_eq(ps_service_await_members(world.service, &wait, &world.error),
                     PS_ERR_NOT_READY);
    ck_assert_uint_eq(ps_service_again_ms(world.service, &wait), 1);

    world.fake.now_ms += 1;

    ck_assert_int_eq(ps_service_await_members(world.service, &wait, &world.error), PS_ERR_TIMEOUT);
    ck_assert_str_eq(world.error.text, "barrier b, round 1: 1 of 2 members are there; missing: 1");
    ps_service_leave(world.service, &wait);
}
END_TEST

START_TEST(a_server_that_goes_sends_members_away)
{
    struct ps_barrier_wait wait;
    struct ps_barrier_wait late;
    ck_assert_int_eq(arrive(0, 0, &wait), PS_ERR_NOT_READY);

    ps_service_drain(world.service);

    ck_assert_int_eq(ps_service_await_members(world.service, &wait, &world.error),
                     PS_ERR_UNAVAILABLE);
    ps_service_leave(world.service, &wait);
    ck_assert_int_eq(arrive(1, 0, &late), PS_ERR_UNAVAILABLE);
    ps_service_leave(world.service, &late);
}
END_TEST

START_TEST(a_round_that_is_over_stays_so_on_a_server_that_goes)
{
    struct ps_barrier_wait first;
    struct ps_barrier_wait last;
    ck_assert_int_eq(arrive(0, 1, &first), PS_ERR_NOT_READY);
    ck_assert_int_eq(arrive(1, 0, &last), PS_OK);

    ps_service_drain(world.service);
    world.fake.now_ms += 10;

    ck_assert_int_eq(ps_service_await_members(world.service, &first, &world.error), PS_OK);
    ps_service_leave(world.service, &first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("barrier");
    TCase *tests = tcase_create("barrier");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, members_meet_before_anything_is_initialised);
    tcase_add_test(tests, a_member_whose_time_is_over_hears_who_is_missing);
    tcase_add_test(tests, a_server_that_goes_sends_members_away);
    tcase_add_test(tests, a_round_that_is_over_stays_so_on_a_server_that_goes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
