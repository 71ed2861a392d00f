/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/emulator/emulator_fault.c: what the environment arms. */
#include "run_suite.h"

#include "optimizer/device/fault.h"
#include "optimizer/emulator/emulator.h"

#include <check.h>
#include <stdlib.h>

static struct ps_emulator_fault read_from(const char *text)
{
    struct ps_emulator_fault fault = {0};
    ck_assert_int_eq(setenv("PS_EMULATOR_FAIL", text, 1), 0);
    ps_emulator_fault_read(&fault);
    return fault;
}

START_TEST(each_word_arms_its_own_fault)
{
    ck_assert_uint_eq(read_from("memory:3").memory_at, 3);
    ck_assert_uint_eq(read_from("hang:2").hang_at, 2);
    ck_assert_uint_eq(read_from("launch:7").launch_at, 7);
    ck_assert_int_eq(read_from("launch:7").launch_code, PS_FAULT_ILLEGAL_ADDRESS);
    ck_assert_int_eq(read_from("launch:7:214").launch_code, 214);
}
END_TEST

START_TEST(other_words_and_none_arm_nothing)
{
    struct ps_emulator_fault fault = read_from("lunch:7");
    ck_assert_uint_eq(fault.memory_at + fault.hang_at + fault.launch_at, 0);

    ck_assert_int_eq(unsetenv("PS_EMULATOR_FAIL"), 0);
    fault.launch_at = 4;
    ps_emulator_fault_read(&fault);
    ck_assert_uint_eq(fault.launch_at, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emulator_fault");
    TCase *tests = tcase_create("emulator_fault");
    tcase_add_test(tests, each_word_arms_its_own_fault);
    tcase_add_test(tests, other_words_and_none_arm_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
