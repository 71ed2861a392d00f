/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/update_rows.c: a push to a table is a push: once, whole, or not at all. */
#include "core_table.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"
#include "server/core/tables/row_table.h"

#include <math.h>
#include <string.h>

static struct core_world world;

static void begin_test(void)
{
    world_init_ready(&world);
}

static void end_test(void)
{
    ps_service_check(world.service);
    world_fini(&world);
}

START_TEST(a_row_is_stepped_with_each_push_that_names_it)
{
    const struct ps_table_settings settings = {.init = PS_TABLE_CONSTANT, .low = 8};
    ck_assert_int_eq(table_define(&world, table_config("sgd", settings), 1), PS_OK);
    ck_assert(table_value(&world, 5) == 8);
    ck_assert_int_eq(table_push(&world, 5, 2, 1, 2), PS_OK);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_int_eq(table_push(&world, 6, 2, 2, 3), PS_OK);
    ck_assert(table_value(&world, 5) == 7);
    ck_assert(table_value(&world, 6) == 5);
    ck_assert(table_value(&world, 7) == 6);
    ck_assert(table_value(&world, 8) == 8);
    /* A repeat is answered as it was, and applied once. */
    ck_assert_int_eq(table_push(&world, 5, 2, 1, 2), PS_OK);
    ck_assert(world.reply.duplicate);
    ck_assert(table_value(&world, 5) == 7);
    /* No rows at all are a version. */
    ck_assert_int_eq(table_push(&world, 0, 0, 0, 4), PS_OK);
    ck_assert_uint_eq(world.reply.version, 3);
    ck_assert_uint_eq(ps_row_table_rows(table_of(&world)->rows), 3);
}
END_TEST

/* Whatever refuses a push, rows, versions and what is counted are as they were. */
START_TEST(a_push_that_is_refused_changes_nothing)
{
    const struct ps_table_settings settings = {.rows_max = 8};
    ck_assert_int_eq(table_define(&world, table_config("sgd", settings), 0), PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 8, 1, 0), PS_OK);
    uint64_t digest = ps_row_table_digest(table_of(&world)->rows);

    ck_assert_int_eq(table_push(&world, 7, 2, 1, 1), PS_ERR_TABLE_FULL);
    ck_assert_int_eq(table_push(&world, 0, 2, NAN, 1), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(table_of(&world)->version, 1);
    ck_assert_uint_eq(ps_row_table_digest(table_of(&world)->rows), digest);
    /* The id of what was refused is free. */
    ck_assert_int_eq(table_push(&world, 0, 1, 1, 1), PS_OK);
    ck_assert(!world.reply.duplicate);
}
END_TEST

START_TEST(memory_that_is_refused_refuses_the_push)
{
    ck_assert_int_eq(table_define(&world, table_config("adam", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 3, 1, 0), PS_OK);
    uint64_t digest = ps_row_table_digest(table_of(&world)->rows);
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int64_t i = 0; status == PS_ERR_NO_MEMORY; i++) {
        ck_assert_uint_eq(ps_row_table_digest(table_of(&world)->rows), digest);
        world.heap.refuse_at = world.heap.seen + i;
        status = table_push(&world, 100, 400, 1, 1);
        world.heap.refuse_at = -1;
        ps_service_check(world.service);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(table_of(&world)->rows), 403);
}
END_TEST

START_TEST(the_limit_of_memory_refuses_new_rows_and_no_others)
{
    ck_assert_int_eq(table_define(&world, table_config("sgd", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 1, 1, 0), PS_OK);
    world.service->row_room.bytes_max = ps_service_bytes_counted(world.service);
    enum ps_status status = PS_OK;
    uint64_t key = 1;
    for (; status == PS_OK && key < 100000; key += 100)
        status = table_push(&world, key, 100, 1, 0);
    ck_assert_int_eq(status, PS_ERR_TABLE_FULL);
    ck_assert_int_eq(table_push(&world, 0, 1, 1, 0), PS_OK);
    ck_assert(table_value(&world, 0) == -2);
    ck_assert_uint_le(ps_service_bytes_counted(world.service), world.service->row_room.bytes_max);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("update_rows");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, a_row_is_stepped_with_each_push_that_names_it);
    tcase_add_test(tests, a_push_that_is_refused_changes_nothing);
    tcase_add_test(tests, memory_that_is_refused_refuses_the_push);
    tcase_add_test(tests, the_limit_of_memory_refuses_new_rows_and_no_others);
    return run_tests("update_rows", tests);
}
