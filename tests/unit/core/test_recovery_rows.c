/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_rows.c: a table out of a checkpoint has the rows that it had, and one that
 * is damaged is not loaded. */
#include "core_disk.h"
#include "core_table.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"
#include "server/core/tables/row_table.h"

#include <string.h>

static struct memory_files *disk;
static struct core_world before;
static struct core_world after;
static const float four[] = {1, 2, 3, 4};
static const char *const rules[] = {"sgd", "adagrad", "adam", "row_wise"};

static void begin_test(void)
{
    disk = memory_files_create(1);
    world_init_ready(&before);
    disk_world_init(&after, 2);
}

static void end_test(void)
{
    world_fini(&before);
    world_fini(&after);
    memory_files_destroy(disk);
}

static void expect_same_rows(void)
{
    const struct ps_parameter *one = table_of(&before), *other = table_of(&after);
    ps_service_check(after.service);
    ck_assert_uint_eq(one->version, other->version);
    ck_assert_uint_eq(one->step, other->step);
    ck_assert_uint_eq(ps_row_table_rows(one->rows), ps_row_table_rows(other->rows));
    ck_assert_uint_eq(ps_row_table_digest(one->rows), ps_row_table_digest(other->rows));
}

/* Each rule with no state, one, two, and one for whole rows; no rows, some, and many. */
START_TEST(rows_come_back_with_their_states)
{
    struct ps_recovered loaded;
    const struct ps_bytes config = table_config(
        rules[_i % 4], (struct ps_table_settings){.init = PS_TABLE_UNIFORM, .high = 1});
    ck_assert_int_eq(table_define(&before, config, 0), PS_OK);
    for (uint64_t i = 0; i < (_i < 4 ? 0 : 40); i++)
        ck_assert_int_eq(table_push(&before, 377 * i, 400, 1, 0), PS_OK);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_OK);
    expect_same_rows();
    /* What comes behind gives the same rows, too. */
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(table_push(&before, 100 * i, 300, 2, 0), PS_OK);
        ck_assert_int_eq(table_push(&after, 100 * i, 300, 2, 0), PS_OK);
    }
    expect_same_rows();
    world_expect_f32(&after, "w", four, 4);
}
END_TEST

/* Pushes beside the write are not in the file, whatever pages they meet. */
START_TEST(a_snapshot_is_of_one_moment)
{
    struct ps_snapshot snapshot;
    ck_assert_int_eq(table_define(&before, table_config("adam", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&before, 0, 500, 1, 0), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(before.service, &snapshot, NULL), PS_OK);
    ck_assert_int_eq(table_push(&before, 250, 500, 1, 0), PS_OK);
    const struct ps_checkpoint_parameter *row = &snapshot.parameters[0];
    ck_assert(row->is_table);
    ck_assert_uint_eq(row->rows, 500);
    ck_assert_uint_eq(row->count, 500 * TABLE_WIDTH);
    ck_assert_uint_eq(row->version, 1);
    uint32_t clock[500];
    ck_assert_int_eq(row->source.read(row->source.self, 4, 0, clock, sizeof clock, NULL), PS_OK);
    for (size_t i = 0; i < 500; i++)
        ck_assert_uint_eq(clock[i], 1);
    ps_snapshot_release(&snapshot);
}
END_TEST

START_TEST(a_damaged_file_is_not_loaded_and_leaves_nothing)
{
    struct ps_checkpoint_place place;
    struct ps_recovered loaded;
    ck_assert_int_eq(table_define(&before, table_config("adam", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&before, 0, 500, 1, 0), PS_OK);
    disk_save(&before, disk, &place);
    disk_damage(disk, place.path);
    ck_assert_int_ne(disk_load(&after, disk, NULL, &loaded), PS_OK);
    ck_assert_uint_eq(after.service->row_room.bytes, 0);
    ck_assert_uint_eq(after.service->row_room.rows, 0);
}
END_TEST

/* A file whose states are not of the size that its configuration says: made by somebody. */
START_TEST(states_of_another_size_than_the_rules_are_refused)
{
    struct ps_snapshot snapshot;
    struct ps_checkpoint_place place;
    struct ps_recovered loaded;
    ck_assert_int_eq(
        table_define(&before, table_config("adagrad", (struct ps_table_settings){0}), 0), PS_OK);
    ck_assert_int_eq(table_push(&before, 0, 500, 1, 0), PS_OK);
    ck_assert_int_eq(ps_snapshot_take(before.service, &snapshot, NULL), PS_OK);
    ck_assert(snapshot.parameters[0].is_table);
    snapshot.parameters[0].state_is_one[0] = true;
    ck_assert_int_eq(ps_checkpoint_write(memory_files_files(disk), DISK_FOLDER, &snapshot.facts,
                                         snapshot.parameters, snapshot.parameter_count,
                                         ps_allocator_heap(), &place, NULL),
                     PS_OK);
    ps_snapshot_release(&snapshot);

    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_ERR_CORRUPT);

    ck_assert_uint_eq(after.service->row_room.rows, 0);
}
END_TEST

START_TEST(rows_that_are_more_than_the_limit_are_not_loaded)
{
    struct ps_recovered loaded;
    ck_assert_int_eq(table_define(&before, table_config("adam", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&before, 0, 500, 1, 0), PS_OK);
    disk_save(&before, disk, NULL);
    after.service->bytes_max = 4096;
    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(after.error.text, "memory limit"));
    ck_assert_uint_eq(after.service->row_room.bytes, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_rows");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_loop_test(tests, rows_come_back_with_their_states, 0, 8);
    tcase_add_test(tests, a_snapshot_is_of_one_moment);
    tcase_add_test(tests, a_damaged_file_is_not_loaded_and_leaves_nothing);
    tcase_add_test(tests, states_of_another_size_than_the_rules_are_refused);
    tcase_add_test(tests, rows_that_are_more_than_the_limit_are_not_loaded);
    return run_tests("recovery_rows", tests);
}
