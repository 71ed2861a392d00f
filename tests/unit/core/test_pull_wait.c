/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls that wait for a version: who is told when it comes, and what they are told meanwhile. */
#include "server/core/requests/pull_wait.h"

#include "server/core/requests/change.h"

#include "core_world.h"

#include <check.h>

static struct core_world world;
static const float ones[4] = {1, 1, 1, 1};

static void begin(void)
{
    world_init_ready(&world);
    world.topics = 0;
    world.changed_count = 0;
}

static void end(void)
{
    world_fini(&world);
}

/* A pull of "w" that wants `version`. */
static enum ps_status pull_at_least(uint64_t version, struct ps_pull_wait *wait)
{
    const struct ps_pull_request request = {.name = text("w"), .at_least_version = version};
    struct ps_pull pull = {0};
    enum ps_status status =
        ps_service_pull_or_wait(world.service, &request, &pull, wait, &world.error);
    if (status == PS_OK)
        ck_assert_uint_ge(pull.reply.version, version);
    ps_pull_release(&pull);
    return status;
}

static void push_one(const char *name)
{
    ck_assert_int_eq(world_push(&world, name, PS_F32, ones, sizeof ones, NULL), PS_OK);
}

START_TEST(a_version_that_is_there_is_not_waited_for_and_leaves_no_mark)
{
    struct ps_pull_wait wait;
    push_one("w");

    ck_assert_int_eq(pull_at_least(0, &wait), PS_OK);
    ck_assert_int_eq(pull_at_least(1, &wait), PS_OK);

    ck_assert_uint_eq(atomic_load(&world.service->awaited), 0);
    ck_assert_int_eq(world.changed_count, 0);
}
END_TEST

START_TEST(a_push_tells_the_topic_of_its_name_once_and_only_while_somebody_waits)
{
    struct ps_pull_wait wait;
    ck_assert_int_eq(pull_at_least(2, &wait), PS_ERR_NOT_READY);
    ck_assert_str_eq(world.error.text, "parameter: w is at version 0, waited for: 2");
    ck_assert_uint_eq(wait.topic, ps_topic_of_name(text("w")));
    ck_assert_uint_eq(wait.again_ms, 0);

    push_one("w");
    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(wait.topic));
    push_one("w");
    ck_assert_int_eq(world.changed_count, 1);

    ck_assert_int_eq(pull_at_least(2, &wait), PS_OK);
}
END_TEST

START_TEST(a_waiter_that_is_asked_and_waits_again_is_told_again)
{
    struct ps_pull_wait wait;
    ck_assert_int_eq(pull_at_least(2, &wait), PS_ERR_NOT_READY);
    push_one("w");
    ck_assert_int_eq(pull_at_least(2, &wait), PS_ERR_NOT_READY);

    push_one("w");

    ck_assert_int_eq(world.changed_count, 2);
}
END_TEST

START_TEST(a_refused_push_tells_nobody)
{
    struct ps_pull_wait wait;
    ck_assert_int_eq(pull_at_least(1, &wait), PS_ERR_NOT_READY);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, 8, NULL), PS_ERR_BAD_INPUT);

    ck_assert_int_eq(world.changed_count, 0);
}
END_TEST

/* The other ranges of a pull that has begun are of one version, which has come. */
START_TEST(a_pull_that_goes_on_with_a_version_waits_for_no_other)
{
    const struct ps_pull_request request = {.name = text("w"), .at_least_version = 9, .version = 1};
    struct ps_pull pull = {0};
    struct ps_pull_wait wait;

    ck_assert_int_eq(ps_service_pull_or_wait(world.service, &request, &pull, &wait, &world.error),
                     PS_OK);

    ck_assert_uint_eq(pull.reply.version, 0);
    ps_pull_release(&pull);
}
END_TEST

START_TEST(who_waits_for_a_parameter_that_is_dropped_hears_of_that)
{
    struct ps_pull_wait wait;
    struct ps_changed changed;
    struct ps_push_wait unused;
    const struct ps_change_request drop = {.name = text("w")};
    ck_assert_int_eq(pull_at_least(1, &wait), PS_ERR_NOT_READY);

    ck_assert_int_eq(ps_service_drop(world.service, &drop, &changed, &unused, &world.error), PS_OK);

    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(wait.topic));
    ck_assert_int_eq(pull_at_least(1, &wait), PS_ERR_NOT_FOUND);
    ps_changed_release(&changed);
}
END_TEST

START_TEST(before_the_initialisation_a_pull_waits_for_the_shard)
{
    struct ps_pull_wait wait;
    world_fini(&world);
    world_init_empty(&world);

    ck_assert_int_eq(pull_at_least(1, &wait), PS_ERR_NOT_READY);

    ck_assert_uint_eq(wait.topic, PS_TOPIC_LIFE);
}
END_TEST

START_TEST(a_server_that_goes_sends_waiters_away)
{
    struct ps_pull_wait wait;
    ck_assert_int_eq(pull_at_least(1, &wait), PS_ERR_NOT_READY);

    ps_service_drain(world.service);

    ck_assert_uint_ne(world.topics & PS_TOPIC_BIT(PS_TOPIC_LIFE), 0);
    ck_assert_int_eq(pull_at_least(1, &wait), PS_ERR_UNAVAILABLE);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pull_wait");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_version_that_is_there_is_not_waited_for_and_leaves_no_mark);
    tcase_add_test(tests, a_push_tells_the_topic_of_its_name_once_and_only_while_somebody_waits);
    tcase_add_test(tests, a_waiter_that_is_asked_and_waits_again_is_told_again);
    tcase_add_test(tests, a_refused_push_tells_nobody);
    tcase_add_test(tests, a_pull_that_goes_on_with_a_version_waits_for_no_other);
    tcase_add_test(tests, who_waits_for_a_parameter_that_is_dropped_hears_of_that);
    tcase_add_test(tests, before_the_initialisation_a_pull_waits_for_the_shard);
    tcase_add_test(tests, a_server_that_goes_sends_waiters_away);
    return run_tests("pull_wait", tests);
}
