/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/snapshot_rounds.c: records of what is open, in a fixed order, and references that
 * outlive the round. */
#include "server/core/recovery/snapshot_rounds.h"

#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"
#include "core_round.h"
#include "server/core/requests/service_state.h"

static struct core_world world;
static struct ps_snapshot_rounds *rounds;

static void begin(void)
{
    world_init_empty(&world);
    round_begin(&world, &(struct ps_round_settings){
                            .workers = 3, .grace_ms = 10, .combine = PS_COMBINE_SUM});
}

static enum ps_status take(void)
{
    ps_rwlock_write(&world.service->cut);
    enum ps_status status = ps_snapshot_rounds_take(world.service, &rounds, &world.error);
    ps_rwlock_unlock(&world.service->cut);
    return status;
}

START_TEST(a_shard_without_open_rounds_has_no_records)
{
    begin();
    ck_assert_int_eq(take(), PS_OK);
    ck_assert_ptr_null(rounds);
    ck_assert_uint_eq(ps_snapshot_rounds_records(rounds).count, 0);
    ps_snapshot_rounds_release(rounds);
    world_fini(&world);
}
END_TEST

START_TEST(the_evicted_come_first_and_contributions_by_rank)
{
    struct ps_record record;
    struct ps_held_head head;
    struct ps_bytes unused;
    begin();
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    ck_assert_int_eq(round_push(&world, 2, 1, -1, 1), PS_OK);
    world.fake.now_ms += 10;
    ck_assert_int_eq(round_push(&world, 2, 2, -4, 2), PS_OK);
    ck_assert_int_eq(take(), PS_OK);
    struct ps_checkpoint_records records = ps_snapshot_rounds_records(rounds);
    /* The round ends; what was taken stays. */
    ck_assert_int_eq(round_push(&world, 1, 2, -4, 2), PS_OK);
    round_expect(&world, 10, 2);

    ck_assert_uint_eq(records.count, 2);
    for (int turn = 0; turn < 2; turn++) {
        records.give(records.self, 0, &record);
        ck_assert_int_eq(record.type, PS_RECORD_ROUND);
        ck_assert_uint_eq(record.version, 1);
        struct ps_round_record round;
        ck_assert_int_eq(ps_round_record_read(record.content.pieces[0], &round, NULL), PS_OK);
        ck_assert_uint_eq(ps_round_set_count(round.counted, 3), 0);
        ck_assert(ps_round_set_has(round.evicted, 0));
        records.give(records.self, 1, &record);
        ck_assert_int_eq(record.type, PS_RECORD_HELD);
        ck_assert_uint_eq(record.content.size, PS_HELD_HEAD_BYTES + 16);
        ck_assert_int_eq(ps_held_head_read(record.content.pieces[0], &head, &unused, &world.error),
                         PS_OK);
        ck_assert_uint_eq(head.worker, 2);
        float value;
        ps_view_copy(record.content, PS_HELD_HEAD_BYTES, &value, sizeof value);
        ck_assert_float_eq(value, -4);
    }
    ps_snapshot_rounds_release(rounds);
    world_fini(&world);
}
END_TEST

START_TEST(without_memory_nothing_is_held)
{
    begin();
    ck_assert_int_eq(round_push(&world, 1, 1, -1, 1), PS_OK);
    for (int i = 0; i < 2; i++) {
        world.heap.seen = 0;
        world.heap.refuse_at = i;
        ck_assert_int_eq(take(), PS_ERR_NO_MEMORY);
        world.heap.refuse_at = -1;
    }
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("snapshot_rounds");
    tcase_add_test(tests, a_shard_without_open_rounds_has_no_records);
    tcase_add_test(tests, the_evicted_come_first_and_contributions_by_rank);
    tcase_add_test(tests, without_memory_nothing_is_held);
    return run_tests("snapshot_rounds", tests);
}
