/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/clock_rows.c: all clocks as records, in an order that makes them again. */
#include "server/core/recovery/clock_rows.h"

#include "checkpoint/journal.h"
#include "core_clocks.h"
#include "server/core/recovery/recovery_clock.h"

static struct core_world shard;
static struct ps_clock_rows *rows;

static void begin_test(void)
{
    world_init_ready(&shard);
    rows = NULL;
}

static void end_test(void)
{
    ps_clock_rows_release(rows);
    world_fini(&shard);
}

static void take(void)
{
    ck_assert_int_eq(ps_clock_rows_take(shard.service, &rows, &shard.error), PS_OK);
}

START_TEST(without_clocks_there_is_nothing)
{
    take();
    ck_assert_ptr_null(rows);
    ck_assert_uint_eq(ps_clock_rows_records(rows).count, 0);
}
END_TEST

START_TEST(settings_come_first_and_only_who_has_moved)
{
    struct ps_record record;
    ck_assert_int_eq(clocks_set(&shard, 3, 0, 0, 0), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 1, 5, 0), PS_OK);
    take();
    struct ps_checkpoint_records records = ps_clock_rows_records(rows);
    ck_assert_uint_eq(records.count, 2);
    records.give(records.self, 0, &record);
    ck_assert_int_eq(record.type, PS_RECORD_CLOCKS);
    records.give(records.self, 1, &record);
    ck_assert_int_eq(record.type, PS_RECORD_CLOCK);
    ck_assert(ps_bytes_equal(record.name, text("c")));
}
END_TEST

/* Into the same shard, whose clocks have gone on and are gone. */
START_TEST(what_they_say_makes_the_same_clocks)
{
    ck_assert_int_eq(clocks_set(&shard, 3, 0, 0, 0), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 1, 5, 0), PS_OK);
    ck_assert_int_eq(clocks_say(&shard, 2, 4, 0), PS_OK);
    take();
    ck_assert_int_eq(clocks_say(&shard, 1, 9, 0), PS_OK);
    ps_clocks_clear(&shard.service->clocks);

    struct ps_checkpoint_records records = ps_clock_rows_records(rows);
    for (size_t i = 0; i < records.count; i++) {
        struct ps_record record;
        records.give(records.self, i, &record);
        ck_assert_int_eq(ps_recovery_clock_state(shard.service, &record, &shard.error), PS_OK);
    }

    ck_assert_uint_eq(clocks_of(&shard, 0), 0);
    ck_assert_uint_eq(clocks_of(&shard, 1), 5);
    ck_assert_uint_eq(clocks_of(&shard, 2), 4);
    ps_service_check(shard.service);
}
END_TEST

START_TEST(taking_survives_a_refused_allocation)
{
    ck_assert_int_eq(clocks_set(&shard, 3, 0, 0, 0), PS_OK);
    shard.heap.refuse_at = shard.heap.seen;
    ck_assert_int_eq(ps_clock_rows_take(shard.service, &rows, &shard.error), PS_ERR_NO_MEMORY);
    ck_assert_ptr_null(rows);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("clock_rows");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, without_clocks_there_is_nothing);
    tcase_add_test(tests, settings_come_first_and_only_who_has_moved);
    tcase_add_test(tests, what_they_say_makes_the_same_clocks);
    tcase_add_test(tests, taking_survives_a_refused_allocation);
    return run_tests("clock_rows", tests);
}
