/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the greatest magnitudes, against sorting. */
#include "optimizer/encoded.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5000

struct ranked {
    float magnitude;
    uint32_t index;
};

/* The greatest first, of equals the one of the lowest index; NaN before all numbers. */
static int by_rank(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (isnan(a->magnitude) != isnan(b->magnitude))
        return isnan(a->magnitude) ? -1 : 1;
    if (!isnan(a->magnitude) && a->magnitude != b->magnitude)
        return a->magnitude > b->magnitude ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_index(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void check(const double *elements, size_t count, size_t kept)
{
    static float narrow[COUNT];
    static struct ranked ranked[COUNT];
    static uint8_t encoded[COUNT * PS_ENCODING_PAIR_BYTES + 1];
    static uint8_t encoded_wide[sizeof encoded];
    for (size_t i = 0; i < count; i++) {
        narrow[i] = (float)elements[i];
        ranked[i] = (struct ranked){fabsf(narrow[i]), (uint32_t)i};
    }
    qsort(ranked, count, sizeof ranked[0], by_rank);
    qsort(ranked, kept, sizeof ranked[0], by_index);

    ps_encode_top_k(PS_F32, narrow, count, kept, encoded + 1);
    ps_encode_top_k(PS_F64, elements, count, kept, encoded_wide + 1);

    ck_assert_mem_eq(encoded + 1, encoded_wide + 1, kept * PS_ENCODING_PAIR_BYTES);
    for (size_t i = 0; i < kept; i++) {
        uint32_t index;
        memcpy(&index, encoded + 1 + i * 4, 4);
        ck_assert_uint_eq(index, ranked[i].index);
        ck_assert_mem_eq(encoded + 1 + kept * 4 + i * 4, &narrow[index], 4);
    }
}

static const size_t kept_counts[] = {0, 1, 2, 50, 2500, 4999, 5000};

START_TEST(the_greatest_are_kept)
{
    static double elements[COUNT];
    uint64_t state = 7;
    for (size_t i = 0; i < COUNT; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        elements[i] = ldexp((double)(int64_t)state, -(int)(state >> 40 & 63));
    }

    check(elements, COUNT, kept_counts[_i]);
}
END_TEST

START_TEST(of_equals_the_first_are_kept)
{
    static double elements[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        elements[i] = i % 3 == 0 ? -0.5 : (double)(i % 2);

    check(elements, COUNT, kept_counts[_i]);
}
END_TEST

START_TEST(zeros_are_kept_when_there_is_nothing_else)
{
    static double elements[COUNT];
    memset(elements, 0, sizeof elements);
    elements[4000] = 1e-45;

    check(elements, COUNT, kept_counts[_i]);
}
END_TEST

START_TEST(what_is_not_finite_is_never_left_behind)
{
    double elements[] = {1e30, (double)NAN, -1e300, 3, (double)-INFINITY, 2};

    check(elements, 6, 1);
    check(elements, 6, 2);
    check(elements, 6, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("encoding_top_k");
    TCase *tests = tcase_create("encoding_top_k");
    tcase_add_loop_test(tests, the_greatest_are_kept, 0, 7);
    tcase_add_loop_test(tests, of_equals_the_first_are_kept, 0, 7);
    tcase_add_loop_test(tests, zeros_are_kept_when_there_is_nothing_else, 0, 7);
    tcase_add_test(tests, what_is_not_finite_is_never_left_behind);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
