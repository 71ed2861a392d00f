/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/service.c: what a fence says, and that a paused machine is behind one. */
#include "tests/unit/core/core_world.h"

#include <string.h>

static const float four[] = {1, 1, 1, 1};

START_TEST(b6_a_fence_says_why_the_lease_could_not_be_kept)
{
    const struct ps_error why = {.status = PS_ERR_IO,
                                 .text = "write /data/store/store: No space left on device"};
    struct core_world world;
    float value[4];
    world_init_ready(&world);
    ps_service_prove(world.service, world.fake.now_ms + 1);
    world.fake.now_ms += 2;

    ps_service_note_unkept(world.service, &why);

    ck_assert_int_eq(world_pull(&world, "w", value, sizeof value, NULL, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_msg(strstr(world.error.text, "No space left on device") != NULL, "%s",
                  world.error.text);
    ps_service_note_unkept(world.service, NULL);
    ck_assert_int_eq(world_pull(&world, "w", value, sizeof value, NULL, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_msg(strstr(world.error.text, "No space") == NULL, "%s", world.error.text);
    world_fini(&world);
}
END_TEST

/* A wall clock of its own, which a test may set. */
static int64_t wall_offset_ms;

static uint64_t set_wall_clock(void *self)
{
    const struct core_world *world = self;
    return (world->fake.now_ms + (uint64_t)wall_offset_ms) * 1000000;
}

static uint64_t same_clock(void *self)
{
    return ((const struct core_world *)self)->fake.now_ms;
}

START_TEST(a6_after_a_pause_of_the_machine_nothing_is_answered_until_the_lease_is_proved_again)
{
    struct core_world world;
    world_init_ready(&world);
    world.clock = (struct ps_clock){same_clock, set_wall_clock, &world};
    wall_offset_ms = 10000000;
    ps_service_prove(world.service, world.fake.now_ms + 8000);
    wall_offset_ms += PS_CLOCK_JUMP_MS; /* no more than clocks drift */
    ck_assert(ps_service_is_proved(world.service));

    wall_offset_ms += 30000;

    ck_assert_str_eq(ps_service_state_name(world.service), "fenced");
    ck_assert_int_eq(world_push(&world, "w", PS_F32, four, sizeof four, NULL), PS_ERR_UNAVAILABLE);
    ps_service_prove(world.service, world.fake.now_ms + 8000);
    ck_assert(ps_service_is_proved(world.service));
    wall_offset_ms -= 3600000; /* set back, which no pause does */
    ck_assert(ps_service_is_proved(world.service));
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("service_fence");
    tcase_add_test(tests, b6_a_fence_says_why_the_lease_could_not_be_kept);
    tcase_add_test(
        tests, a6_after_a_pause_of_the_machine_nothing_is_answered_until_the_lease_is_proved_again);
    return run_tests("service_fence", tests);
}
