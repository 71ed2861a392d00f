/* SPDX-License-Identifier: Apache-2.0 */
/* client/programs/key_slicer.c: checked keys, and the server of each. */
#include "client/programs/key_slicer.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct ps_error error;

static enum ps_status check(const uint64_t *keys, size_t count, const uint32_t *lens, size_t values)
{
    const struct ps_key_list list = {keys, count, lens, values};
    return ps_key_list_check(&list, &error);
}

START_TEST(keys_that_do_not_rise_are_refused)
{
    const uint64_t twice[] = {1, 2, 2}, falling[] = {1, 3, 2}, rising[] = {1, 2, UINT64_MAX};

    ck_assert_int_eq(check(twice, 3, NULL, 3), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(falling, 3, NULL, 3), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "key 2 is 2, behind 3"));
    ck_assert_int_eq(check(rising, 3, NULL, 3), PS_OK);
}
END_TEST

START_TEST(lengths_must_make_the_values)
{
    const uint64_t keys[] = {1, 2, 3};
    const uint32_t lens[] = {0, 4, 2}, huge[] = {UINT32_MAX, UINT32_MAX, 8};

    ck_assert_int_eq(check(keys, 3, NULL, 4), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(keys, 3, NULL, 6), PS_OK);
    ck_assert_int_eq(check(keys, 3, lens, 6), PS_OK);
    ck_assert_int_eq(check(keys, 3, lens, 7), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(keys, 3, huge, 6), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(keys, 0, NULL, 1), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(keys, 0, NULL, 0), PS_OK);
}
END_TEST

/* What ps-lite drops: the highest key, and the remainder of the division. */
START_TEST(every_key_has_a_server)
{
    const uint64_t keys[] = {0, UINT64_MAX / 3, UINT64_MAX / 3 * 3 - 1, UINT64_MAX - 1, UINT64_MAX};
    const struct ps_key_list list = {keys, 5, NULL, 10};
    struct ps_key_slice slices[7];
    uint32_t servers = (uint32_t)_i;

    ps_key_slice_evenly(&list, servers, slices);

    size_t keys_seen = 0, values_seen = 0;
    for (uint32_t i = 0; i < servers; i++) {
        ck_assert_uint_eq(slices[i].key_begin, keys_seen);
        ck_assert_uint_eq(slices[i].value_begin, values_seen);
        ck_assert_uint_eq(slices[i].value_count, 2 * slices[i].key_count);
        for (size_t k = slices[i].key_begin; k < keys_seen + slices[i].key_count; k++)
            ck_assert(keys[k] >= ps_key_range_begin(i, servers) &&
                      (i + 1 == servers || keys[k] < ps_key_range_begin(i + 1, servers)));
        keys_seen += slices[i].key_count;
        values_seen += slices[i].value_count;
    }
    ck_assert_uint_eq(keys_seen, 5);
    ck_assert_uint_eq(values_seen, 10);
}
END_TEST

START_TEST(lengths_follow_their_keys)
{
    const uint64_t keys[] = {1, UINT64_MAX / 2 - 1, UINT64_MAX / 2, UINT64_MAX};
    const uint32_t lens[] = {5, 0, 2, 3};
    const struct ps_key_list list = {keys, 4, lens, 10};
    struct ps_key_slice slices[2];

    ps_key_slice_evenly(&list, 2, slices);

    ck_assert_uint_eq(slices[0].key_count, 2);
    ck_assert_uint_eq(slices[0].value_count, 5);
    ck_assert_uint_eq(slices[1].value_begin, 5);
    ck_assert_uint_eq(slices[1].value_count, 5);
}
END_TEST

START_TEST(a_slicer_of_the_program_must_give_all_keys_away)
{
    const uint64_t keys[] = {1, 2, 3};
    const struct ps_key_list list = {keys, 3, NULL, 3};
    const size_t good[] = {1, 0, 2}, few[] = {1, 0, 1}, many[] = {1, 0, SIZE_MAX};
    struct ps_key_slice slices[3];

    ck_assert_int_eq(ps_key_slice_by_counts(&list, good, 3, slices, &error), PS_OK);
    ck_assert_uint_eq(slices[2].key_begin, 1);
    ck_assert_uint_eq(slices[2].value_count, 2);
    ck_assert_int_eq(ps_key_slice_by_counts(&list, few, 3, slices, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_key_slice_by_counts(&list, many, 3, slices, &error), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("key slicer");
    TCase *tests = tcase_create("slices");
    tcase_add_test(tests, keys_that_do_not_rise_are_refused);
    tcase_add_test(tests, lengths_must_make_the_values);
    tcase_add_loop_test(tests, every_key_has_a_server, 1, 7);
    tcase_add_test(tests, lengths_follow_their_keys);
    tcase_add_test(tests, a_slicer_of_the_program_must_give_all_keys_away);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
