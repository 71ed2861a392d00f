/* SPDX-License-Identifier: Apache-2.0 */
/* client/caller_structs.c: structs that are shorter or longer than the library's own. */
#include "client/caller_structs.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct psclient_sizes known;
static struct ps_error error;

START_TEST(sizes_of_the_same_header_are_taken_as_they_are)
{
    const struct psclient_sizes here = psclient_header_sizes();

    ck_assert_int_eq(ps_caller_sizes_take(&here, &known, &error), PS_OK);

    ck_assert(memcmp(&known, &here, sizeof here) == 0);
}
END_TEST

START_TEST(the_first_header_was_not_longer_than_this_one)
{
    const struct psclient_sizes first = ps_caller_sizes_first();
    const struct psclient_sizes here = psclient_header_sizes();

    ck_assert_int_eq(ps_caller_sizes_take(&first, &known, &error), PS_OK);

    ck_assert_uint_le(first.options, here.options);
    ck_assert_uint_le(first.parameter, here.parameter);
    ck_assert_uint_le(first.result, here.result);
    ck_assert_uint_le(first.saved, here.saved);
}
END_TEST

/* The numbers of a 64-bit machine, as compiled programs have them. */
START_TEST(the_first_sizes_never_change)
{
    const struct psclient_sizes first = ps_caller_sizes_first();

    if (sizeof(void *) != 8)
        return;
    ck_assert_uint_eq(first.sizes, 80);
    ck_assert_uint_eq(first.options, 192);
    ck_assert_uint_eq(first.parameter, 56);
    ck_assert_uint_eq(first.gradient, 32);
    ck_assert_uint_eq(first.result, 160);
    ck_assert_uint_eq(first.counters, 64);
    ck_assert_uint_eq(first.replica_counters, 40);
    ck_assert_uint_eq(first.server_status, 496);
    ck_assert_uint_eq(first.param_info, 584);
    ck_assert_uint_eq(first.saved, 1080);
}
END_TEST

START_TEST(sizes_of_a_newer_header_are_taken_as_far_as_they_are_known)
{
    struct {
        struct psclient_sizes ours;
        size_t of_a_new_struct;
    } newer = {psclient_header_sizes(), 1000};
    newer.ours.sizes = sizeof newer;
    newer.ours.parameter += 64;

    ck_assert_int_eq(ps_caller_sizes_take(&newer.ours, &known, &error), PS_OK);

    ck_assert_uint_eq(known.parameter, sizeof(struct psclient_parameter) + 64);
}
END_TEST

START_TEST(a_struct_that_is_too_short_is_refused)
{
    for (size_t i = 0; i < sizeof known / sizeof(size_t); i++) {
        struct psclient_sizes wrong = ps_caller_sizes_first();
        size_t size;
        memcpy(&size, (uint8_t *)&wrong + i * sizeof size, sizeof size);
        size--;
        memcpy((uint8_t *)&wrong + i * sizeof size, &size, sizeof size);

        ck_assert_int_eq(ps_caller_sizes_take(&wrong, &known, &error), PS_ERR_BAD_INPUT);
    }
}
END_TEST

START_TEST(an_option_that_only_a_newer_header_has_must_not_be_set)
{
    struct {
        struct psclient_options ours;
        uint64_t newer;
    } options = {.ours = {.job = "j"}};
    struct psclient_options taken;

    ck_assert_int_eq(ps_caller_options(&options.ours, sizeof options, &taken, &error), PS_OK);
    ck_assert_str_eq(taken.job, "j");

    options.newer = 1;
    ck_assert_int_eq(ps_caller_options(&options.ours, sizeof options, &taken, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "an option is set"));
}
END_TEST

START_TEST(options_that_an_older_header_does_not_have_are_zero)
{
    const struct psclient_sizes first = ps_caller_sizes_first();
    struct psclient_options all, taken;
    memset(&all, 0xff, sizeof all);

    ck_assert_int_eq(ps_caller_options(&all, first.options, &taken, &error), PS_OK);

    for (size_t i = first.options; i < sizeof taken; i++)
        ck_assert_uint_eq(((const uint8_t *)&taken)[i], 0);
}
END_TEST

/* Entries of longer structs lie further apart. */
START_TEST(entries_are_found_in_arrays_of_longer_and_shorter_structs)
{
    struct {
        struct psclient_gradient ours;
        uint64_t newer;
    } gradients[2] = {{.ours = {.name = "a"}}, {.ours = {.name = "b", .content_size = 7}}};
    struct psclient_sizes sizes = psclient_header_sizes();
    sizes.gradient = sizeof gradients[0];

    struct psclient_gradient found = ps_caller_gradient(&sizes, &gradients[0].ours, 1);

    ck_assert_str_eq(found.name, "b");
    ck_assert_uint_eq(found.content_size, 7);

    uint8_t parameters[2 * sizeof(struct psclient_parameter)];
    sizes.parameter = ps_caller_sizes_first().parameter;
    memset(parameters, 0xff, sizeof parameters);
    const struct psclient_parameter second = {.version = 9};
    memcpy(parameters + sizes.parameter, &second, sizes.parameter);
    struct psclient_parameter read =
        ps_caller_parameter(&sizes, (const struct psclient_parameter *)(void *)parameters, 1);
    ck_assert_uint_eq(read.version, 9);
    for (size_t i = sizes.parameter; i < sizeof read; i++)
        ck_assert_uint_eq(((const uint8_t *)&read)[i], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("caller_structs");
    TCase *cases = tcase_create("caller_structs");
    tcase_add_test(cases, sizes_of_the_same_header_are_taken_as_they_are);
    tcase_add_test(cases, the_first_header_was_not_longer_than_this_one);
    tcase_add_test(cases, the_first_sizes_never_change);
    tcase_add_test(cases, sizes_of_a_newer_header_are_taken_as_far_as_they_are_known);
    tcase_add_test(cases, a_struct_that_is_too_short_is_refused);
    tcase_add_test(cases, an_option_that_only_a_newer_header_has_must_not_be_set);
    tcase_add_test(cases, options_that_an_older_header_does_not_have_are_zero);
    tcase_add_test(cases, entries_are_found_in_arrays_of_longer_and_shorter_structs);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
