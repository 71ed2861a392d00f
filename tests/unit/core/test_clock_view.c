/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/clock_view.c: what people see of clocks, and waiting for a minimum. */
#include "server/core/requests/clock_view.h"

#include "core_clocks.h"

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

START_TEST(progress_says_how_far_they_are_and_waits)
{
    struct ps_progress_request request = {.name = text("c"), .at_least = 1};
    struct ps_clock_view view;
    struct ps_pull_wait wait;
    ck_assert_int_eq(clocks_say(&shard, 0, 7, 2), PS_OK);
    ck_assert_int_eq(
        ps_service_progress(shard.service, &request, false, &view, &wait, &shard.error),
        PS_ERR_NOT_READY);
    ck_assert_uint_ge(wait.topic, PS_TOPIC_NAMED);
    ck_assert_int_eq(ps_service_progress(shard.service, &request, true, &view, &wait, &shard.error),
                     PS_OK);
    ck_assert_uint_eq(view.reply.worker_count, 2);
    ck_assert_uint_eq(view.workers[0].clock, 7);
    ck_assert_uint_eq(view.reply.minimum, 0);
    ps_clock_view_release(shard.service, &view);
    request.name = text("");
    ck_assert_int_eq(ps_service_progress(shard.service, &request, true, &view, &wait, &shard.error),
                     PS_OK);
    ck_assert_uint_eq(view.reply.name_count, 1);
    ck_assert(ps_bytes_equal(view.names[0], text("c")));
    ps_clock_view_release(shard.service, &view);
}
END_TEST

START_TEST(progress_says_which_task_it_is_and_who_takes_no_part)
{
    const struct ps_progress_request request = {.name = text("c")};
    struct ps_clock_view view;
    struct ps_pull_wait wait;
    ck_assert_int_eq(clocks_begin(&shard, 4, 6, 0x05, 2), PS_OK);

    ck_assert_int_eq(ps_service_progress(shard.service, &request, true, &view, &wait, &shard.error),
                     PS_OK);

    ck_assert(view.reply.task == 4 && view.reply.minimum == 6 && view.reply.worker_count == 3);
    ck_assert(!view.workers[0].is_absent && view.workers[0].clock == 6);
    ck_assert(view.workers[1].is_absent && view.workers[1].clock == 0);
    ps_clock_view_release(shard.service, &view);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("clock_view");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, progress_says_how_far_they_are_and_waits);
    tcase_add_test(tests, progress_says_which_task_it_is_and_who_takes_no_part);
    return run_tests("clock_view", tests);
}
