/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_evict.c: the row limit. The rule by which the oldest rows go is written
 * here once more, over plain lists. */
#include "server/core/tables/row_evict.h"
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>
#include <string.h>

#define IDS 30000
#define ROWS_MAX 9000 /* eight groups */

static enum ps_status push_ids(struct row_model *model, uint32_t first, uint32_t count,
                               uint64_t version)
{
    static uint32_t ids[IDS];
    size_t size;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = first + i;
    uint8_t *content = row_model_content(model, ids, count, &size);
    struct ps_bytes bytes = {content, size};
    enum ps_status status = row_table_push(model->table, bytes, &model->settings, version);
    free(content);
    return status;
}

static void open(struct row_model *model, uint64_t rows_max, enum ps_table_full full)
{
    row_model_plan(model, PS_RULE_ADAGRAD, PS_F32, 1, IDS);
    model->options.settings.init = PS_TABLE_ZERO;
    model->options.settings.rows_max = rows_max;
    model->options.settings.full = full;
    row_model_begin(model);
}

START_TEST(a_push_of_more_rows_than_the_limit_is_refused_as_a_whole)
{
    struct row_model model;
    open(&model, 100, PS_TABLE_REFUSE);
    ck_assert_int_eq(push_ids(&model, 0, 100, 1), PS_OK);
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(push_ids(&model, 50, 51, 2), PS_ERR_TABLE_FULL);
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 100);
    /* Rows that there are may always be pushed to. */
    ck_assert_int_eq(push_ids(&model, 50, 50, 2), PS_OK);
    struct ps_table_settings more = model.options.settings;
    more.rows_max = 101;
    ck_assert_int_eq(ps_row_table_configure(model.table, &more, NULL), PS_OK);
    ck_assert_int_eq(push_ids(&model, 50, 51, 3), PS_OK);
    row_model_close(&model);
}
END_TEST

START_TEST(shares_are_within_the_limit)
{
    for (uint64_t most = 1; most < (uint64_t)1 << 40; most = most * 3 + 1) {
        struct ps_row_shares shares = ps_row_shares(most);
        uint64_t sum = 0;
        ck_assert_uint_eq(PS_ROW_STRIPES % shares.groups, 0);
        for (uint32_t i = 0; i < shares.groups; i++) {
            sum += ps_row_share_limit(&shares, i);
            ck_assert_uint_le(ps_row_share_target(&shares, i), ps_row_share_limit(&shares, i));
        }
        ck_assert_uint_le(sum, most);
        ck_assert_uint_ge(sum, most - most / 8);
        ck_assert(shares.groups == 1 || shares.share >= 1024);
    }
}
END_TEST

/* The rows of a group that the push does not step, the first to go at the front. */
struct old {
    uint32_t id;
    uint64_t touched;
    uint64_t key;
};

static int by_age(const void *left, const void *right)
{
    const struct old *one = left;
    const struct old *other = right;
    if (one->touched != other->touched)
        return one->touched < other->touched ? -1 : 1;
    return one->key < other->key ? -1 : 1;
}

static uint32_t group_of(const struct row_model *model, const struct ps_row_shares *shares,
                         uint32_t id)
{
    uint64_t hash = ps_row_table_hash(model->table, model->keys[id]);
    return ps_row_stripe_of(hash) / (PS_ROW_STRIPES / shares->groups);
}

static void forget(struct row_model *model, uint32_t id)
{
    model->there[id] = false;
    memset(model->values + id * model->row_bytes, 0, model->row_bytes);
    memset(model->states[0] + id * model->row_bytes, 0, model->row_bytes);
}

/* What goes of one group before a push of `pushed`. */
static void evict_group(struct row_model *model, const struct ps_row_shares *shares, uint32_t group,
                        const bool *pushed)
{
    static struct old olds[IDS];
    uint64_t rows = 0;
    uint64_t made = 0;
    uint64_t count = 0;
    for (uint32_t id = 0; id < model->ids; id++) {
        if (group_of(model, shares, id) != group)
            continue;
        rows += model->there[id];
        made += pushed[id] && !model->there[id];
        if (model->there[id] && !pushed[id])
            olds[count++] = (struct old){id, model->touched[id], model->keys[id]};
    }
    if (made == 0 || rows + made <= ps_row_share_limit(shares, group))
        return;
    qsort(olds, count, sizeof olds[0], by_age);
    uint64_t gone = rows + made - ps_row_share_target(shares, group);
    for (uint64_t i = 0; i < gone && i < count; i++)
        forget(model, olds[i].id);
}

static void push_and_evict(struct row_model *model, uint32_t count)
{
    static uint32_t ids[IDS];
    static bool pushed[IDS];
    struct ps_row_shares shares = ps_row_shares(model->options.settings.rows_max);
    memset(pushed, 0, sizeof pushed);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)ps_random_below(&model->random, model->ids);
        pushed[ids[i]] = true;
    }
    for (uint32_t i = 0; i < shares.groups; i++)
        evict_group(model, &shares, i, pushed);
    row_model_push(model, ids, count);
}

START_TEST(the_oldest_rows_of_a_group_go)
{
    struct row_model model;
    open(&model, ROWS_MAX, PS_TABLE_OLDEST);
    for (int i = 0; i < 60; i++) {
        push_and_evict(&model, i % 7 == 0 ? 3000 : 500);
        ck_assert_uint_le(ps_row_table_rows(model.table), ROWS_MAX);
        if (i % 10 == 9)
            row_model_compare(&model);
    }
    ck_assert_uint_gt(ps_row_table_rows(model.table), ROWS_MAX * 8 / 10);
    row_model_close(&model);
}
END_TEST

START_TEST(a_small_table_loses_no_more_than_it_must)
{
    struct row_model model;
    open(&model, 10, PS_TABLE_OLDEST);
    for (uint32_t i = 0; i < 30; i++) {
        ck_assert_int_eq(push_ids(&model, i, 1, i + 1), PS_OK);
        ck_assert_uint_eq(ps_row_table_rows(model.table), i < 10 ? i + 1 : 10);
    }
    /* The push's own rows do not fit: nothing goes for it. */
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(push_ids(&model, 100, 11, 31), PS_ERR_TABLE_FULL);
    ck_assert_int_eq(push_ids(&model, 20, 11, 31), PS_ERR_TABLE_FULL);
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    ck_assert_int_eq(push_ids(&model, 21, 10, 31), PS_OK);
    ck_assert_int_eq(push_ids(&model, 100, 10, 32), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(model.table), 10);
    row_model_close(&model);
}
END_TEST

START_TEST(a_loaded_table_lets_the_same_rows_go)
{
    struct row_model model;
    struct ps_row_hold *hold;
    open(&model, ROWS_MAX, PS_TABLE_OLDEST);
    model.version = UINT32_MAX - 5; /* versions begin anew in between */
    for (int i = 0; i < 12; i++)
        push_and_evict(&model, 3000);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    struct ps_row_table *first = model.table;
    model.table = row_model_loaded(&model, hold);
    ps_row_hold_release(hold);
    struct row_model other = model;
    other.table = first;
    for (uint32_t i = 0; i < 20; i++) {
        /* The same push to both: the generator of gradients goes on from one state. */
        other.random = model.random;
        uint32_t begin = (uint32_t)ps_random_below(&model.random, IDS - 1500);
        (void)ps_random_below(&other.random, IDS);
        model.version++;
        ck_assert_int_eq(push_ids(&model, begin, 1500, model.version), PS_OK);
        ck_assert_int_eq(push_ids(&other, begin, 1500, model.version), PS_OK);
        ck_assert_uint_eq(ps_row_table_digest(first), ps_row_table_digest(model.table));
    }
    ps_row_table_check(first);
    ps_row_table_destroy(first);
    row_model_close(&model);
}
END_TEST

START_TEST(a_lower_limit_is_reached_by_the_next_pushes)
{
    struct row_model model;
    open(&model, ROWS_MAX, PS_TABLE_OLDEST);
    for (int i = 0; i < 5; i++)
        push_and_evict(&model, 3000);
    model.options.settings.rows_max = 2500;
    ck_assert_int_eq(ps_row_table_configure(model.table, &model.options.settings, NULL), PS_OK);
    for (int i = 0; i < 5; i++)
        push_and_evict(&model, 500);
    row_model_compare(&model);
    ck_assert_uint_le(ps_row_table_rows(model.table), 2500);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_evict");
    tcase_add_test(tests, a_push_of_more_rows_than_the_limit_is_refused_as_a_whole);
    tcase_add_test(tests, shares_are_within_the_limit);
    tcase_add_test(tests, the_oldest_rows_of_a_group_go);
    tcase_add_test(tests, a_small_table_loses_no_more_than_it_must);
    tcase_add_test(tests, a_loaded_table_lets_the_same_rows_go);
    tcase_add_test(tests, a_lower_limit_is_reached_by_the_next_pushes);
    return run_tests("row_evict", tests);
}
