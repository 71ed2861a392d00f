/* SPDX-License-Identifier: Apache-2.0 */
/* tools/sparse_logistic.c: the same loss and gradient as the dense model, by key. */
#include "run_suite.h"
#include "tools/sparse_logistic.h"

#include <check.h>
#include <string.h>

#define FEATURES 4

static const char text[] = "+1 1:1 3:0.5\n-1 2:2\n-1 1:1 4:-1\n+1 3:1\n";
static const float weights[FEATURES] = {0.3f, -0.2f, 0.5f, 0.1f};
static const float bias = -0.4f;

struct fixture {
    struct ps_dataset dataset;
    struct ps_class_map map;
    struct ps_sparse_logistic logistic;
    struct ps_keyed_model model;
    struct ps_row_batch batch;
};

static void setup(struct fixture *fixture, const char *rows)
{
    memset(fixture, 0, sizeof *fixture);
    ck_assert_int_eq(
        ps_dataset_parse("t", rows, strlen(rows), ps_allocator_heap(), &fixture->dataset, NULL),
        PS_OK);
    ck_assert_int_eq(ps_class_map_init(&fixture->map, &fixture->dataset, NULL), PS_OK);
    fixture->logistic = (struct ps_sparse_logistic){&fixture->dataset, &fixture->map};
    fixture->model = ps_sparse_logistic_model(&fixture->logistic);
    ps_row_batch_init(&fixture->batch, fixture->model.width);
}

static void teardown(struct fixture *fixture)
{
    ps_row_batch_fini(&fixture->batch);
    ps_dataset_fini(&fixture->dataset);
}

/* What the servers would answer. */
static void fetch(struct ps_row_batch *batch)
{
    for (size_t i = 0; i < batch->row_count; i++)
        batch->rows[i] = batch->keys[i] == 0 ? bias : weights[batch->keys[i] - 1];
}

START_TEST(loss_accuracy_and_gradient_are_those_of_the_dense_model)
{
    struct fixture fixture;
    const size_t examples[] = {3, 0, 2, 1};
    const struct ps_linear_model dense = {.features = FEATURES, .outputs = 1};
    float weight_gradient[FEATURES] = {0};
    float bias_gradient = 0;
    double scratch[1];
    setup(&fixture, text);
    double loss = ps_linear_gradient(&dense, &fixture.dataset, &fixture.map, examples, 4, weights,
                                     &bias, weight_gradient, &bias_gradient, scratch);
    struct ps_evaluation dense_score =
        ps_linear_evaluate(&dense, &fixture.dataset, &fixture.map, weights, &bias, scratch);

    struct ps_row_score score = {0};
    ck_assert_int_eq(fixture.model.collect(&fixture.logistic, examples, 4, &fixture.batch, NULL),
                     PS_OK);
    fetch(&fixture.batch);
    fixture.model.compute(&fixture.logistic, examples, 4, &fixture.batch, true, &score);

    ck_assert_uint_eq(score.examples, 4);
    ck_assert_uint_eq(fixture.batch.row_count, FEATURES + 1);
    ck_assert_double_eq_tol(score.loss / 4, loss, 1e-12);
    ck_assert_double_eq(score.measure / 4, dense_score.accuracy);
    for (size_t i = 0; i < fixture.batch.row_count; i++) {
        uint64_t key = fixture.batch.keys[i];
        double wanted = (double)(key == 0 ? bias_gradient : weight_gradient[key - 1]);
        ck_assert_double_eq_tol((double)fixture.batch.gradients[i] / 4, wanted, 1e-7);
    }
    teardown(&fixture);
}
END_TEST

START_TEST(only_the_features_of_a_batch_are_asked_for)
{
    struct fixture fixture;
    const size_t example = 1;
    setup(&fixture, text);

    ck_assert_int_eq(fixture.model.collect(&fixture.logistic, &example, 1, &fixture.batch, NULL),
                     PS_OK);

    ck_assert_uint_eq(fixture.batch.row_count, 2);
    ck_assert_uint_eq(fixture.batch.keys[0], 0);
    ck_assert_uint_eq(fixture.batch.keys[1], 2);
    teardown(&fixture);
}
END_TEST

/* A test set may have a label that the training set did not have. */
START_TEST(a_label_of_no_class_counts_as_wrong)
{
    struct fixture fixture;
    struct ps_row_score score = {0};
    const size_t example = 0;
    setup(&fixture, text);
    fixture.dataset.labels[0] = 5;

    ck_assert_int_eq(fixture.model.collect(&fixture.logistic, &example, 1, &fixture.batch, NULL),
                     PS_OK);
    fetch(&fixture.batch);
    fixture.model.compute(&fixture.logistic, &example, 1, &fixture.batch, false, &score);

    ck_assert_double_eq(score.measure, 0);
    ck_assert_double_gt(score.loss, 20);
    ck_assert_double_lt(score.loss, 40);
    teardown(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sparse_logistic");
    TCase *tests = tcase_create("sparse_logistic");
    tcase_add_test(tests, loss_accuracy_and_gradient_are_those_of_the_dense_model);
    tcase_add_test(tests, only_the_features_of_a_batch_are_asked_for);
    tcase_add_test(tests, a_label_of_no_class_counts_as_wrong);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
