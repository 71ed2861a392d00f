/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of apps. */
#include "mailbox_world.h"

#include "run_suite.h"

static struct ps_app_state told;
static struct ps_app_taker first_taker;
static int told_count;

static void note(void *self, const struct ps_app_state *state)
{
    (void)self;
    told = *state;
    if (state->taker_count > 0)
        first_taker = state->takers[0];
    told_count++;
}

START_TEST(apps_and_takers_are_told)
{
    uint64_t handle;
    struct ps_asking asking[3];
    for (int i = 0; i < 3; i++)
        asking[i] = world_asked(0, i);
    ck_assert_uint_eq(world_take(9, 1, NULL, &handle), 1);
    ck_assert_int_eq(world_answer(9, handle, "", 1), PS_OK);
    ck_assert_uint_eq(world_take(9, 1, NULL, &handle), 1);
    world_pass(40);
    told_count = 0;
    ps_mailbox_tell(&world, world_now.ms, note, NULL);
    ck_assert_int_eq(told_count, 1);
    ck_assert_uint_eq(told.app, WORLD_APP);
    ck_assert_uint_eq(told.waiting, 1);
    ck_assert_uint_eq(told.taken, 1);
    ck_assert_uint_eq(told.answered, 1);
    ck_assert_uint_gt(told.bytes, 0);
    ck_assert_uint_eq(told.taker_count, 1);
    ck_assert_uint_eq(first_taker.taker, 9);
    ck_assert_uint_eq(first_taker.heard_ms, 40);
    ck_assert_uint_eq(first_taker.taken, 1);
    for (int i = 0; i < 3; i++)
        world_stop(&asking[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_look");
    TCase *tests = tcase_create("mailbox_look");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, apps_and_takers_are_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
