/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/gradient_runs.c: in whatever encoding and however cut, the elements that it stands
 * for. */
#include "server/core/update/gradient_runs.h"
#include "tests/unit/core/core_encoded.h"

#include <string.h>

static struct encoded encoded;
static struct ps_gradient_runs runs;
static double collected[ENCODED_MAX];

/* Walks with runs of at most `count_max`; asserts that the elements are those decoded at once. */
static void walk(struct ps_gradient gradient, size_t count_max)
{
    size_t size = ps_dtype_size(encoded.dtype);
    size_t count = 0;
    ps_gradient_runs_init(&runs, gradient, encoded.dtype, encoded.count);
    for (;;) {
        struct ps_element_run run = ps_gradient_runs_next(&runs, count_max);
        if (run.count == 0)
            break;
        ck_assert_uint_le(run.count, count_max);
        memcpy((char *)collected + count * size, run.elements, run.count * size);
        count += run.count;
    }
    ck_assert_uint_eq(count, encoded.count);
    ck_assert_mem_eq(collected, encoded.decoded, count * size);
}

static const size_t counts[] = {1, 2, 255, 256, 257, 2048, 4097, 20000};

START_TEST(elements_are_those_of_decoding_the_whole_at_once)
{
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            encoded_make(&encoded, (enum ps_encoding)_i, dtype, counts[i], counts[i] / 3, 11);
            walk(encoded_whole(&encoded), SIZE_MAX / 8);
            walk(encoded_whole(&encoded), 100);
        }
    }
}
END_TEST

START_TEST(cuts_change_nothing)
{
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        encoded_make(&encoded, (enum ps_encoding)_i, dtype, 9001, 700, 12);
        for (uint64_t seed = 0; seed < 40; seed++)
            walk(encoded_cut(&encoded, seed), 1 + seed * seed * 5);
    }
}
END_TEST

START_TEST(what_needs_no_decoding_is_given_where_it_lies)
{
    enum ps_dtype dtype = _i == PS_ENCODING_FLOAT64 ? PS_F64 : PS_F32;
    encoded_make(&encoded, (enum ps_encoding)_i, dtype, 100, 0, 13);

    ps_gradient_runs_init(&runs, encoded_whole(&encoded), dtype, 100);
    struct ps_element_run run = ps_gradient_runs_next(&runs, 1000);

    ck_assert_ptr_eq(run.elements, encoded.content);
    ck_assert_uint_eq(run.count, 100);
}
END_TEST

START_TEST(pairs_of_nothing_are_all_zeros)
{
    encoded_make(&encoded, PS_ENCODING_TOP_K, PS_F64, 5000, 0, 14);

    walk(encoded_whole(&encoded), 5000);
}
END_TEST

START_TEST(a_walk_needs_some_20_kilobytes)
{
    ck_assert_uint_le(sizeof runs, 25 * 1024);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gradient_runs");
    tcase_add_loop_test(tests, elements_are_those_of_decoding_the_whole_at_once, 0,
                        PS_ENCODING_COUNT);
    tcase_add_loop_test(tests, cuts_change_nothing, 0, PS_ENCODING_COUNT);
    tcase_add_loop_test(tests, what_needs_no_decoding_is_given_where_it_lies, 0,
                        PS_ENCODING_FLOAT64 + 1);
    tcase_add_test(tests, pairs_of_nothing_are_all_zeros);
    tcase_add_test(tests, a_walk_needs_some_20_kilobytes);
    return run_tests("gradient_runs", tests);
}
