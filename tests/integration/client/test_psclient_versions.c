/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that were compiled with another header than the library. */
#include "tests/integration/client/first_program.h"
#include "tests/integration/client/psclient_rig.h"

#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries as a header of some later day may have them. */
struct later_gradient {
    struct psclient_gradient ours;
    uint64_t later[2];
};
struct later_parameter {
    struct psclient_parameter ours;
    uint64_t later[3];
};
struct later_result {
    struct psclient_result ours;
    uint64_t later;
};

/* Of two servers: param_a is at one, param_b at the other. */
static const char *list_of_servers(void)
{
    static char list[160];
    snprintf(list, sizeof list, "%s,%s", fake_server_address(servers[0]),
             fake_server_address(servers[1]));
    return list;
}

static struct psclient *open_later(void)
{
    const struct psclient_options options = {.servers = list_of_servers()};
    struct psclient_sizes sizes = psclient_header_sizes();
    struct psclient *opened = NULL;
    sizes.gradient = sizeof(struct later_gradient);
    sizes.parameter = sizeof(struct later_parameter);
    sizes.result = sizeof(struct later_result);
    ck_assert_int_eq(psclient_open_sized(&options, &sizes, &opened, &error), PSCLIENT_OK);
    return opened;
}

START_TEST(the_library_says_its_version)
{
    ck_assert_str_eq(psclient_version(), PSCLIENT_VERSION);
    ck_assert_str_eq(psclient_version(), PS_VERSION);
}
END_TEST

START_TEST(a_program_of_the_first_header_goes_on_working)
{
    open_client(2, "ready");

    ck_assert_int_eq(first_program_run(list_of_servers()), 0);

    close_client();
}
END_TEST

START_TEST(a_program_of_a_later_header_goes_on_working)
{
    float contents[2][4] = {{0}};
    struct later_gradient gradients[2] = {{.ours = gradient("param_a")},
                                          {.ours = gradient("param_b")}};
    struct later_parameter parameters[2] = {{.ours = parameter("param_a", contents[0])},
                                            {.ours = parameter("param_b", contents[1])}};
    struct later_result results[2];
    open_client(2, "ready");
    struct psclient *later = open_later();
    memset(results, 0xff, sizeof results);
    gradients[1].ours.content_size = 7;

    ck_assert_int_eq(psclient_push(later, &gradients[0].ours, 2, LONG_MS, &results[0].ours, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(results[0].ours.status, PSCLIENT_OK);
    ck_assert_int_eq(results[1].ours.status, PSCLIENT_INVALID);
    ck_assert_uint_eq(results[0].later, 0);
    ck_assert_uint_eq(results[1].later, 0);

    ck_assert_int_eq(
        psclient_pull(later, &parameters[0].ours, 2, LONG_MS, &results[0].ours, &error),
        PSCLIENT_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert(memcmp(contents[i], ones, sizeof ones) == 0);
        ck_assert_uint_eq(parameters[i].ours.version, 6 + (uint64_t)i);
    }
    psclient_close(later);
    close_client();
}
END_TEST

START_TEST(sizes_that_cannot_be_are_refused)
{
    const struct psclient_options options = {.servers = "localhost:1"};
    struct psclient_sizes sizes = psclient_header_sizes();
    struct psclient *opened;
    sizes.result = 8;

    ck_assert_int_eq(psclient_open_sized(&options, &sizes, &opened, &error), PSCLIENT_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_versions");
    TCase *cases = tcase_create("psclient_versions");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, the_library_says_its_version);
    tcase_add_test(cases, a_program_of_the_first_header_goes_on_working);
    tcase_add_test(cases, a_program_of_a_later_header_goes_on_working);
    tcase_add_test(cases, sizes_that_cannot_be_are_refused);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
