/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/finish.c: FinishInitParams once, and tickets for checkpoints. */
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static const struct ps_checkpoint_place place = {.uuid = "u", .path = "/p", .position = 0};

/* An owner of epoch 1 that saves, and begins without parameters (world_init_empty saves none). */
static void begin(struct core_world *world)
{
    world_init(world, true, 0);
    world_own(world, 1);
    ps_service_begin_empty(world->service);
}

START_TEST(finish_without_checkpoints_waits_for_nothing)
{
    struct core_world world;
    struct ps_ticket ticket;
    world_init_empty(&world);

    ck_assert_int_eq(ps_service_finish(world.service, NULL, &ticket, NULL), PS_OK);

    ck_assert(ps_service_satisfied(world.service, ticket));
    ck_assert_int_eq(world.wanted_count, 0);
    ck_assert_int_ge(world.changed_count, 1);
    world_fini(&world);
}
END_TEST

START_TEST(b6_finish_waits_for_the_first_checkpoint)
{
    struct core_world world;
    struct ps_ticket ticket;
    struct ps_snapshot snapshot;
    begin(&world);

    ck_assert_int_eq(ps_service_finish(world.service, NULL, &ticket, NULL), PS_OK);

    ck_assert_int_eq(world.wanted_count, 1);
    ck_assert(!ps_service_satisfied(world.service, ticket));
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    ck_assert(!ps_service_satisfied(world.service, ticket));
    ps_service_saved(world.service, snapshot.ticket, &place);
    ck_assert(ps_service_satisfied(world.service, ticket));
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(a_second_finish_is_refused_and_waits_for_the_same_checkpoint)
{
    struct core_world world;
    struct ps_ticket first;
    struct ps_ticket second;
    struct ps_error error;
    begin(&world);
    ck_assert_int_eq(ps_service_finish(world.service, NULL, &first, NULL), PS_OK);

    enum ps_status status = ps_service_finish(world.service, NULL, &second, &error);

    ck_assert_int_eq(status, PS_ERR_EXISTS);
    ck_assert_str_eq(error.text, "pserver already initialized");
    ck_assert_uint_eq(second.number, first.number);
    ck_assert(!ps_service_satisfied(world.service, second));
    ck_assert_int_eq(world.wanted_count, 1);
    world_fini(&world);
}
END_TEST

START_TEST(a_repeated_finish_asks_for_no_other_checkpoint)
{
    const struct ps_finish_request request = {
        .request = {
            .present = true, .client_id = {(const uint8_t *)"c", 1}, .session = 1, .sequence = 1}};
    struct core_world world;
    struct ps_ticket ticket;
    struct ps_snapshot snapshot;
    begin(&world);
    ck_assert_int_eq(ps_service_finish(world.service, &request, &ticket, NULL), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    ps_service_saved(world.service, snapshot.ticket, &place);
    ps_snapshot_release(&snapshot);

    ck_assert_int_eq(ps_service_finish(world.service, &request, &ticket, NULL), PS_OK);

    ck_assert(ps_service_satisfied(world.service, ticket));
    ck_assert_int_eq(world.wanted_count, 1);
    world_fini(&world);
}
END_TEST

START_TEST(finish_under_the_epoch_that_took_the_parameters_is_fine)
{
    struct core_world world;
    world_init(&world, false, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(world_finish_under(&world, 7), PS_OK);

    ck_assert_str_eq(ps_service_state_name(world.service), "ready");
    world_fini(&world);
}
END_TEST

START_TEST(finish_after_the_parameters_were_lost_is_refused_and_changes_nothing)
{
    const float values[] = {1, 2};
    const struct ps_finish_request request = {.epoch = 7};
    struct core_world world;
    struct ps_ticket ticket = {99};
    struct ps_error error;
    world_init(&world, true, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, values, sizeof values, (struct ps_bytes){0}), PS_OK);
    ps_service_reset(world.service);
    world_own(&world, 8);
    ps_service_begin_empty(world.service);

    enum ps_status status = ps_service_finish(world.service, &request, &ticket, &error);

    ck_assert_int_eq(status, PS_ERR_STALE_EPOCH);
    ck_assert_ptr_nonnull(strstr(error.text, "the server has lost what it was given, initialise "
                                             "again; nothing changed"));
    ck_assert_uint_eq(ticket.number, 0);
    ck_assert_int_eq(world.wanted_count, 0);
    ck_assert_str_eq(ps_service_state_name(world.service), "uninitialized");
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, values, sizeof values, (struct ps_bytes){0}), PS_OK);
    ck_assert_int_eq(world_finish_under(&world, 8), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(finish_under_no_epoch_is_not_checked)
{
    struct core_world world;
    world_init(&world, false, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(world_finish_under(&world, 0), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(finish_of_what_is_ready_has_one_answer_under_any_epoch)
{
    static const uint64_t epochs[] = {0, 1, 2, UINT64_MAX};
    struct core_world world;
    world_init_ready(&world);

    for (size_t i = 0; i < PS_ARRAY_COUNT(epochs); i++) {
        ck_assert_int_eq(world_finish_under(&world, epochs[i]), PS_ERR_EXISTS);
        ck_assert_str_eq(world.error.text, "pserver already initialized");
    }
    world_fini(&world);
}
END_TEST

START_TEST(a_fenced_server_does_not_say_that_anything_is_lost)
{
    struct core_world world;
    world_init_empty(&world);
    ps_service_prove(world.service, 0);

    ck_assert_int_eq(world_finish_under(&world, 99), PS_ERR_UNAVAILABLE);
    world_fini(&world);
}
END_TEST

START_TEST(finish_of_a_shard_without_parameters_is_fine)
{
    struct core_world world;
    struct ps_snapshot snapshot;
    world_init_empty(&world);

    ck_assert_int_eq(world_finish(&world), PS_OK);

    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    ck_assert_uint_eq(snapshot.parameter_count, 0);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(a_wanted_checkpoint_is_one_of_now_or_later)
{
    struct core_world world;
    struct ps_ticket ticket;
    struct ps_snapshot before;
    struct ps_snapshot after;
    begin(&world);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(world.service, &before, NULL), PS_OK);

    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_OK);

    ck_assert_int_eq(world.wanted_count, 2);
    ck_assert_int_eq(ps_snapshot_take(world.service, &after, NULL), PS_OK);
    ps_service_saved(world.service, before.ticket, &place);
    ck_assert(!ps_service_satisfied(world.service, ticket));
    ps_service_saved(world.service, after.ticket, &place);
    ck_assert(ps_service_satisfied(world.service, ticket));
    ps_snapshot_release(&before);
    ps_snapshot_release(&after);
    world_fini(&world);
}
END_TEST

START_TEST(no_checkpoint_is_promised_where_none_is_saved)
{
    struct core_world world;
    struct ps_ticket ticket;
    world_init_ready(&world);

    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, &world.error),
                     PS_ERR_UNSUPPORTED);

    ck_assert_ptr_nonnull(strstr(world.error.text, "data directory"));
    world_fini(&world);
}
END_TEST

START_TEST(no_checkpoint_is_promised_before_finish)
{
    struct core_world world;
    struct ps_ticket ticket;
    begin(&world);

    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_ERR_NOT_READY);

    world_fini(&world);
}
END_TEST

START_TEST(saved_tells_the_listener_and_the_status)
{
    struct core_world world;
    struct ps_checkpoint_place last;
    struct ps_status_reply reply;
    char uuid[37];
    begin(&world);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert(!ps_service_last_saved(world.service, &last));
    int told = world.changed_count;

    ps_service_saved(world.service, (struct ps_ticket){0}, &place);

    ck_assert_int_gt(world.changed_count, told);
    ck_assert(ps_service_last_saved(world.service, &last));
    ck_assert_str_eq(last.path, "/p");
    ps_service_status(world.service, &reply, uuid);
    ck_assert_str_eq(reply.checkpoint_uuid, "u");
    world_fini(&world);
}
END_TEST

START_TEST(reset_abandons_who_waits)
{
    struct core_world world;
    struct ps_ticket ticket;
    begin(&world);
    ck_assert_int_eq(ps_service_finish(world.service, NULL, &ticket, NULL), PS_OK);
    ck_assert(!ps_service_abandoned(world.service, ticket));

    ps_service_reset(world.service);

    ck_assert(ps_service_abandoned(world.service, ticket));
    ck_assert(!ps_service_satisfied(world.service, ticket));
    world_fini(&world);
}
END_TEST

START_TEST(a_reply_awaits_its_checkpoint_until_the_shard_is_lost)
{
    struct core_world world;
    struct ps_ticket ticket;
    begin(&world);
    ck_assert_int_eq(ps_service_finish(world.service, NULL, &ticket, NULL), PS_OK);
    ck_assert_int_eq(ps_service_await_checkpoint(world.service, ticket, NULL), PS_ERR_NOT_READY);
    ck_assert_int_eq(ps_service_await_finish(world.service, ticket, NULL), PS_ERR_NOT_READY);

    ps_service_reset(world.service);

    ck_assert_int_eq(ps_service_await_checkpoint(world.service, ticket, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(ps_service_await_finish(world.service, ticket, NULL), PS_ERR_UNAVAILABLE);
    world_fini(&world);
}
END_TEST

START_TEST(a_finish_does_not_await_an_attempt_after_one_that_failed)
{
    const struct ps_error why = {.status = PS_ERR_IO, .text = "the disk is full"};
    struct core_world world;
    struct ps_ticket ticket;
    begin(&world);
    ck_assert_int_eq(ps_service_finish(world.service, NULL, &ticket, NULL), PS_OK);

    ps_service_not_saved(world.service, ticket, &why);

    ck_assert_int_eq(ps_service_await_checkpoint(world.service, ticket, NULL), PS_ERR_NOT_READY);
    ck_assert_int_eq(ps_service_await_finish(world.service, ticket, &world.error),
                     PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world.error.text, "the disk is full"));
    ps_service_saved(world.service, ticket, &place);
    ck_assert_int_eq(ps_service_await_finish(world.service, ticket, NULL), PS_OK);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("finish");
    tcase_add_test(tests, a_reply_awaits_its_checkpoint_until_the_shard_is_lost);
    tcase_add_test(tests, a_finish_does_not_await_an_attempt_after_one_that_failed);
    tcase_add_test(tests, finish_without_checkpoints_waits_for_nothing);
    tcase_add_test(tests, b6_finish_waits_for_the_first_checkpoint);
    tcase_add_test(tests, a_second_finish_is_refused_and_waits_for_the_same_checkpoint);
    tcase_add_test(tests, a_repeated_finish_asks_for_no_other_checkpoint);
    tcase_add_test(tests, finish_under_the_epoch_that_took_the_parameters_is_fine);
    tcase_add_test(tests, finish_after_the_parameters_were_lost_is_refused_and_changes_nothing);
    tcase_add_test(tests, finish_under_no_epoch_is_not_checked);
    tcase_add_test(tests, finish_of_what_is_ready_has_one_answer_under_any_epoch);
    tcase_add_test(tests, a_fenced_server_does_not_say_that_anything_is_lost);
    tcase_add_test(tests, finish_of_a_shard_without_parameters_is_fine);
    tcase_add_test(tests, a_wanted_checkpoint_is_one_of_now_or_later);
    tcase_add_test(tests, no_checkpoint_is_promised_where_none_is_saved);
    tcase_add_test(tests, no_checkpoint_is_promised_before_finish);
    tcase_add_test(tests, saved_tells_the_listener_and_the_status);
    tcase_add_test(tests, reset_abandons_who_waits);
    return run_tests("finish", tests);
}
