/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_admission.c: keys get their rows with their n-th push, and what is counted
 * until then is kept, bounded and forgotten as rows are. */
#include "tests/support/fault_heap.h"
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>
#include <string.h>

static void plan(struct row_model *model, uint32_t admission, uint32_t ids)
{
    row_model_plan(model, PS_RULE_ADAGRAD, PS_F32, 3, ids);
    model->options.settings.admission = admission;
}

static uint64_t candidates(const struct row_model *model)
{
    return ps_row_table_rows(ps_row_table_candidates(model->table));
}

static void push_one(struct row_model *model, uint32_t id)
{
    row_model_push(model, &id, 1);
}

/* Of the model: ids that were pushed to, and have no row. */
static uint64_t counted(const struct row_model *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->ids; i++)
        count += model->counts[i] > 0;
    return count;
}

static enum ps_status push_ids(struct row_model *model, uint32_t first, uint32_t count)
{
    size_t size;
    uint32_t *ids = calloc(count + 1, sizeof *ids);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = first + i;
    uint8_t *content = row_model_content(model, ids, count, &size);
    struct ps_bytes bytes = {content, size};
    enum ps_status status = row_table_push(model->table, bytes, &model->settings, ++model->version);
    free(content);
    free(ids);
    return status;
}

/* A table of the model's options with what the holds have. */
static struct ps_row_table *loaded_with(struct row_model *model, struct ps_row_hold *rows,
                                        struct ps_row_hold *counts)
{
    struct ps_row_table *loaded = row_model_loaded(model, rows);
    size_t count = ps_row_hold_rows(counts);
    uint32_t *pushes = calloc(count + 1, sizeof *pushes);
    uint64_t *keys = calloc(count + 1, sizeof *keys);
    uint32_t *touched = calloc(count + 1, sizeof *touched);
    ck_assert_int_eq(ps_row_hold_read(counts, 0, 0, pushes, 4 * count, NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_read(counts, 1, 0, keys, 8 * count, NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_read(counts, 2, 0, touched, 4 * count, NULL), PS_OK);
    ck_assert_int_eq(ps_row_table_load_candidates(loaded, keys, pushes, touched, count, NULL),
                     PS_OK);
    free(pushes);
    free(keys);
    free(touched);
    return loaded;
}

static struct ps_row_table *copy_of(struct row_model *model)
{
    struct ps_row_hold *rows;
    struct ps_row_hold *counts;
    ck_assert_int_eq(ps_row_hold_take(model->table, &rows, NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_take(ps_row_table_candidates(model->table), &counts, NULL), PS_OK);
    struct ps_row_table *loaded = loaded_with(model, rows, counts);
    ps_row_hold_release(rows);
    ps_row_hold_release(counts);
    return loaded;
}

START_TEST(the_first_push_makes_a_row_without_admission)
{
    struct row_model model;
    plan(&model, (uint32_t)_i, 10);
    row_model_begin(&model);
    ck_assert_ptr_null(ps_row_table_candidates(model.table));
    push_one(&model, 3);
    row_model_compare(&model);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    row_model_close(&model);
}
END_TEST

/* A key twice in one push counts once: the model's ids come more than once, too. */
START_TEST(a_key_gets_its_row_with_its_nth_push)
{
    static const uint32_t admissions[] = {2, 3, 7};
    static const size_t counts[] = {1, 0, 40, 300, 64, 2000, 33, 1000, 2, 700, 700, 700};
    struct row_model model;
    plan(&model, admissions[_i], 900);
    row_model_begin(&model);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        row_model_push_random(&model, counts[i], i % 2 == 0 ? 900 : 300);
        row_model_compare(&model);
        ck_assert_uint_eq(candidates(&model), counted(&model));
    }
    ck_assert_uint_gt(ps_row_table_rows(model.table), 10);
    row_model_close(&model);
}
END_TEST

START_TEST(who_was_pushed_to_longest_ago_goes_and_begins_anew)
{
    struct row_model model;
    plan(&model, 3, 10);
    model.options.settings.candidates_max = 4;
    row_model_begin(&model);
    for (uint32_t id = 0; id < 4; id++)
        push_one(&model, id);
    push_one(&model, 0);
    ck_assert_uint_eq(candidates(&model), 4);

    /* The oldest is id 1 now: its count goes for that of id 4, here and in the model. */
    push_one(&model, 4);
    model.counts[1] = 0;
    ck_assert_uint_eq(candidates(&model), 4);
    push_one(&model, 0);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    push_one(&model, 1);
    push_one(&model, 1);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    push_one(&model, 1);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 2);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

START_TEST(a_push_of_more_new_keys_than_are_counted_is_taken)
{
    static const uint64_t bounds[] = {1, 15, 700, 5000};
    struct row_model model;
    plan(&model, 2, 60000);
    model.options.settings.candidates_max = bounds[_i];
    row_model_begin(&model);
    ck_assert_int_eq(push_ids(&model, 0, 20000), PS_OK);
    uint64_t first = candidates(&model);
    ck_assert_uint_le(first, bounds[_i]);
    ck_assert_uint_ge(first, bounds[_i] - bounds[_i] / 8);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 0);

    /* The same again: those that were counted are the first of this push, too, and become rows. */
    ck_assert_int_eq(push_ids(&model, 0, 20000), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(model.table), first);
    ck_assert_uint_eq(candidates(&model), 0);
    for (uint32_t i = 0; i < 40; i++) {
        ck_assert_int_eq(push_ids(&model, 20000 + 1000 * i, 1000), PS_OK);
        ck_assert_uint_le(candidates(&model), bounds[_i]);
        ps_row_table_check(model.table);
    }
    ck_assert_uint_eq(ps_row_table_rows(model.table), first);
    row_model_close(&model);
}
END_TEST

/* Rows and candidates go for others, and by age, while a copy is fed with the same: whatever is
 * decided is decided alike. */
START_TEST(a_loaded_table_decides_alike)
{
    struct row_model model;
    plan(&model, 2 + (uint32_t)_i, 20000);
    model.options.settings.candidates_max = 3000;
    model.options.settings.rows_max = 2500;
    model.options.settings.full = PS_TABLE_OLDEST;
    row_model_begin(&model);
    struct ps_random random;
    ps_random_init(&random, 3);
    struct ps_row_table *copy = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t first = (uint32_t)ps_random_below(&random, 9000);
        uint32_t count = (uint32_t)ps_random_below(&random, 900);
        struct ps_random again = model.random;
        ck_assert_int_eq(push_ids(&model, first, count), PS_OK);
        most = candidates(&model) > most ? candidates(&model) : most;
        if (copy != NULL) {
            struct row_model other = model;
            other.table = copy;
            other.random = again;
            other.version--;
            ck_assert_int_eq(push_ids(&other, first, count), PS_OK);
        }
        if (i % 5 == 4 && i > 20) {
            ck_assert_uint_eq(ps_row_table_sweep(model.table, i - 9, model.version + 1),
                              ps_row_table_sweep(copy, i - 9, model.version + 1));
        }
        if (copy != NULL)
            ck_assert_uint_eq(ps_row_table_digest(copy), ps_row_table_digest(model.table));
        if (i % 13 != 12)
            continue;
        ps_row_table_destroy(copy);
        copy = copy_of(&model);
        ps_row_table_check(copy);
    }
    ck_assert_uint_gt(most, 2000);
    ps_row_table_destroy(copy);
    row_model_close(&model);
}
END_TEST

START_TEST(the_digest_sees_what_is_counted)
{
    struct row_model model;
    plan(&model, 3, 10);
    row_model_begin(&model);
    uint64_t empty = ps_row_table_digest(model.table);
    push_one(&model, 1);
    uint64_t one = ps_row_table_digest(model.table);
    push_one(&model, 1);
    ck_assert_uint_ne(empty, one);
    ck_assert_uint_ne(one, ps_row_table_digest(model.table));
    row_model_close(&model);
}
END_TEST

START_TEST(a_hold_of_candidates_stays_what_it_was)
{
    struct row_model model;
    struct ps_row_hold *rows;
    struct ps_row_hold *counts;
    plan(&model, 3, 4000);
    row_model_begin(&model);
    row_model_push_random(&model, 2500, 4000);
    row_model_push_random(&model, 2500, 4000);
    row_model_push_random(&model, 2500, 4000);
    uint64_t digest = ps_row_table_digest(model.table);
    ps_row_hold_expect(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &rows, NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_take(ps_row_table_candidates(model.table), &counts, NULL), PS_OK);
    for (int i = 0; i < 4; i++)
        row_model_push_random(&model, 2500, 4000);
    ps_row_table_sweep(model.table, model.version, model.version + 1);

    struct ps_row_table *loaded = loaded_with(&model, rows, counts);
    ck_assert_uint_eq(ps_row_table_digest(loaded), digest);
    ps_row_table_destroy(loaded);
    ps_row_hold_release(rows);
    /* The candidates of a table that went are there for as long as they are held. */
    row_model_close(&model);
    ck_assert_uint_gt(ps_row_hold_rows(counts), 0);
    ps_row_hold_release(counts);
}
END_TEST

START_TEST(a_sweep_forgets_what_was_counted_before)
{
    struct row_model model;
    plan(&model, 2, 10);
    row_model_begin(&model);
    push_one(&model, 1);
    push_one(&model, 2);
    /* No row goes; id 1 was pushed to before version 2. */
    ck_assert_uint_eq(ps_row_table_sweep(model.table, 2, 3), 0);
    ck_assert_uint_eq(candidates(&model), 1);
    model.counts[1] = 0;
    push_one(&model, 1);
    push_one(&model, 2);
    row_model_compare(&model);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    row_model_close(&model);
}
END_TEST

/* A walk goes over the rows, and then over what is counted: both are old here, but for id 3. */
START_TEST(counted_keys_are_found_behind_the_rows)
{
    struct row_model model;
    struct ps_row_found found;
    struct ps_row_walk walk = {.before = 5};
    uint32_t rows = 0, counted_keys = 0;
    plan(&model, 2, 10);
    row_model_begin(&model);
    push_one(&model, 1);
    push_one(&model, 1);
    push_one(&model, 2);
    push_one(&model, 3);
    push_one(&model, 3);
    for (bool is_more = true; is_more;) {
        is_more = ps_row_table_look(model.table, &walk, model.version, &found);
        const struct ps_row_removal removal = {found.keys, found.count, found.counts, 5};
        rows += found.counts ? 0 : found.count;
        counted_keys += found.counts ? found.count : 0;
        ck_assert_uint_eq(ps_row_table_remove(model.table, &removal, model.version),
                          found.counts ? 0 : found.count);
    }
    ck_assert(rows == 1 && counted_keys == 1);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    ck_assert_uint_eq(candidates(&model), 0);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(a_row_that_goes_is_counted_anew)
{
    struct row_model model;
    plan(&model, 2, 10);
    row_model_begin(&model);
    push_one(&model, 1);
    push_one(&model, 1);
    ck_assert_uint_eq(ps_row_table_sweep(model.table, 3, 3), 1);
    push_one(&model, 1);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 0);
    ck_assert_uint_eq(candidates(&model), 1);
    push_one(&model, 1);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 1);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(a_push_that_is_refused_counts_nothing)
{
    struct row_model model;
    plan(&model, 2, 100);
    model.options.settings.rows_max = 5;
    row_model_begin(&model);
    ck_assert_int_eq(push_ids(&model, 0, 20), PS_OK);
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(push_ids(&model, 10, 20), PS_ERR_TABLE_FULL);
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    ck_assert_int_eq(push_ids(&model, 15, 5), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 5);
    ck_assert_uint_eq(candidates(&model), 15);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(a_lower_bound_shows_with_the_next_push)
{
    struct row_model model;
    plan(&model, 2, 1000);
    row_model_begin(&model);
    ck_assert_int_eq(push_ids(&model, 0, 500), PS_OK);
    struct ps_table_settings settings = model.options.settings;
    settings.candidates_max = 100;
    ck_assert_int_eq(ps_row_table_configure(model.table, &settings, NULL), PS_OK);
    ck_assert_uint_eq(candidates(&model), 500);
    ck_assert_int_eq(push_ids(&model, 600, 10), PS_OK);
    ck_assert_uint_le(candidates(&model), 100);
    /* The newest are there. */
    ck_assert_int_eq(push_ids(&model, 600, 10), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 10);
    row_model_close(&model);
}
END_TEST

START_TEST(memory_that_is_not_left_refuses_the_push)
{
    struct row_model model;
    struct ps_row_push *push;
    plan(&model, 2, 1000);
    row_model_begin(&model);
    uint32_t ids[1000];
    for (uint32_t i = 0; i < 1000; i++)
        ids[i] = i;
    size_t size;
    uint8_t *content = row_model_content(&model, ids, 1000, &size);
    struct ps_bytes bytes = {content, size};
    uint64_t before = ps_row_table_bytes(model.table);
    ck_assert_int_eq(ps_row_push_read(model.table, ps_view_of(&bytes), &push, NULL), PS_OK);
    ck_assert_int_eq(ps_row_push_prepare(push, 1000, NULL), PS_ERR_TABLE_FULL);
    ck_assert_uint_le(ps_row_table_bytes(model.table), before + 1000);
    ps_row_push_release(push);
    ck_assert_uint_eq(candidates(&model), 0);
    free(content);
    row_model_close(&model);
}
END_TEST

START_TEST(a_refused_allocation_counts_nothing)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct row_model model;
    plan(&model, 2, 3000);
    model.options.memory = &memory;
    model.options.settings.candidates_max = 1500;
    row_model_begin(&model);
    ck_assert_int_eq(push_ids(&model, 0, 1400), PS_OK);
    uint64_t digest = ps_row_table_digest(model.table);
    enum ps_status status = PS_ERR_NO_MEMORY;
    int refused = 0;
    /* Rows come, candidates come, and candidates go for them. */
    for (; status != PS_OK; refused++) {
        heap.seen = 0;
        heap.refuse_at = refused;
        status = push_ids(&model, 700, 1400);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        if (status != PS_OK)
            ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
        ps_row_table_check(model.table);
    }
    heap.refuse_at = -1;
    ck_assert_int_gt(refused, 6);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 700);
    row_model_close(&model);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(a_table_that_cannot_have_candidates_is_not_made)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct row_model model;
    struct ps_row_table *table;
    plan(&model, 2, 1);
    row_model_begin(&model);
    model.options.memory = &memory;
    /* A table and its candidates are the same allocations each. */
    ck_assert_int_eq(ps_row_table_create(&model.options, &table, NULL), PS_OK);
    ps_row_table_destroy(table);
    for (heap.refuse_at = heap.seen - 1; heap.refuse_at >= 0; heap.refuse_at--) {
        heap.seen = 0;
        ck_assert_int_eq(ps_row_table_create(&model.options, &table, NULL), PS_ERR_NO_MEMORY);
        ck_assert_int_eq(heap.live, 0);
    }
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_admission");
    tcase_add_loop_test(tests, the_first_push_makes_a_row_without_admission, 0, 2);
    tcase_add_loop_test(tests, a_key_gets_its_row_with_its_nth_push, 0, 3);
    tcase_add_test(tests, who_was_pushed_to_longest_ago_goes_and_begins_anew);
    tcase_add_loop_test(tests, a_push_of_more_new_keys_than_are_counted_is_taken, 0, 4);
    tcase_add_loop_test(tests, a_loaded_table_decides_alike, 0, 3);
    tcase_add_test(tests, the_digest_sees_what_is_counted);
    tcase_add_test(tests, a_hold_of_candidates_stays_what_it_was);
    tcase_add_test(tests, a_sweep_forgets_what_was_counted_before);
    tcase_add_test(tests, counted_keys_are_found_behind_the_rows);
    tcase_add_test(tests, a_row_that_goes_is_counted_anew);
    tcase_add_test(tests, a_push_that_is_refused_counts_nothing);
    tcase_add_test(tests, a_lower_bound_shows_with_the_next_push);
    tcase_add_test(tests, memory_that_is_not_left_refuses_the_push);
    tcase_add_test(tests, a_refused_allocation_counts_nothing);
    tcase_add_test(tests, a_table_that_cannot_have_candidates_is_not_made);
    return run_tests("row_admission", tests);
}
