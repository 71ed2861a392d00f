/* SPDX-License-Identifier: Apache-2.0 */
/* Who a peer string names. */
#include "run_suite.h"
#include "server/rpc/caller.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_caller caller;

static bool is(struct ps_bytes bytes, const char *text)
{
    return ps_bytes_equal(bytes, ps_bytes_of_text(text));
}

START_TEST(the_host_is_the_address_without_its_port)
{
    ps_caller_init(&caller, "ipv4:10.0.0.7:51982");

    ck_assert(is(ps_caller_connection(&caller), "ipv4:10.0.0.7:51982"));
    ck_assert(is(ps_caller_host(&caller), "ipv4:10.0.0.7"));
    ck_assert(is(ps_caller_share(&caller), "ipv4:10.0.0.7"));
}
END_TEST

START_TEST(colons_of_an_ipv6_address_are_not_its_port)
{
    ps_caller_init(&caller, "ipv6:%5B2001:db8::7%5D:57502");

    ck_assert(is(ps_caller_host(&caller), "ipv6:%5B2001:db8::7%5D"));
    ck_assert(!caller.is_local);
}
END_TEST

START_TEST(each_connection_of_this_machine_has_its_own_share)
{
    static const char *const local[] = {"ipv4:127.0.0.1:4000", "ipv4:127.3.2.1:5",
                                        "ipv6:%5B::1%5D:57502", "unix:", "unix:/run/ps.sock"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        ps_caller_init(&caller, local[i]);

        ck_assert(caller.is_local);
        ck_assert(is(ps_caller_share(&caller), local[i]));
    }
}
END_TEST

START_TEST(an_address_that_begins_like_a_local_one_is_not_local)
{
    ps_caller_init(&caller, "ipv4:12.7.0.1:4000");
    ck_assert(!caller.is_local);

    ps_caller_init(&caller, "ipv6:%5B::11%5D:4000");
    ck_assert(!caller.is_local);
}
END_TEST

START_TEST(a_string_of_any_form_is_a_caller)
{
    char long_peer[300];
    static const char *const odd[] = {"", ":", "ipv4:", "ipv6:", "ipv4", "fd:12"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        ps_caller_init(&caller, odd[i]);
        ck_assert(is(ps_caller_connection(&caller), odd[i]));
        ck_assert_uint_le(caller.host_size, caller.connection_size);
    }
    ps_caller_init(&caller, NULL);
    ck_assert_uint_eq(caller.connection_size, 0);

    memset(long_peer, 'x', sizeof long_peer - 1);
    long_peer[sizeof long_peer - 1] = '\0';
    ps_caller_init(&caller, long_peer);

    ck_assert_uint_eq(caller.connection_size, PS_CALLER_KEY_BYTES_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("caller");
    TCase *tests = tcase_create("caller");
    tcase_add_test(tests, the_host_is_the_address_without_its_port);
    tcase_add_test(tests, colons_of_an_ipv6_address_are_not_its_port);
    tcase_add_test(tests, each_connection_of_this_machine_has_its_own_share);
    tcase_add_test(tests, an_address_that_begins_like_a_local_one_is_not_local);
    tcase_add_test(tests, a_string_of_any_form_is_a_caller);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
