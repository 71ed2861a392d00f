/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, refusals and whole contents. */
#include "optimizer/encoded.h"
#include "push.h"
#include "run_suite.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_encoding_has_its_length)
{
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_NATIVE, PS_F64, 1000), 8000);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_NATIVE, PS_I32, 1000), 4000);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_FLOAT32, PS_F64, 1000), 4000);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_FLOAT64, PS_F32, 1000), 8000);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_BFLOAT16, PS_F32, 1000), 2000);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_FLOAT16, PS_F64, 1000), 2000);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_INT8, PS_F32, 256), 260);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_INT8, PS_F32, 257), 265);
    ck_assert_uint_eq(ps_encoding_bytes(PS_ENCODING_TOP_K, PS_F64, 10), 80);
}
END_TEST

START_TEST(the_length_that_an_encoding_has_is_taken)
{
    for (enum ps_encoding encoding = 0; encoding < PS_ENCODING_COUNT; encoding++) {
        for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
            uint64_t bytes = ps_encoding_bytes(encoding, dtype, 1000);
            ck_assert_int_eq(ps_encoding_check(encoding, dtype, 1000, bytes, NULL), PS_OK);
            ck_assert_int_eq(ps_encoding_check(encoding, dtype, 1000, bytes + 1, NULL),
                             PS_ERR_BAD_INPUT);
            ck_assert_int_eq(ps_encoding_check(encoding, dtype, 999, bytes, NULL),
                             PS_ERR_BAD_INPUT);
        }
    }
}
END_TEST

START_TEST(top_k_may_name_any_number_of_elements)
{
    ck_assert_int_eq(ps_encoding_check(PS_ENCODING_TOP_K, PS_F32, 1000, 0, NULL), PS_OK);
    ck_assert_int_eq(ps_encoding_check(PS_ENCODING_TOP_K, PS_F32, 1000, 8, NULL), PS_OK);
    ck_assert_int_eq(ps_encoding_check(PS_ENCODING_TOP_K, PS_F32, 1000, 12, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_encoding_check(PS_ENCODING_TOP_K, PS_F32, (UINT64_C(1) << 32) + 1, 8, NULL),
                     PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(int8_is_cut_between_groups_and_the_others_anywhere)
{
    static const struct {
        uint64_t first, count;
        bool fits;
    } cuts[] = {{0, 256, true},  {256, 512, true},  {512, 488, true}, {0, 1000, true},
                {1, 256, false}, {256, 100, false}, {0, 999, false},  {255, 745, false},
                {999, 1, false}, {768, 232, true}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct ps_error error;
        enum ps_status status =
            ps_encoding_check_range(PS_ENCODING_INT8, cuts[i].first, cuts[i].count, 1000, &error);
        ck_assert_int_eq(status, cuts[i].fits ? PS_OK : PS_ERR_BAD_INPUT);
        if (!cuts[i].fits)
            ck_assert_ptr_nonnull(strstr(error.text, "multiple of 256"));
        for (enum ps_encoding other = 0; other < PS_ENCODING_COUNT; other++)
            if (other != PS_ENCODING_INT8)
                ck_assert_int_eq(
                    ps_encoding_check_range(other, cuts[i].first, cuts[i].count, 1000, NULL),
                    PS_OK);
    }
    ck_assert_int_eq(
        ps_encoding_check_range(PS_ENCODING_TOP_K, 0, 5, (UINT64_C(1) << 32) + 1, NULL),
        PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(contents_of_two_halves_say_where_the_second_begins)
{
    ck_assert_uint_eq(ps_encoding_first_half(PS_ENCODING_INT8, 257, 265), 8);
    ck_assert_uint_eq(ps_encoding_first_half(PS_ENCODING_TOP_K, 1000, 80), 40);
    ck_assert_uint_eq(ps_encoding_first_half(PS_ENCODING_TOP_K, 1000, 0), 0);
    ck_assert_uint_eq(ps_encoding_first_half(PS_ENCODING_BFLOAT16, 1000, 2000), 2000);
    ck_assert_uint_eq(ps_encoding_first_half(PS_ENCODING_NATIVE, 1000, 4000), 4000);
}
END_TEST

START_TEST(whole_numbers_travel_as_they_are)
{
    for (enum ps_encoding encoding = 1; encoding < PS_ENCODING_COUNT; encoding++) {
        struct ps_error error;
        ck_assert_int_eq(ps_encoding_check(encoding, PS_I64, 4, 32, &error), PS_ERR_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(error.text, "float32 and float64"));
        ck_assert_ptr_nonnull(strstr(error.text, "i64 allows native alone"));
    }
    ck_assert_int_eq(ps_encoding_check(PS_ENCODING_NATIVE, PS_I64, 4, 32, NULL), PS_OK);
}
END_TEST

START_TEST(scales_are_finite)
{
    const float good[] = {0, -1, FLT_MAX, FLT_MIN / 2};
    const float bad[] = {1, 2, INFINITY};
    const float worse[] = {NAN};
    struct ps_error error;

    ck_assert_int_eq(ps_encoding_check_scales(good, 4, 0, NULL), PS_OK);
    ck_assert_int_eq(ps_encoding_check_scales(bad, 3, 10, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "elements 3072 and following"));
    ck_assert_int_eq(ps_encoding_check_scales(worse, 1, 0, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

/* Exactly those patterns whose exponent is all ones. */
START_TEST(what_is_finite_is_seen_without_decoding)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t around[] = {0, (uint16_t)i, 0x0001};
        float decoded[3];
        for (enum ps_encoding encoding = PS_ENCODING_BFLOAT16; encoding <= PS_ENCODING_FLOAT16;
             encoding++) {
            ps_decode_run(encoding, PS_F32, around, 3, decoded);
            ck_assert(ps_encoding_run_finite(encoding, around, 3) == !!isfinite(decoded[1]));
        }
    }
}
END_TEST

START_TEST(many_strange_elements_are_no_less_strange)
{
    static uint16_t elements[65536 * 2 + 3];
    memset(elements, 0xff, sizeof elements);
    ck_assert(!ps_encoding_run_finite(PS_ENCODING_FLOAT16, elements, 65536));
    ck_assert(!ps_encoding_run_finite(PS_ENCODING_FLOAT16, elements, 65536 * 2 + 3));
    memset(elements, 0, sizeof elements);
    ck_assert(ps_encoding_run_finite(PS_ENCODING_FLOAT16, elements, 65536 * 2 + 3));
    elements[65536 * 2 + 2] = 0x7c00;
    ck_assert(!ps_encoding_run_finite(PS_ENCODING_FLOAT16, elements, 65536 * 2 + 3));
}
END_TEST

START_TEST(small_scales_have_finite_products)
{
    const float small[] = {0, -1, FLT_MAX / 128, -FLT_MAX / 128};
    const float large = nextafterf(FLT_MAX / 128, INFINITY);
    const float nan = NAN;

    ck_assert(ps_encoding_scales_small(small, 4));
    ck_assert(isfinite(small[3] * -128));
    ck_assert(!ps_encoding_scales_small(&large, 1));
    ck_assert(!ps_encoding_scales_small(&nan, 1));
}
END_TEST

START_TEST(indices_rise_across_pieces)
{
    const uint32_t first[] = {0, 1, 7};
    const uint32_t second[] = {8, UINT32_MAX};
    uint64_t least = 0;

    ck_assert_int_eq(ps_encoding_check_indices(first, 3, UINT64_C(1) << 32, &least, NULL), PS_OK);
    ck_assert_int_eq(ps_encoding_check_indices(second, 2, UINT64_C(1) << 32, &least, NULL), PS_OK);
    ck_assert_uint_eq(least, UINT64_C(1) << 32);
}
END_TEST

START_TEST(indices_that_repeat_fall_or_are_too_high_are_refused)
{
    const uint32_t repeated[] = {3, 3};
    const uint32_t falling[] = {9};
    const uint32_t high[] = {100};
    struct ps_error error;
    uint64_t least = 0;

    ck_assert_int_eq(ps_encoding_check_indices(repeated, 2, 100, &least, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "index 3 behind 3"));
    least = 10;
    ck_assert_int_eq(ps_encoding_check_indices(falling, 1, 100, &least, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_encoding_check_indices(high, 1, 100, &least, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "index 100 of 100"));
}
END_TEST

START_TEST(what_needs_no_decoding_is_known)
{
    ck_assert(ps_encoding_is_native(PS_ENCODING_NATIVE, PS_I32));
    ck_assert(ps_encoding_is_native(PS_ENCODING_FLOAT32, PS_F32));
    ck_assert(ps_encoding_is_native(PS_ENCODING_FLOAT64, PS_F64));
    ck_assert(!ps_encoding_is_native(PS_ENCODING_FLOAT32, PS_F64));
    ck_assert(!ps_encoding_is_native(PS_ENCODING_TOP_K, PS_F32));
}
END_TEST

/* Does a push of zeros leave values and states as they were? */
static bool leaves_zeros(enum ps_rule rule)
{
    const struct ps_optimizer_settings settings = {.rule = rule,
                                                   .learning_rate = {.rate = 0.1},
                                                   .momentum = 0.5,
                                                   .rho = 0.5,
                                                   .beta_1 = 0.5,
                                                   .beta_2 = 0.5,
                                                   .epsilon = 1e-8};
    const float before[] = {-2, 3, 0.5F};
    const float zeros[3] = {0};
    float arrays[3][3];
    for (size_t i = 0; i < 3; i++)
        memcpy(arrays[i], before, sizeof before);
    /* An accumulator of squares is not below 0. */
    arrays[1][0] = arrays[2][0] = 2;
    float states[2][3];
    memcpy(states, arrays[1], sizeof states);
    struct pushed_parameter parameter = {.settings = &settings,
                                         .dtype = PS_F32,
                                         .count = 3,
                                         .values = arrays[0],
                                         .states = {arrays[1], arrays[2]}};
    ck_assert_int_eq(push(&parameter, zeros), PS_OK);
    return memcmp(arrays[0], before, sizeof before) == 0 &&
           memcmp(arrays[1], states, sizeof states) == 0;
}

START_TEST(only_rules_for_which_zero_is_nothing_leave_elements_out)
{
    for (enum ps_rule rule = 0; rule < PS_RULE_COUNT; rule++) {
        struct ps_optimizer_settings settings = {.rule = rule, .epsilon = 1e-8};
        ck_assert_int_eq(ps_encoding_touches_named_only(&settings), leaves_zeros(rule));
        settings.decay = 0.1;
        ck_assert(!ps_encoding_touches_named_only(&settings));
        settings.decay = 0;
        settings.l2 = 0.1;
        ck_assert(!ps_encoding_touches_named_only(&settings));
    }
}
END_TEST

/* No element loses more than the encoding says; a second time loses nothing more. */
START_TEST(a_content_comes_back_within_what_its_encoding_loses)
{
    static const double losses[] = {0, 1.0 / (1 << 24), 0, 1.0 / 256, 1.0 / 2048, 0.5 / 127};
    enum ps_encoding encoding = (enum ps_encoding)_i;
    static double elements[1001];
    static double back[1001];
    static double again[1001];
    static uint8_t encoded[1001 * 8 + 1];
    for (size_t i = 0; i < 1001; i++)
        elements[i] = sin((double)i) + 1.5;

    ck_assert_int_eq(ps_encode_all(encoding, PS_F64, elements, 1001, encoded + 1, NULL), PS_OK);
    ps_decode_all(encoding, PS_F64, encoded + 1, 1001, back);

    for (size_t i = 0; i < 1001; i++)
        ck_assert_double_le(fabs(back[i] - elements[i]), losses[_i] * 2.5 * 1.0001);
    ck_assert_int_eq(ps_encode_all(encoding, PS_F64, back, 1001, encoded + 1, NULL), PS_OK);
    ps_decode_all(encoding, PS_F64, encoded + 1, 1001, again);
    ck_assert_mem_eq(back, again, sizeof back);
}
END_TEST

START_TEST(int8_refuses_what_is_not_finite)
{
    static float elements[600];
    static double wide[600];
    static uint8_t encoded[612];
    struct ps_error error;
    memset(elements, 0, sizeof elements);
    memset(wide, 0, sizeof wide);
    elements[300] = NAN;
    wide[599] = 1e300;

    ck_assert_int_eq(ps_encode_all(PS_ENCODING_INT8, PS_F32, elements, 600, encoded, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "elements 256 to 511"));
    ck_assert_int_eq(ps_encode_all(PS_ENCODING_INT8, PS_F64, wide, 600, encoded, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "elements 512 to 599"));
}
END_TEST

START_TEST(decoding_pairs_as_a_run_is_a_bug)
{
    float element = 0;
    ps_decode_run(PS_ENCODING_TOP_K, PS_F32, &element, 1, &element);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("encoded");
    TCase *tests = tcase_create("encoded");
    tcase_add_test(tests, every_encoding_has_its_length);
    tcase_add_test(tests, the_length_that_an_encoding_has_is_taken);
    tcase_add_test(tests, top_k_may_name_any_number_of_elements);
    tcase_add_test(tests, int8_is_cut_between_groups_and_the_others_anywhere);
    tcase_add_test(tests, contents_of_two_halves_say_where_the_second_begins);
    tcase_add_test(tests, whole_numbers_travel_as_they_are);
    tcase_add_test(tests, scales_are_finite);
    tcase_add_test(tests, what_is_finite_is_seen_without_decoding);
    tcase_add_test(tests, many_strange_elements_are_no_less_strange);
    tcase_add_test(tests, small_scales_have_finite_products);
    tcase_add_test(tests, indices_rise_across_pieces);
    tcase_add_test(tests, indices_that_repeat_fall_or_are_too_high_are_refused);
    tcase_add_test(tests, what_needs_no_decoding_is_known);
    tcase_add_test(tests, only_rules_for_which_zero_is_nothing_leave_elements_out);
    tcase_add_loop_test(tests, a_content_comes_back_within_what_its_encoding_loses, 0,
                        PS_ENCODING_TOP_K);
    tcase_add_test(tests, int8_refuses_what_is_not_finite);
    tcase_add_test_raise_signal(tests, decoding_pairs_as_a_run_is_a_bug, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
