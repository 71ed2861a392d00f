/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_changes.c: an earlier hold, without what went, and with what is found, is
 * the table. */
#include "tests/unit/tables/row_model.h"

#include "server/core/tables/row_changes.h"
#include "server/core/tables/row_hold_parts.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>
#include <string.h>

/* The arrays of a hold, in memory. */
struct rows {
    size_t count;
    size_t each[PS_ROW_ARRAYS_MAX];
    uint8_t *arrays[PS_ROW_ARRAYS_MAX];
};

static void read_rows(struct ps_row_hold *hold, struct rows *rows)
{
    *rows = (struct rows){.count = (size_t)ps_row_hold_rows(hold)};
    for (uint32_t i = 0; i < ps_row_hold_arrays(hold); i++) {
        rows->each[i] = ps_row_hold_row_bytes(hold, i);
        size_t size = rows->count * rows->each[i];
        rows->arrays[i] = malloc(size + 1);
        ck_assert_int_eq(ps_row_hold_read(hold, i, 0, rows->arrays[i], size, NULL), PS_OK);
    }
}

static void free_rows(struct rows *rows)
{
    for (uint32_t i = 0; i < PS_ROW_ARRAYS_MAX; i++)
        free(rows->arrays[i]);
}

static uint64_t key_of(const struct row_model *model, const struct rows *rows, size_t row)
{
    uint64_t key;
    memcpy(&key, rows->arrays[model->options.layout.state_count + 1] + row * 8, sizeof key);
    return key;
}

static void load_row(struct row_model *model, struct ps_row_table *table, const struct rows *rows,
                     size_t row)
{
    const uint8_t *from[PS_ROW_ARRAYS_MAX] = {NULL};
    uint32_t states = model->options.layout.state_count;
    for (uint32_t i = 0; i < states + 3; i++)
        from[i] = rows->arrays[i] + row * rows->each[i];
    const void *states_from[PS_STATES_MAX] = {NULL};
    for (uint32_t i = 0; i < states; i++)
        states_from[i] = from[i + 1];
    uint64_t key = key_of(model, rows, row);
    uint32_t touched;
    memcpy(&touched, from[states + 2], sizeof touched);
    ck_assert_int_eq(ps_row_table_load(table, &key, &touched, from[0], states_from, 1, NULL),
                     PS_OK);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Of base and increment as a reader makes it. */
static uint64_t merged_digest(struct row_model *model, const struct rows *base,
                              const struct rows *newer, const uint64_t *removed, size_t count)
{
    struct ps_row_table *table;
    struct ps_row_table_options options = model->options;
    options.settings.rows_max = 0;
    ck_assert_int_eq(ps_row_table_create(&options, &table, NULL), PS_OK);
    size_t known = count + newer->count;
    uint64_t *gone = malloc((known + 1) * sizeof *gone);
    if (count > 0)
        memcpy(gone, removed, count * sizeof *gone);
    for (size_t i = 0; i < newer->count; i++) {
        gone[count + i] = key_of(model, newer, i);
        load_row(model, table, newer, i);
    }
    qsort(gone, known, sizeof *gone, compare_keys);
    for (size_t i = 0; i < base->count; i++) {
        uint64_t key = key_of(model, base, i);
        if (bsearch(&key, gone, known, sizeof *gone, compare_keys) == NULL)
            load_row(model, table, base, i);
    }
    uint64_t digest = ps_row_table_digest(table);
    free(gone);
    ps_row_table_destroy(table);
    return digest;
}

static void take(struct row_model *model, struct ps_row_hold **hold)
{
    ck_assert_int_eq(ps_row_hold_take(model->table, hold, NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_mark(*hold, NULL), PS_OK);
}

/* One push of random ids, which may let rows go. */
static void push(struct row_model *model, size_t count)
{
    uint32_t *ids = malloc(count * sizeof *ids);
    size_t size;
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)ps_random_below(&model->random, model->ids);
    uint8_t *content = row_model_content(model, ids, count, &size);
    struct ps_bytes bytes = {content, size};
    model->version++;
    ck_assert_int_eq(row_table_push(model->table, bytes, &model->settings, model->version), PS_OK);
    free(content);
    free(ids);
}

/* The table as it is, against the base of version `since`, while pushes go on. Returns how many
 * rows were found. */
static uint64_t expect_merged(struct row_model *model, const struct rows *base,
                              const struct ps_row_mark *mark, uint64_t since)
{
    struct ps_row_hold *hold;
    struct rows newer;
    uint64_t *removed = NULL;
    size_t count = 0;
    uint64_t found = 0;
    uint64_t version = model->version;
    uint64_t rows = ps_row_table_rows(model->table);
    uint64_t digest = ps_row_table_digest(model->table);
    take(model, &hold);
    push(model, 100);
    ck_assert_int_eq(ps_row_marks_between(mark, ps_row_hold_marked(hold), &removed, &count), PS_OK);
    ck_assert_int_eq(ps_row_hold_find_changed(hold, version, since, &found, NULL), PS_OK);
    ck_assert_uint_eq(ps_row_hold_rows(hold), rows);
    push(model, 100);
    ps_row_hold_narrow(hold);
    ck_assert_uint_eq(ps_row_hold_rows(hold), found);
    push(model, 100);
    read_rows(hold, &newer);

    ck_assert_uint_eq(merged_digest(model, base, &newer, removed, count), digest);

    free_rows(&newer);
    ps_release(ps_allocator_heap(), removed);
    ps_row_hold_release(hold);
    return found;
}

/* So few rows that the list of those that went is never given up. */
START_TEST(a_base_and_what_changed_since_are_the_table)
{
    struct row_model model;
    struct ps_row_hold *hold;
    struct rows base;
    /* 0: sweeps alone; 1: a row limit, too; 2: versions that have gone on from 0. */
    row_model_plan(&model, _i == 1 ? PS_RULE_ADAGRAD : PS_RULE_ADAM, PS_F32, 4, 3000);
    model.options.settings.rows_max = _i == 1 ? 1500 : 0;
    model.options.settings.full = PS_TABLE_OLDEST;
    row_model_begin(&model);
    model.version = _i == 2 ? UINT64_C(0xfffffffa) : 0;
    for (int i = 0; i < 4; i++)
        push(&model, 1000);
    take(&model, &hold);
    uint64_t since = model.version;
    struct ps_row_mark *mark = ps_row_hold_take_mark(hold);
    read_rows(hold, &base);
    ps_row_hold_release(hold);

    ck_assert_uint_eq(expect_merged(&model, &base, mark, since), 0);
    for (int round = 0; round < 5; round++) {
        push(&model, 100);
        ck_assert_uint_gt(expect_merged(&model, &base, mark, since), 0);
        if (_i == 1)
            continue;
        /* From the oldest rows on; in the end those that were pushed to behind the base as well. */
        uint64_t before = since - 2 + (uint64_t)round;
        ck_assert_uint_gt(ps_row_table_sweep(model.table, before, model.version + 1), 0);
        (void)expect_merged(&model, &base, mark, since);
    }

    ps_row_mark_destroy(mark);
    free_rows(&base);
    row_model_close(&model);
}
END_TEST

START_TEST(rows_of_the_base_itself_are_not_found)
{
    struct row_model model;
    struct ps_row_hold *hold;
    uint64_t found = 0;
    static const uint32_t ids[] = {1, 2, 3};
    row_model_open(&model, PS_RULE_SGD, PS_F32, 4, 1000);
    row_model_push_random(&model, 500, 1000);
    uint64_t since = model.version;
    row_model_push(&model, ids, 3);
    take(&model, &hold);

    ck_assert_int_eq(ps_row_hold_find_changed(hold, model.version, since, &found, NULL), PS_OK);

    ck_assert_uint_eq(found, 3);
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

/* Of the others there is nothing to keep: nobody reads them. */
START_TEST(beside_a_narrowed_hold_only_its_rows_are_set_aside)
{
    struct row_model model;
    struct ps_row_hold *hold;
    uint64_t found = 0;
    static uint32_t ids[1000];
    for (uint32_t i = 0; i < 1000; i++)
        ids[i] = i;
    row_model_open(&model, PS_RULE_SGD, PS_F32, 4, 1000);
    row_model_push(&model, ids, 1000);
    row_model_push(&model, ids, 10);
    take(&model, &hold);
    ck_assert_int_eq(ps_row_hold_find_changed(hold, 2, 1, &found, NULL), PS_OK);
    ps_row_hold_narrow(hold);
    ck_assert_uint_eq(row_model_due(model.table, &hold->aside), 10);

    row_model_push(&model, ids + 5, 995);

    ck_assert_uint_eq(row_model_due(model.table, &hold->aside), 5);
    ps_row_hold_release(hold);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(without_memory_to_look_the_hold_has_all_of_its_rows)
{
    struct row_model model;
    struct ps_row_hold *hold;
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    uint64_t found = 0;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 4, 1000);
    model.options.memory = &memory;
    row_model_begin(&model);
    row_model_push_random(&model, 500, 1000);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    heap.refuse_at = heap.seen;
    ck_assert_int_eq(ps_row_hold_mark(hold, NULL), PS_ERR_NO_MEMORY);
    ck_assert_ptr_null(ps_row_hold_marked(hold));
    heap.refuse_at = heap.seen;

    ck_assert_int_eq(ps_row_hold_find_changed(hold, model.version, 0, &found, NULL),
                     PS_ERR_NO_MEMORY);

    ck_assert_uint_eq(ps_row_hold_rows(hold), row_model_rows(&model));
    ck_assert_ptr_null(ps_row_hold_take_mark(hold));
    heap.refuse_at = -1;
    ck_assert_int_eq(ps_row_hold_find_changed(hold, model.version, 0, &found, NULL), PS_OK);
    ck_assert_uint_eq(found, row_model_rows(&model));
    ps_row_hold_release(hold);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_changes");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_base_and_what_changed_since_are_the_table, 0, 3);
    tcase_add_test(tests, rows_of_the_base_itself_are_not_found);
    tcase_add_test(tests, beside_a_narrowed_hold_only_its_rows_are_set_aside);
    tcase_add_test(tests, without_memory_to_look_the_hold_has_all_of_its_rows);
    return run_tests("row_changes", tests);
}
