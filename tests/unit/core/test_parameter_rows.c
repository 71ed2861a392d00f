/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/parameter_rows.c: what a table counts for, and rows that are read. */
#include "core_table.h"
#include "server/core/tables/row_table.h"
#include "server/core/update/update.h"

#include <string.h>

static struct ps_row_room room;
static const uint64_t others = 100;

static void begin_test(void)
{
    room = (struct ps_row_room){.bytes_max = UINT64_MAX, .others = &others};
}

static enum ps_status push(struct ps_parameter *table, uint64_t first, size_t count)
{
    uint8_t content[64 * TABLE_ROW_BYTES];
    uint64_t version;
    memset(content, 0, sizeof content);
    for (uint64_t i = 0; i < count; i++)
        memcpy(content + 8 * i, &(uint64_t){first + i}, 8);
    const struct ps_bytes piece = {content, count * TABLE_ROW_BYTES};
    const struct ps_gradient gradient = {.content = ps_view_of(&piece),
                                         .encoding = PS_ENCODING_ROWS};
    return ps_parameter_push(table, gradient, NULL, &version, NULL);
}

START_TEST(a_table_counts_what_it_takes_and_gives_all_of_it_back)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter *one = table_create(&memory, PS_RULE_SGD, &room);
    struct ps_parameter *two = table_create(&memory, PS_RULE_MOMENTUM, &room);

    for (uint64_t i = 0; i < 100; i++) {
        ck_assert_int_eq(push(one, 64 * i, 64), PS_OK);
        ck_assert_int_eq(push(two, 1000 * i, 7), PS_OK);
        ps_parameter_check(one);
        ck_assert_uint_eq(room.bytes,
                          ps_row_table_bytes(one->rows) + ps_row_table_bytes(two->rows));
        ck_assert_uint_eq(room.rows, 71 * (i + 1));
    }
    ps_parameter_destroy(one);
    ck_assert_uint_eq(room.rows, 700);
    ps_parameter_destroy(two);
    ck_assert_uint_eq(room.rows, 0);
    ck_assert_uint_eq(room.bytes, 0);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(what_is_left_is_less_what_others_and_rows_take)
{
    ck_assert_uint_eq(ps_row_room_left(NULL), UINT64_MAX);
    ck_assert_uint_eq(ps_row_room_left(&room), UINT64_MAX);
    room.bytes_max = 150;
    ck_assert_uint_eq(ps_row_room_left(&room), 50);
    room.bytes = 40;
    ck_assert_uint_eq(ps_row_room_left(&room), 10);
    room.bytes = 60;
    ck_assert_uint_eq(ps_row_room_left(&room), 0);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);

    struct ps_parameter *table = table_create(&memory, PS_RULE_MOMENTUM, &room);

    ck_assert(heap.seen > _i ? table == NULL : table != NULL);
    ps_parameter_destroy(table);
    ck_assert_int_eq(heap.live, 0);
    ck_assert_uint_eq(room.bytes, 0);
}
END_TEST

START_TEST(the_layout_follows_from_the_rule)
{
    struct ps_optimizer_settings settings = {
        .rule = PS_RULE_ADAGRAD, .initial_accumulator = 0.5, .table.width = 5};
    for (int row_wise = 0; row_wise < 2; row_wise++) {
        settings.adagrad_row_wise = row_wise;
        struct ps_parameter_spec *spec = ps_parameter_spec_create(ps_allocator_heap(), text("t"),
                                                                  PS_F64, 5, text(""), &settings);
        const struct ps_row_layout layout = ps_parameter_rows_layout(spec);
        ck_assert_uint_eq(layout.width, 5);
        ck_assert_uint_eq(layout.state_count, 1);
        ck_assert(layout.state_is_one[0] == (row_wise == 1));
        ck_assert(layout.state_start[0] == 0.5);
        ck_assert_uint_eq(ps_parameter_rows_row_bytes(spec), 40);
        ps_parameter_spec_release(spec);
    }
}
END_TEST

START_TEST(bounds_fit_the_shards_where_there_are_several)
{
    const struct ps_table_settings given = {
        .width = 5, .partition = PS_TABLE_GIVEN, .bound_count = 2, .bounds = {10, 20}};
    const struct ps_table_settings range = {
        .width = 5, .partition = PS_TABLE_RANGE, .keys_max = 0, .chunk = 1};

    ck_assert_int_eq(ps_parameter_rows_check_shards(&given, 3, NULL), PS_OK);
    ck_assert_int_eq(ps_parameter_rows_check_shards(&given, 2, NULL), PS_ERR_BAD_INPUT);
    /* A server alone does not know that its clients have others. */
    ck_assert_int_eq(ps_parameter_rows_check_shards(&given, 1, NULL), PS_OK);
    ck_assert_int_eq(ps_parameter_rows_check_shards(&range, 1, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter_rows");
    tcase_add_checked_fixture(tests, begin_test, NULL);
    tcase_add_test(tests, a_table_counts_what_it_takes_and_gives_all_of_it_back);
    tcase_add_test(tests, what_is_left_is_less_what_others_and_rows_take);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing, 0, 8);
    tcase_add_test(tests, the_layout_follows_from_the_rule);
    tcase_add_test(tests, bounds_fit_the_shards_where_there_are_several);
    return run_tests("parameter_rows", tests);
}
