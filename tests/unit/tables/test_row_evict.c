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

/* A journal is replayed by other programs than the one that wrote it: which rows went is in no
 * record, so that these numbers are part of the format. */
START_TEST(limits_and_targets_are_what_they_always_were)
{
    const struct ps_row_shares shares = {.groups = 32, .share = 2560};
    ck_assert_uint_eq(ps_row_share_limit(&shares, 0), 2560);
    ck_assert_uint_eq(ps_row_share_limit(&shares, 1), 2550);
    ck_assert_uint_eq(ps_row_share_limit(&shares, 15), 2410);
    ck_assert_uint_eq(ps_row_share_limit(&shares, 16), 2560);
    ck_assert_uint_eq(ps_row_share_target(&shares, 0), 2400);
    ck_assert_uint_eq(ps_row_share_target(&shares, 15), 2250);
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

/* So many rows of the group go, the oldest first, none of `pushed`. */
static void let_go(struct row_model *model, const struct ps_row_shares *shares, uint32_t group,
                   const bool *pushed, uint64_t gone)
{
    static struct old olds[IDS];
    uint64_t count = 0;
    for (uint32_t id = 0; id < model->ids; id++)
        if (model->there[id] && !pushed[id] && group_of(model, shares, id) == group)
            olds[count++] = (struct old){id, model->touched[id], model->keys[id]};
    qsort(olds, count, sizeof olds[0], by_age);
    for (uint64_t i = 0; i < gone && i < count; i++)
        forget(model, olds[i].id);
}

/* Of one group, beside a push. */
struct group {
    uint64_t rows;
    uint64_t made;
    uint64_t others; /* rows that the push does not step */
};

static uint64_t at_most(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t may_go(const struct ps_row_shares *shares, uint32_t number,
                       const struct group *group)
{
    uint64_t after = group->rows + group->made;
    if (after <= ps_row_share_limit(shares, number))
        return 0;
    return at_most(after - ps_row_share_target(shares, number), group->others);
}

/* What goes before a push of `pushed`: of groups that it takes above their limits; and of one that
 * is above its limit already, or more of them if the table would grow. */
static void evict(struct row_model *model, const bool *pushed)
{
    struct ps_row_shares shares =
        ps_row_shares_above(model->options.settings.rows_max, row_model_rows(model));
    struct group groups[PS_ROW_STRIPES] = {{0}};
    uint64_t made = 0;
    uint64_t gone = 0;
    for (uint32_t id = 0; id < model->ids; id++) {
        struct group *group = &groups[group_of(model, &shares, id)];
        group->rows += model->there[id];
        group->made += pushed[id] && !model->there[id];
        group->others += model->there[id] && !pushed[id];
        made += pushed[id] && !model->there[id];
    }
    uint64_t above[PS_ROW_STRIPES] = {0};
    for (uint32_t i = 0; i < shares.groups && made > 0; i++) {
        uint64_t most = may_go(&shares, i, &groups[i]);
        if (groups[i].rows > ps_row_share_limit(&shares, i)) {
            above[i] = most;
            continue;
        }
        let_go(model, &shares, i, pushed, most);
        gone += most;
    }
    uint64_t left = made + PS_ROW_EVICT_MORE;
    do {
        uint32_t first = 0;
        for (uint32_t i = 0; i < shares.groups; i++)
            first = above[i] > above[first] ? i : first;
        uint64_t going = at_most(above[first], left);
        if (going == 0)
            return;
        let_go(model, &shares, first, pushed, going);
        above[first] = 0;
        gone += going;
        left -= going;
    } while (gone < made);
}

static void push_and_evict(struct row_model *model, uint32_t count)
{
    static uint32_t ids[IDS];
    static bool pushed[IDS];
    memset(pushed, 0, sizeof pushed);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)ps_random_below(&model->random, model->ids);
        pushed[ids[i]] = true;
    }
    evict(model, pushed);
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

/* The table of `model` as one that was loaded has it; the first one is the caller's. */
static struct ps_row_table *load(struct row_model *model)
{
    struct ps_row_hold *hold;
    struct ps_row_table *first = model->table;
    ck_assert_int_eq(ps_row_hold_take(first, &hold, NULL), PS_OK);
    model->table = row_model_loaded(model, hold);
    ps_row_hold_release(hold);
    return first;
}

/* The same push of new and old keys to both tables, and the same rows in them behind it. */
static void push_to_both(struct row_model *model, struct ps_row_table *first, uint32_t count)
{
    struct row_model other = *model;
    other.table = first;
    uint32_t begin = (uint32_t)ps_random_below(&model->random, IDS - count);
    /* The generator of gradients goes on from one state. */
    other.random = model->random;
    model->version++;
    ck_assert_int_eq(push_ids(model, begin, count, model->version), PS_OK);
    ck_assert_int_eq(push_ids(&other, begin, count, model->version), PS_OK);
    ck_assert_uint_eq(ps_row_table_digest(first), ps_row_table_digest(model->table));
}

START_TEST(a_loaded_table_lets_the_same_rows_go)
{
    struct row_model model;
    open(&model, ROWS_MAX, PS_TABLE_OLDEST);
    model.version = UINT32_MAX - 5; /* versions begin anew in between */
    for (int i = 0; i < 12; i++)
        push_and_evict(&model, 3000);
    struct ps_row_table *first = load(&model);
    for (uint32_t i = 0; i < 20; i++)
        push_to_both(&model, first, 1500);
    ps_row_table_check(first);
    ps_row_table_destroy(first);
    row_model_close(&model);
}
END_TEST

static void lower(struct row_model *model, uint64_t rows_max)
{
    model->options.settings.rows_max = rows_max;
    ck_assert_int_eq(ps_row_table_configure(model->table, &model->options.settings, NULL), PS_OK);
}

START_TEST(a_lower_limit_is_reached_by_the_next_pushes)
{
    struct row_model model;
    open(&model, ROWS_MAX, PS_TABLE_OLDEST);
    for (int i = 0; i < 5; i++)
        push_and_evict(&model, 3000);
    lower(&model, 2500);
    uint64_t rows = ps_row_table_rows(model.table);
    uint32_t pushes = 0;
    for (; rows > 2500; pushes++) {
        ck_assert_uint_lt(pushes, 20);
        push_and_evict(&model, 500);
        row_model_compare(&model);
        ck_assert_uint_lt(ps_row_table_rows(model.table), rows);
        rows = ps_row_table_rows(model.table);
    }
    /* One group with each push, and not all of them with the first. */
    ck_assert_uint_gt(pushes, 2);
    for (int i = 0; i < 10; i++) {
        push_and_evict(&model, 500);
        ck_assert_uint_le(ps_row_table_rows(model.table), 2500);
    }
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

/* A push steps all rows of one group, of which there are more than there may be since the limit was
 * lowered, and makes a row in the other one. */
START_TEST(rows_that_there_are_may_be_pushed_to_however_many_they_are)
{
    static uint32_t ids[IDS];
    struct row_model model;
    size_t size;
    uint32_t count = 0;
    const struct ps_row_shares shares = ps_row_shares(2048);
    open(&model, 0, PS_TABLE_REFUSE);
    ck_assert_int_eq(push_ids(&model, 0, IDS / 2, 1), PS_OK);
    model.options.settings.full = PS_TABLE_OLDEST;
    lower(&model, 2048);
    for (uint32_t id = 0; id < IDS / 2; id++)
        if (group_of(&model, &shares, id) == 0)
            ids[count++] = id;
    ck_assert_uint_gt(count, ps_row_share_limit(&shares, 0));
    uint32_t fresh = IDS / 2;
    while (group_of(&model, &shares, fresh) != 1)
        fresh++;
    ids[count++] = fresh;
    uint8_t *content = row_model_content(&model, ids, count, &size);
    struct ps_bytes bytes = {content, size};

    ck_assert_int_eq(row_table_push(model.table, bytes, &model.settings, 2), PS_OK);

    ck_assert_uint_le(ps_row_table_rows(model.table), IDS / 2);
    free(content);
    row_model_close(&model);
}
END_TEST

/* The largest pushes that are let in: what goes for them is more than what one group has. */
START_TEST(a_table_above_its_limit_never_grows)
{
    static const uint64_t limits[] = {1000, 2500, 9000};
    struct row_model model;
    open(&model, 0, PS_TABLE_REFUSE);
    ck_assert_int_eq(push_ids(&model, 0, IDS / 2, 1), PS_OK);
    model.options.settings.full = PS_TABLE_OLDEST;
    lower(&model, limits[_i]);
    model.version = 1;
    uint64_t rows = ps_row_table_rows(model.table);
    while (rows > limits[_i]) {
        /* New ones and old ones. */
        uint32_t count = (uint32_t)limits[_i] * 8 / 10;
        uint32_t begin = (uint32_t)ps_random_below(&model.random, IDS - count);
        ck_assert_int_eq(push_ids(&model, begin, count, ++model.version), PS_OK);
        ck_assert_uint_le(ps_row_table_rows(model.table), rows);
        rows = ps_row_table_rows(model.table);
        ck_assert_uint_lt(model.version, 1000);
    }
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(a_table_that_was_loaded_above_its_limit_lets_the_same_rows_go)
{
    struct row_model model;
    open(&model, 0, PS_TABLE_REFUSE);
    ck_assert_int_eq(push_ids(&model, 0, IDS / 3, 1), PS_OK);
    ck_assert_int_eq(push_ids(&model, IDS / 4, IDS / 3, 2), PS_OK);
    model.options.settings.full = PS_TABLE_OLDEST;
    lower(&model, 3000);
    for (model.version = 2; model.version < 5;)
        ck_assert_int_eq(push_ids(&model, IDS * 2 / 3, 700, ++model.version), PS_OK);
    /* In the midst of it, and once more some pushes later. */
    struct ps_row_table *first = load(&model);
    for (uint32_t i = 0; i < 3; i++)
        push_to_both(&model, first, 300);
    ck_assert_uint_gt(ps_row_table_rows(first), 3000);
    ps_row_table_destroy(first);
    first = load(&model);
    for (uint32_t i = 0; i < 40; i++)
        push_to_both(&model, first, 300);
    ck_assert_uint_le(ps_row_table_rows(first), 3000);
    ps_row_table_check(model.table);
    ps_row_table_destroy(first);
    row_model_close(&model);
}
END_TEST

/* All keys are of one stripe, so that one group has as many rows as one of millions would have. */
START_TEST(no_push_lets_more_rows_go_than_what_it_makes_and_a_constant)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 1, IDS);
    for (uint64_t i = 0; i < IDS; i++)
        model.keys[i] = row_unhash((uint64_t)5 << 56 | i << 20, row_seed(model.options.id));
    row_model_begin(&model);
    ck_assert_int_eq(push_ids(&model, 0, IDS - 100, 1), PS_OK);
    model.options.settings.full = PS_TABLE_OLDEST;
    lower(&model, 1000);
    uint64_t rows = ps_row_table_rows(model.table);
    uint32_t pushes = 0;
    for (; rows > 1000; pushes++) {
        ck_assert_int_eq(push_ids(&model, IDS - 100 + 2 * pushes, 2, 2 + pushes), PS_OK);
        uint64_t now = ps_row_table_rows(model.table);
        ck_assert_uint_le(rows + 2 - now, 2 + PS_ROW_EVICT_MORE);
        rows = now;
        ck_assert_uint_lt(pushes, 10);
    }
    ck_assert_uint_eq(pushes, (IDS - 100 - 1000) / PS_ROW_EVICT_MORE + 1);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(groups_are_finer_only_far_above_the_limit)
{
    for (uint64_t most = 1; most < (uint64_t)1 << 40; most = most * 5 + 1) {
        struct ps_row_shares least = ps_row_shares(most);
        for (uint64_t rows = 0; rows < (uint64_t)1 << 42; rows = rows * 3 + 1) {
            struct ps_row_shares shares = ps_row_shares_above(most, rows);
            ck_assert_uint_ge(shares.groups, least.groups);
            ck_assert_uint_le(shares.share * shares.groups, most);
            if (rows <= 2 * most)
                ck_assert_uint_eq(shares.groups, least.groups);
            /* As many rows as in a group of a table that is full. */
            ck_assert(shares.groups == least.groups || rows / shares.groups >= 2048);
            ck_assert(shares.groups == PS_ROW_STRIPES || rows / shares.groups <= 4 * 2048 ||
                      rows <= 2 * most);
            for (uint32_t i = 0; i < shares.groups; i++)
                ck_assert_uint_le(ps_row_share_target(&shares, i), ps_row_share_limit(&shares, i));
        }
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_evict");
    tcase_add_test(tests, a_push_of_more_rows_than_the_limit_is_refused_as_a_whole);
    tcase_add_test(tests, shares_are_within_the_limit);
    tcase_add_test(tests, limits_and_targets_are_what_they_always_were);
    tcase_add_test(tests, rows_that_there_are_may_be_pushed_to_however_many_they_are);
    tcase_add_test(tests, the_oldest_rows_of_a_group_go);
    tcase_add_test(tests, a_small_table_loses_no_more_than_it_must);
    tcase_add_test(tests, a_loaded_table_lets_the_same_rows_go);
    tcase_add_test(tests, a_lower_limit_is_reached_by_the_next_pushes);
    tcase_add_loop_test(tests, a_table_above_its_limit_never_grows, 0, 3);
    tcase_add_test(tests, a_table_that_was_loaded_above_its_limit_lets_the_same_rows_go);
    tcase_add_test(tests, no_push_lets_more_rows_go_than_what_it_makes_and_a_constant);
    tcase_add_test(tests, groups_are_finer_only_far_above_the_limit);
    return run_tests("row_evict", tests);
}
