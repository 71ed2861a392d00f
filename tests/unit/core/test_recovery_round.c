/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_round.c: rounds go on after a crash where they were, out of the journal
 * and out of a checkpoint, with the same bits. */
#include "server/core/recovery/recovery_round.h"

#include "checkpoint/journal_held.h"
#include "core_crash.h"
#include "core_round.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"

#include <string.h>

static void begin(const struct ps_round_settings *rounds)
{
    crash_begin();
    round_begin(&before, rounds);
    disk_save(&before, disk, NULL);
}

static struct ps_contributions *rounds_of(struct core_world *world)
{
    return ps_parameter_table_find(&world->service->table, text("m"))->rounds;
}

/* The machine fails, and another server recovers the same rounds. */
static void crash_and_recover(void)
{
    crash_now(3);
    const struct ps_round *was = &rounds_of(&before)->round;
    const struct ps_round *is = &rounds_of(&after)->round;
    ck_assert_uint_eq(is->counted_count, was->counted_count);
    ck_assert_mem_eq(is->counted, was->counted, sizeof is->counted);
    ck_assert_mem_eq(is->evicted, was->evicted, sizeof is->evicted);
}

static void push(uint32_t rank, uint64_t round, float value)
{
    ck_assert_int_eq(round_push(&before, rank, round, value, round), PS_OK);
}

/* Rounds that ended, one of them without a worker, and one that is open. */
static void train(void)
{
    push(0, 1, -1);
    push(1, 1, -2);
    push(2, 1, -4);
    push(0, 2, -1);
    push(2, 2, -1);
    before.fake.now_ms += 100;
    push(2, 3, -8);
    round_expect(&before, 9, 2);
}

/* The open round goes on: two are enough, since the third was evicted. */
static void go_on(void)
{
    ck_assert_int_eq(round_push(&after, 2, 3, -8, 3), PS_OK);
    ck_assert(after.reply.duplicate && after.reply.held);
    ck_assert_int_eq(round_push(&after, 0, 3, -16, 3), PS_OK);
    ck_assert(!after.reply.held);
    round_expect(&after, 33, 3);
}

static const struct ps_round_settings with_grace = {
    .workers = 3, .grace_ms = 100, .combine = PS_COMBINE_SUM};

START_TEST(p5_rounds_go_on_out_of_the_journal)
{
    begin(&with_grace);
    train();

    crash_and_recover();

    round_expect(&after, 9, 2);
    go_on();
    crash_end();
}
END_TEST

START_TEST(p5_rounds_go_on_out_of_a_checkpoint)
{
    begin(&with_grace);
    train();
    ck_assert_int_eq(disk_write_journal(&before, writer, 3), PS_OK);
    disk_save(&before, disk, NULL);

    crash_and_recover();

    ck_assert_uint_eq(loaded.replayed_count, 0);
    go_on();
    crash_end();
}
END_TEST

START_TEST(the_journal_goes_on_behind_a_checkpoint_in_the_middle_of_a_round)
{
    begin(&with_grace);
    push(0, 1, -1);
    ck_assert_int_eq(disk_write_journal(&before, writer, 3), PS_OK);
    disk_save(&before, disk, NULL);
    push(1, 1, -2);
    push(2, 1, -4);

    crash_and_recover();

    disk_expect_equal(&before, &after);
    ck_assert_uint_eq(loaded.replayed_count, 3);
    round_expect(&after, 7, 1);
    crash_end();
}
END_TEST

/* Between the last contribution and the end of the round: whoever looks next ends it. */
START_TEST(a_round_that_has_all_it_needs_ends_after_the_recovery)
{
    struct ps_pull_wait wait;
    begin(&(struct ps_round_settings){.workers = 3, .combine = PS_COMBINE_SUM});
    push(0, 1, -1);
    push(1, 1, -2);
    crash_and_recover();
    disk_expect_equal(&before, &after);
    /* As if the round had needed two: its end was not written. */
    const struct ps_change_request change = {
        .name = text("m"),
        .change = round_config(
            &(struct ps_round_settings){.workers = 3, .quorum = 2, .combine = PS_COMBINE_SUM})};
    struct ps_changed changed;
    ck_assert_int_eq(ps_service_configure(after.service, &change, &changed, NULL, &after.error),
                     PS_OK);
    ps_changed_release(&changed);

    ck_assert_int_eq(round_pull(&after, 1, &wait), PS_ERR_NOT_READY);
    ck_assert_int_eq(disk_write_journal(&after, writer_after, 3), PS_OK);

    ck_assert_int_eq(round_pull(&after, 1, &wait), PS_OK);
    round_expect(&after, 3, 1);
    crash_end();
}
END_TEST

/* Records that do not fit the state are refused, and change nothing. */
START_TEST(a_record_that_does_not_fit_is_refused)
{
    static const float values[4] = {1, 1, 1, 1};
    uint8_t held[PS_HELD_HEAD_BYTES + sizeof values];
    uint8_t round[PS_ROUND_RECORD_BYTES_MAX];
    const uint8_t first[1] = {1}, none[1] = {0};
    struct ps_bytes piece = {held, sizeof held};
    begin(&(struct ps_round_settings){.workers = 3});
    struct ps_parameter_table *table = &before.service->table;
    ps_held_head_write(&(struct ps_held_head){.worker = 1}, held);
    memcpy(held + PS_HELD_HEAD_BYTES, values, sizeof values);
    struct ps_record record = {.type = PS_RECORD_HELD,
                               .name = text("m"),
                               .dtype = PS_F32,
                               .version = 1,
                               .content = ps_view_of(&piece)};
    struct ps_service *service = before.service;
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_CORRUPT);
    record.version = 0;
    record.dtype = PS_F64;
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_BAD_INPUT);
    record.dtype = PS_F32;
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_OK);
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_CORRUPT);
    ps_held_head_write(&(struct ps_held_head){.worker = 3}, held);
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_CORRUPT);
    record.name = text("nobody");
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_NOT_FOUND);
    /* Evictions behind a contribution, and of other workers. */
    record.name = text("m");
    record.type = PS_RECORD_ROUND;
    piece = (struct ps_bytes){
        round, ps_round_record_write(&(struct ps_round_record){3, none, first}, round)};
    record.content = ps_view_of(&piece);
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_CORRUPT);
    piece = (struct ps_bytes){
        round, ps_round_record_write(&(struct ps_round_record){2, none, first}, round)};
    ck_assert_int_eq(ps_recovery_round_saved(service, table, &record, NULL), PS_ERR_CORRUPT);
    ck_assert_uint_eq(rounds_of(&before)->round.counted_count, 1);
    crash_end();
}
END_TEST

/* Of a state that was put together of parts: one of them was saved behind some records. */
START_TEST(a_contribution_that_is_held_already_is_not_missing)
{
    static const float values[4] = {1, 1, 1, 1};
    uint8_t held[PS_HELD_HEAD_BYTES + sizeof values];
    struct ps_bytes piece = {held, sizeof held};
    begin(&(struct ps_round_settings){.workers = 3});
    push(1, 1, -1);
    struct ps_record record = {
        .type = PS_RECORD_HELD, .name = text("m"), .content = ps_view_of(&piece)};
    for (uint32_t rank = 0; rank < 4; rank++) {
        ps_held_head_write(&(struct ps_held_head){.worker = rank}, held);
        ck_assert_int_eq(ps_recovery_round_is_held(before.service, &record), rank == 1);
    }
    ps_held_head_write(&(struct ps_held_head){.worker = 1}, held);
    record.name = text("nobody");
    ck_assert(!ps_recovery_round_is_held(before.service, &record));
    record.name = text("m");
    record.version = 1;
    ck_assert(!ps_recovery_round_is_held(before.service, &record));
    crash_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_round");
    tcase_add_test(tests, p5_rounds_go_on_out_of_the_journal);
    tcase_add_test(tests, p5_rounds_go_on_out_of_a_checkpoint);
    tcase_add_test(tests, the_journal_goes_on_behind_a_checkpoint_in_the_middle_of_a_round);
    tcase_add_test(tests, a_round_that_has_all_it_needs_ends_after_the_recovery);
    tcase_add_test(tests, a_contribution_that_is_held_already_is_not_missing);
    tcase_add_test(tests, a_record_that_does_not_fit_is_refused);
    return run_tests("recovery_round", tests);
}
