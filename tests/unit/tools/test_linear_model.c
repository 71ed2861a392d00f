/* SPDX-License-Identifier: Apache-2.0 */
/* tools/linear_model.c: the gradient is the derivative of the loss, for both models. */
#include "run_suite.h"
#include "tools/linear_model.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 4

static const char *const two_classes = "+1 1:1 3:0.5\n-1 2:2\n-1 1:1 4:-1\n+1 3:1\n";
static const char *const three_classes = "1 1:1 3:0.5\n2 2:2\n3 1:1 4:-1\n2 3:1\n";

struct fixture {
    struct ps_dataset dataset;
    struct ps_class_map map;
    struct ps_linear_model model;
    float weights[FEATURES * 3], bias[3], weight_gradient[FEATURES * 3], bias_gradient[3];
    double scratch[3];
};

static void load(struct fixture *fixture, const char *text, size_t outputs)
{
    memset(fixture, 0, sizeof *fixture);
    ck_assert_int_eq(
        ps_dataset_parse("text", text, strlen(text), ps_allocator_heap(), &fixture->dataset, NULL),
        PS_OK);
    ck_assert_int_eq(ps_class_map_init(&fixture->map, &fixture->dataset, NULL), PS_OK);
    fixture->model = (struct ps_linear_model){.features = FEATURES, .outputs = outputs};
    for (size_t i = 0; i < FEATURES * outputs; i++)
        fixture->weights[i] = 0.1f * (float)(i % 5) - 0.2f;
    for (size_t i = 0; i < outputs; i++)
        fixture->bias[i] = 0.05f * (float)i;
}

static double loss_at(struct fixture *fixture)
{
    return ps_linear_evaluate(&fixture->model, &fixture->dataset, &fixture->map, fixture->weights,
                              fixture->bias, fixture->scratch)
        .loss;
}

static double slope(struct fixture *fixture, float *value)
{
    float kept = *value;
    *value = kept + 1e-2f;
    double above = loss_at(fixture);
    double step = (double)*value;
    *value = kept - 1e-2f;
    step -= (double)*value;
    double below = loss_at(fixture);
    *value = kept;
    return (above - below) / step;
}

START_TEST(gradient_is_the_slope_of_the_loss)
{
    struct fixture fixture;
    size_t outputs = _i == 0 ? 1 : 3;
    load(&fixture, _i == 0 ? two_classes : three_classes, outputs);
    const size_t rows[] = {0, 1, 2, 3};

    double loss = ps_linear_gradient(&fixture.model, &fixture.dataset, &fixture.map, rows, 4,
                                     fixture.weights, fixture.bias, fixture.weight_gradient,
                                     fixture.bias_gradient, fixture.scratch);

    ck_assert_double_eq_tol(loss, loss_at(&fixture), 1e-9);
    for (size_t i = 0; i < FEATURES * outputs; i++)
        ck_assert_double_eq_tol((double)fixture.weight_gradient[i],
                                slope(&fixture, &fixture.weights[i]), 1e-4);
    for (size_t i = 0; i < outputs; i++)
        ck_assert_double_eq_tol((double)fixture.bias_gradient[i], slope(&fixture, &fixture.bias[i]),
                                1e-4);
    ps_dataset_fini(&fixture.dataset);
}
END_TEST

START_TEST(accuracy_counts_rows_whose_likeliest_class_is_theirs)
{
    struct fixture fixture;
    load(&fixture, two_classes, 1);
    memset(fixture.weights, 0, sizeof fixture.weights);

    fixture.bias[0] = 5;
    struct ps_evaluation all_positive =
        ps_linear_evaluate(&fixture.model, &fixture.dataset, &fixture.map, fixture.weights,
                           fixture.bias, fixture.scratch);

    ck_assert_double_eq(all_positive.accuracy, 0.5);
    ps_dataset_fini(&fixture.dataset);
}
END_TEST

START_TEST(one_label_alone_is_refused)
{
    struct ps_dataset dataset;
    struct ps_class_map map;
    ck_assert_int_eq(
        ps_dataset_parse("t", "1 1:1\n1 2:1\n", 12, ps_allocator_heap(), &dataset, NULL), PS_OK);

    ck_assert_int_eq(ps_class_map_init(&map, &dataset, NULL), PS_ERR_BAD_INPUT);

    ps_dataset_fini(&dataset);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linear_model");
    TCase *tests = tcase_create("linear_model");
    tcase_add_loop_test(tests, gradient_is_the_slope_of_the_loss, 0, 2);
    tcase_add_test(tests, accuracy_counts_rows_whose_likeliest_class_is_theirs);
    tcase_add_test(tests, one_label_alone_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
