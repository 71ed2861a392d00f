/* SPDX-License-Identifier: Apache-2.0 */
/* tools/generate_ratings.c: ratings whose best error is known. */
#include "run_suite.h"
#include "tests/support/temp_folder.h"
#include "tools/generate_ratings.h"
#include "tools/ratings.h"

#include <check.h>

START_TEST(noise_sets_the_best_error_and_every_number_is_within_its_bounds)
{
    struct temp_folder folder;
    char path[600];
    temp_folder_init(&folder);
    const struct ps_generate_ratings_options options = {
        .path = temp_folder_path(&folder, "ratings", path, sizeof path),
        .rows = 5000,
        .users = 50,
        .items = 40,
        .noise = 0.5,
        .seed = 7,
        .model_seed = 3};
    double best = 0;
    struct ps_ratings ratings;

    ck_assert_int_eq(ps_generate_ratings(&options, &best, NULL), PS_OK);
    ck_assert_int_eq(ps_ratings_load(path, ps_allocator_heap(), &ratings, NULL), PS_OK);

    ck_assert_double_eq_tol(best, 0.5, 0.03);
    ck_assert_uint_eq(ratings.count, 5000);
    uint64_t user_max = 0;
    uint64_t item_max = 0;
    for (size_t i = 0; i < ratings.count; i++) {
        ck_assert(ratings.list[i].user > 0 && ratings.list[i].item > 0);
        user_max = ratings.list[i].user > user_max ? ratings.list[i].user : user_max;
        item_max = ratings.list[i].item > item_max ? ratings.list[i].item : item_max;
    }
    ck_assert_uint_eq(user_max, 50);
    ck_assert_uint_eq(item_max, 40);
    ps_ratings_fini(&ratings);
    temp_folder_fini(&folder);
}
END_TEST

START_TEST(impossible_wishes_are_refused)
{
    double best = 0;
    const struct ps_generate_ratings_options good = {
        .path = "/nowhere/file", .rows = 1, .users = 1, .items = 1};
    struct ps_generate_ratings_options options = good;
    ck_assert_int_eq(ps_generate_ratings(&options, &best, NULL), PS_ERR_IO);
    options.users = 0;
    ck_assert_int_eq(ps_generate_ratings(&options, &best, NULL), PS_ERR_BAD_INPUT);
    options = good;
    options.items = UINT64_MAX;
    ck_assert_int_eq(ps_generate_ratings(&options, &best, NULL), PS_ERR_BAD_INPUT);
    options = good;
    options.noise = -1;
    ck_assert_int_eq(ps_generate_ratings(&options, &best, NULL), PS_ERR_BAD_INPUT);
    options = good;
    options.rows = 0;
    ck_assert_int_eq(ps_generate_ratings(&options, &best, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate_ratings");
    TCase *tests = tcase_create("generate_ratings");
    tcase_add_test(tests, noise_sets_the_best_error_and_every_number_is_within_its_bounds);
    tcase_add_test(tests, impossible_wishes_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
