/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/acknowledge.c, and push.c with a journal: when a reply may go, in every state. */
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <string.h>

static struct core_world world;

static void begin_test(void)
{
    world_init_journal(&world);
}

static void end_test(void)
{
    world_fini(&world);
}

static const float once[] = {0, 1, 2, 3};

START_TEST(p1_a_reply_waits_until_its_record_is_durable)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world.reply.position, 1);
    ck_assert_uint_eq(world.reply.durable_position, 0);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_uint_eq(world.reply.durable_position, 1);
}
END_TEST

START_TEST(p1_nothing_is_durable_before_there_is_a_checkpoint)
{
    const struct ps_checkpoint_place place = {.epoch = 1};
    world_fini(&world);
    world_init_journal_unsaved(&world);
    uint64_t position;
    uint64_t durable;
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    world_write_journal(&world);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    ps_service_positions(world.service, &position, &durable);
    ck_assert_uint_eq(position, 1);
    ck_assert_uint_eq(durable, 0);

    ps_service_saved(world.service, (struct ps_ticket){0}, &place);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(a_push_that_asks_for_memory_does_not_wait)
{
    ck_assert_int_eq(world_push_with(&world, PS_ACK_MEMORY, 1), PS_OK);

    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_uint_eq(world.reply.position, 1);
    ck_assert_uint_eq(world.reply.durable_position, 0);
    ck_assert_uint_eq(world_write_journal(&world), 1);
}
END_TEST

/* Pushes with ACK_MEMORY until one is not answered at once. */
static void fall_behind(void)
{
    uint64_t sequence = 1;
    enum ps_status status = PS_OK;
    while (status == PS_OK) {
        ck_assert_int_eq(world_push_with(&world, PS_ACK_MEMORY, sequence++), PS_OK);
        status = world_acknowledge(&world);
    }
    ck_assert_int_eq(status, PS_ERR_NOT_READY);
    ck_assert_uint_gt(sequence, 3);
}

START_TEST(a_push_that_asks_for_memory_waits_while_the_journal_is_far_behind)
{
    fall_behind();

    ck_assert_uint_gt(world_write_journal(&world), 0);

    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

/* Those behind it keep the journal busy; that does not hold it back. */
START_TEST(it_waits_for_its_own_record_at_most)
{
    struct ps_record records[64];
    fall_behind();
    struct ps_push_wait wait = world.wait;
    ck_assert_uint_gt(ps_service_journal_take(world.service, records, 64), 0);
    uint64_t sequence = 1000;
    while (world_push_with(&world, PS_ACK_MEMORY, ++sequence) == PS_OK)
        continue;
    ck_assert_uint_gt(sequence, 1001);

    ps_service_journal_written(world.service, UINT64_MAX, PS_OK, NULL);

    world.wait = wait;
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(it_does_not_wait_for_a_journal_that_fails)
{
    fall_behind();

    world_fail_journal(&world);

    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(levels_that_the_server_does_not_offer_are_unsupported)
{
    ck_assert_int_eq(world_push_with(&world, PS_ACK_REPLICATED, 1), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(world.error.text, "ACK_LOGGED"));
    ck_assert_int_eq(world_push_with(&world, PS_ACK_LOGGED, 1), PS_OK);
    ck_assert_uint_eq(world.wait.position, 1);
}
END_TEST

START_TEST(p2_a_repeat_is_answered_and_not_applied)
{
    struct ps_push_reply first;
    struct ps_push_reply second;
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, &first), PS_OK);

    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, &second), PS_OK);

    ck_assert(!first.duplicate);
    ck_assert(second.duplicate);
    ck_assert_uint_eq(second.version, first.version);
    ck_assert_uint_eq(second.position, first.position);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    world_expect_f32(&world, "w", once, 4);
}
END_TEST

START_TEST(p1_a_repeat_waits_for_its_original)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    world_write_journal(&world);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);

    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(a_refused_push_may_come_again)
{
    struct ps_push_reply reply;
    ps_service_prove(world.service, 0);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_ERR_UNAVAILABLE);
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    ck_assert_int_eq(world_push_as(&world, "v", 1, 1, NULL), PS_ERR_NOT_FOUND);

    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, &reply), PS_OK);

    ck_assert(!reply.duplicate);
}
END_TEST

START_TEST(pushes_without_an_id_are_applied_each_time)
{
    static const float twice[] = {-1, 0, 1, 2};
    ck_assert_int_eq(world_push_with(&world, PS_ACK_DEFAULT, 0), PS_OK);
    ck_assert_int_eq(world_push_with(&world, PS_ACK_DEFAULT, 0), PS_OK);

    ck_assert(!world.reply.duplicate);
    ck_assert_uint_eq(world.reply.position, 2);
    world_expect_f32(&world, "w", twice, 4);
}
END_TEST

START_TEST(a_malformed_request_id_is_refused)
{
    struct ps_push_request request = {.name = text("w"), .dtype = PS_F32};
    static const float ones[] = {1, 1, 1, 1};
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    request.content = ps_view_of(&piece);
    request.request = (struct ps_request_id){
        .present = true, .client_id = text("client"), .session = 1, .sequence = 0};

    ck_assert_int_eq(ps_service_push(world.service, &request, &world.reply, NULL, &world.error),
                     PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(p6_a_full_queue_refuses_and_changes_nothing)
{
    uint64_t sequence = 1;
    enum ps_status status = PS_OK;
    for (; status == PS_OK; sequence++)
        status = world_push_as(&world, "w", 1, sequence, NULL);
    ck_assert_int_eq(status, PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(world.error.text, "try again in"));
    ck_assert_uint_gt(sequence, 3);
    uint64_t position;
    uint64_t durable;
    ps_service_positions(world.service, &position, &durable);
    ck_assert_uint_eq(position, sequence - 2);
    ps_service_check(world.service);

    world_write_journal(&world);

    struct ps_push_reply reply;
    ck_assert_int_eq(world_push_as(&world, "w", 1, sequence - 1, &reply), PS_OK);
    ck_assert(!reply.duplicate);
}
END_TEST

START_TEST(p4_no_reply_goes_when_the_lease_ran_out)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    world_write_journal(&world);
    ps_service_prove(world.service, world.fake.now_ms);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(world.error.text, "fenced"));
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(p4_a_reply_of_a_former_life_never_goes)
{
    ck_assert_int_eq(world_push_with(&world, _i == 0 ? PS_ACK_MEMORY : PS_ACK_LOGGED, 1), PS_OK);
    world_write_journal(&world);
    struct ps_push_wait wait = world.wait;
    ps_service_reset(world.service);
    world.wait = wait;
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);

    world_own(&world, 2);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world.error.text, "lost"));
}
END_TEST

START_TEST(records_of_a_former_life_stay_whole_until_the_writer_gives_them_back)
{
    struct ps_record records[4];
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_OK);
    ck_assert_uint_eq(ps_service_journal_take(world.service, records, 1), 1);
    ps_service_reset(world.service);
    world_own(&world, 2);
    ps_service_begin_empty(world.service);

    ck_assert(ps_bytes_equal(records[0].name, text("w")));
    ck_assert_uint_eq(records[0].content.size, 16);
    ps_service_journal_written(world.service, UINT64_MAX, PS_ERR_IO, NULL);

    /* That failure was not of this generation's journal. */
    uint64_t position;
    uint64_t durable;
    ps_service_positions(world.service, &position, &durable);
    ck_assert_uint_eq(position, 0);
    ck_assert_uint_eq(ps_service_journal_take(world.service, records, 4), 0);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_draining_server_still_acknowledges_what_it_applied)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    ps_service_drain(world.service);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_ERR_UNAVAILABLE);

    world_write_journal(&world);
    world.wait.position = 1;

    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(the_writer_is_told_once_until_it_takes)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_OK);
    ck_assert_int_eq(world.journal_wanted_count, 1);

    world_write_journal(&world);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 3, NULL), PS_OK);

    ck_assert_int_eq(world.journal_wanted_count, 2);
}
END_TEST

START_TEST(parked_calls_are_told_when_the_journal_was_written_failed_or_works_again)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    int told = world.changed_count;
    world_write_journal(&world);
    ck_assert_int_eq(world.changed_count, ++told);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_OK);
    world_fail_journal(&world);
    ck_assert_int_eq(world.changed_count, ++told);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(world.changed_count, ++told);
}
END_TEST

START_TEST(a_record_says_everything_about_its_push)
{
    struct ps_record record;
    float content[4];
    ck_assert_int_eq(world_push_as(&world, "w", 7, 9, NULL), PS_OK);

    ck_assert_uint_eq(ps_service_journal_take(world.service, &record, 1), 1);

    ck_assert_int_eq(record.type, PS_RECORD_PUSH);
    ck_assert_uint_eq(record.position, 1);
    ck_assert_uint_eq(record.epoch, 1);
    ck_assert(ps_bytes_equal(record.name, text("w")));
    ck_assert_int_eq(record.dtype, PS_F32);
    ck_assert_uint_eq(record.version, 1);
    ck_assert(ps_bytes_equal(record.client_id, text("client")));
    ck_assert_uint_eq(record.session, 7);
    ck_assert_uint_eq(record.sequence, 9);
    ck_assert_uint_eq(record.content.size, sizeof content);
    ps_view_copy(record.content, 0, content, sizeof content);
    ck_assert_float_eq(content[3], 1);
    ps_service_journal_written(world.service, UINT64_MAX, PS_OK, NULL);
}
END_TEST

START_TEST(push_with_a_journal_survives_any_refused_allocation)
{
    struct ps_pull pull = {0};
    struct ps_pull_request request = {.name = text("w")};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_OK);
    world.heap.refuse_at = world.heap.seen + _i;

    enum ps_status status = world_push_as(&world, "w", 1, 1, NULL);

    bool refused = world.heap.seen > world.heap.refuse_at;
    world.heap.refuse_at = -1;
    ck_assert_int_eq(status, refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(refused || _i >= 6);
    ps_service_check(world.service);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, &reply), PS_OK);
    ck_assert(reply.duplicate == !refused);
    world_expect_f32(&world, "w", once, 4);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ps_pull_release(&pull);
}
END_TEST

START_TEST(b6_a_journal_that_has_grown_wants_a_checkpoint_once)
{
    struct core_world grown;
    struct ps_service_options options = {.saves = true,
                                         .journals = true,
                                         .ack = PS_ACK_LOGGED,
                                         .checkpoint_journal_bytes = 4 * 4096};
    world_init_with(&grown, &options);
    world_own(&grown, 1);
    ps_service_begin_empty(grown.service);
    const float values[] = {1, 2, 3, 4};
    ck_assert_int_eq(
        world_init_param(&grown, "w", PS_F32, values, sizeof values, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(&grown), PS_OK);
    int wanted = grown.wanted_count;

    for (uint64_t i = 1; i <= 5; i++) {
        ck_assert_int_eq(world_push_as(&grown, "w", 1, i, NULL), PS_OK);
        ck_assert_uint_eq(world_write_journal(&grown), 1);
        ck_assert_int_eq(grown.wanted_count, i < 2 ? wanted : wanted + 1);
    }

    ck_assert(ps_service_journal_presses(grown.service));
    world_fini(&grown);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("acknowledge");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, p1_a_reply_waits_until_its_record_is_durable);
    tcase_add_test(tests, b6_a_journal_that_has_grown_wants_a_checkpoint_once);
    tcase_add_test(tests, p1_nothing_is_durable_before_there_is_a_checkpoint);
    tcase_add_test(tests, a_push_that_asks_for_memory_does_not_wait);
    tcase_add_test(tests, a_push_that_asks_for_memory_waits_while_the_journal_is_far_behind);
    tcase_add_test(tests, it_waits_for_its_own_record_at_most);
    tcase_add_test(tests, it_does_not_wait_for_a_journal_that_fails);
    tcase_add_test(tests, levels_that_the_server_does_not_offer_are_unsupported);
    tcase_add_test(tests, p2_a_repeat_is_answered_and_not_applied);
    tcase_add_test(tests, p1_a_repeat_waits_for_its_original);
    tcase_add_test(tests, a_refused_push_may_come_again);
    tcase_add_test(tests, pushes_without_an_id_are_applied_each_time);
    tcase_add_test(tests, a_malformed_request_id_is_refused);
    tcase_add_test(tests, p6_a_full_queue_refuses_and_changes_nothing);
    tcase_add_test(tests, p4_no_reply_goes_when_the_lease_ran_out);
    tcase_add_loop_test(tests, p4_a_reply_of_a_former_life_never_goes, 0, 2);
    tcase_add_test(tests, records_of_a_former_life_stay_whole_until_the_writer_gives_them_back);
    tcase_add_test(tests, a_draining_server_still_acknowledges_what_it_applied);
    tcase_add_test(tests, the_writer_is_told_once_until_it_takes);
    tcase_add_test(tests, parked_calls_are_told_when_the_journal_was_written_failed_or_works_again);
    tcase_add_test(tests, a_record_says_everything_about_its_push);
    tcase_add_loop_test(tests, push_with_a_journal_survives_any_refused_allocation, 0, 10);
    return run_tests("acknowledge", tests);
}
