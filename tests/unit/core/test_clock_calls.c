/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/clock_calls.c: what is noted, who is told, and what a full journal changes. */
#include "core_clocks.h"

#include <string.h>

static struct core_world shard;

static void begin_test(void)
{
    world_init_journal(&shard);
    ck_assert_int_eq(clocks_set(&shard, 2, 0, 0, 1), PS_OK);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
}

static void end_test(void)
{
    ps_service_check(shard.service);
    world_fini(&shard);
}

START_TEST(what_changes_something_is_one_record_and_waits_for_it)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 3, 2), PS_OK);
    ck_assert_uint_eq(clocks_reply.clock, 3);
    ck_assert_uint_eq(clocks_reply.minimum, 0);
    ck_assert_int_eq(world_acknowledge(&shard), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
    ck_assert_int_eq(world_acknowledge(&shard), PS_OK);
}
END_TEST

/* What was said by another request is as durable as that before the answer may go. */
START_TEST(what_changes_nothing_is_no_record_and_waits_for_the_first)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 3, 2), PS_OK);
    uint64_t position = clocks_reply.position;
    ck_assert_int_eq(clocks_say(&shard, 0, 3, 3), PS_OK);
    ck_assert_uint_eq(clocks_reply.position, position);
    ck_assert(!clocks_reply.duplicate);
    ck_assert_int_eq(world_acknowledge(&shard), PS_ERR_NOT_READY);
    ck_assert_int_eq(clocks_set(&shard, 2, 0, 0, 4), PS_OK);
    ck_assert_uint_lt(clocks_reply.position, position);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
}
END_TEST

START_TEST(a_repeat_is_answered_and_not_applied)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 3, 2), PS_OK);
    uint64_t position = clocks_reply.position;
    ck_assert_int_eq(clocks_say(&shard, 0, 5, 3), PS_OK);

    ck_assert_int_eq(clocks_say(&shard, 0, 3, 2), PS_OK);

    ck_assert(clocks_reply.duplicate);
    ck_assert_uint_eq(clocks_reply.position, position);
    ck_assert_uint_eq(clocks_reply.clock, 5);
    ck_assert_int_eq(clocks_say(&shard, 1, 3, 2), PS_ERR_ID_REUSED);
}
END_TEST

/* As -1 comes from a language that knows signed numbers alone. */
START_TEST(a_clock_that_was_negative_is_refused_and_moves_nobody)
{
    ck_assert_int_eq(clocks_say(&shard, 0, UINT64_MAX, 2), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(clocks_say(&shard, 0, UINT64_C(1) << 63, 2), PS_ERR_BAD_INPUT);

    ck_assert_int_eq(clocks_say(&shard, 0, 1, 2), PS_OK);
    ck_assert_uint_eq(clocks_reply.clock, 1);
}
END_TEST

START_TEST(a_task_does_not_begin_at_a_negative_clock)
{
    ck_assert_int_eq(clocks_begin(&shard, 1, UINT64_MAX, 0, 2), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(clocks_begin(&shard, 1, UINT64_C(1) << 63, 0, 3), PS_ERR_BAD_INPUT);

    ck_assert_int_eq(clocks_say(&shard, 0, 1, 4), PS_OK);
    ck_assert_uint_eq(clocks_reply.minimum, 0);
}
END_TEST

/* FlexPS, PendingBuffer: Construct, PushAndPop. Whoever waits is in no list: the minimum tells its
 * topic when it moves, and only when somebody has waited. */
START_TEST(pending_buffer_push_and_pop)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 1, 2), PS_OK);
    shard.changed_count = 0;
    ck_assert_int_eq(clocks_read(&shard, 0, 1), PS_ERR_NOT_READY);
    ck_assert_uint_ge(clocks_wait.topic, PS_TOPIC_NAMED);
    ck_assert_int_eq(clocks_read(&shard, 1, 0), PS_OK);
    ck_assert_int_eq(shard.changed_count, 0);

    ck_assert_int_eq(clocks_say(&shard, 1, 1, 3), PS_OK);

    ck_assert_int_eq(shard.changed_count, 1);
    ck_assert_int_eq(clocks_read(&shard, 0, 1), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 0, 2, 4), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 1, 2, 5), PS_OK);
    ck_assert_int_eq(shard.changed_count, 1);
}
END_TEST

START_TEST(who_is_overdue_is_evicted_by_a_record_and_others_are_told)
{
    ck_assert_int_eq(clocks_set(&shard, 3, 0, 100, 2), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 0, 2, 3), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 2, 2, 4), PS_OK);
    ck_assert_uint_eq(world_write_journal(&shard), 3);
    ck_assert_int_eq(clocks_read(&shard, 0, 2), PS_ERR_NOT_READY);
    ck_assert_uint_eq(clocks_wait.again_ms, 100);
    shard.changed_count = 0;
    shard.fake.now_ms += 100;

    ck_assert_int_eq(clocks_read(&shard, 2, 2), PS_OK);

    ck_assert(clocks_evicted(&shard, 1) && !clocks_evicted(&shard, 0));
    ck_assert_int_eq(shard.changed_count, 1);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
    ck_assert_int_eq(clocks_say(&shard, 1, 1, 5), PS_OK);
    ck_assert_uint_eq(clocks_reply.clock, 2);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
}
END_TEST

/* Stages of a job: other workers, clocks set anew, in one record; whoever waits is asked again. */
START_TEST(a_task_is_one_record_and_begins_once)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 9, 2), PS_OK);
    ck_assert_int_eq(clocks_read(&shard, 0, 9), PS_ERR_NOT_READY);
    shard.changed_count = 0;
    ck_assert_int_eq(clocks_begin(&shard, 5, 2, 0x06, 3), PS_OK);
    ck_assert_uint_eq(clocks_reply.minimum, 2);
    ck_assert_int_eq(shard.changed_count, 1);
    ck_assert_uint_eq(world_write_journal(&shard), 2);

    ck_assert_int_eq(clocks_say_in(&shard, 5, 1, 3), PS_OK);
    ck_assert_int_eq(clocks_begin(&shard, 5, 2, 0x06, 4), PS_OK); /* by another worker */
    ck_assert_uint_eq(clocks_of(&shard, 1), 3);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
}
END_TEST

START_TEST(what_is_of_an_earlier_task_changes_nothing)
{
    ck_assert_int_eq(clocks_begin(&shard, 5, 0, 0x06, 2), PS_OK);
    ck_assert_uint_eq(world_write_journal(&shard), 1);

    ck_assert_int_eq(clocks_say_in(&shard, 4, 1, 3), PS_ERR_MISMATCH);
    ck_assert_str_eq(shard.error.text,
                     "clocks c are in task 5, and worker 1 has ended an iteration of task 4");
    /* Also of a rank that has no part any more. */
    ck_assert_int_eq(clocks_say_in(&shard, 4, 0, 3), PS_ERR_MISMATCH);
    ck_assert_int_eq(clocks_say_in(&shard, 5, 0, 3), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(shard.error.text, "clocks c: worker 0 takes no part in task 5");
    ck_assert_int_eq(clocks_begin(&shard, 4, 0, 0, 3), PS_ERR_MISMATCH);
    ck_assert_int_eq(clocks_begin(&shard, 6, 0, 0x08, 4), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(clocks_read(&shard, 0, 0), PS_ERR_NOT_FOUND);

    ck_assert_uint_eq(world_write_journal(&shard), 0);
    ck_assert_uint_eq(clocks_of(&shard, 1), 0);
}
END_TEST

/* A read that waits does not ask without a pause. */
START_TEST(an_eviction_that_finds_no_journal_is_tried_again_later)
{
    ck_assert_int_eq(clocks_set(&shard, 2, 0, 50, 2), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 0, 2, 3), PS_OK);
    world_fail_journal(&shard);
    shard.fake.now_ms += 50;

    ck_assert_int_eq(clocks_read(&shard, 0, 2), PS_ERR_NOT_READY);

    ck_assert_uint_eq(clocks_wait.again_ms, 100);
    ck_assert(!clocks_wait.evicted && !clocks_evicted(&shard, 1));
}
END_TEST

START_TEST(a_journal_that_failed_changes_nothing)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 1, 2), PS_OK);
    world_fail_journal(&shard);
    ck_assert_int_eq(clocks_say(&shard, 0, 2, 3), PS_ERR_UNAVAILABLE);
    ck_assert_uint_eq(clocks_of(&shard, 0), 1);
    ck_assert_int_eq(clocks_set(&shard, 9, 0, 0, 4), PS_ERR_UNAVAILABLE);
    ck_assert(!ps_clock_group_has(shard.service->clocks.groups, 2));
}
END_TEST

/* The last of them, whose minimum the gauges had. */
START_TEST(a_removal_is_one_record_and_tells_who_waits)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 9, 2), PS_OK);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
    ck_assert_int_eq(clocks_read(&shard, 0, 9), PS_ERR_NOT_READY);
    shard.changed_count = 0;

    ck_assert_int_eq(clocks_remove(&shard, 3), PS_OK);

    ck_assert_int_eq(shard.changed_count, 1);
    ck_assert_int_eq(world_acknowledge(&shard), PS_ERR_NOT_READY);
    ck_assert_int_eq(clocks_read(&shard, 0, 9), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(shard.error.text, "clocks c are not set at this server: call SetClocks");
    ck_assert_int_eq(clocks_say(&shard, 0, 10, 4), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
    ck_assert_uint_eq(shard.service->clocks.count, 0);
    ck_assert_int_eq(clocks_set(&shard, 2, 0, 0, 5), PS_OK);
    ck_assert_uint_eq(clocks_of(&shard, 0), 0);
    ck_assert_int_eq(clocks_read(&shard, 0, 0), PS_OK);
}
END_TEST

/* Whoever asks second must not hear that they are gone before that is certain. */
START_TEST(what_is_not_there_is_removed_without_a_record_and_waits_for_the_last_removal)
{
    ck_assert_int_eq(clocks_remove(&shard, 2), PS_OK);
    uint64_t position = clocks_reply.position;
    ck_assert_uint_gt(position, 0);
    shard.changed_count = 0;

    ck_assert_int_eq(clocks_remove(&shard, 3), PS_OK);

    ck_assert_uint_eq(clocks_reply.position, position);
    ck_assert(!clocks_reply.duplicate);
    ck_assert_int_eq(shard.changed_count, 0);
    ck_assert_int_eq(world_acknowledge(&shard), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_write_journal(&shard), 1);
    ck_assert_int_eq(clocks_remove(&shard, 3), PS_OK);
    ck_assert(clocks_reply.duplicate);
    ck_assert_int_eq(world_acknowledge(&shard), PS_OK);
}
END_TEST

/* A repeat that comes late must not remove what was set since. */
START_TEST(a_removal_that_is_repeated_leaves_clocks_that_were_set_since)
{
    ck_assert_int_eq(clocks_remove(&shard, 2), PS_OK);
    uint64_t position = clocks_reply.position;
    ck_assert_int_eq(clocks_set(&shard, 2, 0, 0, 3), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 0, 4, 4), PS_OK);

    ck_assert_int_eq(clocks_remove(&shard, 2), PS_OK);

    ck_assert(clocks_reply.duplicate);
    ck_assert_uint_eq(clocks_reply.position, position);
    ck_assert_uint_eq(clocks_of(&shard, 0), 4);
    ck_assert_int_eq(clocks_set(&shard, 3, 0, 0, 2), PS_ERR_ID_REUSED);
    ck_assert_int_eq(clocks_remove(&shard, 3), PS_ERR_ID_REUSED);
}
END_TEST

/* Each field by itself, so that none is passed over. */
START_TEST(who_removes_says_nothing_else)
{
    const struct ps_set_clocks_request requests[] = {
        {.workers = 2},     {.consistency = 1}, {.staleness = 1},
        {.straggler = 1},   {.ttl_ms = 1},      {.speculation = 1},
        {.task = 1},        {.clock = 1},       {.ranks = {(const uint8_t *)"\1", 1}},
        {.name = text("")},
    };
    struct ps_set_clocks_request request = requests[_i];
    request.removes = true;
    if (_i < 9)
        request.name = text("c");

    ck_assert_int_eq(
        ps_service_set_clocks(shard.service, &request, &clocks_reply, &shard.wait, &shard.error),
        PS_ERR_BAD_INPUT);

    ck_assert_uint_eq(shard.service->clocks.count, 1);
    ck_assert_uint_eq(world_write_journal(&shard), 0);
    ck_assert_int_eq(clocks_set(&shard, 0, 0, 0, 2), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_removal_that_finds_no_journal_removes_nothing)
{
    ck_assert_int_eq(clocks_say(&shard, 0, 1, 2), PS_OK);
    world_fail_journal(&shard);

    ck_assert_int_eq(clocks_remove(&shard, 3), PS_ERR_UNAVAILABLE);

    ck_assert_uint_eq(clocks_of(&shard, 0), 1);
    ck_assert_uint_eq(shard.service->clocks.removed_at, 0);
}
END_TEST

START_TEST(a_lost_shard_has_no_clocks)
{
    ps_service_reset(shard.service);

    ck_assert_uint_eq(shard.service->clocks.count, 0);
    ck_assert_int_eq(clocks_say(&shard, 0, 1, 2), PS_ERR_UNAVAILABLE);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("clock_calls");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, what_changes_something_is_one_record_and_waits_for_it);
    tcase_add_test(tests, what_changes_nothing_is_no_record_and_waits_for_the_first);
    tcase_add_test(tests, a_repeat_is_answered_and_not_applied);
    tcase_add_test(tests, a_clock_that_was_negative_is_refused_and_moves_nobody);
    tcase_add_test(tests, a_task_does_not_begin_at_a_negative_clock);
    tcase_add_test(tests, pending_buffer_push_and_pop);
    tcase_add_test(tests, who_is_overdue_is_evicted_by_a_record_and_others_are_told);
    tcase_add_test(tests, a_task_is_one_record_and_begins_once);
    tcase_add_test(tests, what_is_of_an_earlier_task_changes_nothing);
    tcase_add_test(tests, an_eviction_that_finds_no_journal_is_tried_again_later);
    tcase_add_test(tests, a_journal_that_failed_changes_nothing);
    tcase_add_test(tests, a_removal_is_one_record_and_tells_who_waits);
    tcase_add_test(tests,
                   what_is_not_there_is_removed_without_a_record_and_waits_for_the_last_removal);
    tcase_add_test(tests, a_removal_that_is_repeated_leaves_clocks_that_were_set_since);
    tcase_add_loop_test(tests, who_removes_says_nothing_else, 0, 10);
    tcase_add_test(tests, a_removal_that_finds_no_journal_removes_nothing);
    tcase_add_test(tests, a_lost_shard_has_no_clocks);
    return run_tests("clock_calls", tests);
}
