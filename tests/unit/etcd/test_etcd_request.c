/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_request.c: the JSON that etcd's gateway reads. */
#include "etcd/etcd_request.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct ps_buffer body;

static void setup(void)
{
    ps_buffer_init(&body, ps_allocator_heap(), PS_ETCD_REQUEST_BYTES_MAX);
}

static void teardown(void)
{
    ps_buffer_fini(&body);
}

START_TEST(a_range_of_one_key)
{
    ps_etcd_request_range(&body, "/a", false);

    ck_assert_str_eq(body.text, "{\"key\":\"L2E=\"}");
}
END_TEST

START_TEST(a_range_of_a_prefix_ends_at_the_next_prefix)
{
    ps_etcd_request_range(&body, "/a", true);

    ck_assert_str_eq(body.text, "{\"key\":\"L2E=\",\"range_end\":\"L2I=\"}");
}
END_TEST

START_TEST(a_prefix_that_ends_in_the_last_byte_carries)
{
    ps_etcd_request_range(&body, "a\xff\xff", true);

    ck_assert_str_eq(body.text, "{\"key\":\"Yf//\",\"range_end\":\"Yg==\"}");
}
END_TEST

START_TEST(a_prefix_of_last_bytes_goes_to_the_end)
{
    ps_etcd_request_range(&body, "\xff", true);

    ck_assert_str_eq(body.text, "{\"key\":\"/w==\",\"range_end\":\"AA==\"}");
}
END_TEST

START_TEST(a_transaction_with_everything)
{
    const struct ps_kv_compare compares[] = {{"/a", PS_KV_CREATED_AT, 0},
                                             {"/b", PS_KV_MODIFIED_AT, INT64_MAX}};
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, "/a", ps_bytes_of_text("1"), {INT64_MAX}},
        {PS_KV_PUT, "/b", {NULL, 0}, {0}},
        {PS_KV_DELETE, "/c", {NULL, 0}, {0}},
    };
    const struct ps_kv_transaction transaction = {compares, 2, changes, 3};

    ps_etcd_request_transaction(&body, &transaction);

    ck_assert_str_eq(body.text, "{\"compare\":["
                                "{\"key\":\"L2E=\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
                                "\"create_revision\":\"0\"},"
                                "{\"key\":\"L2I=\",\"target\":\"MOD\",\"result\":\"EQUAL\","
                                "\"mod_revision\":\"9223372036854775807\"}],\"success\":["
                                "{\"request_put\":{\"key\":\"L2E=\",\"value\":\"MQ==\","
                                "\"lease\":\"9223372036854775807\"}},"
                                "{\"request_put\":{\"key\":\"L2I=\",\"value\":\"\"}},"
                                "{\"request_delete_range\":{\"key\":\"L2M=\"}}]}");
}
END_TEST

START_TEST(a_lease_lasts_whole_seconds_rounded_up)
{
    ps_etcd_request_grant(&body, (struct ps_kv_lease){7}, 2001);

    ck_assert_str_eq(body.text, "{\"TTL\":\"3\",\"ID\":\"7\"}");
}
END_TEST

START_TEST(a_lease_is_named_by_its_id)
{
    ps_etcd_request_lease(&body, (struct ps_kv_lease){INT64_MAX});

    ck_assert_str_eq(body.text, "{\"ID\":\"9223372036854775807\"}");
}
END_TEST

START_TEST(names_and_passwords_are_quoted)
{
    ps_etcd_request_authenticate(&body, "a\"b", "c\\d\n");

    ck_assert_str_eq(body.text, "{\"name\":\"a\\\"b\",\"password\":\"c\\\\d\\n\"}");
}
END_TEST

START_TEST(a_watch_begins_at_its_revision_or_now)
{
    ps_etcd_request_watch(&body, "/a", 9);
    ps_buffer_append_text(&body, "|");
    ps_etcd_request_watch(&body, "/a", 0);

    ck_assert_str_eq(body.text, "{\"create_request\":{\"key\":\"L2E=\",\"range_end\":\"L2I=\","
                                "\"start_revision\":\"9\"}}|"
                                "{\"create_request\":{\"key\":\"L2E=\",\"range_end\":\"L2I=\"}}");
}
END_TEST

START_TEST(a_heartbeat_asks_for_no_values)
{
    ps_etcd_request_heartbeat(&body, "/a");

    ck_assert_str_eq(body.text, "{\"key\":\"L2E=\",\"range_end\":\"L2I=\",\"count_only\":true}");
}
END_TEST

START_TEST(a_body_beyond_its_bound_is_marked)
{
    const size_t size = PS_KV_VALUE_BYTES_MAX;
    uint8_t *bytes = ps_zeroed(ps_allocator_heap(), size);
    struct ps_kv_change changes[PS_KV_CHANGES_MAX];
    for (size_t i = 0; i < PS_KV_CHANGES_MAX; i++)
        changes[i] = (struct ps_kv_change){PS_KV_PUT, "/a", {bytes, size}, {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, changes, PS_KV_CHANGES_MAX};

    ps_etcd_request_transaction(&body, &transaction);

    ck_assert_int_ne(ps_buffer_status(&body, NULL), PS_OK);
    ps_release(ps_allocator_heap(), bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("etcd_request");
    TCase *tests = tcase_create("etcd_request");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_range_of_one_key);
    tcase_add_test(tests, a_range_of_a_prefix_ends_at_the_next_prefix);
    tcase_add_test(tests, a_prefix_that_ends_in_the_last_byte_carries);
    tcase_add_test(tests, a_prefix_of_last_bytes_goes_to_the_end);
    tcase_add_test(tests, a_transaction_with_everything);
    tcase_add_test(tests, a_lease_lasts_whole_seconds_rounded_up);
    tcase_add_test(tests, a_lease_is_named_by_its_id);
    tcase_add_test(tests, names_and_passwords_are_quoted);
    tcase_add_test(tests, a_watch_begins_at_its_revision_or_now);
    tcase_add_test(tests, a_heartbeat_asks_for_no_values);
    tcase_add_test(tests, a_body_beyond_its_bound_is_marked);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
