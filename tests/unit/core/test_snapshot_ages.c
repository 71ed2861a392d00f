/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/snapshot_ages.c: a checkpoint keeps how old the rows of a table are, and a server
 * that goes on from it lets them go when they are of age, and no younger ones. */
#include "server/core/recovery/snapshot_ages.h"

#include "core_change.h"
#include "core_clocks.h"
#include "core_disk.h"
#include "core_table.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_table.h"
#include "server/core/update/row_ages_text.h"

#include <stdio.h>
#include <string.h>

#define SPAN_MS 1600
#define STEP_MS (SPAN_MS / PS_ROW_AGE_STEPS)

static struct memory_files *disk;
static struct core_world before;
static struct core_world after;
static struct ps_recovered loaded;

static void begin_test(void)
{
    static const float two[] = {1, 2};
    disk = memory_files_create(1);
    disk_world_init(&before, 1);
    disk_world_init(&after, 2);
    ps_service_begin_empty(before.service);
    ck_assert_int_eq(world_init_param(&before, "w", PS_F32, two, sizeof two, config_of("sgd", 1)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    before.fake.now_ms = 50000;
}

static void end_test(void)
{
    world_fini(&before);
    world_fini(&after);
    memory_files_destroy(disk);
}

static struct ps_bytes config(struct ps_table_settings settings)
{
    return table_config("sgd", settings);
}

static void define(struct ps_table_settings settings)
{
    ck_assert_int_eq(table_define(&before, config(settings), 0), PS_OK);
}

/* Time goes by in steps, and a server looks at each. */
static void wait_in(struct core_world *world, uint64_t milliseconds)
{
    for (uint64_t i = 0; i < milliseconds; i += STEP_MS) {
        world->fake.now_ms += STEP_MS;
        (void)ps_service_sweep(world->service);
        ps_service_check(world->service);
    }
}

static void push(struct core_world *world, uint64_t first, size_t count)
{
    ck_assert_int_eq(table_push(world, first, count, 1, 0), PS_OK);
    (void)ps_service_sweep(world->service);
}

static uint64_t rows_of(struct core_world *world)
{
    return ps_row_table_rows(table_of(world)->rows);
}

/* Another server goes on from the checkpoint, when its clock shows `now_ms`. */
static void recover_at(uint64_t now_ms)
{
    disk_save(&before, disk, NULL);
    after.fake.now_ms = now_ms;
    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_OK);
    ps_service_check(after.service);
}

/* Ten rows that are half a span old, and ten new ones. */
static void push_old_and_young(void)
{
    define((struct ps_table_settings){.expire_ms = SPAN_MS});
    push(&before, 0, 10);
    wait_in(&before, SPAN_MS / 2);
    push(&before, 10, 10);
    ck_assert_uint_eq(rows_of(&before), 20);
}

static void expect_old_gone(void)
{
    ck_assert_uint_eq(rows_of(&after), 10);
    ck_assert(table_value(&after, 9) == 0 && table_value(&after, 10) == -1);
}

START_TEST(rows_go_when_they_are_of_age_in_both_lives_together)
{
    push_old_and_young();
    recover_at(before.fake.now_ms);

    wait_in(&after, SPAN_MS / 2 - STEP_MS);
    ck_assert_uint_eq(rows_of(&after), 20);
    wait_in(&after, 2 * STEP_MS);
    expect_old_gone();
    wait_in(&after, SPAN_MS / 2 - 3 * STEP_MS);
    expect_old_gone();
    wait_in(&after, 4 * STEP_MS);
    ck_assert_uint_eq(rows_of(&after), 0);
}
END_TEST

/* A machine that has just begun, whose clock says that no time has passed: what the rows are old is
 * more than its clock has counted. */
START_TEST(a_clock_that_begins_anew_makes_no_row_older_or_younger)
{
    push_old_and_young();
    recover_at(3);

    wait_in(&after, SPAN_MS / 2 - STEP_MS);
    ck_assert_uint_eq(rows_of(&after), 20);
    wait_in(&after, 2 * STEP_MS);
    expect_old_gone();
}
END_TEST

/* The time without a server: a step of it counts, however long it was. */
START_TEST(a_long_time_without_a_server_lets_no_row_go_that_was_not_almost_of_age)
{
    push_old_and_young();
    recover_at(before.fake.now_ms + UINT64_C(1000) * SPAN_MS);

    (void)ps_service_sweep(after.service);
    ck_assert_uint_eq(rows_of(&after), 20);
    wait_in(&after, SPAN_MS / 2 - 2 * STEP_MS);
    ck_assert_uint_eq(rows_of(&after), 20);
    wait_in(&after, 2 * STEP_MS);
    expect_old_gone();
}
END_TEST

/* Its pushes have later versions than any that the file knows of. */
START_TEST(rows_that_are_pushed_to_behind_the_checkpoint_are_young)
{
    push_old_and_young();
    recover_at(before.fake.now_ms);
    push(&after, 0, 5);

    wait_in(&after, SPAN_MS / 2 + STEP_MS);

    ck_assert_uint_eq(rows_of(&after), 15);
    ck_assert(table_value(&after, 4) == -2 && table_value(&after, 5) == 0);
}
END_TEST

START_TEST(clocks_go_on_from_where_they_were)
{
    define((struct ps_table_settings){.expire_clocks = 4, .clocks = "c"});
    ck_assert_int_eq(clocks_set(&before, 1, 0, 0, 0), PS_OK);
    push(&before, 0, 10);
    ck_assert_int_eq(clocks_say(&before, 0, 3, 0), PS_OK);
    push(&before, 10, 10);
    recover_at(3);

    (void)ps_service_sweep(after.service);
    ck_assert_uint_eq(rows_of(&after), 20);
    ck_assert_int_eq(clocks_say(&after, 0, 4, 0), PS_OK);
    (void)ps_service_sweep(after.service);
    expect_old_gone();
    ck_assert_int_eq(clocks_say(&after, 0, 7, 0), PS_OK);
    (void)ps_service_sweep(after.service);
    ck_assert_uint_eq(rows_of(&after), 0);
}
END_TEST

/* Nobody has counted the clocks "d" up, and "c" are far ahead: the rows are no older by that. */
START_TEST(ages_by_other_clocks_are_forgotten)
{
    define((struct ps_table_settings){.expire_clocks = 4, .clocks = "d"});
    ck_assert_int_eq(clocks_set(&before, 1, 0, 0, 0), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 0, 40, 0), PS_OK);
    push(&before, 0, 10);
    ck_assert_uint_eq(table_of(&before)->expiry->by_clock.count, 1);
    const struct ps_bytes by_c =
        config((struct ps_table_settings){.expire_clocks = 4, .clocks = "c"});
    ck_assert_int_eq(change_configure_to(&before, "t", by_c, 1), PS_OK);

    (void)ps_service_sweep(before.service);

    ck_assert_uint_eq(rows_of(&before), 10);
    ck_assert_int_eq(clocks_say(&before, 0, 44, 0), PS_OK);
    (void)ps_service_sweep(before.service);
    ck_assert_uint_eq(rows_of(&before), 0);
}
END_TEST

/* All rows are due and the versions by which that was known have gone from the list: they go
 * in the next life, without waiting for a step. */
START_TEST(what_is_due_when_a_server_ends_is_due_for_the_next)
{
    define((struct ps_table_settings){.expire_ms = SPAN_MS});
    push(&before, 0, 10);
    table_of(&before)->expiry->due = table_of(&before)->version + 1;
    recover_at(before.fake.now_ms);

    (void)ps_service_sweep(after.service);

    ck_assert_uint_eq(rows_of(&after), 0);
}
END_TEST

/* ---- The texts by themselves ---- */

START_TEST(a_shard_without_such_tables_keeps_nothing)
{
    struct ps_snapshot_ages *ages = NULL;
    define((struct ps_table_settings){0});
    push(&before, 0, 10);

    ck_assert_int_eq(ps_snapshot_ages_reserve(before.service, &ages, NULL), PS_OK);

    ck_assert_ptr_null(ages);
    ps_snapshot_ages_take(before.service, ages);
    ps_snapshot_ages_settle(ages);
    ck_assert_uint_eq(ps_snapshot_ages_of(ages, table_of(&before)->spec).size, 0);
}
END_TEST

/* Many tables, some of which expire, and one only since the room was made. */
START_TEST(each_table_has_its_own_text)
{
    enum { TABLES = 40 };
    const struct ps_table_settings expires = {.expire_ms = SPAN_MS};
    struct ps_snapshot_ages *ages = NULL;
    char name[16];
    for (int i = 0; i < TABLES; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        const struct ps_table_settings settings = {.expire_ms = i % 3 == 0 ? SPAN_MS : 0};
        ck_assert_int_eq(change_define(&before, name, NULL, 0, config(settings), 0), PS_OK);
    }
    (void)ps_service_sweep(before.service);
    ck_assert_int_eq(ps_snapshot_ages_reserve(before.service, &ages, NULL), PS_OK);
    ck_assert_int_eq(change_configure_to(&before, "t1", config(expires), 1), PS_OK);
    ps_snapshot_ages_take(before.service, ages);
    ps_snapshot_ages_settle(ages);

    int said = 0;
    for (int i = 0; i < TABLES; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        const struct ps_parameter *parameter =
            ps_parameter_table_find(&before.service->table, text(name));
        struct ps_bytes age = ps_snapshot_ages_of(ages, parameter->spec);
        said += age.size > 0;
        ck_assert(age.size == 0 || i % 3 == 0 || i == 1);
        ck_assert(age.size == 0 || memcmp(age.data, "time 0 0", age.size) == 0);
    }
    ck_assert_int_ge(said, TABLES / 3);
    ps_snapshot_ages_release(ages);
}
END_TEST

/* What the text will need at most, whatever becomes of the table; it fits into a header before a
 * row comes, and when a table is configured. */
START_TEST(the_measure_of_a_header_counts_the_longest_text)
{
    static const struct ps_table_settings both = {
        .expire_ms = SPAN_MS, .expire_clocks = 4, .clocks = "c"};
    char widest[PS_ROW_AGES_TEXT_BYTES];
    define((struct ps_table_settings){0});
    uint64_t without = table_of(&before)->spec->header_bytes;
    ck_assert_uint_gt(without, 0);

    ck_assert_int_eq(change_configure_to(&before, "t", config(both), 1), PS_OK);

    uint64_t with = table_of(&before)->spec->header_bytes;
    ck_assert_uint_ge(with - without, ps_row_ages_text_widest(&both, widest));
    ck_assert_uint_lt(with - without, 2 * ps_row_ages_text_widest(&both, widest));
}
END_TEST

/* The file is as good as without: the text says nothing that cannot be done without. */
START_TEST(of_ages_in_another_form_nothing_is_known)
{
    static const char *const texts[] = {"time 5", "time 9000 1 5 3", "due 1 time 9000 1 reads 7"};
    struct ps_snapshot snapshot;
    struct ps_checkpoint_place place;
    push_old_and_young();
    ck_assert_int_eq(ps_snapshot_take(before.service, &snapshot, NULL), PS_OK);
    for (size_t i = 0; i < snapshot.parameter_count; i++)
        if (snapshot.parameters[i].is_table)
            snapshot.parameters[i].ages = text(texts[_i]);
    ck_assert_int_eq(ps_checkpoint_write(memory_files_files(disk), DISK_FOLDER, &snapshot.facts,
                                         snapshot.parameters, snapshot.parameter_count,
                                         &before.memory, &place, NULL),
                     PS_OK);
    ps_snapshot_release(&snapshot);

    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_OK);

    const struct ps_row_expiry *known = table_of(&after)->expiry;
    ck_assert_uint_eq(known->due, 0);
    ck_assert_uint_eq(known->by_time.count, 0);
    ck_assert_uint_eq(known->by_clock.count, 0);
}
END_TEST

START_TEST(a_refused_allocation_leaves_no_snapshot)
{
    struct ps_snapshot snapshot;
    enum ps_status status = PS_ERR_NO_MEMORY;
    push_old_and_young();
    for (int64_t refused = 0; status != PS_OK; refused++) {
        ck_assert_int_lt(refused, 1000);
        before.heap.refuse_at = before.heap.seen + refused;
        status = ps_snapshot_take(before.service, &snapshot, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    }
    before.heap.refuse_at = -1;
    ps_snapshot_release(&snapshot);
    ps_service_check(before.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("snapshot_ages");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, rows_go_when_they_are_of_age_in_both_lives_together);
    tcase_add_test(tests, a_clock_that_begins_anew_makes_no_row_older_or_younger);
    tcase_add_test(tests, a_long_time_without_a_server_lets_no_row_go_that_was_not_almost_of_age);
    tcase_add_test(tests, rows_that_are_pushed_to_behind_the_checkpoint_are_young);
    tcase_add_test(tests, clocks_go_on_from_where_they_were);
    tcase_add_test(tests, ages_by_other_clocks_are_forgotten);
    tcase_add_test(tests, what_is_due_when_a_server_ends_is_due_for_the_next);
    tcase_add_test(tests, a_shard_without_such_tables_keeps_nothing);
    tcase_add_test(tests, each_table_has_its_own_text);
    tcase_add_test(tests, the_measure_of_a_header_counts_the_longest_text);
    tcase_add_loop_test(tests, of_ages_in_another_form_nothing_is_known, 0, 3);
    tcase_add_test(tests, a_refused_allocation_leaves_no_snapshot);
    return run_tests("snapshot_ages", tests);
}
