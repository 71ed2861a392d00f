/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_candidates.c: keys that were counted come back with their counts, and a
 * file whose candidates are of other parameters is not loaded. */
#include "checkpoint/journal.h"
#include "core_disk.h"
#include "core_table.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"
#include "server/core/tables/row_table.h"

#include <string.h>

static struct memory_files *disk;
static struct core_world before;
static struct core_world after;

static void begin_test(void)
{
    disk = memory_files_create(1);
    world_init_ready(&before);
    disk_world_init(&after, 2);
    ck_assert_int_eq(
        table_define(&before, table_config("adagrad", (struct ps_table_settings){.admission = 3}),
                     0),
        PS_OK);
}

static void end_test(void)
{
    world_fini(&before);
    world_fini(&after);
    memory_files_destroy(disk);
}

static void expect_same_table(void)
{
    const struct ps_parameter *one = table_of(&before), *other = table_of(&after);
    ps_service_check(after.service);
    ck_assert_uint_eq(one->version, other->version);
    ck_assert_uint_eq(ps_row_table_digest(one->rows), ps_row_table_digest(other->rows));
    ck_assert_uint_eq(before.service->row_room.candidates, after.service->row_room.candidates);
}

START_TEST(counts_come_back_and_go_on)
{
    struct ps_recovered loaded;
    ck_assert_int_eq(table_push(&before, 0, 500, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&before, 250, 500, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&before, 400, 50, 1, 0), PS_OK);
    ck_assert_uint_eq(before.service->row_room.rows, 50);
    ck_assert_uint_eq(before.service->row_room.candidates, 700);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_OK);
    expect_same_table();
    /* Key 300 has two pushes, and a row with the next one; key 100 has one. */
    ck_assert_int_eq(table_push(&before, 100, 300, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&after, 100, 300, 1, 0), PS_OK);
    expect_same_table();
    ck_assert_float_eq(table_value(&after, 100), 0);
    ck_assert_float_ne(table_value(&after, 300), 0);
}
END_TEST

/* More than one record has, so that a table has several. */
START_TEST(many_candidates_come_back)
{
    struct ps_recovered loaded;
    for (uint64_t i = 0; i < 150; i++)
        ck_assert_int_eq(table_push(&before, 500 * i, 500, 1, 0), PS_OK);
    ck_assert_uint_eq(before.service->row_room.candidates, 75000);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load(&after, disk, NULL, &loaded), PS_OK);
    expect_same_table();
}
END_TEST

static struct ps_record given;

static void give(void *self, size_t i, struct ps_record *record)
{
    ck_assert_ptr_null(self);
    ck_assert_uint_eq(i, 0);
    *record = given;
}

/* A file with this record in the place of its own. */
static enum ps_status load_with(const char *name, uint64_t version, struct ps_bytes *content)
{
    struct ps_snapshot snapshot;
    struct ps_checkpoint_place place;
    struct ps_recovered loaded;
    given = (struct ps_record){.type = PS_RECORD_CANDIDATES,
                               .name = text(name),
                               .version = version,
                               .content = ps_view_of(content)};
    ck_assert_int_eq(ps_snapshot_take(before.service, &snapshot, NULL), PS_OK);
    snapshot.facts.sections[PS_CHECKPOINT_CANDIDATES] =
        (struct ps_checkpoint_records){1, give, NULL};
    ck_assert_int_eq(ps_checkpoint_write(memory_files_files(disk), DISK_FOLDER, &snapshot.facts,
                                         snapshot.parameters, snapshot.parameter_count,
                                         ps_allocator_heap(), &place, NULL),
                     PS_OK);
    ps_snapshot_release(&snapshot);
    return disk_load(&after, disk, NULL, &loaded);
}

START_TEST(a_record_that_does_not_fit_is_damage)
{
    static const uint8_t one[16] = {9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1};
    static const uint8_t none[16] = {9};
    static const struct {
        const char *name;
        uint64_t version;
        struct ps_bytes content;
        enum ps_status status;
    } cases[] = {
        {"t", 1, {one, 16}, PS_OK},
        /* A parameter that is no table, none at all, another version, half of one, no push. */
        {"w", 0, {one, 16}, PS_ERR_CORRUPT},
        {"x", 1, {one, 16}, PS_ERR_CORRUPT},
        {"t", 2, {one, 16}, PS_ERR_CORRUPT},
        {"t", 1, {one, 12}, PS_ERR_CORRUPT},
        {"t", 1, {none, 16}, PS_ERR_CORRUPT},
    };
    struct ps_bytes content = cases[_i].content;
    ck_assert_int_eq(table_push(&before, 0, 5, 1, 0), PS_OK);
    ck_assert_int_eq(load_with(cases[_i].name, cases[_i].version, &content), cases[_i].status);
    ck_assert_uint_eq(after.service->row_room.candidates, cases[_i].status == PS_OK ? 1 : 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_candidates");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, counts_come_back_and_go_on);
    tcase_add_test(tests, many_candidates_come_back);
    tcase_add_loop_test(tests, a_record_that_does_not_fit_is_damage, 0, 6);
    return run_tests("recovery_candidates", tests);
}
