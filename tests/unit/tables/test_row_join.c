/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_join.c: the pushes of several workers as one. */
#include "server/core/tables/row_join.h"

#include "tests/unit/tables/row_model.h"

#include "server/core/tables/row_push_parts.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 3, WIDTH = 2 };

static struct row_model model;
static struct ps_row_part parts[PARTS_MAX];

static void open(void)
{
    row_model_open(&model, PS_RULE_SGD, PS_F32, WIDTH, 3000);
    memset(parts, 0, sizeof parts);
}

static void close(void)
{
    for (size_t i = 0; i < PARTS_MAX; i++)
        free((void *)(uintptr_t)parts[i].content.data);
    row_model_close(&model);
}

/* What a worker's push would be kept as. */
static void keep(size_t i, const void *content, size_t size, double weight)
{
    const struct ps_bytes bytes = {content, size};
    struct ps_row_push *push;
    ck_assert_int_eq(ps_row_push_read(model.table, ps_view_of(&bytes), &push, NULL), PS_OK);
    size_t kept = ps_row_push_rows(push) * (8 + model.row_bytes);
    uint8_t *to = malloc(kept + 1);
    ps_row_push_keep(push, to);
    ps_row_push_release(push);
    parts[i] = (struct ps_row_part){{to, kept}, weight};
}

static struct ps_row_push *join(uint32_t count, bool divides)
{
    struct ps_row_push *push = NULL;
    ck_assert_int_eq(ps_row_push_join(model.table, parts, count, divides, true, &push, NULL),
                     PS_OK);
    return push;
}

/* The first element that the push has for a key. */
static float joined(const struct ps_row_push *push, uint64_t key)
{
    float row[WIDTH];
    for (uint32_t i = 0; i < push->unique; i++) {
        if (push->keys[i] != key)
            continue;
        memcpy(row, push->gradients + i * sizeof row, sizeof row);
        return row[0];
    }
    ck_abort_msg("no key %llu", (unsigned long long)key);
}

struct pushed {
    uint64_t keys[2];
    float gradients[2][WIDTH];
};

START_TEST(what_is_kept_is_a_push_of_the_same)
{
    static const struct {
        uint64_t keys[3];
        float gradients[3][WIDTH];
    } pushed = {{9, 7, 9}, {{1, 2}, {4, 8}, {16, 32}}};
    keep(0, &pushed, sizeof pushed, 1);
    ck_assert_uint_eq(parts[0].content.size, (size_t)2 * (8 + 8));
    /* Once more, as a checkpoint's is. */
    keep(1, parts[0].content.data, parts[0].content.size, 1);

    ck_assert_mem_eq(parts[1].content.data, parts[0].content.data, parts[0].content.size);
    struct ps_row_push *push = join(1, false);
    ck_assert_float_eq(joined(push, 9), 17);
    ck_assert_float_eq(joined(push, 7), 4);
    ps_row_push_release(push);
}
END_TEST

START_TEST(gradients_of_a_key_are_added_in_the_order_of_the_parts)
{
    /* In another order 1 would be lost. */
    static const struct pushed a = {{7, 8}, {{1e8F, 0}, {1, 0}}};
    static const struct pushed b = {{9, 7}, {{5, 0}, {-1e8F, 0}}};
    static const struct pushed c = {{8, 7}, {{2, 0}, {1, 0}}};
    keep(0, &a, sizeof a, 1);
    keep(1, &b, sizeof b, 1);
    keep(2, &c, sizeof c, 1);

    struct ps_row_push *push = join(3, false);

    ck_assert_uint_eq(ps_row_push_rows(push), 3);
    ck_assert_float_eq(joined(push, 7), 1);
    ck_assert_float_eq(joined(push, 8), 3);
    ck_assert_float_eq(joined(push, 9), 5);
    ps_row_push_release(push);
}
END_TEST

START_TEST(who_lacks_a_key_counts_in_its_average)
{
    static const struct pushed a = {{7, 8}, {{3, 0}, {6, 0}}};
    static const struct pushed b = {{7, 9}, {{3, 0}, {1, 0}}};
    keep(0, &a, sizeof a, 1);
    keep(1, &b, sizeof b, 2);
    keep(2, NULL, 0, 3);

    struct ps_row_push *push = join(3, true);

    ck_assert_float_eq(joined(push, 7), (3.0F + 2.0F * 3.0F) / 6.0F);
    ck_assert_float_eq(joined(push, 8), 1);
    ck_assert_float_eq(joined(push, 9), 2.0F / 6.0F);
    ps_row_push_release(push);
}
END_TEST

START_TEST(assigned_rows_are_the_last_parts_and_not_divided)
{
    static const struct pushed a = {{7, 8}, {{3, 0}, {6, 0}}};
    static const struct pushed b = {{7, 9}, {{4, 0}, {1, 0}}};
    row_model_close(&model);
    row_model_plan(&model, PS_RULE_ASSIGN, PS_F32, WIDTH, 10);
    model.options.repeats = PS_ROW_LAST;
    row_model_begin(&model);
    keep(0, &a, sizeof a, 1);
    keep(1, &b, sizeof b, 1);

    struct ps_row_push *push = join(2, true);

    ck_assert_float_eq(joined(push, 7), 4);
    ck_assert_float_eq(joined(push, 8), 6);
    ck_assert_float_eq(joined(push, 9), 1);
    ps_row_push_release(push);
}
END_TEST

START_TEST(parts_of_nothing_are_a_push_of_nothing)
{
    keep(0, NULL, 0, 1);
    struct ps_row_push *push = join(1, true);
    ck_assert_uint_eq(ps_row_push_rows(push), 0);
    ck_assert_uint_eq(push->begins[PS_ROW_STRIPES], 0);
    ps_row_push_release(push);
}
END_TEST

/* Three random pushes joined, against one push of all their rows: whole numbers, so that no order
 * of a sum makes a difference. */
START_TEST(a_joined_push_makes_the_rows_of_one_push_of_all)
{
    uint32_t ids[PARTS_MAX * 1000];
    uint8_t *contents[PARTS_MAX];
    size_t sizes[PARTS_MAX];
    for (size_t i = 0; i < PARTS_MAX * 1000; i++)
        ids[i] = (uint32_t)ps_random_below(&model.random, model.ids);
    for (size_t i = 0; i < PARTS_MAX; i++) {
        contents[i] = row_model_content(&model, ids + i * 1000, 1000, &sizes[i]);
        float *gradients = (float *)(void *)(contents[i] + 8000);
        for (size_t k = 0; k < (size_t)1000 * WIDTH; k++)
            gradients[k] = (float)ps_random_below(&model.random, 1000);
        keep(i, contents[i], sizes[i], 1);
    }
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_row_push *push = join(PARTS_MAX, false);
    ck_assert_uint_eq(ps_row_push_lacking(push), ps_row_push_rows(push));
    ps_row_push_scan(push, &model.settings, &scan);
    ck_assert_int_eq(ps_optimizer_prepare(&model.settings, PS_F32, 1, 77, &scan, &step, NULL),
                     PS_OK);
    uint64_t before = ps_row_table_bytes(model.table);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);
    ps_row_push_apply(push, &step, 1);
    uint64_t rows = ps_row_push_rows(push);
    ps_row_push_release(push);
    ck_assert_uint_gt(ps_row_table_bytes(model.table), before);
    ck_assert_uint_ge(ps_row_table_bytes_of(model.table, rows), rows * model.row_bytes);

    struct ps_row_table *other;
    ck_assert_int_eq(ps_row_table_create(&model.options, &other, NULL), PS_OK);
    /* All rows in one message: keys first. */
    uint8_t *all = malloc(sizes[0] * PARTS_MAX);
    for (size_t i = 0; i < PARTS_MAX; i++) {
        memcpy(all + i * 8000, contents[i], 8000);
        memcpy(all + (size_t)PARTS_MAX * 8000 + i * (sizes[i] - 8000), contents[i] + 8000,
               sizes[i] - 8000);
        free(contents[i]);
    }
    ck_assert_int_eq(
        row_table_push(other, (struct ps_bytes){all, sizes[0] * PARTS_MAX}, &model.settings, 1),
        PS_OK);
    free(all);

    ck_assert_uint_eq(ps_row_table_rows(other), rows);
    ck_assert_uint_eq(ps_row_table_digest(other), ps_row_table_digest(model.table));
    ps_row_table_check(model.table);
    ps_row_table_destroy(other);
}
END_TEST

START_TEST(the_row_limit_refuses_what_was_not_taken)
{
    static const struct pushed a = {{7, 8}, {{3, 0}, {6, 0}}};
    static const struct pushed b = {{7, 9}, {{4, 0}, {1, 0}}};
    row_model_close(&model);
    row_model_plan(&model, PS_RULE_SGD, PS_F32, WIDTH, 10);
    model.options.settings.rows_max = 2;
    row_model_begin(&model);
    keep(0, &a, sizeof a, 1);
    keep(1, &b, sizeof b, 1);
    struct ps_row_push *push = NULL;

    ck_assert(ps_row_table_has_room(model.table, 2));
    ck_assert(!ps_row_table_has_room(model.table, 3));
    ck_assert_int_eq(ps_row_push_join(model.table, parts, 2, false, false, &push, NULL), PS_OK);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_ERR_TABLE_FULL);
    ps_row_push_release(push);
    push = join(2, false);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);
    ps_row_push_release(push);
}
END_TEST

START_TEST(where_rows_go_for_others_what_was_taken_is_let_in)
{
    uint32_t ids[40];
    size_t size;
    row_model_close(&model);
    row_model_plan(&model, PS_RULE_SGD, PS_F32, WIDTH, 100);
    model.options.settings.rows_max = 32;
    model.options.settings.full = PS_TABLE_OLDEST;
    row_model_begin(&model);
    for (uint32_t i = 0; i < 40; i++)
        ids[i] = i;
    uint8_t *content = row_model_content(&model, ids, 40, &size);
    keep(0, content, size, 1);
    free(content);
    struct ps_row_push *push = NULL;

    ck_assert(ps_row_table_has_room(model.table, 30));
    ck_assert(!ps_row_table_has_room(model.table, 40));
    ck_assert_int_eq(ps_row_push_join(model.table, parts, 1, false, false, &push, NULL), PS_OK);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_ERR_TABLE_FULL);
    ps_row_push_release(push);
    push = join(1, false);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);
    ck_assert_uint_eq(ps_row_push_made(push), 40);
    ps_row_push_release(push);
}
END_TEST

START_TEST(without_memory_nothing_is_joined)
{
    static const struct pushed a = {{7, 8}, {{3, 0}, {6, 0}}};
    keep(0, &a, sizeof a, 1);
    for (int64_t i = 0; i < 2; i++) {
        struct fault_heap heap = {.refuse_at = i};
        const struct ps_allocator refusing = fault_heap_allocator(&heap);
        const struct ps_allocator *memory = model.table->memory;
        struct ps_row_push *push = NULL;
        model.table->memory = &refusing;
        ck_assert_int_eq(ps_row_push_join(model.table, parts, 1, false, true, &push, NULL),
                         PS_ERR_NO_MEMORY);
        model.table->memory = memory;
        ck_assert_ptr_null(push);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_join");
    tcase_add_checked_fixture(tests, open, close);
    tcase_add_test(tests, what_is_kept_is_a_push_of_the_same);
    tcase_add_test(tests, gradients_of_a_key_are_added_in_the_order_of_the_parts);
    tcase_add_test(tests, who_lacks_a_key_counts_in_its_average);
    tcase_add_test(tests, assigned_rows_are_the_last_parts_and_not_divided);
    tcase_add_test(tests, parts_of_nothing_are_a_push_of_nothing);
    tcase_add_test(tests, a_joined_push_makes_the_rows_of_one_push_of_all);
    tcase_add_test(tests, the_row_limit_refuses_what_was_not_taken);
    tcase_add_test(tests, where_rows_go_for_others_what_was_taken_is_let_in);
    tcase_add_test(tests, without_memory_nothing_is_joined);
    return run_tests("row_join", tests);
}
