/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that look: nothing is changed on the way, and nothing strange is missed. */
#include "client/local/finite_copy.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1031 };

static float floats[COUNT + 1];
static double doubles[COUNT + 1];

/* What is finite at its extremes. */
static void fill(void)
{
    static const float few[] = {0.0f, -0.0f, 1e-45f, -1.5f, 3.4028234e38f, -3.4028234e38f};
    static const double few_doubles[] = {0.0, -0.0, 5e-324, -1.5, 1.7976931348623157e308, 1e-310};
    for (size_t i = 0; i <= COUNT; i++) {
        floats[i] = few[i % 6];
        doubles[i] = few_doubles[i % 6];
    }
}

START_TEST(every_byte_arrives_wherever_it_begins_and_ends)
{
    uint8_t to[sizeof doubles + 16];
    fill();
    const uint8_t *from = (const uint8_t *)doubles;
    for (size_t shift = 0; shift < 8; shift++) {
        for (size_t count = 0; count < 70; count++) {
            memset(to, 0xaa, sizeof to);
            (void)ps_finite_copy(to + 8 + shift, from + shift, count * 8, PS_F64);
            ck_assert_int_eq(memcmp(to + 8 + shift, from + shift, count * 8), 0);
            ck_assert_uint_eq(to[7 + shift], 0xaa);
            ck_assert_uint_eq(to[8 + shift + count * 8], 0xaa);
        }
    }
}
END_TEST

START_TEST(extremes_are_finite)
{
    static uint8_t to[sizeof doubles];
    fill();
    ck_assert(ps_finite_copy(to, floats, sizeof floats, PS_F32));
    ck_assert(ps_finite_copy(to, doubles, sizeof doubles, PS_F64));
    ck_assert(ps_finite_copy(to, doubles, 0, PS_F64));
}
END_TEST

START_TEST(what_is_not_finite_is_seen_at_every_place)
{
    static const float strange[] = {INFINITY, -INFINITY, NAN};
    static uint8_t to[sizeof doubles];
    fill();
    for (size_t i = 0; i < COUNT; i++) {
        float kept = floats[i];
        double kept_double = doubles[i];
        floats[i] = strange[i % 3];
        doubles[i] = (double)strange[i % 3];
        ck_assert(!ps_finite_copy(to, floats, COUNT * sizeof(float), PS_F32));
        ck_assert_int_eq(memcmp(to, floats, COUNT * sizeof(float)), 0);
        ck_assert(!ps_finite_copy(to, doubles, COUNT * sizeof(double), PS_F64));
        floats[i] = kept;
        doubles[i] = kept_double;
    }
}
END_TEST

/* The low half of a double may look like the infinity of a float. */
START_TEST(halves_of_a_double_are_no_floats)
{
    const uint64_t bits = UINT64_C(0x3ff000007ff00000);
    uint64_t to;
    ck_assert(ps_finite_copy(&to, &bits, sizeof bits, PS_F64));
    ck_assert_uint_eq(to, bits);
}
END_TEST

START_TEST(whole_numbers_are_finite_whatever_their_bits)
{
    uint64_t from[8], to[8];
    memset(from, 0xff, sizeof from);
    for (enum ps_dtype dtype = 0; dtype < PS_DTYPE_COUNT; dtype++)
        ck_assert_int_eq(ps_finite_copy(to, from, sizeof from, dtype), !ps_dtype_is_float(dtype));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("finite_copy");
    TCase *tests = tcase_create("finite_copy");
    tcase_add_test(tests, every_byte_arrives_wherever_it_begins_and_ends);
    tcase_add_test(tests, extremes_are_finite);
    tcase_add_test(tests, what_is_not_finite_is_seen_at_every_place);
    tcase_add_test(tests, halves_of_a_double_are_no_floats);
    tcase_add_test(tests, whole_numbers_are_finite_whatever_their_bits);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
