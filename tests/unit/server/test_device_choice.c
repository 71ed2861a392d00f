/* SPDX-License-Identifier: Apache-2.0 */
/* server/device_choice.c and device_guard.c: the words of --device. What becomes of them is in
 * tests/integration/device/test_device_start_up.py, with the real program. */
#include "run_suite.h"
#include "server/device_choice.h"
#include "server/device_guard.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_device_name name;
static struct ps_error error;

START_TEST(words_are_taken_for_what_they_say)
{
    ck_assert_int_eq(ps_device_name_parse("auto", &name, &error), PS_OK);
    ck_assert_int_eq(name.kind, PS_DEVICE_AUTO);
    ck_assert_int_eq(ps_device_name_parse("cpu", &name, &error), PS_OK);
    ck_assert_int_eq(name.kind, PS_DEVICE_CPU);
    ck_assert_int_eq(ps_device_name_parse("emu", &name, &error), PS_OK);
    ck_assert_int_eq(name.kind, PS_DEVICE_EMU);
    ck_assert_int_eq(ps_device_name_parse("cuda:17", &name, &error), PS_OK);
    ck_assert_int_eq(name.kind, PS_DEVICE_CUDA);
    ck_assert_uint_eq(name.ordinal, 17);
    ck_assert_ptr_null(name.uuid);
    ck_assert_int_eq(ps_device_name_parse("cuda:MIG-7f2a", &name, &error), PS_OK);
    ck_assert_str_eq(name.uuid, "MIG-7f2a");
    ck_assert_uint_eq(name.ordinal, 0);
}
END_TEST

START_TEST(other_words_are_refused)
{
    static const char *const words[] = {"",        "CPU",     "gpu",        "cuda",       "cuda:",
                                        "cuda:-1", "cuda:1x", "cuda:12345", "cuda:gpu-1", "emu:0"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ck_assert_int_eq(ps_device_name_parse(words[i], &name, &error), PS_ERR_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(error.text, "expected auto, cpu, cuda:N or cuda:UUID"));
    }
}
END_TEST

START_TEST(the_cpu_needs_nothing)
{
    const struct ps_device_choice_options options = {.device = "cpu"};
    struct ps_device_choice choice;

    ck_assert_int_eq(ps_device_choose(&options, &choice, &error), PS_OK);

    ck_assert_str_eq(choice.text, "cpu");
    ck_assert_ptr_null(choice.store.device);
    ps_device_choice_close(&choice);
}
END_TEST

START_TEST(a_server_on_the_cpu_has_no_device_that_could_die)
{
    struct ps_pserver_options asked = {.device = "cpu", .data_dir = "/nowhere"};
    struct ps_device_guard guard;

    ck_assert_int_eq(ps_device_guard_open(&guard, &asked, NULL, 0, &error), PS_OK);

    ps_device_guard_watch(&guard, NULL, NULL);
    ck_assert_ptr_null(ps_device_guard_store(&guard));
    ck_assert(!ps_device_guard_died(&guard));
    ps_device_guard_note_death(&guard);
    ps_device_guard_close(&guard);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_choice");
    TCase *tests = tcase_create("choice");
    tcase_add_test(tests, words_are_taken_for_what_they_say);
    tcase_add_test(tests, other_words_are_refused);
    tcase_add_test(tests, the_cpu_needs_nothing);
    tcase_add_test(tests, a_server_on_the_cpu_has_no_device_that_could_die);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
