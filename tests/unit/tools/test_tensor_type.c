/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs' elements become parameters' elements of the same value. */
#include "tools/psckpt/tensor_type.h"

#include "run_suite.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

START_TEST(the_types_of_parameters_stay_as_they_are)
{
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        const struct tensor_type *type = tensor_type_find(ps_dtype_label(dtype));
        ck_assert_ptr_nonnull(type);
        ck_assert_int_eq(type->dtype, dtype);
        ck_assert_uint_eq(type->size, ps_dtype_size(dtype));
        ck_assert(type->widen == NULL);
    }
    ck_assert_ptr_null(tensor_type_find("F8_E4M3"));
    ck_assert_ptr_null(tensor_type_find(""));
}
END_TEST

/* From any alignment. */
static void expect_widened(const char *label, const void *from, size_t count, enum ps_dtype dtype,
                           const void *expected)
{
    const struct tensor_type *type = tensor_type_find(label);
    uint8_t moved[17];
    uint32_t to[8] = {0};
    ck_assert_ptr_nonnull(type);
    ck_assert_int_eq(type->dtype, dtype);
    memcpy(moved + 1, from, count * type->size);
    type->widen(moved + 1, count, to);
    ck_assert_mem_eq(to, expected, count * 4);
}

START_TEST(half_floats_become_floats)
{
    static const uint16_t halves[] = {0x3c00, 0xb800, 0x0001, 0x7c00};
    static const uint16_t brains[] = {0x3f80, 0xc000, 0x0001, 0xff80};
    static const uint32_t of_halves[] = {0x3f800000, 0xbf000000, 0x33800000, 0x7f800000};
    static const uint32_t of_brains[] = {0x3f800000, 0xc0000000, 0x00010000, 0xff800000};
    expect_widened("F16", halves, 4, PS_F32, of_halves);
    expect_widened("BF16", brains, 4, PS_F32, of_brains);
}
END_TEST

START_TEST(small_whole_numbers_become_int32)
{
    static const int8_t bytes[] = {-128, 127};
    static const int16_t shorts[] = {INT16_MIN, INT16_MAX};
    expect_widened("I8", bytes, 2, PS_I32, (const int32_t[]){-128, 127});
    expect_widened("U8", (const uint8_t[]){0, 255}, 2, PS_I32, (const int32_t[]){0, 255});
    expect_widened("BOOL", (const uint8_t[]){1, 0}, 2, PS_I32, (const int32_t[]){1, 0});
    expect_widened("I16", shorts, 2, PS_I32, (const int32_t[]){INT16_MIN, INT16_MAX});
    expect_widened("U16", (const uint16_t[]){0, UINT16_MAX}, 2, PS_I32,
                   (const int32_t[]){0, UINT16_MAX});
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor_type");
    TCase *tests = tcase_create("tensor_type");
    tcase_add_test(tests, the_types_of_parameters_stay_as_they_are);
    tcase_add_test(tests, half_floats_become_floats);
    tcase_add_test(tests, small_whole_numbers_become_int32);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
