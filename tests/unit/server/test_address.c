/* SPDX-License-Identifier: Apache-2.0 */
/* server/address.c: which address clients are told. */
#include "run_suite.h"
#include "server/address.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char address[PS_ADDRESS_BYTES_MAX];

START_TEST(what_is_advertised_is_told_as_it_is)
{
    ck_assert_int_eq(ps_address_to_advertise("node7:9000", "0.0.0.0:0", 8000, address, NULL),
                     PS_OK);
    ck_assert_str_eq(address, "node7:9000");
}
END_TEST

START_TEST(port_zero_becomes_the_port_that_was_bound)
{
    ck_assert_int_eq(ps_address_to_advertise("node7:0", "0.0.0.0:0", 8000, address, NULL), PS_OK);
    ck_assert_str_eq(address, "node7:8000");
    ck_assert_int_eq(ps_address_to_advertise(NULL, "127.0.0.1:0", 8001, address, NULL), PS_OK);
    ck_assert_str_eq(address, "127.0.0.1:8001");
}
END_TEST

/* B31: the old system took the first network card that was up. */
START_TEST(b31_no_network_card_is_guessed)
{
    char host[PS_ADDRESS_BYTES_MAX] = "";
    ck_assert_int_eq(gethostname(host, sizeof host - 1), 0);
    size_t length = strlen(host);
    memcpy(host + length, ":8000", 6);
    const char *const everywhere[] = {"0.0.0.0:8000", "[::]:8000", "*:8000"};

    for (size_t i = 0; i < sizeof everywhere / sizeof everywhere[0]; i++) {
        ck_assert_int_eq(ps_address_to_advertise(NULL, everywhere[i], 8000, address, NULL), PS_OK);
        ck_assert_str_eq(address, host);
    }
}
END_TEST

static const char *const malformed[] = {"", "host", ":8000", "host:"};

START_TEST(what_is_no_address_is_refused)
{
    struct ps_error error = {0};

    ck_assert_int_eq(ps_address_to_advertise(malformed[_i], "0.0.0.0:1", 1, address, &error),
                     PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "HOST:PORT"));
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    char wide[2 * PS_ADDRESS_BYTES_MAX];
    memset(wide, 'a', sizeof wide);
    memcpy(wide + sizeof wide - 6, ":8000", 6);

    ck_assert_int_eq(ps_address_to_advertise(wide, "0.0.0.0:1", 1, address, NULL),
                     PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("address");
    TCase *tests = tcase_create("address");
    tcase_add_test(tests, what_is_advertised_is_told_as_it_is);
    tcase_add_test(tests, port_zero_becomes_the_port_that_was_bound);
    tcase_add_test(tests, b31_no_network_card_is_guessed);
    tcase_add_loop_test(tests, what_is_no_address_is_refused, 0,
                        sizeof malformed / sizeof malformed[0]);
    tcase_add_test(tests, what_does_not_fit_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
