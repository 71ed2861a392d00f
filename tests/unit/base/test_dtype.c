/* SPDX-License-Identifier: Apache-2.0 */
/* base/dtype.c: the six element types. */
#include "base/dtype.h"

#include "base/attributes.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

struct sample {
    enum ps_dtype dtype;
    int wire;
    size_t size;
    const char *name;
    const char *label;
    bool is_float;
};

static const struct sample samples[] = {
    {PS_I32, 0, 4, "i32", "I32", false}, {PS_U32, 1, 4, "u32", "U32", false},
    {PS_I64, 2, 8, "i64", "I64", false}, {PS_U64, 3, 8, "u64", "U64", false},
    {PS_F32, 4, 4, "f32", "F32", true},  {PS_F64, 5, 8, "f64", "F64", true},
};

START_TEST(numbers_on_the_wire_never_change)
{
    ck_assert_int_eq((int)samples[_i].dtype, samples[_i].wire);
}
END_TEST

START_TEST(sizes_and_names_are_those_of_the_table)
{
    const struct sample *sample = &samples[_i];

    ck_assert_uint_eq(ps_dtype_size(sample->dtype), sample->size);
    ck_assert_str_eq(ps_dtype_name(sample->dtype), sample->name);
    ck_assert_str_eq(ps_dtype_label(sample->dtype), sample->label);
    ck_assert_int_eq(ps_dtype_is_float(sample->dtype), sample->is_float);
}
END_TEST

START_TEST(labels_are_found)
{
    enum ps_dtype dtype = PS_I32;

    ck_assert(ps_dtype_from_label(samples[_i].label, &dtype));
    ck_assert_int_eq(dtype, samples[_i].dtype);
}
END_TEST

START_TEST(other_labels_are_not)
{
    enum ps_dtype dtype = PS_U64;

    ck_assert(!ps_dtype_from_label("f32", &dtype));
    ck_assert(!ps_dtype_from_label("BF16", &dtype));
    ck_assert(!ps_dtype_from_label("", &dtype));
    ck_assert_int_eq(dtype, PS_U64);
}
END_TEST

START_TEST(an_unsigned_type_has_a_signed_twin_and_others_are_their_own)
{
    ck_assert_int_eq(ps_dtype_signed_twin(PS_U32), PS_I32);
    ck_assert_int_eq(ps_dtype_signed_twin(PS_U64), PS_I64);
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
        enum ps_dtype twin = ps_dtype_signed_twin(dtype);
        ck_assert_int_eq(twin != dtype, ps_dtype_is_unsigned(dtype));
        ck_assert_uint_eq(ps_dtype_size(twin), ps_dtype_size(dtype));
        ck_assert(!ps_dtype_is_unsigned(twin));
    }
}
END_TEST

START_TEST(seventh_type_is_a_bug)
{
    (void)ps_dtype_size(PS_DTYPE_COUNT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dtype");
    TCase *tests = tcase_create("dtype");
    tcase_add_loop_test(tests, numbers_on_the_wire_never_change, 0, PS_ARRAY_COUNT(samples));
    tcase_add_loop_test(tests, sizes_and_names_are_those_of_the_table, 0, PS_ARRAY_COUNT(samples));
    tcase_add_loop_test(tests, labels_are_found, 0, PS_ARRAY_COUNT(samples));
    tcase_add_test(tests, other_labels_are_not);
    tcase_add_test(tests, an_unsigned_type_has_a_signed_twin_and_others_are_their_own);
    tcase_add_test_raise_signal(tests, seventh_type_is_a_bug, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
