/* SPDX-License-Identifier: Apache-2.0 */
/* tools/generate.c: data whose best accuracy is known. */
#include "run_suite.h"
#include "tools/generate.h"
#include "tools/libsvm.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void temporary(char path[64])
{
    (void)snprintf(path, 64, "/tmp/ps-generate-XXXXXX");
    int descriptor = mkstemp(path);
    ck_assert_int_ge(descriptor, 0);
    (void)close(descriptor);
}

START_TEST(noise_sets_the_best_accuracy)
{
    char path[64];
    temporary(path);
    const struct ps_generate_options options = {
        .path = path, .rows = 5000, .features = 50, .noise = 0.1, .seed = 7, .model_seed = 3};
    double best = 0;

    ck_assert_int_eq(ps_generate(&options, &best, NULL), PS_OK);

    ck_assert_double_eq_tol(best, 0.9, 0.03);
    struct ps_dataset dataset;
    ck_assert_int_eq(ps_dataset_load(path, ps_allocator_heap(), &dataset, NULL), PS_OK);
    ck_assert_uint_eq(dataset.row_count, 5000);
    ck_assert_uint_le(dataset.feature_count, 50);
    ps_dataset_fini(&dataset);
    (void)unlink(path);
}
END_TEST

START_TEST(impossible_wishes_are_refused)
{
    double best = 0;
    struct ps_generate_options options = {.path = "/nowhere/file", .rows = 1, .features = 50};

    ck_assert_int_eq(ps_generate(&options, &best, NULL), PS_ERR_IO);
    options.noise = 0.5;
    ck_assert_int_eq(ps_generate(&options, &best, NULL), PS_ERR_BAD_INPUT);
    options.noise = 0;
    options.features = 5;
    ck_assert_int_eq(ps_generate(&options, &best, NULL), PS_ERR_BAD_INPUT);
    options.features = 50;
    options.rows = 0;
    ck_assert_int_eq(ps_generate(&options, &best, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate");
    TCase *tests = tcase_create("generate");
    tcase_add_test(tests, noise_sets_the_best_accuracy);
    tcase_add_test(tests, impossible_wishes_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
