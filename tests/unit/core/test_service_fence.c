/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/service_fence.c: what a fence says, that a paused machine is behind one, and that
 * calls for another shard find nobody here. */
#include "tests/unit/core/core_world.h"

#include <string.h>

static const float four[] = {1, 1, 1, 1};
static const struct ps_bytes no_config = {NULL, 0};

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
    ck_assert_ptr_nonnull(strstr(world.error.text, "the wall clock was set ahead"));
    ps_service_prove(world.service, world.fake.now_ms + 8000);
    ck_assert(ps_service_is_proved(world.service));
    wall_offset_ms -= 3600000; /* set back, which no pause does */
    ck_assert(ps_service_is_proved(world.service));
    world_fini(&world);
}
END_TEST

START_TEST(ready_without_any_proof_is_fenced)
{
    struct core_world world;
    world_init(&world, false, 0);
    ps_service_own(world.service, 0, 1, 1, "localhost:1");

    ps_service_begin_empty(world.service);

    ck_assert_str_eq(ps_service_state_name(world.service), "fenced");
    world_fini(&world);
}
END_TEST

START_TEST(a_lease_proved_again_ends_the_fence)
{
    struct core_world world;
    world_init_ready(&world);
    ps_service_prove(world.service, 2000);
    world.fake.now_ms = 2500;
    int told = world.changed_count;

    ps_service_prove(world.service, 3000);

    ck_assert_int_gt(world.changed_count, told);
    ck_assert_str_eq(ps_service_state_name(world.service), "ready");
    ck_assert_int_eq(world_push(&world, "w", PS_F32, four, sizeof four, NULL), PS_OK);
    world_fini(&world);
}
END_TEST

/* Server 1 of 2 with the parameter "w", finished when `ready`. */
static void own_shard_1(struct core_world *world, bool ready)
{
    world_init(world, false, 0);
    ps_service_own(world->service, 1, 2, 7, "localhost:1");
    ps_service_prove(world->service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(world->service);
    ck_assert_int_eq(world_init_param(world, "w", PS_F32, four, sizeof four, no_config), PS_OK);
    if (ready)
        ck_assert_int_eq(world_finish(world), PS_OK);
}

/* The four calls of a client that takes this server for that of shard `shard` - 1. */
static void call_as_for(struct core_world *world, uint32_t shard, enum ps_status statuses[4])
{
    struct ps_bytes piece = {(const uint8_t *)four, sizeof four};
    const struct ps_init_request init = {
        .name = text("x"), .dtype = PS_F32, .content = ps_view_of(&piece), .shard = shard};
    const struct ps_finish_request finish = {.epoch = 7, .shard = shard};
    const struct ps_push_request push = {
        .name = text("w"), .dtype = PS_F32, .content = ps_view_of(&piece), .shard = shard};
    const struct ps_pull_request pull = {.name = text("w"), .shard = shard};
    struct ps_ticket ticket;
    struct ps_push_reply reply;
    struct ps_pull pulled = {0};

    statuses[0] = ps_service_init(world->service, &init, NULL, &world->error);
    statuses[1] = ps_service_push(world->service, &push, &reply, NULL, &world->error);
    statuses[2] = ps_service_pull(world->service, &pull, &pulled, &world->error);
    ps_pull_release(&pulled);
    statuses[3] = ps_service_finish(world->service, &finish, &ticket, &world->error);
    ck_assert_uint_eq(ticket.number, 0);
}

/* Above all no PS_ERR_EXISTS or PS_ERR_NOT_FOUND: they would be taken for the other shard's. */
START_TEST(calls_for_another_shard_are_refused_and_change_nothing)
{
    struct core_world world;
    enum ps_status statuses[4];
    const float untouched[] = {1, 1, 1, 1};
    bool ready = _i == 1;
    own_shard_1(&world, ready);

    call_as_for(&world, 1 + 0, statuses);

    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(statuses[i], PS_ERR_NOT_OWNER);
    ck_assert_str_eq(world.error.text,
                     "the request is for shard 0, this server owns shard 1; nothing changed");
    ck_assert_str_eq(ps_service_state_name(world.service), ready ? "ready" : "uninitialized");
    if (!ready)
        ck_assert_int_eq(world_finish(&world), PS_OK);
    world_expect_f32(&world, "w", untouched, 4);
    world_fini(&world);
}
END_TEST

START_TEST(calls_for_our_shard_or_for_none_are_served)
{
    struct core_world world;
    enum ps_status statuses[4];
    const uint32_t shards[] = {1 + 1, 0};
    own_shard_1(&world, false);

    call_as_for(&world, shards[_i], statuses);

    ck_assert_int_eq(statuses[0], PS_OK);
    ck_assert_int_eq(statuses[1], PS_ERR_NOT_READY);
    ck_assert_int_eq(statuses[2], PS_ERR_NOT_READY);
    ck_assert_int_eq(statuses[3], PS_OK);
    world_fini(&world);
}
END_TEST

/* A server that has no shard yet does not know whether it will get this one. */
START_TEST(a_starting_server_is_unavailable_for_every_shard)
{
    struct core_world world;
    enum ps_status statuses[4];
    world_init(&world, false, 0);

    call_as_for(&world, 1 + 3, statuses);

    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(statuses[i], PS_ERR_UNAVAILABLE);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("service_fence");
    tcase_add_test(tests, b6_a_fence_says_why_the_lease_could_not_be_kept);
    tcase_add_test(
        tests, a6_after_a_pause_of_the_machine_nothing_is_answered_until_the_lease_is_proved_again);
    tcase_add_test(tests, ready_without_any_proof_is_fenced);
    tcase_add_test(tests, a_lease_proved_again_ends_the_fence);
    tcase_add_loop_test(tests, calls_for_another_shard_are_refused_and_change_nothing, 0, 2);
    tcase_add_loop_test(tests, calls_for_our_shard_or_for_none_are_served, 0, 2);
    tcase_add_test(tests, a_starting_server_is_unavailable_for_every_shard);
    return run_tests("service_fence", tests);
}
