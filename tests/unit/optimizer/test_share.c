/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/share.c over the emulator: memory of this process, named and copied. */
#include "optimizer/device/share.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 10000

START_TEST(what_is_written_to_the_device_comes_back)
{
    uint8_t there[SIZE], back[SIZE] = {0};
    void *memory = NULL;
    for (size_t i = 0; i < SIZE; i++)
        there[i] = (uint8_t)(i * 7);
    ck_assert_int_eq(ps_share_acquire(SIZE, &memory, NULL), PS_OK);

    ck_assert_int_eq(ps_share_copy(memory, there, SIZE, PS_DEVICE_COPY_FROM_HOST, NULL), PS_OK);
    ck_assert_int_eq(ps_share_copy(back, memory, SIZE, PS_DEVICE_COPY_TO_HOST, NULL), PS_OK);

    ck_assert_mem_eq(there, back, SIZE);
    ps_share_release(memory);
}
END_TEST

START_TEST(a_name_is_of_the_whole_piece_wherever_it_is_asked_for)
{
    struct ps_device_share first, inside, other;
    uint8_t *base = NULL, *same = NULL;
    void *memory = NULL, *second = NULL;
    ck_assert_int_eq(ps_share_acquire(SIZE, &memory, NULL), PS_OK);
    ck_assert_int_eq(ps_share_acquire(SIZE, &second, NULL), PS_OK);

    ck_assert_int_eq(ps_share_name(memory, &first, &base, NULL), PS_OK);
    ck_assert_int_eq(ps_share_name((uint8_t *)memory + 777, &inside, &same, NULL), PS_OK);
    ck_assert_int_eq(ps_share_name(second, &other, &same, NULL), PS_OK);

    ck_assert_ptr_eq(base, memory);
    ck_assert_mem_eq(&first, &inside, sizeof first);
    ck_assert_mem_ne(&first, &other, sizeof first);
    ck_assert_uint_ge(first.bytes, SIZE);
    ck_assert_str_eq(first.device, "EMU-0");
    ps_share_release(memory);
    ps_share_release(second);
}
END_TEST

START_TEST(a_piece_at_the_place_of_another_has_another_name)
{
    struct ps_device_share first, later;
    uint8_t *base = NULL;
    void *memory = NULL;
    ck_assert_int_eq(ps_share_acquire(SIZE, &memory, NULL), PS_OK);
    ck_assert_int_eq(ps_share_name(memory, &first, &base, NULL), PS_OK);
    ps_share_release(memory);
    ck_assert_int_eq(ps_share_acquire(SIZE, &memory, NULL), PS_OK);
    ck_assert_int_eq(ps_share_name(memory, &later, &base, NULL), PS_OK);

    ck_assert_mem_ne(&first, &later, sizeof first);
    ps_share_release(memory);
}
END_TEST

START_TEST(memory_that_is_not_the_devices_is_refused)
{
    struct ps_device_share share;
    struct ps_error error = {0};
    uint8_t *base = NULL;
    uint8_t here[64] = {0}, too[64] = {0};
    void *memory = NULL;
    ck_assert_int_eq(ps_share_name(here, &share, &base, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "naming a device's memory"));
    ck_assert_int_eq(ps_share_name(NULL, &share, &base, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_share_copy(here, too, 64, PS_DEVICE_COPY_TO_HOST, &error),
                     PS_ERR_UNSUPPORTED);
    ck_assert_int_eq(ps_share_acquire(0, &memory, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_share_copy(NULL, NULL, 0, PS_DEVICE_COPY_TO_HOST, &error), PS_OK);
    ps_share_release(NULL);
}
END_TEST

START_TEST(without_a_device_nothing_is_given)
{
    struct ps_error error = {0};
    void *memory = NULL;
    setenv("PS_EMULATOR_DEVICES", "0", 1);
    ck_assert_int_eq(ps_share_acquire(SIZE, &memory, &error), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_null(memory);
    unsetenv("PS_EMULATOR_DEVICES");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("share");
    TCase *tests = tcase_create("share");
    tcase_add_test(tests, what_is_written_to_the_device_comes_back);
    tcase_add_test(tests, a_name_is_of_the_whole_piece_wherever_it_is_asked_for);
    tcase_add_test(tests, a_piece_at_the_place_of_another_has_another_name);
    tcase_add_test(tests, memory_that_is_not_the_devices_is_refused);
    tcase_add_test(tests, without_a_device_nothing_is_given);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
