/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_held.c: there and back, and what is not one. */
#include "checkpoint/journal_held.h"

#include "base/bounds.h"
#include "checkpoint/little_endian.h"

#include "run_suite.h"

#include <check.h>
#include <math.h>

static uint8_t bytes[PS_HELD_HEAD_BYTES + 4];

static enum ps_status read_back(size_t size, struct ps_held_head *head, struct ps_bytes *gradient)
{
    return ps_held_head_read((struct ps_bytes){bytes, size}, head, gradient, NULL);
}

static void put_weight(float weight)
{
    uint32_t bits = 0;
    memcpy(&bits, &weight, sizeof bits);
    ps_little_put(bytes + 4, 4, bits);
}

START_TEST(a_contribution_comes_back_as_it_went)
{
    static const struct ps_held_head heads[] = {
        {0, 0}, {3, 1.5f}, {PS_ROUND_WORKERS_MAX - 1, 3.4e38f}, {1, 1e-45f}};
    struct ps_held_head read = {0};
    struct ps_bytes gradient = {0};
    memcpy(bytes + PS_HELD_HEAD_BYTES, "\1\2\3\4", 4);

    ps_held_head_write(&heads[_i], bytes);

    ck_assert_int_eq(read_back(sizeof bytes, &read, &gradient), PS_OK);
    ck_assert_uint_eq(read.worker, heads[_i].worker);
    ck_assert_mem_eq(&read.weight, &heads[_i].weight, sizeof read.weight);
    ck_assert_ptr_eq(gradient.data, bytes + PS_HELD_HEAD_BYTES);
    ck_assert_uint_eq(gradient.size, 4);
}
END_TEST

/* Byte by byte, so that the format cannot drift. */
START_TEST(a_head_is_exactly_these_bytes)
{
    static const uint8_t expected[PS_HELD_HEAD_BYTES] = {2, 1, 0, 0, 0, 0, 0xc0, 0x3f};

    ps_held_head_write(&(struct ps_held_head){258, 1.5f}, bytes);

    ck_assert_mem_eq(bytes, expected, sizeof expected);
}
END_TEST

START_TEST(a_head_that_is_cut_or_impossible_is_refused)
{
    struct ps_held_head read = {.worker = 77};
    struct ps_bytes gradient = {0};
    ps_held_head_write(&(struct ps_held_head){1, 1}, bytes);
    ck_assert_int_eq(read_back(PS_HELD_HEAD_BYTES, &read, &gradient), PS_OK);
    for (size_t cut = 0; cut < PS_HELD_HEAD_BYTES; cut++)
        ck_assert_int_eq(read_back(cut, &read, &gradient), PS_ERR_CORRUPT);
    ps_little_put(bytes, 4, PS_ROUND_WORKERS_MAX);
    ck_assert_int_eq(read_back(sizeof bytes, &read, &gradient), PS_ERR_CORRUPT);
    ps_little_put(bytes, 4, 0);
    const float impossible[] = {-1, -1e-45f, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        put_weight(impossible[i]);
        ck_assert_int_eq(read_back(sizeof bytes, &read, &gradient), PS_ERR_CORRUPT);
    }
    ck_assert_uint_eq(read.worker, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_held");
    tcase_add_loop_test(tests, a_contribution_comes_back_as_it_went, 0, 4);
    tcase_add_test(tests, a_head_is_exactly_these_bytes);
    tcase_add_test(tests, a_head_that_is_cut_or_impossible_is_refused);
    Suite *suite = suite_create("journal_held");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
