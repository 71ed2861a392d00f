/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/gradient_check.c: what is impossible is found before anything is changed, and a scan
 * sees the elements that a gradient stands for. */
#include "server/core/update/gradient_check.h"
#include "tests/unit/core/core_encoded.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct encoded encoded;

static struct ps_parameter_spec *spec_of(enum ps_dtype dtype, uint64_t count,
                                         const struct ps_optimizer_settings *settings)
{
    return ps_parameter_spec_create(ps_allocator_heap(), text("w"), dtype, count,
                                    (struct ps_bytes){NULL, 0}, settings);
}

static struct ps_parameter_spec *plain_spec(enum ps_dtype dtype, uint64_t count)
{
    const struct ps_optimizer_settings settings = {.learning_rate.rate = 1};
    return spec_of(dtype, count, &settings);
}

START_TEST(what_was_encoded_is_possible)
{
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        struct ps_parameter_spec *spec = plain_spec(dtype, 3000);
        encoded_make(&encoded, (enum ps_encoding)_i, dtype, 3000, 1000, 5);

        for (uint64_t seed = 0; seed < 20; seed++)
            ck_assert_int_eq(ps_gradient_check(spec, encoded_cut(&encoded, seed), NULL, NULL),
                             PS_OK);

        ps_parameter_spec_release(spec);
    }
}
END_TEST

/* Elements [first, first + count) of `encoded` in int8, as a range. */
static struct ps_gradient int8_range(size_t first, size_t count, struct ps_bytes pieces[2])
{
    size_t scales = (size_t)ps_encoding_groups(encoded.count) * sizeof(float);
    pieces[0] = (struct ps_bytes){encoded.content + first / 256 * sizeof(float),
                                  (size_t)ps_encoding_groups(count) * sizeof(float)};
    pieces[1] = (struct ps_bytes){encoded.content + scales + first, count};
    return (struct ps_gradient){.content = {pieces, 2, pieces[0].size + pieces[1].size},
                                .encoding = PS_ENCODING_INT8};
}

START_TEST(a_range_names_its_scale_as_the_whole_would)
{
    const float bad = NAN;
    const struct ps_elements range = {2560, 440};
    struct ps_parameter_spec *spec = plain_spec(PS_F32, 3000);
    struct ps_bytes pieces[2];
    struct ps_error error;
    encoded_make(&encoded, PS_ENCODING_INT8, PS_F32, 3000, 0, 5);
    struct ps_gradient gradient = int8_range(range.first, range.count, pieces);
    ck_assert_int_eq(ps_gradient_check_range(spec, gradient, range, NULL), PS_OK);
    memcpy(encoded.content + 11 * sizeof(float), &bad, sizeof bad);

    ck_assert_int_eq(ps_gradient_check_range(spec, gradient, range, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "Name: w, the scale of elements 2816 "));
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(pairs_of_a_range_lie_in_it_and_rise)
{
    static const struct {
        uint32_t indices[2];
        const char *reason; /* NULL: they are possible */
    } cases[] = {{{100, 199}, NULL},           {{150, 151}, NULL},
                 {{99, 150}, "index 99 in a"}, {{100, 200}, "index 200"},
                 {{150, 150}, "indices rise"}, {{151, 150}, "rise"}};
    const struct ps_elements range = {100, 100};
    struct ps_parameter_spec *spec = plain_spec(PS_F32, 1000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t content[16] = {0};
        struct ps_bytes piece = {content, sizeof content};
        const struct ps_gradient gradient = {.content = ps_view_of(&piece),
                                             .encoding = PS_ENCODING_TOP_K};
        struct ps_error error;
        memcpy(content, cases[i].indices, 8);
        enum ps_status status = ps_gradient_check_range(spec, gradient, range, &error);
        ck_assert_int_eq(status, cases[i].reason == NULL ? PS_OK : PS_ERR_BAD_INPUT);
        if (status != PS_OK)
            ck_assert_ptr_nonnull(strstr(error.text, cases[i].reason));
    }
    const struct ps_gradient none = {.encoding = PS_ENCODING_TOP_K};
    ck_assert_int_eq(ps_gradient_check_range(spec, none, range, NULL), PS_OK);
    ps_parameter_spec_release(spec);
}
END_TEST

/* A range is plain exactly when a scan of it finds nothing. */
START_TEST(a_range_in_any_encoding_is_looked_at_ahead)
{
    enum ps_encoding encoding = (enum ps_encoding)_i;
    struct ps_parameter_spec *spec = plain_spec(PS_F32, 3000);
    encoded_make(&encoded, encoding, PS_F32, 3000, 100, 5);
    bool is_plain = ps_gradient_range_is_plain(spec, encoded_cut(&encoded, 4), 3000);
    ck_assert(is_plain == (encoding != PS_ENCODING_TOP_K));
    /* All ones is a NaN of every float type; products with such a scale are infinite. */
    if (encoding == PS_ENCODING_INT8)
        memcpy(encoded.content, (const float[]){FLT_MAX, FLT_MAX}, 8);
    else
        memset(encoded.content + encoded.bytes / 2, 0xff, 8);
    ck_assert(!ps_gradient_range_is_plain(spec, encoded_cut(&encoded, 4), 3000));
    ps_parameter_spec_release(spec);
}
END_TEST

/* Wherever it is, also behind what is read at a time. */
START_TEST(a_scale_that_is_not_finite_is_refused)
{
    static const size_t groups[] = {0, 1, 511, 512, 585};
    const float bad = _i % 2 == 0 ? INFINITY : NAN;
    struct ps_parameter_spec *spec = plain_spec(PS_F32, 150000);
    struct ps_error error;
    char expected[64];
    encoded_make(&encoded, PS_ENCODING_INT8, PS_F32, 150000, 0, 5);
    memcpy(encoded.content + groups[_i] * 4, &bad, 4);
    (void)snprintf(expected, sizeof expected, "scale of elements %zu and", groups[_i] * 256);

    ck_assert_int_eq(ps_gradient_check(spec, encoded_cut(&encoded, 3), NULL, &error),
                     PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, expected));
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(an_index_that_repeats_falls_or_is_too_high_is_refused)
{
    static const size_t places[] = {1, 511, 512, 999};
    struct ps_parameter_spec *spec = plain_spec(PS_F32, 3000);
    for (size_t i = 0; i < 4; i++) {
        size_t at = places[i];
        encoded_make(&encoded, PS_ENCODING_TOP_K, PS_F32, 3000, 1000, 5);
        if (_i == 0)
            memcpy(encoded.content + at * 4, encoded.content + (at - 1) * 4, 4);
        else if (_i == 1)
            memset(encoded.content + at * 4, 0, 4);
        else
            memcpy(encoded.content + at * 4, &(uint32_t){3000}, 4);

        ck_assert_int_eq(ps_gradient_check(spec, encoded_cut(&encoded, i), NULL, NULL),
                         PS_ERR_BAD_INPUT);
    }
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(blocks_that_are_named_are_flagged_and_no_others)
{
    const size_t block = PS_BLOCK_BYTES / 4;
    const uint32_t indices[] = {0, 7, (uint32_t)(2 * block), (uint32_t)(3 * block - 1)};
    uint8_t content[32] = {0};
    struct ps_bytes piece = {content, sizeof content};
    struct ps_parameter_spec *spec = plain_spec(PS_F32, 4 * block);
    bool touched[5] = {false};
    memcpy(content, indices, sizeof indices);

    ck_assert_int_eq(ps_gradient_check(spec,
                                       (struct ps_gradient){.content = ps_view_of(&piece),
                                                            .encoding = PS_ENCODING_TOP_K},
                                       touched, NULL),
                     PS_OK);

    ck_assert(touched[0] && !touched[1] && touched[2] && !touched[3] && !touched[4]);
    ps_parameter_spec_release(spec);
}
END_TEST

/* A NaN among the values is found as the element that it is, not as the pair. */
START_TEST(an_element_that_is_not_finite_is_named)
{
    const struct ps_optimizer_settings settings = {.learning_rate.rate = 1};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        struct ps_parameter_spec *spec = spec_of(dtype, 9000, &settings);
        struct ps_gradient_scan scan = {0};
        uint32_t index;
        const float bad = NAN;
        encoded_make(&encoded, PS_ENCODING_TOP_K, dtype, 9000, 2000, 6);
        memcpy(&index, encoded.content + 1500 * 4, 4);
        memcpy(encoded.content + (2000 + 1500) * 4, &bad, 4);
        memcpy(encoded.content + (2000 + 1501) * 4, &bad, 4);

        ps_gradient_scan(spec, encoded_cut(&encoded, 1), &scan);

        ck_assert(scan.nonfinite);
        ck_assert_uint_eq(scan.nonfinite_index, index);
        ps_parameter_spec_release(spec);
    }
}
END_TEST

/* At any place of any piece, and for products of int8 that leave the range. */
START_TEST(what_decodes_to_something_not_finite_is_found_in_every_encoding)
{
    static const uint16_t strange[] = {0x7f80, 0xff81, 0x7c00, 0xfe00};
    static const size_t places[] = {0, 1, 4999, 65536, 70000};
    const struct ps_optimizer_settings settings = {.learning_rate.rate = 1};
    struct ps_parameter_spec *spec = spec_of(PS_F32, 70001, &settings);
    enum ps_encoding encoding = _i < 2 ? PS_ENCODING_BFLOAT16 : PS_ENCODING_FLOAT16;
    for (size_t i = 0; i < 5; i++) {
        struct ps_gradient_scan scan = {0};
        encoded_make(&encoded, encoding, PS_F32, 70001, 0, 7);
        memcpy(encoded.content + places[i] * 2, &strange[_i], 2);
        ps_gradient_scan(spec, encoded_cut(&encoded, i), &scan);
        ck_assert(scan.nonfinite);
        ck_assert_uint_eq(scan.nonfinite_index, places[i]);

        const float scale = FLT_MAX / 100;
        const int8_t quantum = 101;
        memset(&scan, 0, sizeof scan);
        encoded_make(&encoded, PS_ENCODING_INT8, PS_F32, 70001, 0, 7);
        memset(encoded.content + 4 * 274, 0, 70001);
        memcpy(encoded.content + places[i] / 256 * 4, &scale, 4);
        ps_gradient_scan(spec, encoded_cut(&encoded, i), &scan);
        ck_assert(!scan.nonfinite);
        memset(&scan, 0, sizeof scan);
        memcpy(encoded.content + 4 * 274 + places[i], &quantum, 1);
        ps_gradient_scan(spec, encoded_cut(&encoded, i), &scan);
        ck_assert(scan.nonfinite);
        ck_assert_uint_eq(scan.nonfinite_index, places[i]);
    }
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(a_norm_is_that_of_the_decoded_gradient)
{
    const struct ps_optimizer_settings settings = {.learning_rate.rate = 1, .clip_norm = 1};
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        struct ps_parameter_spec *spec = spec_of(dtype, 9001, &settings);
        struct ps_gradient_scan native = {0};
        struct ps_gradient_scan scan = {0};
        encoded_make(&encoded, (enum ps_encoding)_i, dtype, 9001, 2000, 6);

        ps_gradient_scan(spec, encoded_native(&encoded), &native);
        ps_gradient_scan(spec, encoded_cut(&encoded, 1), &scan);

        ck_assert_mem_eq(&scan, &native, sizeof scan);
        ps_parameter_spec_release(spec);
    }
}
END_TEST

/* Only a norm needs every element then. */
START_TEST(what_is_known_to_be_finite_is_looked_at_for_its_norm_alone)
{
    static float strange[3] = {3, 4, 0};
    const struct ps_bytes bytes = {(const uint8_t *)strange, sizeof strange};
    const struct ps_gradient gradient = {.content = ps_view_of(&bytes), .is_plain = true};
    const struct ps_optimizer_settings with_norm = {.learning_rate.rate = 1, .clip_norm = 1};
    struct ps_parameter_spec *plain = plain_spec(PS_F32, 3);
    struct ps_parameter_spec *clipped = spec_of(PS_F32, 3, &with_norm);
    struct ps_gradient_scan scan = {0};
    strange[2] = NAN;
    ps_gradient_scan(plain, gradient, &scan);
    ck_assert(!scan.nonfinite);
    ps_gradient_scan(clipped, gradient, &scan);
    ck_assert(scan.nonfinite);
    ck_assert_uint_eq(scan.nonfinite_index, 2);
    ps_parameter_spec_release(plain);
    ps_parameter_spec_release(clipped);
}
END_TEST

/* Only a norm, or bytes that say nothing themselves, need every element. */
START_TEST(a_scan_is_long_where_no_small_part_of_the_bytes_tells)
{
    const enum ps_encoding encoding = (enum ps_encoding)_i;
    const struct ps_optimizer_settings clips = {.learning_rate.rate = 1, .clip_norm = 1};
    const struct ps_optimizer_settings allows = {.learning_rate.rate = 1,
                                                 .nonfinite = PS_NONFINITE_ALLOW};
    struct ps_parameter_spec *plain = plain_spec(PS_F32, 3000);
    struct ps_parameter_spec *clipped = spec_of(PS_F32, 3000, &clips);
    struct ps_parameter_spec *careless = spec_of(PS_F32, 3000, &allows);
    encoded_make(&encoded, encoding, PS_F32, 3000, 100, 5);
    struct ps_gradient gradient = encoded_whole(&encoded);
    bool tells = encoding == PS_ENCODING_INT8 || encoding == PS_ENCODING_TOP_K;

    ck_assert_int_eq(ps_gradient_scan_is_long(plain, gradient), !tells);
    ck_assert(ps_gradient_scan_is_long(clipped, gradient));
    ck_assert(!ps_gradient_scan_is_long(careless, gradient));
    gradient.is_plain = true;
    ck_assert(!ps_gradient_scan_is_long(plain, gradient));
    ck_assert(ps_gradient_scan_is_long(clipped, gradient));
    ps_parameter_spec_release(plain);
    ps_parameter_spec_release(clipped);
    ps_parameter_spec_release(careless);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gradient_check");
    tcase_add_loop_test(tests, what_was_encoded_is_possible, 0, PS_ENCODING_COUNT);
    tcase_add_test(tests, a_range_names_its_scale_as_the_whole_would);
    tcase_add_test(tests, pairs_of_a_range_lie_in_it_and_rise);
    tcase_add_loop_test(tests, a_range_in_any_encoding_is_looked_at_ahead, 0, PS_ENCODING_COUNT);
    tcase_add_loop_test(tests, a_scale_that_is_not_finite_is_refused, 0, 5);
    tcase_add_loop_test(tests, an_index_that_repeats_falls_or_is_too_high_is_refused, 0, 3);
    tcase_add_test(tests, blocks_that_are_named_are_flagged_and_no_others);
    tcase_add_test(tests, an_element_that_is_not_finite_is_named);
    tcase_add_test(tests, what_is_known_to_be_finite_is_looked_at_for_its_norm_alone);
    tcase_add_loop_test(tests, what_decodes_to_something_not_finite_is_found_in_every_encoding, 0,
                        4);
    tcase_add_loop_test(tests, a_norm_is_that_of_the_decoded_gradient, 0, PS_ENCODING_COUNT);
    tcase_add_loop_test(tests, a_scan_is_long_where_no_small_part_of_the_bytes_tells, 0,
                        PS_ENCODING_COUNT);
    return run_tests("gradient_check", tests);
}
