/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_stripes.c: keys that were chosen to meet, and numbers that are used
 * again. */
#include "server/core/tables/row_stripes.h"
#include "tests/unit/tables/row_model.h"

#define IDS 3000

/* Keys whose hashes agree in all bits of `mask`. */
static void choose_keys(struct row_model *model, uint64_t mask)
{
    uint64_t seed = row_seed(model->options.id);
    struct ps_random random;
    ps_random_init(&random, 8);
    uint64_t shared = ps_random_next(&random) & mask;
    for (uint32_t i = 0; i < model->ids; i++) {
        uint64_t rest = mask == 0 ? ps_random_next(&random) : 0;
        /* Those bits that may differ count the keys. */
        uint64_t number = i;
        for (int bit = 0; bit < 64; bit++)
            if ((mask >> bit & 1) == 0) {
                rest |= (number & 1) << bit;
                number >>= 1;
            }
        model->keys[i] = row_unhash(shared | rest, seed);
    }
}

START_TEST(keys_that_share_stripe_and_tag_and_line_are_told_apart)
{
    static const uint64_t masks[] = {(uint64_t)0xFF << 56,                    /* one stripe */
                                     (uint64_t)0xFF << 40,                    /* one tag */
                                     (uint64_t)0xFF00FF << 40,                /* both */
                                     ((uint64_t)0xFF00FF << 40) | UINT32_MAX, /* and one line */
                                     (uint64_t)0xFFFFFFFF << 32}; /* all that is sorted by */
    struct row_model model;
    row_model_plan(&model, PS_RULE_ADAGRAD, PS_F32, 2, IDS);
    choose_keys(&model, masks[_i]);
    row_model_begin(&model);
    /* The lowest bits that may differ come first: those of a line leave 16 bits. */
    for (int i = 0; i < 4; i++)
        row_model_push_random(&model, 1000, IDS / 2);
    row_model_compare(&model);
    struct ps_row_hold *hold;
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    uint64_t digest = ps_row_table_digest(model.table);
    row_model_push_random(&model, 1000, IDS);
    row_model_compare(&model);
    struct ps_row_table *loaded = row_model_loaded(&model, hold);
    ck_assert_uint_eq(ps_row_table_digest(loaded), digest);
    ps_row_table_destroy(loaded);
    ps_row_hold_release(hold);
    ck_assert_uint_gt(ps_row_table_sweep(model.table, 5, 5), 0);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(free_numbers_are_given_in_rising_order)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 200, 40);
    choose_keys(&model, (uint64_t)0xFF << 56);
    row_model_begin(&model);
    uint32_t ids[30];
    for (uint32_t i = 0; i < 30; i++)
        ids[i] = i;
    row_model_push(&model, ids, 30);
    uint32_t number = ps_row_stripe_of(ps_row_table_hash(model.table, model.keys[0]));
    struct ps_row_stripe *stripe = &model.table->stripes[number];
    ck_assert_uint_eq(stripe->rows, 30);
    ck_assert_uint_eq(stripe->free_from, 30);
    static const uint32_t gone[] = {17, 3, 29};
    for (size_t i = 0; i < 3; i++) {
        uint64_t key = ps_row_key(ps_row_at(&model.table->shape, stripe, gone[i]));
        ps_row_stripe_remove(model.table, stripe, ps_row_table_hash(model.table, key), gone[i]);
    }
    atomic_fetch_sub(&model.table->rows, 3);
    ck_assert_uint_eq(ps_row_stripe_free(model.table, stripe, stripe->free_from), 3);
    ck_assert_uint_eq(ps_row_stripe_free(model.table, stripe, 4), 17);
    ck_assert_uint_eq(ps_row_stripe_free(model.table, stripe, 18), 29);
    ck_assert_uint_eq(ps_row_stripe_free(model.table, stripe, 30), 30);
    ck_assert_uint_eq(ps_row_stripe_free(model.table, stripe, 300), 300);
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

/* Rows of one stripe up to just before its index is full; then a push that needs no growth. */
START_TEST(an_index_that_is_nearly_full_grows_before_it_must)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 1, 8000);
    choose_keys(&model, (uint64_t)0xFF << 56);
    row_model_begin(&model);
    static uint32_t ids[8000];
    for (uint32_t i = 0; i < 8000; i++)
        ids[i] = i;
    row_model_push(&model, ids, 4000);
    uint32_t number = ps_row_stripe_of(ps_row_table_hash(model.table, model.keys[0]));
    const struct ps_row_stripe *stripe = &model.table->stripes[number];
    uint32_t most = stripe->index.rows_max;
    ps_row_stripes_grow_ahead(model.table, 1000);
    ck_assert_uint_eq(stripe->index.rows_max, most);
    ck_assert_uint_lt(most, 8000);
    row_model_push(&model, ids + 4000, most - 4000 - 10);
    ck_assert_uint_eq(stripe->index.rows_max, most);

    ps_row_stripes_grow_ahead(model.table, 0);
    ck_assert_uint_eq(stripe->index.rows_max, most);
    atomic_store(&model.table->pages.bytes_limit, 0);
    ps_row_stripes_grow_ahead(model.table, 1000);
    ck_assert_uint_eq(stripe->index.rows_max, most);
    atomic_store(&model.table->pages.bytes_limit, UINT64_MAX);
    uint64_t digest = ps_row_table_digest(model.table);
    ps_row_stripes_grow_ahead(model.table, 1000);

    ck_assert_uint_gt(stripe->index.rows_max, most);
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    ps_row_table_check(model.table);
    row_model_compare(&model);
    row_model_close(&model);
}
END_TEST

/* The id of a row that lies in `line`, of those from `first` on; or `end`. */
static uint32_t id_in(const struct row_model *model, const struct ps_row_stripe *stripe,
                      uint32_t line, uint32_t first, uint32_t end)
{
    for (uint32_t id = first; id < end; id++)
        for (uint32_t place = 0; place < PS_ROW_LINE_ROWS; place++) {
            const struct ps_row_line *at = &stripe->index.lines[line];
            uint32_t row = ps_row_line_number(at, place);
            if (at->tags[place] != 0 &&
                ps_row_key(ps_row_at(&model->table->shape, stripe, row)) == model->keys[id])
                return id;
        }
    return end;
}

/* One more row than a line has places, of which the last goes on to the next line; and then all of
 * them go but that one. Lines one after the other, until each has one that went past it: none of
 * them says any more that a search is over. */
START_TEST(a_search_ends_though_a_row_went_past_each_line)
{
    enum { GROUP = PS_ROW_LINE_ROWS + 1, LINES_MAX = 64 };
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, 4, 1 + GROUP * LINES_MAX);
    choose_keys(&model, (uint64_t)0xFF << 56);
    uint64_t stripe_bits = ps_row_hash(model.keys[0], row_seed(model.options.id)) >> 56 << 56;
    row_model_begin(&model);
    row_model_push(&model, (uint32_t[]){0}, 1);
    struct ps_row_stripe *stripe = &model.table->stripes[stripe_bits >> 56];
    uint32_t lines = stripe->index.line_count;
    ck_assert(lines > 1 && lines <= LINES_MAX);
    for (uint32_t line = 0; line < lines; line++) {
        uint32_t ids[GROUP];
        uint64_t keys[GROUP];
        uint32_t first = 1 + line * GROUP, count = 0;
        for (uint32_t i = 0; i < GROUP; i++) {
            ids[i] = first + i;
            uint64_t hash = stripe_bits | (uint64_t)ids[i] << 24;
            while (ps_row_home(&stripe->index, hash) != line)
                hash++;
            model.keys[ids[i]] = row_unhash(hash, row_seed(model.options.id));
        }
        row_model_push(&model, ids, GROUP);
        uint32_t kept = id_in(&model, stripe, (line + 1) % lines, first, first + GROUP);
        ck_assert_uint_lt(kept, first + GROUP);
        for (uint32_t i = 0; i < GROUP; i++)
            if (ids[i] != kept)
                keys[count++] = model.keys[ids[i]];
        const struct ps_row_removal removal = {keys, count, false, model.version + 1};
        ck_assert_uint_eq(ps_row_table_remove(model.table, &removal, model.version + 1), count);
    }
    for (uint32_t line = 0; line < lines; line++)
        ck_assert_uint_gt(stripe->index.lines[line].past, 0);

    for (uint32_t line = 0; line < lines; line++) {
        uint32_t first = 1 + line * GROUP;
        uint32_t found = 0;
        float rows[GROUP][4];
        const struct ps_bytes keys = {(const uint8_t *)&model.keys[first],
                                      GROUP * sizeof model.keys[0]};
        for (uint32_t i = 0; i < GROUP; i++)
            found += ps_row_stripe_find(model.table, stripe, model.keys[first + i],
                                        ps_row_table_hash(model.table, model.keys[first + i])) !=
                     PS_ROW_NONE;
        ck_assert_uint_eq(found, 1);
        ck_assert_int_eq(ps_row_table_get(model.table, ps_view_of(&keys), rows, NULL), PS_OK);
    }
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_stripes");
    tcase_add_loop_test(tests, keys_that_share_stripe_and_tag_and_line_are_told_apart, 0, 5);
    tcase_add_test(tests, an_index_that_is_nearly_full_grows_before_it_must);
    tcase_add_test(tests, a_search_ends_though_a_row_went_past_each_line);
    tcase_add_test(tests, free_numbers_are_given_in_rising_order);
    return run_tests("row_stripes", tests);
}
