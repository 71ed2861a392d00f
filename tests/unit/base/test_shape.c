/* SPDX-License-Identifier: Apache-2.0 */
/* base/shape.c: numbers from outside never overflow, and each shape has one form. */
#include "base/shape.h"

#include "base/json_writer.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LENGTHS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8

static const struct ps_shape none;
static struct ps_error error;
static char text[PS_SHAPE_TEXT_BYTES];

static struct ps_shape make(const uint64_t *lengths, size_t rank)
{
    struct ps_shape shape;
    ck_assert_int_eq(ps_shape_make(&shape, lengths, rank, &error), PS_OK);
    return shape;
}

static enum ps_status check(struct ps_shape shape, const char *name, uint64_t count)
{
    error.text[0] = '\0';
    return ps_shape_check(&shape, ps_bytes_of_text(name), count, &error);
}

START_TEST(the_product_of_the_lengths_is_the_count)
{
    ck_assert_int_eq(check(make(LENGTHS(2, 3)), "w", 6), PS_OK);
    ck_assert_int_eq(check(make(LENGTHS(1, 1, 1)), "w", 1), PS_OK);
    ck_assert_int_eq(check(make(NULL, 0), "w", 1), PS_OK);
    ck_assert_int_eq(check(none, "w", 7), PS_OK);

    ck_assert_int_eq(check(make(LENGTHS(2, 3)), "w", 5), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "Name: w, the shape [2,3] is that of 6 elements; there are 5");
    ck_assert_int_eq(check(make(LENGTHS(2, 3)), "w", 7), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(make(NULL, 0), "w", 2), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_length_of_nothing_and_a_product_beyond_64_bits_are_refused)
{
    const uint64_t half = UINT64_C(1) << 32;
    ck_assert_int_eq(check(make(LENGTHS(2, 0)), "w", 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(make(LENGTHS(half, half)), "w", 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(make(LENGTHS(half, half, 1)), "w#0/2", 1), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "cannot have the shape"));
    ck_assert_int_eq(check(make(LENGTHS(UINT64_MAX)), "w", UINT64_MAX), PS_OK);

    struct ps_shape empty = make(LENGTHS(UINT64_MAX, UINT64_MAX, 0));
    uint64_t product = 1;
    ck_assert(ps_shape_product(&empty, &product));
    ck_assert_uint_eq(product, 0);
}
END_TEST

START_TEST(a_range_of_a_cut_parameter_has_the_shape_of_the_whole)
{
    ck_assert_int_eq(check(make(LENGTHS(2, 3)), "w#0/2", 3), PS_OK);
    ck_assert_int_eq(check(make(LENGTHS(2, 3)), "w#0/2", 7), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check(make(LENGTHS(2, 3)), "w#2/2", 3), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(more_dimensions_than_the_bound_are_refused)
{
    static const uint64_t ones[PS_SHAPE_RANK_MAX + 1] = {1};
    struct ps_shape shape;
    ck_assert_int_eq(ps_shape_make(&shape, ones, PS_SHAPE_RANK_MAX, &error), PS_OK);
    ck_assert_int_eq(ps_shape_make(&shape, ones, PS_SHAPE_RANK_MAX + 1, &error), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(one_dimension_of_all_elements_is_no_shape)
{
    struct ps_shape flat = make(LENGTHS(6));
    struct ps_shape part = make(LENGTHS(6));
    struct ps_shape scalar = make(NULL, 0);

    ps_shape_settle(&flat, 6);
    ps_shape_settle(&part, 3);
    ps_shape_settle(&scalar, 1);

    ck_assert(ps_shape_equal(&flat, &none));
    ck_assert(part.is_given && scalar.is_given);
    ck_assert(!ps_shape_equal(&scalar, &none));
}
END_TEST

START_TEST(a_tensor_has_the_shape_only_if_it_is_of_its_elements)
{
    struct ps_shape shape = make(LENGTHS(2, 3));

    struct ps_shape whole = ps_shape_of_tensor(&shape, 6);
    struct ps_shape range = ps_shape_of_tensor(&shape, 3);

    ck_assert(ps_shape_equal(&whole, &shape));
    ck_assert(ps_shape_equal(&range, &none));
    ck_assert(!ps_shape_is_of(&none, 0));
}
END_TEST

START_TEST(texts_are_as_python_has_them)
{
    struct ps_shape widest = {.is_given = true, .rank = PS_SHAPE_RANK_MAX};
    struct ps_shape two = make(LENGTHS(2, 3));
    struct ps_shape scalar = make(NULL, 0);
    for (size_t i = 0; i < PS_SHAPE_RANK_MAX; i++)
        widest.lengths[i] = UINT64_MAX;

    ck_assert_str_eq(ps_shape_text(&two, 6, text), "[2,3]");
    ck_assert_str_eq(ps_shape_text(&scalar, 1, text), "[]");
    ck_assert_str_eq(ps_shape_text(&none, 6, text), "[6]");
    ck_assert_uint_eq(strlen(ps_shape_text(&widest, 1, text)), PS_SHAPE_TEXT_BYTES - 1);
}
END_TEST

START_TEST(documents_have_the_lengths_or_the_count)
{
    struct ps_buffer buffer;
    struct ps_json_writer json;
    struct ps_shape two = make(LENGTHS(2, 3));
    ps_buffer_init(&buffer, ps_allocator_heap(), 256);
    ps_json_writer_init(&json, &buffer);
    ps_json_begin_object(&json, NULL);

    ps_shape_json(&two, 6, &json, "two");
    ps_shape_json(&none, 6, &json, "none");

    ps_json_end_object(&json);
    ck_assert_str_eq(buffer.text, "{\"two\":[2,3],\"none\":[6]}");
    ps_buffer_fini(&buffer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shape");
    TCase *tests = tcase_create("shape");
    tcase_add_test(tests, the_product_of_the_lengths_is_the_count);
    tcase_add_test(tests, a_length_of_nothing_and_a_product_beyond_64_bits_are_refused);
    tcase_add_test(tests, a_range_of_a_cut_parameter_has_the_shape_of_the_whole);
    tcase_add_test(tests, more_dimensions_than_the_bound_are_refused);
    tcase_add_test(tests, one_dimension_of_all_elements_is_no_shape);
    tcase_add_test(tests, a_tensor_has_the_shape_only_if_it_is_of_its_elements);
    tcase_add_test(tests, texts_are_as_python_has_them);
    tcase_add_test(tests, documents_have_the_lengths_or_the_count);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
