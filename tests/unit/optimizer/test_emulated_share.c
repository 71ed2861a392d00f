/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/emulator/emulated_share.c: what another process names is opened, is no memory of the
 * host, and lasts as long as somebody has it. */
#include "optimizer/emulator/emulated_share.h"

#include "lender.h"
#include "optimizer/device/driver.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 5000
#define REFUSED 1 /* CUDA's "invalid value" */

static struct lender lender;

static void set_up(void)
{
    lender_begin(&lender, COUNT);
}

static void tear_down(void)
{
    lender_end(&lender);
}

/* Ends a child with that signal, if the address is no memory. */
static int signal_of_a_read(const volatile float *address)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*address > 0 ? 1 : 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(bytes_are_those_of_the_other_process_and_the_address_is_no_memory)
{
    void *memory = NULL;
    for (size_t i = 0; i < COUNT; i++)
        lender.window[i] = (float)i;
    lender_store(&lender);

    ck_assert_int_eq(ps_emulated_import(NULL, &lender.share, &memory), 0);

    float *bytes = ps_emulated_bytes(memory);
    ck_assert_ptr_ne(bytes, memory);
    ck_assert_ptr_eq(ps_emulated_bytes((float *)memory + 17), bytes + 17);
    ck_assert_ptr_eq(ps_emulated_bytes(&lender), &lender);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_float_eq(bytes[i], (float)i);
    bytes[COUNT - 1] = 7;
    lender_load(&lender);
    ck_assert_float_eq(lender.window[COUNT - 1], 7);
#ifndef __SANITIZE_ADDRESS__
    ck_assert_int_eq(signal_of_a_read(memory), SIGSEGV);
#endif
    ck_assert_int_eq(signal_of_a_read(bytes), 0);
    ck_assert_int_eq(ps_emulated_unimport(NULL, memory), 0);
}
END_TEST

START_TEST(it_outlives_its_process_and_cannot_be_opened_any_more)
{
    const struct ps_device_share share = lender.share;
    void *memory = NULL, *again = NULL;
    lender.window[3] = 5;
    lender_store(&lender);
    ck_assert_int_eq(ps_emulated_import(NULL, &share, &memory), 0);

    lender_end(&lender);

    ck_assert_float_eq(((float *)ps_emulated_bytes(memory))[3], 5);
    ck_assert_int_eq(ps_emulated_import(NULL, &share, &again), REFUSED);
    ck_assert_int_eq(ps_emulated_unimport(NULL, memory), 0);
}
END_TEST

START_TEST(wrong_names_open_nothing)
{
    void *memory = NULL;
    struct ps_device_share wrong = lender.share;
    wrong.bytes += 4096;
    ck_assert_int_eq(ps_emulated_import(NULL, &wrong, &memory), REFUSED);
    wrong.bytes = 0;
    ck_assert_int_eq(ps_emulated_import(NULL, &wrong, &memory), REFUSED);
    /* Each byte that a handle has counts. */
    for (size_t i = 0; i < 3 * sizeof(int64_t); i++) {
        wrong = lender.share;
        wrong.handle[i] ^= 0x40;
        ck_assert_int_eq(ps_emulated_import(NULL, &wrong, &memory), REFUSED);
    }
    memset(&wrong, 0xff, sizeof wrong);
    ck_assert_int_eq(ps_emulated_import(NULL, &wrong, &memory), REFUSED);
    ck_assert_ptr_null(memory);
}
END_TEST

START_TEST(a_process_does_not_open_its_own_and_lets_go_once)
{
    struct ps_device_share own;
    uint8_t *base = NULL;
    void *memory = NULL, *opened = NULL;
    ck_assert_int_eq(ps_driver_share_acquire(100, &memory), 0);
    ck_assert_int_eq(ps_driver_share_name(memory, &own, &base), 0);
    ck_assert_int_eq(ps_emulated_import(NULL, &own, &opened), REFUSED);

    ck_assert_int_eq(ps_driver_share_release((uint8_t *)memory + 1), REFUSED);
    ck_assert_int_eq(ps_driver_share_release(memory), 0);
    ck_assert_int_eq(ps_driver_share_release(memory), REFUSED);

    ck_assert_int_eq(ps_emulated_import(NULL, &lender.share, &opened), 0);
    ck_assert_int_eq(ps_driver_share_name(opened, &own, &base), REFUSED); /* not ours to give */
    ck_assert_int_eq(ps_emulated_unimport(NULL, opened), 0);
    ck_assert_int_eq(ps_emulated_unimport(NULL, opened), REFUSED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emulated_share");
    TCase *tests = tcase_create("emulated_share");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, bytes_are_those_of_the_other_process_and_the_address_is_no_memory);
    tcase_add_test(tests, it_outlives_its_process_and_cannot_be_opened_any_more);
    tcase_add_test(tests, wrong_names_open_nothing);
    tcase_add_test(tests, a_process_does_not_open_its_own_and_lets_go_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
