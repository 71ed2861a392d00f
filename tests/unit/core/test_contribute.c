/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/contribute.c: contributions through the service, the time that ends a round, and
 * what becomes of a round that cannot end. */
#include "server/core/requests/contribute.h"

#include "base/thread.h"
#include "core_change.h"
#include "core_round.h"

#include <string.h>

static struct core_world world;
static struct ps_pull_wait wait;
static bool round_ends_meanwhile; /* the second one */

enum ps_status __real_ps_clock_pull_check(struct ps_service *service,
                                          const struct ps_pull_request *request,
                                          struct ps_pull_wait *waits, struct ps_error *error);
enum ps_status __wrap_ps_clock_pull_check(struct ps_service *service,
                                          const struct ps_pull_request *request,
                                          struct ps_pull_wait *waits, struct ps_error *error);

static void begin(const struct ps_round_settings *rounds)
{
    world_init_empty(&world);
    round_begin(&world, rounds);
    world.topics = 0;
    world.changed_count = 0;
}

static void begin_of(uint32_t workers)
{
    begin(&(struct ps_round_settings){.workers = workers, .combine = PS_COMBINE_SUM});
}

START_TEST(the_last_contribution_ends_the_round_and_tells_who_waits)
{
    begin_of(2);
    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_ERR_NOT_READY);
    ck_assert_str_eq(world.error.text, "parameter: m is at version 0, waited for: 1; round 1 has 0 "
                                       "of 2 contributions, missing: 0 1");

    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    ck_assert(world.reply.held && !world.reply.late);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_int_eq(world.changed_count, 0);
    ps_service_check(world.service);
    round_expect(&world, 0, 0);
    ck_assert_int_eq(round_push(&world, 0, 1, -2, 1), PS_OK);

    ck_assert(!world.reply.held);
    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(wait.topic));
    round_expect(&world, 3, 1);
    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(p2_a_repeat_is_answered_and_counts_once)
{
    begin_of(2);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert(world.reply.duplicate && world.reply.held);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert(world.reply.duplicate && !world.reply.held);
    round_expect(&world, 2, 1);
    world_fini(&world);
}
END_TEST

START_TEST(what_is_refused_may_come_again_under_its_id)
{
    begin_of(2);
    ck_assert_int_eq(round_push(&world, 0, 2, -1, 1), PS_ERR_MISMATCH);
    ck_assert_int_eq(round_push(&world, 2, 1, -1, 1), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 2), PS_ERR_EXISTS);
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    /* Too late for its round and counted nowhere: nothing was noted of it. */
    ck_assert_int_eq(round_push(&world, 0, 1, -9, 2), PS_OK);
    ck_assert(world.reply.late && world.reply.position == 0);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_int_eq(round_push(&world, 0, 2, -1, 2), PS_OK);
    ck_assert(!world.reply.late && !world.reply.duplicate);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(whoever_waits_ends_a_round_whose_grace_time_is_over)
{
    begin(&(struct ps_round_settings){.workers = 3, .grace_ms = 100, .combine = PS_COMBINE_SUM});
    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_ERR_NOT_READY);
    ck_assert_uint_eq(wait.again_ms, 0);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    /* The time runs from here on: who waits is asked to look at it. */
    ck_assert_int_eq(world.changed_count, 1);
    world.fake.now_ms += 40;
    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_ERR_NOT_READY);
    ck_assert_uint_eq(wait.again_ms, 60);
    world.fake.now_ms += 60;

    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_OK);

    round_expect(&world, 1, 1);
    ck_assert_int_eq(round_push(&world, 0, 2, -1, 2), PS_OK);
    ck_assert(!world.reply.held);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(a_newcomer_is_late_for_a_round_whose_grace_time_is_over)
{
    begin(&(struct ps_round_settings){.workers = 2, .grace_ms = 100, .late = PS_LATE_NEXT});
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    world.fake.now_ms += 100;

    ck_assert_int_eq(round_push(&world, 1, 1, -3, 1), PS_OK);

    ck_assert(world.reply.late && world.reply.held);
    ck_assert_uint_eq(world.reply.version, 2);
    round_expect(&world, 1, 1);
    world_fini(&world);
}
END_TEST

/* The contribution is taken, and the round ends when somebody looks again. */
START_TEST(a_round_that_cannot_end_for_now_keeps_all_that_it_has)
{
    struct ps_pull_wait waited;
    begin_of(2);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    int refused = 0;
    for (int i = 0; i < 40; i++) {
        world.heap.seen = 0;
        world.heap.refuse_at = i;
        enum ps_status status = round_push(&world, 1, 1, -2, 1);
        world.heap.refuse_at = -1;
        refused += status == PS_ERR_NO_MEMORY;
        if (status == PS_OK)
            break;
        ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
    }
    ck_assert_int_gt(refused, 0);
    ck_assert_int_eq(round_pull(&world, 1, &waited), PS_OK);
    round_expect(&world, 3, 1);
    world_fini(&world);
}
END_TEST

/* A version of a round is told when the journal has it: after a crash it is there. */
START_TEST(p1_a_version_is_told_when_its_record_is_durable)
{
    world_init_journal(&world);
    ck_assert_int_eq(change_define(&world, "m", (const float[4]){0}, 4,
                                   round_config(&(struct ps_round_settings){.workers = 1}), 1),
                     PS_OK);
    world_write_journal(&world);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);

    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_ERR_NOT_READY);
    ck_assert_uint_eq(wait.topic, PS_TOPIC_JOURNAL);
    ck_assert_uint_eq(world_write_journal(&world), 2);

    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_OK);
    world_fini(&world);
}
END_TEST

/* Other workers have contributions of their own, and the version is that of the workers before; so
 * where there are none any more. */
START_TEST(p1_a_change_of_workers_tells_no_version_before_its_record_is_durable)
{
    static const uint8_t none[] = {0x92, 0x0D, 2, 0x08, 0}; /* rounds {workers: 0} */
    const struct ps_bytes to_none = {none, sizeof none};
    const struct ps_round_settings two = {.workers = 2};
    world_init_journal(&world);
    ck_assert_int_eq(change_define(&world, "m", (const float[4]){0}, 4,
                                   round_config(&(struct ps_round_settings){.workers = 1}), 1),
                     PS_OK);
    world_write_journal(&world);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert_int_eq(change_configure_to(&world, "m", _i == 0 ? round_config(&two) : to_none, 2),
                     PS_OK);

    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_ERR_NOT_READY);
    ck_assert_uint_eq(wait.topic, PS_TOPIC_JOURNAL);
    ck_assert_uint_eq(world_write_journal(&world), 3);

    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_OK);
    world_fini(&world);
}
END_TEST

static void end_second_round(void *unused)
{
    (void)unused;
    ps_service_enter_thread();
    ck_assert_int_eq(round_push(&world, 0, 2, -1, 2), PS_OK);
    ck_assert(!world.reply.held);
}

/* A pull asks for its clocks when its version was found to be durable, and has no values yet. */
enum ps_status __wrap_ps_clock_pull_check(struct ps_service *service,
                                          const struct ps_pull_request *request,
                                          struct ps_pull_wait *waits, struct ps_error *error)
{
    struct ps_thread worker;
    if (round_ends_meanwhile) {
        round_ends_meanwhile = false;
        ck_assert_int_eq(ps_thread_start(&worker, "worker", end_second_round, NULL, NULL), PS_OK);
        ps_thread_join(&worker);
    }
    return __real_ps_clock_pull_check(service, request, waits, error);
}

START_TEST(p1_a_version_that_comes_while_a_pull_is_answered_is_not_told_either)
{
    world_init_journal(&world);
    ck_assert_int_eq(change_define(&world, "m", (const float[4]){0}, 4,
                                   round_config(&(struct ps_round_settings){.workers = 1}), 1),
                     PS_OK);
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    world_write_journal(&world);
    round_ends_meanwhile = true;

    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_ERR_NOT_READY);
    ck_assert(!round_ends_meanwhile);
    ck_assert_uint_eq(wait.topic, PS_TOPIC_JOURNAL);
    ck_assert_uint_eq(world_write_journal(&world), 2);

    ck_assert_int_eq(round_pull(&world, 1, &wait), PS_OK);
    round_expect(&world, 2, 2);
    world_fini(&world);
}
END_TEST

START_TEST(the_number_of_workers_changes_between_rounds_only)
{
    begin_of(2);
    const struct ps_round_settings three = {.workers = 3, .combine = PS_COMBINE_SUM};
    ck_assert_int_eq(round_push(&world, 0, 1, -1, 1), PS_OK);
    ck_assert_int_eq(change_configure_to(&world, "m", round_config(&three), 1), PS_ERR_MISMATCH);
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);

    ck_assert_int_eq(change_configure_to(&world, "m", round_config(&three), 1), PS_OK);

    ck_assert_int_eq(round_push(&world, 2, 2, -1, 1), PS_OK);
    ck_assert(world.reply.held);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(room_for_all_contributions_is_reserved_with_the_configuration)
{
    const struct ps_round_settings many = {.workers = 1000};
    static const float zeros[256] = {0};
    world_init(&world, false, 100 * 1024);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(
        world_init_param(&world, "big", PS_F32, zeros, sizeof zeros, round_config(&many)),
        PS_ERR_BUSY);
    ck_assert_int_eq(
        world_init_param(&world, "big", PS_F32, zeros, sizeof zeros, config_of("sgd", 1)), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(change_configure_to(&world, "big", round_config(&many), 1), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(world.error.text, "--memory-bytes"));
    ck_assert_int_eq(change_configure_to(
                         &world, "big", round_config(&(struct ps_round_settings){.workers = 4}), 1),
                     PS_OK);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("contribute");
    tcase_add_test(tests, the_last_contribution_ends_the_round_and_tells_who_waits);
    tcase_add_test(tests, p2_a_repeat_is_answered_and_counts_once);
    tcase_add_test(tests, what_is_refused_may_come_again_under_its_id);
    tcase_add_test(tests, whoever_waits_ends_a_round_whose_grace_time_is_over);
    tcase_add_test(tests, a_newcomer_is_late_for_a_round_whose_grace_time_is_over);
    tcase_add_test(tests, a_round_that_cannot_end_for_now_keeps_all_that_it_has);
    tcase_add_test(tests, p1_a_version_is_told_when_its_record_is_durable);
    tcase_add_loop_test(tests, p1_a_change_of_workers_tells_no_version_before_its_record_is_durable,
                        0, 2);
    tcase_add_test(tests, p1_a_version_that_comes_while_a_pull_is_answered_is_not_told_either);
    tcase_add_test(tests, the_number_of_workers_changes_between_rounds_only);
    tcase_add_test(tests, room_for_all_contributions_is_reserved_with_the_configuration);
    return run_tests("contribute", tests);
}
