/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_call.c: endpoints in turn, tokens, and what is said when no answer came. */
#include "gateway_words.h"

#include "tests/support/fault_heap.h"

/* Ways not to answer that end fast. */
static const struct gateway_step no_answers[] = {
    {GATEWAY_CLOSE, 0, NULL},
    {GATEWAY_TRUNCATE, 200, COMMIT_DONE},
    {GATEWAY_REPLY, 200, "<html>a proxy</html>"},
    {GATEWAY_REPLY, 200, ""},
    {GATEWAY_REPLY, 200, "{}"},
    {GATEWAY_REPLY, 200, "{\"header\":{\"revision\":\"x\"}}"},
    {GATEWAY_REPLY, 200, "{\"header\":{\"revision\":\"8\"},\"succeeded\":\"yes\"}"},
    {GATEWAY_REPLY, 503, TIMED_OUT},
    {GATEWAY_REPLY, 503, "no server"},
    {GATEWAY_REPLY, 500, "{\"error\":\"?\",\"code\":2}"},
    {GATEWAY_FLOOD, 200, "{\"kvs\":[      "},
};

START_TEST(a_commit_without_a_definite_answer_is_unknown_and_sent_once)
{
    struct fake_gateway *gateway = fake_gateway_start(&no_answers[_i], 1, 0);
    struct ps_kv *kv = open_at(gateway);
    bool done = false;
    struct ps_error error = {0};

    ck_assert_int_eq(try_commit(kv, 120000, &done, &error), PS_ERR_TIMEOUT);

    ck_assert(!done);
    ck_assert_int_eq(error.status, PS_ERR_TIMEOUT);
    ck_assert_uint_eq(fake_gateway_requests(gateway), 1);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_commit_that_is_never_answered_is_unknown_and_sent_once)
{
    const struct gateway_step steps[] = {{GATEWAY_SILENT, 0, NULL}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 100);
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_ERR_TIMEOUT);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 1);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(b12_curl_does_not_repeat_a_commit_on_a_connection_that_died)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, RANGE_EMPTY},
        {GATEWAY_CLOSE, 0, NULL},
        {GATEWAY_REPLY, 200, COMMIT_DONE},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    bool done = false;
    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_ERR_TIMEOUT);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 2);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_read_without_a_definite_answer_is_repeated)
{
    const struct gateway_step steps[] = {no_answers[_i], {GATEWAY_REPLY, 200, RANGE_EMPTY}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    struct ps_error error = {0};
    /* JSON that etcd never says is not repeated: only a broken or failing transfer is. */
    bool nonsense = strchr("{", no_answers[_i].body == NULL ? 'x' : no_answers[_i].body[0]) &&
                    no_answers[_i].act == GATEWAY_REPLY && no_answers[_i].status == 200 &&
                    no_answers[_i].body[0] != '\0';

    enum ps_status status = try_read(kv, 120000, &error);

    if (!nonsense)
        ck_assert_msg(status == PS_OK, "%s", error.text);
    ck_assert(status == PS_OK || status == PS_ERR_UNAVAILABLE);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_read_that_is_never_answered_ends_at_its_deadline)
{
    const struct gateway_step steps[] = {{GATEWAY_SILENT, 0, NULL}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 50);

    ck_assert_int_eq(try_read(kv, 1000, NULL), PS_ERR_TIMEOUT);

    ck_assert_uint_ge(fake_gateway_requests(gateway), 2);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_read_gives_up_on_a_gateway_that_always_fails)
{
    const struct gateway_step steps[] = {{GATEWAY_REPLY, 503, TIMED_OUT}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    struct ps_error error = {0};

    ck_assert_int_eq(try_read(kv, 120000, &error), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(error.text, "request timed out"));
    ck_assert_uint_eq(fake_gateway_requests(gateway), 2);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(nothing_is_sent_after_the_deadline)
{
    const struct gateway_step steps[] = {{GATEWAY_REPLY, 200, COMMIT_DONE}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 0, &done, NULL), PS_ERR_UNAVAILABLE);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 0);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

/* A definite no, in all shapes of errors. */
static const struct {
    int status;
    const char *body;
    enum ps_status expected;
} refusals[] = {
    {404, "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}", PS_ERR_LEASE_LOST},
    {404, "{\"code\":5,\"message\":\"etcdserver: requested lease not found\"}", PS_ERR_LEASE_LOST},
    {200, "{\"error\":{\"grpc_code\":8,\"message\":\"mvcc: database space exceeded\"}}",
     PS_ERR_BUSY},
    {429, "{\"code\":8,\"message\":\"etcdserver: mvcc: database space exceeded\"}", PS_ERR_BUSY},
    {400, "{\"code\":3,\"message\":\"etcdserver: duplicate key given\"}", PS_ERR_BAD_INPUT},
    {403, "{\"code\":7,\"message\":\"etcdserver: permission denied\"}", PS_ERR_DENIED},
    {400, "{\"code\":3,\"message\":\"etcdserver: user name is empty\"}", PS_ERR_DENIED},
    {401, TOKEN_INVALID, PS_ERR_DENIED},
    {404, "Not Found", PS_ERR_UNSUPPORTED},
};

START_TEST(a_definite_no_is_told_as_such)
{
    const struct gateway_step steps[] = {{GATEWAY_REPLY, refusals[_i].status, refusals[_i].body}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    bool done = false;
    struct ps_error error = {0};

    ck_assert_int_eq(try_commit(kv, 120000, &done, &error), refusals[_i].expected);

    ck_assert_int_eq(error.status, refusals[_i].expected);
    ck_assert_ptr_nonnull(strstr(error.text, fake_gateway_url(gateway)));
    ck_assert_uint_eq(fake_gateway_requests(gateway), 1);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(without_any_server_a_commit_is_unavailable)
{
    char endpoints[128];
    (void)snprintf(endpoints, sizeof endpoints, "127.0.0.1:%u,http://127.0.0.1:%u", free_port(),
                   free_port());
    struct ps_kv *kv = open_as(endpoints, NULL, 60000);
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_ERR_UNAVAILABLE);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_dead_endpoint_is_passed_over_also_by_a_commit)
{
    const struct gateway_step steps[] = {{GATEWAY_REPLY, 200, COMMIT_DONE}};
    struct fake_gateway *gateway = START(steps);
    char endpoints[128];
    (void)snprintf(endpoints, sizeof endpoints, "http://127.0.0.1:%u, %s/", free_port(),
                   fake_gateway_url(gateway));
    struct ps_kv *kv = open_as(endpoints, NULL, 60000);
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_OK);

    ck_assert(done);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_failing_endpoint_is_left_for_the_next_one)
{
    const struct gateway_step bad[] = {{GATEWAY_REPLY, 503, TIMED_OUT}};
    const struct gateway_step good[] = {{GATEWAY_REPLY, 200, RANGE_EMPTY}};
    struct fake_gateway *first = START(bad);
    struct fake_gateway *second = START(good);
    char endpoints[128];
    (void)snprintf(endpoints, sizeof endpoints, "%s,%s", fake_gateway_url(first),
                   fake_gateway_url(second));
    struct ps_kv *kv = open_as(endpoints, NULL, 60000);

    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);
    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);

    ck_assert_uint_eq(fake_gateway_requests(first), 1);
    ck_assert_uint_eq(fake_gateway_requests(second), 2);
    ps_kv_destroy(kv);
    fake_gateway_stop(second);
    fake_gateway_stop(first);
}
END_TEST

START_TEST(a_token_is_fetched_once_and_sent_with_every_request)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_REPLY, 200, RANGE_EMPTY},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), "user", 60000);

    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);
    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 3);
    ck_assert_ptr_nonnull(strstr(fake_gateway_head(gateway, 0), "/v3/auth/authenticate"));
    ck_assert_ptr_null(strstr(fake_gateway_head(gateway, 0), "Authorization"));
    ck_assert_str_eq(fake_gateway_body(gateway, 0),
                     "{\"name\":\"user\",\"password\":\"pass\\\"word\"}");
    ck_assert_ptr_nonnull(strstr(fake_gateway_head(gateway, 1), "Authorization: secret.1\r\n"));
    ck_assert_ptr_nonnull(strstr(fake_gateway_head(gateway, 2), "Authorization: secret.1\r\n"));
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_stale_token_is_replaced_once_even_for_a_commit)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_REPLY, 401, TOKEN_INVALID},
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_REPLY, 200, COMMIT_DONE},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), "user", 60000);
    bool done = false;

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_OK);

    ck_assert(done);
    ck_assert_uint_eq(fake_gateway_requests(gateway), 4);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_token_that_is_always_stale_is_denied)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_REPLY, 401, TOKEN_INVALID},
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_REPLY, 401, TOKEN_INVALID},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), "user", 60000);

    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_ERR_DENIED);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 4);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_wrong_password_is_denied_and_not_told)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 400,
         "{\"error\":\"etcdserver: authentication failed, invalid user ID or password\","
         "\"code\":3}"},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), "user", 60000);
    struct ps_error error = {0};

    ck_assert_int_eq(try_read(kv, 120000, &error), PS_ERR_DENIED);

    ck_assert_ptr_nonnull(strstr(error.text, "authentication failed"));
    ck_assert_ptr_null(strstr(error.text, "pass\"word"));
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(an_etcd_without_authentication_is_used_without_a_token)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 412,
         "{\"error\":\"etcdserver: authentication is not enabled\",\"code\":9}"},
        {GATEWAY_REPLY, 200, RANGE_EMPTY},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), "user", 60000);

    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);
    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_OK);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 3);
    ck_assert_ptr_null(strstr(fake_gateway_head(gateway, 1), "Authorization"));
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_grant_repeated_after_a_lost_answer_makes_one_lease)
{
    const struct gateway_step steps[] = {
        {GATEWAY_CLOSE, 0, NULL},
        {GATEWAY_REPLY, 412, "{\"error\":\"etcdserver: lease already exists\",\"code\":9}"},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    struct ps_kv_lease lease = {0};
    char expected[80];

    ck_assert_int_eq(ps_kv_lease_grant(kv, 1500, in_ms(120000), &lease, NULL), PS_OK);

    (void)snprintf(expected, sizeof expected, "{\"TTL\":\"2\",\"ID\":\"%lld\"}",
                   (long long)lease.id);
    ck_assert_str_eq(fake_gateway_body(gateway, 0), expected);
    ck_assert_str_eq(fake_gateway_body(gateway, 1), expected);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_keepalive_without_ttl_means_a_dead_lease)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, "{\"result\":{\"header\":{},\"ID\":\"5\",\"TTL\":\"10\"}}\n"},
        {GATEWAY_CLOSE, 0, NULL},
        {GATEWAY_REPLY, 200, "{\"result\":{\"header\":{},\"ID\":\"5\",\"TTL\":\"10\"}}\n"},
        {GATEWAY_REPLY, 200, "{\"result\":{\"header\":{},\"ID\":\"5\"}}\n"},
        {GATEWAY_REPLY, 200, "{}"},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    const struct ps_kv_lease lease = {5};

    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, in_ms(120000), NULL), PS_ERR_LEASE_LOST);
    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, in_ms(120000), NULL), PS_ERR_TIMEOUT);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(endpoints_that_are_none_are_refused)
{
    char many[PS_KV_KEY_BYTES_MAX] = "";
    char longest[600];
    for (int i = 0; i < 17; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "h%d:1,", i);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *endpoints[] = {NULL,        "",        ",",  "a:1,,b:1", " ",
                               "ftp://a:1", "http://", many, longest};

    for (size_t i = 0; i < PS_ARRAY_COUNT(endpoints); i++) {
        const struct ps_kv_etcd_options options = {
            .endpoints = endpoints[i], .clock = ps_clock_real(), .memory = ps_allocator_heap()};
        struct ps_kv *kv = NULL;
        ck_assert_int_eq(ps_kv_etcd_open(&options, &kv, NULL), PS_ERR_BAD_INPUT);
        ck_assert_ptr_null(kv);
    }
}
END_TEST

/* Loop test: the n-th allocation is refused. */
START_TEST(any_refused_allocation_is_survived)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_REPLY, 200,
         "{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"key\":\"L2E=\",\"value\":\"MQ==\","
         "\"create_revision\":\"2\",\"mod_revision\":\"3\",\"lease\":\"5\"}]}"},
    };
    struct fake_gateway *gateway = START(steps);
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_kv_etcd_options options = {
        .endpoints = fake_gateway_url(gateway),
        .access = {.user = "user", .password = "password", .insecure_password = true},
        .clock = ps_clock_real(),
        .memory = &memory,
        .request_ms = 60000};
    struct ps_kv *kv = NULL;

    enum ps_status status = ps_kv_etcd_open(&options, &kv, NULL);
    if (status == PS_OK)
        status = try_read(kv, 120000, NULL);

    ck_assert(status == PS_OK ? heap.seen <= _i : heap.seen > _i);
    ps_kv_destroy(kv);
    ck_assert_int_eq(heap.live, 0);
    fake_gateway_stop(gateway);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("etcd_call");
    int no_answer_count = (int)PS_ARRAY_COUNT(no_answers);
    tcase_add_loop_test(tests, a_commit_without_a_definite_answer_is_unknown_and_sent_once, 0,
                        no_answer_count);
    tcase_add_test(tests, a_commit_that_is_never_answered_is_unknown_and_sent_once);
    tcase_add_test(tests, b12_curl_does_not_repeat_a_commit_on_a_connection_that_died);
    tcase_add_loop_test(tests, a_read_without_a_definite_answer_is_repeated, 0, no_answer_count);
    tcase_add_test(tests, a_read_that_is_never_answered_ends_at_its_deadline);
    tcase_add_test(tests, a_read_gives_up_on_a_gateway_that_always_fails);
    tcase_add_test(tests, nothing_is_sent_after_the_deadline);
    tcase_add_loop_test(tests, a_definite_no_is_told_as_such, 0, (int)PS_ARRAY_COUNT(refusals));
    tcase_add_test(tests, without_any_server_a_commit_is_unavailable);
    tcase_add_test(tests, a_dead_endpoint_is_passed_over_also_by_a_commit);
    tcase_add_test(tests, a_failing_endpoint_is_left_for_the_next_one);
    tcase_add_test(tests, a_token_is_fetched_once_and_sent_with_every_request);
    tcase_add_test(tests, a_stale_token_is_replaced_once_even_for_a_commit);
    tcase_add_test(tests, a_token_that_is_always_stale_is_denied);
    tcase_add_test(tests, a_wrong_password_is_denied_and_not_told);
    tcase_add_test(tests, an_etcd_without_authentication_is_used_without_a_token);
    tcase_add_test(tests, a_grant_repeated_after_a_lost_answer_makes_one_lease);
    tcase_add_test(tests, a_keepalive_without_ttl_means_a_dead_lease);
    tcase_add_test(tests, endpoints_that_are_none_are_refused);
    tcase_add_loop_test(tests, any_refused_allocation_is_survived, 0, 24);
    return run_case("etcd_call", tests);
}
