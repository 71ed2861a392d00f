/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/service.c: the shard's states, and what is refused in which. */
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static const float four[] = {1, 1, 1, 1};
static const struct ps_bytes no_config = {NULL, 0};

/* Makes the four calls and asserts that each is refused with PS_ERR_UNAVAILABLE and this text. */
static void expect_all_refused(struct core_world *world, const char *reason)
{
    float values[4];
    size_t size;
    ck_assert_int_eq(world_init_param(world, "x", PS_F32, four, sizeof four, no_config),
                     PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world->error.text, reason));
    ck_assert_int_eq(world_finish(world), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world->error.text, reason));
    ck_assert_int_eq(world_push(world, "w", PS_F32, four, sizeof four, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world->error.text, reason));
    ck_assert_int_eq(world_pull(world, "w", values, sizeof values, &size, NULL),
                     PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world->error.text, reason));
}

START_TEST(starting_refuses_every_call)
{
    struct core_world world;
    world_init(&world, false, 0);

    expect_all_refused(&world, "starting");

    ck_assert_str_eq(ps_service_state_name(world.service), "starting");
    ck_assert(!ps_service_is_serving(world.service));
    world_fini(&world);
}
END_TEST

START_TEST(states_have_names_in_order)
{
    struct core_world world;
    world_init(&world, false, 0);
    world_own(&world, 1);
    ck_assert_str_eq(ps_service_state_name(world.service), "starting");

    ps_service_begin_empty(world.service);
    ck_assert_str_eq(ps_service_state_name(world.service), "uninitialized");
    ck_assert(ps_service_is_serving(world.service));

    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_str_eq(ps_service_state_name(world.service), "ready");
    ck_assert(ps_service_is_serving(world.service));

    ps_service_drain(world.service);
    ck_assert_str_eq(ps_service_state_name(world.service), "draining");
    ck_assert(!ps_service_is_serving(world.service));
    world_fini(&world);
}
END_TEST

START_TEST(a_server_that_is_about_to_stop_serves_on_and_says_that_it_does_not)
{
    struct core_world world;
    world_init_ready(&world);

    ps_service_announce_stop(world.service);

    ck_assert(!ps_service_is_serving(world.service));
    ck_assert_str_eq(ps_service_state_name(world.service), "draining");
    ck_assert_int_eq(world_push(&world, "w", PS_F32, four, sizeof four, NULL), PS_OK);
    world_fini(&world);
}
END_TEST

static void count_drain(void *self)
{
    (*(int *)self)++;
}

START_TEST(a_drain_is_asked_of_one_server_and_no_other)
{
    struct core_world world;
    int asked = 0;
    const struct ps_service_listener listener = {.drain_wanted = count_drain, .self = &asked};
    world_init_ready(&world);
    uint64_t epoch = 0;
    struct ps_status_reply reply = {0};
    char uuid[37] = "";
    ps_service_status(world.service, &reply, uuid);
    epoch = reply.epoch;
    ck_assert_uint_ne(epoch, 0);

    ck_assert_int_eq(ps_service_want_drain(world.service, epoch, NULL), PS_ERR_UNSUPPORTED);
    ps_service_listen(world.service, &listener);
    ck_assert_int_eq(ps_service_want_drain(world.service, 0, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_service_want_drain(world.service, epoch + 1, NULL), PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(asked, 0);
    ck_assert_int_eq(ps_service_want_drain(world.service, epoch, NULL), PS_OK);
    ck_assert_int_eq(asked, 1);
    ps_service_reset(world.service);
    ck_assert_int_eq(ps_service_want_drain(world.service, epoch, NULL), PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(asked, 1);
    world_fini(&world);
}
END_TEST

START_TEST(b8_a_server_whose_lease_ran_out_refuses_every_call)
{
    struct core_world world;
    world_init_ready(&world);
    ps_service_prove(world.service, 2000);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, four, sizeof four, NULL), PS_OK);

    world.fake.now_ms = 2000;

    expect_all_refused(&world, "fenced");
    ck_assert_str_eq(ps_service_state_name(world.service), "fenced");
    ck_assert(!ps_service_is_serving(world.service));
    world_fini(&world);
}
END_TEST

/* A clock that jumps on its n-th reading from now, as for a process that was stopped. */
struct jumping_clock {
    int readings_left;
    uint64_t before_ms;
    uint64_t after_ms;
};

static uint64_t jumping_now_ms(void *self)
{
    struct jumping_clock *jumping = self;
    return jumping->readings_left-- > 0 ? jumping->before_ms : jumping->after_ms;
}

static uint64_t jumping_unix_ns(void *self)
{
    (void)self;
    return 0;
}

START_TEST(b8_a_push_during_which_the_lease_ran_out_is_not_acknowledged)
{
    struct core_world world;
    world_init_ready(&world);
    ps_service_prove(world.service, 2000);
    struct jumping_clock jumping = {1, 1000, 5000};
    world.clock = (struct ps_clock){jumping_now_ms, jumping_unix_ns, &jumping};

    enum ps_status status = world_push(&world, "w", PS_F32, four, sizeof four, NULL);

    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world.error.text, "fenced"));
    world_fini(&world);
}
END_TEST

/* A clock at whose first reading the server is told to end, and takes its last snapshot. It goes on
 * when that is taken, or after a while: then the snapshot waits for who reads the clock. */
struct ending_clock {
    struct ps_service *service;
    struct ps_thread thread;
    atomic_bool is_taken;
    bool has_begun;
    uint64_t version; /* of the parameter in the snapshot */
};

static void drain_and_save(void *argument)
{
    struct ending_clock *ending = argument;
    struct ps_snapshot snapshot;
    ps_service_drain(ending->service);
    ck_assert_int_eq(ps_snapshot_take(ending->service, &snapshot, NULL), PS_OK);
    ending->version = snapshot.parameters[0].version;
    ps_snapshot_release(&snapshot);
    atomic_store(&ending->is_taken, true);
}

static uint64_t ending_now_ms(void *self)
{
    struct ending_clock *ending = self;
    uint64_t patience_ms = ps_deadline_after(ps_clock_real(), 200);
    if (ending->has_begun)
        return 1000;
    ending->has_begun = true;
    ck_assert_int_eq(ps_thread_start(&ending->thread, "ending", drain_and_save, ending, NULL),
                     PS_OK);
    while (!atomic_load(&ending->is_taken) && ps_time_left_ms(ps_clock_real(), patience_ms) > 0)
        ;
    return 1000;
}

START_TEST(what_is_acknowledged_in_memory_is_in_the_last_snapshot)
{
    struct core_world world;
    world_init_ready(&world);
    struct ending_clock ending = {.service = world.service};
    world.clock = (struct ps_clock){ending_now_ms, jumping_unix_ns, &ending};

    enum ps_status status = world_push_with(&world, PS_ACK_MEMORY, 1);

    ps_thread_join(&ending.thread);
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_uint_eq(ending.version, 1);
    world_fini(&world);
}
END_TEST

/* What the push did is dropped with the state, so that it is neither acknowledged nor kept. */
START_TEST(b8_what_a_fenced_push_applied_does_not_survive_the_loss)
{
    struct core_world world;
    world_init_ready(&world);
    ps_service_prove(world.service, 2000);
    struct ps_clock standing = world.clock;
    struct jumping_clock jumping = {1, 1000, 5000};
    world.clock = (struct ps_clock){jumping_now_ms, jumping_unix_ns, &jumping};
    ck_assert_int_eq(world_push(&world, "w", PS_F32, four, sizeof four, NULL), PS_ERR_UNAVAILABLE);
    world.clock = standing;

    ps_service_reset(world.service);

    struct ps_status_reply reply;
    char uuid[37];
    ps_service_status(world.service, &reply, uuid);
    ck_assert_uint_eq(reply.position, 0);
    ck_assert_uint_eq(reply.parameter_count, 0);
    world_fini(&world);
}
END_TEST

START_TEST(draining_refuses_calls_and_still_takes_snapshots)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_ready(&world);

    ps_service_drain(world.service);

    expect_all_refused(&world, "shutting down");
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    ck_assert_uint_eq(snapshot.parameter_count, 1);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(a_broken_service_refuses_calls_and_acknowledges_nothing_any_more)
{
    static const float ones[] = {1, 1, 1, 1};
    struct core_world world;
    world_init_ready(&world);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);

    ps_service_break(world.service);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);
    expect_all_refused(&world, "broken: the device failed");
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(ps_service_state_name(world.service), "broken");
    ck_assert(!ps_service_is_serving(world.service));
    ps_service_reset(world.service);
    ck_assert_str_eq(ps_service_state_name(world.service), "broken");
    world_fini(&world);
}
END_TEST

START_TEST(reset_drops_everything_and_waits_for_another_shard)
{
    struct core_world world;
    world_init_ready(&world);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, four, sizeof four, NULL), PS_OK);
    int told = world.changed_count;

    ps_service_reset(world.service);

    ck_assert_int_gt(world.changed_count, told);
    expect_all_refused(&world, "starting");
    ps_service_check(world.service);
    world_own(&world, 2);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, four, sizeof four, no_config), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    world_expect_f32(&world, "w", four, 4);
    world_fini(&world);
}
END_TEST

/* Journal and checkpoints of one ownership ask at different times. */
START_TEST(a_shard_has_one_history_until_it_is_lost)
{
    struct core_world world;
    world_init_ready(&world);
    struct ps_history first = ps_service_history(world.service);
    struct ps_history again = ps_service_history(world.service);
    ck_assert_mem_eq(&first, &again, sizeof first);

    ps_service_reset(world.service);

    struct ps_history next = ps_service_history(world.service);
    ck_assert(ps_history_differ(&first, &next));
    world_fini(&world);
}
END_TEST

START_TEST(reset_proves_nothing_for_the_next_shard)
{
    struct core_world world;
    world_init_ready(&world);
    ps_service_reset(world.service);

    ps_service_own(world.service, 0, 1, 2, "localhost:1");
    ps_service_begin_empty(world.service);

    ck_assert_str_eq(ps_service_state_name(world.service), "fenced");
    world_fini(&world);
}
END_TEST

START_TEST(a_service_without_a_listener_works)
{
    struct core_world world;
    struct ps_service_listener nobody = {NULL, NULL, NULL, NULL, NULL};
    world_init(&world, true, 0);
    ps_service_listen(world.service, &nobody);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(world_finish(&world), PS_OK);

    world_fini(&world);
}
END_TEST

START_TEST(create_survives_a_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct fake_clock fake = {0};
    struct ps_clock clock = fake_clock_clock(&fake);
    struct ps_service_options options = {.memory = &memory, .clock = &clock};
    struct ps_service *service = NULL;

    enum ps_status status = ps_service_create(&options, &service, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_service_destroy(service);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(check_aborts_when_the_position_is_wrong)
{
    struct core_world world;
    world_init_ready(&world);
    world.service->queue.position++;

    ps_service_check(world.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("service");
    tcase_add_test(tests, starting_refuses_every_call);
    tcase_add_test(tests, states_have_names_in_order);
    tcase_add_test(tests, a_drain_is_asked_of_one_server_and_no_other);
    tcase_add_test(tests, a_server_that_is_about_to_stop_serves_on_and_says_that_it_does_not);
    tcase_add_test(tests, b8_a_server_whose_lease_ran_out_refuses_every_call);
    tcase_add_test(tests, b8_a_push_during_which_the_lease_ran_out_is_not_acknowledged);
    tcase_add_test(tests, what_is_acknowledged_in_memory_is_in_the_last_snapshot);
    tcase_add_test(tests, b8_what_a_fenced_push_applied_does_not_survive_the_loss);
    tcase_add_test(tests, draining_refuses_calls_and_still_takes_snapshots);
    tcase_add_test(tests, a_broken_service_refuses_calls_and_acknowledges_nothing_any_more);
    tcase_add_test(tests, reset_drops_everything_and_waits_for_another_shard);
    tcase_add_test(tests, a_shard_has_one_history_until_it_is_lost);
    tcase_add_test(tests, reset_proves_nothing_for_the_next_shard);
    tcase_add_test(tests, a_service_without_a_listener_works);
    tcase_add_loop_test(tests, create_survives_a_refused_allocation, 0, 2);
    tcase_add_test_raise_signal(tests, check_aborts_when_the_position_is_wrong, 6);
    return run_tests("service", tests);
}
