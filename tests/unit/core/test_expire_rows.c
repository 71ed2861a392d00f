/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/expire_rows.c: what time or a clock decided is in the journal before it is done,
 * and a shard that recovers has the same rows. */
#include "server/core/requests/expire_rows.h"

#include "checkpoint/journal_rows.h"
#include "core_change.h"
#include "core_clocks.h"
#include "core_crash.h"
#include "core_table.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"
#include "server/core/tables/row_table.h"

/* The journal is written, the machine fails, and another server recovers. */
static void crash_and_recover(void)
{
    crash_now(3);
    ck_assert_uint_eq(ps_row_table_digest(table_of(&before)->rows),
                      ps_row_table_digest(table_of(&after)->rows));
    ck_assert_uint_eq(table_of(&before)->version, table_of(&after)->version);
}

static void define(struct ps_table_settings settings)
{
    ck_assert_int_eq(table_define(&before, table_config("sgd", settings), 0), PS_OK);
}

/* Time goes by, and the service looks as the coordinator has it look. */
static void wait_ms(uint64_t milliseconds)
{
    for (uint64_t i = 0; i < 16; i++) {
        before.fake.now_ms += milliseconds / 16;
        ps_service_sweep(before.service);
        ps_service_check(before.service);
    }
}

static uint64_t row_count(void)
{
    return ps_row_table_rows(table_of(&before)->rows);
}

START_TEST(rows_that_nobody_pushes_to_go_and_stay_away)
{
    define((struct ps_table_settings){.expire_ms = 1600});
    ck_assert_int_eq(table_push(&before, 0, 10, 1, 0), PS_OK);
    wait_ms(800);
    ck_assert_int_eq(table_push(&before, 5, 10, 1, 0), PS_OK);
    wait_ms(640);
    ck_assert_uint_eq(row_count(), 15);
    wait_ms(320);
    ck_assert_uint_eq(row_count(), 10);
    ck_assert(table_value(&before, 4) == 0 && table_value(&before, 5) == -2);
    /* A key that comes again begins anew. */
    ck_assert_int_eq(table_push(&before, 4, 1, 1, 0), PS_OK);
    crash_and_recover();
    ck_assert(table_value(&after, 4) == -1);
    wait_ms(3200);
    ck_assert_uint_eq(row_count(), 0);
    ck_assert_uint_eq(before.service->row_room.expired, 16);
}
END_TEST

START_TEST(a_table_of_which_nothing_is_old_writes_nothing)
{
    define((struct ps_table_settings){.expire_ms = 1600});
    define((struct ps_table_settings){.expire_ms = 1600});
    ck_assert_int_eq(table_push(&before, 0, 10, 1, 0), PS_OK);
    wait_ms(1600);
    wait_ms(1600);
    struct ps_journal_state state, later;
    ps_journal_queue_look(&before.service->queue, &state);
    wait_ms(16000);
    ps_journal_queue_look(&before.service->queue, &later);
    ck_assert_uint_eq(row_count(), 0);
    ck_assert_uint_eq(later.position, state.position);
}
END_TEST

START_TEST(rows_go_by_the_clock_that_their_configuration_names)
{
    define((struct ps_table_settings){.expire_clocks = 3, .clocks = "c"});
    wait_ms(1600);
    ck_assert_int_eq(clocks_set(&before, 2, 0, 0, 0), PS_OK);
    ck_assert_int_eq(table_push(&before, 0, 4, 1, 0), PS_OK);
    wait_ms(16);
    for (uint64_t clock = 1; clock <= 3; clock++) {
        ck_assert_uint_eq(row_count(), 4);
        ck_assert_int_eq(clocks_say(&before, 0, clock, 0), PS_OK);
        wait_ms(16);
        ck_assert_uint_eq(row_count(), 4); /* the other worker is not as far */
        ck_assert_int_eq(clocks_say(&before, 1, clock, 0), PS_OK);
        wait_ms(16);
    }
    ck_assert_uint_eq(row_count(), 0);
    crash_and_recover();
}
END_TEST

/* Without clocks nothing goes, and by those that are set anew after as many iterations as ever. */
START_TEST(rows_stay_while_their_clock_is_removed_and_go_by_the_next_one)
{
    define((struct ps_table_settings){.expire_clocks = 3, .clocks = "c"});
    wait_ms(1600);
    ck_assert_int_eq(clocks_set(&before, 1, 0, 0, 0), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 0, 1000, 0), PS_OK);
    wait_ms(16);
    ck_assert_int_eq(table_push(&before, 0, 4, 1, 0), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 0, 1002, 0), PS_OK);
    wait_ms(16);

    ck_assert_int_eq(clocks_remove(&before, 0), PS_OK);

    for (int i = 0; i < 3; i++)
        wait_ms(16000);
    ck_assert_uint_eq(row_count(), 4);
    ck_assert_int_eq(clocks_set(&before, 1, 0, 0, 0), PS_OK);
    for (uint64_t clock = 1; clock <= 3; clock++) {
        ck_assert_uint_eq(row_count(), 4);
        ck_assert_int_eq(clocks_say(&before, 0, clock, 0), PS_OK);
        wait_ms(16);
    }
    ck_assert_uint_eq(row_count(), 0);
    crash_and_recover();
}
END_TEST

START_TEST(a_server_that_may_have_lost_the_shard_lets_no_row_go)
{
    define((struct ps_table_settings){.expire_ms = 1600});
    ck_assert_int_eq(table_push(&before, 0, 4, 1, 0), PS_OK);
    wait_ms(16);
    ps_service_prove(before.service, before.fake.now_ms);
    wait_ms(16000);
    ck_assert_uint_eq(row_count(), 4);
    ps_service_prove(before.service, UINT64_MAX);
    wait_ms(16);
    ck_assert_uint_eq(row_count(), 4);
    wait_ms(1600);
    ck_assert_uint_eq(row_count(), 0);
}
END_TEST

/* As a server is that was stopped for a night, whose clock went on. */
START_TEST(rows_do_not_age_while_nobody_could_push_to_them)
{
    define((struct ps_table_settings){.expire_ms = 1600});
    ps_service_prove(before.service, before.fake.now_ms + 500);
    ck_assert_int_eq(table_push(&before, 0, 4, 1, 0), PS_OK);
    wait_ms(0);
    for (int night = 0; night < 3; night++) {
        wait_ms(1000000);
        uint64_t time = ps_service_row_time(before.service);
        ps_service_prove(before.service, 0);
        wait_ms(1000000);
        ck_assert_uint_eq(ps_service_row_time(before.service), time);
        ps_service_prove(before.service, before.fake.now_ms + 500);
        ck_assert_uint_eq(ps_service_row_time(before.service), time);
        wait_ms(0);
        ck_assert_uint_eq(row_count(), 4);
    }
    /* Of the three days 500 ms each count. */
    ps_service_prove(before.service, UINT64_MAX);
    wait_ms(96);
    ck_assert_uint_eq(row_count(), 4);
    wait_ms(16);
    ck_assert_uint_eq(row_count(), 0);
}
END_TEST

/* What cannot be written down is not done, and stays due. */
START_TEST(a_full_journal_keeps_rows_until_it_has_room)
{
    define((struct ps_table_settings){.expire_ms = 1600});
    ck_assert_int_eq(table_push(&before, 0, 4, 1, 0), PS_OK);
    wait_ms(16);
    before.heap.refuse_at = before.heap.seen;
    before.fake.now_ms += 3200;
    ps_service_sweep(before.service);
    ck_assert_uint_eq(row_count(), 4);
    before.heap.refuse_at = -1;
    ps_service_sweep(before.service);
    ck_assert_uint_eq(row_count(), 0);
    crash_and_recover();
}
END_TEST

/* The keys from 0 on, as many at a time as a helper takes. */
static void push_many(uint64_t rows)
{
    enum { AT_ONCE = 500 };
    ck_assert_uint_eq(rows % AT_ONCE, 0);
    /* Room for what a turn writes, as a server has it. */
    before.service->queue.bytes_max = (uint64_t)4 << 20;
    for (uint64_t key = 0; key < rows; key += AT_ONCE) {
        ck_assert_int_eq(table_push(&before, key, AT_ONCE, 1, 0), PS_OK);
        ck_assert_int_eq(disk_write_journal(&before, writer, 3), PS_OK);
    }
}

/* Turn after turn, until no row is due. */
static void sweep_all(void)
{
    while (ps_service_sweep(before.service))
        ck_assert_int_eq(disk_write_journal(&before, writer, 3), PS_OK);
}

/* More rows than go in a turn: the coordinator is told to come again, and what it does meanwhile
 * finds a table that is whole. */
START_TEST(a_large_table_is_swept_in_turns_of_bounded_work)
{
    enum { ROWS = 100000 };
    define((struct ps_table_settings){.expire_ms = 1600});
    push_many(ROWS);
    ck_assert(!ps_service_sweep(before.service));
    before.fake.now_ms += 3200;
    ck_assert(ps_service_sweep(before.service));
    uint64_t left = row_count();
    ck_assert(left > 0 && left < ROWS);
    ps_service_check(before.service);
    /* All keys: those whose rows went begin anew, the others are young again. */
    push_many(ROWS);
    uint64_t anew = 0;
    for (uint64_t key = 0; key < ROWS; key += 100)
        anew += table_value(&before, key) == -1;
    ck_assert(anew > 0 && anew < ROWS / 100);
    sweep_all();
    ck_assert_uint_eq(row_count(), ROWS);
    before.fake.now_ms += 3200;
    ck_assert(ps_service_sweep(before.service));
    ck_assert(row_count() > 0 && row_count() < ROWS);
    crash_and_recover();
    sweep_all();
    ck_assert_uint_eq(row_count(), 0);
    ck_assert_uint_eq(before.service->row_room.expired, (uint64_t)ROWS * 2 - left);
}
END_TEST

/* What was due under the former span is looked at again under the present one. */
START_TEST(a_longer_span_keeps_what_has_not_gone_yet)
{
    enum { ROWS = 100000 };
    define((struct ps_table_settings){.expire_ms = 1600});
    push_many(ROWS);
    ck_assert(!ps_service_sweep(before.service));
    before.fake.now_ms += 3200;
    ck_assert(ps_service_sweep(before.service));
    uint64_t left = row_count();
    const struct ps_bytes longer =
        table_config("sgd", (struct ps_table_settings){.expire_ms = 1600000});
    ck_assert_int_eq(change_configure_to(&before, "t", longer, 1), PS_OK);
    ck_assert(!ps_service_sweep(before.service));
    ck_assert_uint_eq(row_count(), left);
    before.fake.now_ms += 3200000;
    sweep_all();
    before.fake.now_ms += 3200000;
    sweep_all();
    ck_assert_uint_eq(row_count(), 0);
    crash_and_recover();
}
END_TEST

/* ---- Records by themselves ---- */

/* A checkpoint of a table whose keys from 0 on were pushed to last by version 1, and from 5 on by
 * version 2; `after` has loaded it and is RECOVERING. */
static void load_two_versions(void)
{
    define((struct ps_table_settings){.expire_ms = 1600});
    ck_assert_int_eq(table_push(&before, 0, 10, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&before, 5, 10, 1, 0), PS_OK);
    ck_assert_int_eq(disk_write_journal(&before, writer, 3), PS_OK);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load_only(&after, disk, NULL, &loaded), PS_OK);
}

static enum ps_status replay(enum ps_record_type type, uint64_t version, struct ps_bytes content)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&after.service->queue, &state);
    const struct ps_record record = {.type = type,
                                     .name = text("t"),
                                     .position = state.position + 1,
                                     .epoch = 1,
                                     .version = version,
                                     .content = ps_view_of(&content)};
    return ps_recovery_apply(after.service, &record, &after.error);
}

static enum ps_status replay_expire(struct ps_expire_record record, const uint64_t *keys)
{
    uint8_t bytes[256];
    ps_expire_record_write(&record, bytes);
    ps_expire_keys_write(keys, record.count, bytes + PS_EXPIRE_RECORD_HEAD_BYTES);
    return replay(PS_RECORD_EXPIRE, 2,
                  (struct ps_bytes){bytes, PS_EXPIRE_RECORD_HEAD_BYTES + record.count * 8});
}

/* As journals of former programs have it. */
START_TEST(a_sweep_of_all_rows_is_replayed)
{
    uint8_t bytes[PS_SWEEP_RECORD_BYTES];
    load_two_versions();
    ps_sweep_record_write(&(struct ps_sweep_record){.before_version = 2}, bytes);
    ck_assert_int_eq(replay(PS_RECORD_SWEEP, 2, (struct ps_bytes){bytes, sizeof bytes}), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(table_of(&after)->rows), 10);
    ck_assert_uint_eq(after.service->row_room.expired, 5);
    ps_service_check(after.service);
    ps_service_give_up_recovery(after.service);
}
END_TEST

/* Of the keys some have gone already, and some were pushed to behind the look. */
START_TEST(rows_that_expired_are_replayed_by_their_keys)
{
    static const uint64_t keys[] = {4, 99, 5, 0};
    load_two_versions();
    ck_assert_int_eq(replay_expire((struct ps_expire_record){2, false, 4}, keys), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(table_of(&after)->rows), 13);
    ck_assert_int_eq(replay_expire((struct ps_expire_record){2, false, 4}, keys), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(table_of(&after)->rows), 13);
    ck_assert_uint_eq(after.service->row_room.expired, 2);
    ps_service_check(after.service);
    ps_service_give_up_recovery(after.service);
}
END_TEST

/* Of a version that the table has not reached, of counted keys where none are counted, and bytes
 * that say nothing. */
START_TEST(what_cannot_have_expired_is_damage)
{
    static const uint64_t keys[] = {4};
    load_two_versions();
    const uint64_t rows = ps_row_table_rows(table_of(&after)->rows);
    ck_assert_int_eq(replay_expire((struct ps_expire_record){4, false, 1}, keys), PS_ERR_CORRUPT);
    ck_assert_int_eq(replay_expire((struct ps_expire_record){2, true, 1}, keys), PS_ERR_CORRUPT);
    ck_assert_int_eq(replay(PS_RECORD_EXPIRE, 2, text("nothing")), PS_ERR_CORRUPT);
    ck_assert_uint_eq(ps_row_table_rows(table_of(&after)->rows), rows);
    ps_service_check(after.service);
    ps_service_give_up_recovery(after.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("expire_rows");
    tcase_add_checked_fixture(tests, crash_begin_ready, crash_end);
    tcase_add_test(tests, rows_that_nobody_pushes_to_go_and_stay_away);
    tcase_add_test(tests, a_table_of_which_nothing_is_old_writes_nothing);
    tcase_add_test(tests, rows_go_by_the_clock_that_their_configuration_names);
    tcase_add_test(tests, rows_stay_while_their_clock_is_removed_and_go_by_the_next_one);
    tcase_add_test(tests, a_server_that_may_have_lost_the_shard_lets_no_row_go);
    tcase_add_test(tests, rows_do_not_age_while_nobody_could_push_to_them);
    tcase_add_test(tests, a_full_journal_keeps_rows_until_it_has_room);
    tcase_add_test(tests, a_large_table_is_swept_in_turns_of_bounded_work);
    tcase_add_test(tests, a_longer_span_keeps_what_has_not_gone_yet);
    tcase_add_test(tests, a_sweep_of_all_rows_is_replayed);
    tcase_add_test(tests, rows_that_expired_are_replayed_by_their_keys);
    tcase_add_test(tests, what_cannot_have_expired_is_damage);
    return run_tests("expire_rows", tests);
}
