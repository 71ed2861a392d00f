/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_transport.c: connections that stay, an environment that does not matter, bounds. */
#include "gateway_words.h"

START_TEST(one_connection_serves_many_requests)
{
    const struct gateway_step steps[] = {{GATEWAY_REPLY, 200, RANGE_EMPTY}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 10);
    ck_assert_uint_eq(fake_gateway_connections(gateway), 1);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_proxy_of_the_environment_is_not_used)
{
    char proxy[64];
    (void)snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", free_port());
    ck_assert_int_eq(setenv("http_proxy", proxy, 1), 0);
    ck_assert_int_eq(setenv("all_proxy", proxy, 1), 0);
    const struct gateway_step steps[] = {{GATEWAY_REPLY, 200, RANGE_EMPTY}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);

    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_redirect_is_not_followed)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 307, "{}"},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_ERR_TIMEOUT);
    ck_assert_uint_eq(fake_gateway_requests(gateway), 1);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_reply_without_end_is_cut)
{
    const struct gateway_step steps[] = {
        {GATEWAY_FLOOD, 200, "                                                               "}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 60000);
    struct ps_error error = {0};
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 120000, &done, &error), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(error.text, "too long"));
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("etcd_transport");
    tcase_add_test(tests, one_connection_serves_many_requests);
    tcase_add_test(tests, a_proxy_of_the_environment_is_not_used);
    tcase_add_test(tests, a_redirect_is_not_followed);
    tcase_add_test(tests, a_reply_without_end_is_cut);
    return run_case("etcd_transport", tests);
}
