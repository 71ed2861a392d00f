/* SPDX-License-Identifier: Apache-2.0 */
/* tools/matrix_factors.c: the gradient is the derivative of the loss. */
#include "run_suite.h"
#include "tools/matrix_factors.h"

#include <check.h>
#include <string.h>

#define RANK 3
#define COUNT 5

/* User 1 and item 1 are different rows; user 1 has rated item 7 twice. */
static struct ps_rating list[COUNT] = {{1, 7, 4}, {2, 7, 2.5f}, {1, 1, 3}, {1, 7, 5}, {3, 9, 1}};
static const struct ps_ratings ratings = {.count = COUNT, .list = list, .mean = 3.1};
static const struct ps_matrix_factors factors = {&ratings, 3.1, RANK};
static const size_t examples[COUNT] = {4, 0, 2, 3, 1};

static void collect(struct ps_row_batch *batch)
{
    struct ps_keyed_model model = ps_matrix_factors_model(&factors);
    ps_row_batch_init(batch, model.width);
    ck_assert_int_eq(model.collect(&factors, examples, COUNT, batch, NULL), PS_OK);
    for (size_t i = 0; i < batch->row_count * batch->width; i++)
        batch->rows[i] = 0.1f * (float)(i % 7) - 0.3f;
}

static struct ps_row_score score(struct ps_row_batch *batch, bool learns)
{
    struct ps_row_score sum = {0};
    ps_matrix_factors_model(&factors).compute(&factors, examples, COUNT, batch, learns, &sum);
    return sum;
}

START_TEST(users_and_items_of_one_number_have_different_rows)
{
    struct ps_row_batch batch;

    collect(&batch);

    ck_assert_uint_eq(batch.width, RANK + 1);
    ck_assert_uint_eq(batch.row_count, 6);
    ck_assert_uint_eq(ps_matrix_user_key(1), 2);
    ck_assert_uint_eq(ps_matrix_item_key(1), 3);
    ps_row_batch_fini(&batch);
}
END_TEST

START_TEST(the_gradient_is_the_slope_of_the_loss)
{
    struct ps_row_batch batch;
    collect(&batch);

    struct ps_row_score at = score(&batch, true);

    ck_assert_uint_eq(at.examples, COUNT);
    ck_assert_double_eq_tol(at.loss, at.measure / 2, 1e-12);
    for (size_t i = 0; i < batch.row_count * batch.width; i++) {
        float kept = batch.rows[i];
        batch.rows[i] = kept + 1e-2f;
        double above = score(&batch, false).loss;
        double step = (double)batch.rows[i];
        batch.rows[i] = kept - 1e-2f;
        step -= (double)batch.rows[i];
        double below = score(&batch, false).loss;
        batch.rows[i] = kept;
        /* The loss is a square along each element, so that the quotient is exact. */
        ck_assert_double_eq_tol((double)batch.gradients[i], (above - below) / step, 1e-4);
    }
    ps_row_batch_fini(&batch);
}
END_TEST

/* Plain descent on all rows, as the servers would do it. */
START_TEST(descent_learns_the_ratings_by_heart)
{
    struct ps_row_batch batch;
    collect(&batch);
    double before = score(&batch, false).loss;

    for (int i = 0; i < 2000; i++) {
        memset(batch.gradients, 0, batch.row_count * batch.width * sizeof *batch.gradients);
        (void)score(&batch, true);
        ps_row_batch_average(&batch);
        for (size_t j = 0; j < batch.row_count * batch.width; j++)
            batch.rows[j] -= 0.1f * batch.gradients[j];
    }

    /* Two ratings of one item by one user differ by a star: what is left is half of that, twice. */
    ck_assert_double_gt(before, 1);
    ck_assert_double_eq_tol(score(&batch, false).measure, 0.5, 1e-3);
    ps_row_batch_fini(&batch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matrix_factors");
    TCase *tests = tcase_create("matrix_factors");
    tcase_add_test(tests, users_and_items_of_one_number_have_different_rows);
    tcase_add_test(tests, the_gradient_is_the_slope_of_the_loss);
    tcase_add_test(tests, descent_learns_the_ratings_by_heart);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
