/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_look_up.c: the same rows as found one by one, and their values where they
 * were asked for. */
#include "server/core/tables/row_look_up.h"
#include "tests/unit/tables/row_model.h"

#define IDS 3000
#define WIDTH 3

static uint64_t hashes[IDS];
static uint8_t *rows[IDS];
static uint32_t numbers[IDS];
static uint32_t order[IDS];
static float copied[IDS * WIDTH];

/* The values in the opposite order of the keys; of a key without a row nothing is written. */
static void check_copies(const struct row_model *model, uint32_t count)
{
    const struct ps_row_copies copies = {.to = (uint8_t *)copied,
                                         .order = order,
                                         .offset = model->table->shape.arrays[0].offset,
                                         .size = sizeof(float) * WIDTH};
    const float unwritten[WIDTH] = {-77, -78, -79};
    for (uint32_t i = 0; i < count; i++) {
        order[i] = count - 1 - i;
        memcpy(copied + (size_t)i * WIDTH, unwritten, sizeof unwritten);
    }
    ps_row_look_up(model->table, hashes, model->keys, count, model->table->shape.stride, rows,
                   numbers, &copies);
    for (uint32_t i = 0; i < count; i++) {
        const void *values = rows[i] != NULL ? rows[i] + copies.offset : (const void *)unwritten;
        ck_assert_mem_eq(copied + (size_t)order[i] * WIDTH, values, copies.size);
    }
}

static void check(struct row_model *model, uint32_t count)
{
    struct ps_row_table *table = model->table;
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = ps_row_table_hash(table, model->keys[i]);
    ps_row_look_up(table, hashes, model->keys, count, table->shape.stride, rows, numbers, NULL);
    for (uint32_t i = 0; i < count; i++) {
        const struct ps_row_stripe *stripe = &table->stripes[ps_row_stripe_of(hashes[i])];
        uint32_t number = ps_row_stripe_find(table, stripe, model->keys[i], hashes[i]);
        ck_assert_uint_eq(numbers[i], number);
        ck_assert_int_eq(number != PS_ROW_NONE, model->there[i]);
        if (number == PS_ROW_NONE)
            ck_assert_ptr_null(rows[i]);
        else
            ck_assert_ptr_eq(rows[i], ps_row_at(&table->shape, stripe, number));
    }
}

static void check_all(struct row_model *model)
{
    for (uint32_t count = 0; count < 40; count++) {
        check(model, count);
        check_copies(model, count);
    }
    check(model, IDS);
    check_copies(model, IDS);
}

START_TEST(rows_are_those_found_one_by_one)
{
    struct row_model model;
    row_model_open(&model, PS_RULE_SGD, PS_F32, WIDTH, IDS);
    check_all(&model);
    row_model_push_random(&model, 1000, IDS);
    check_all(&model);
    row_model_push_random(&model, 5000, IDS);
    check_all(&model);
    row_model_close(&model);
}
END_TEST

/* All of one stripe, one tag and one home line: the quick way is always wrong. */
START_TEST(keys_that_were_chosen_to_meet_are_found)
{
    struct row_model model;
    row_model_plan(&model, PS_RULE_SGD, PS_F32, WIDTH, IDS);
    uint64_t seed = row_seed(model.options.id);
    for (uint64_t i = 0; i < IDS; i++)
        model.keys[i] =
            row_unhash((uint64_t)0x5500AA << 40 | (i >> 8) << 48 | (i & 255) << 32 | 77, seed);
    row_model_begin(&model);
    row_model_push_random(&model, 1000, IDS);
    check_all(&model);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_look_up");
    tcase_add_test(tests, rows_are_those_found_one_by_one);
    tcase_add_test(tests, keys_that_were_chosen_to_meet_are_found);
    return run_tests("row_look_up", tests);
}
