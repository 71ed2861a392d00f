/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_watch.c: streams that break, lie, or say nothing. */
#include "gateway_words.h"

#include "base/thread.h"

#define CREATED "{\"result\":{\"header\":{\"revision\":\"7\"},\"created\":true}}\n"
#define EVENT \
    "{\"result\":{\"header\":{\"revision\":\"8\"},\"events\":[{\"kv\":{\"key\":\"L2E=\"}}]}}\n"
#define COMPACTED                                                                                 \
    "{\"result\":{\"header\":{\"revision\":\"9\"},\"canceled\":true,\"compact_revision\":\"8\"}}" \
    "\n"
#define CANCELLED "{\"result\":{\"header\":{},\"canceled\":true}}\n"
#define DENIED                                                                              \
    "{\"result\":{\"header\":{},\"created\":true,\"canceled\":true,"                        \
    "\"cancel_reason\":\"rpc error: code = PermissionDenied desc = etcdserver: permission " \
    "denied\"}}\n"

static enum ps_status try_watch(struct ps_kv *kv, struct ps_error *error)
{
    return ps_kv_watch_open(kv, "/a", 0, in_ms(120000), error);
}

START_TEST(an_event_is_a_change)
{
    const struct gateway_step steps[] = {{GATEWAY_STREAM, 200, CREATED EVENT EVENT},
                                         {GATEWAY_REPLY, 200, RANGE_EMPTY}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_at(gateway);
    bool changed = false;
    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);

    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_OK);

    ck_assert(changed);
    ck_assert_str_eq(fake_gateway_body(gateway, 0),
                     "{\"create_request\":{\"key\":\"L2E=\",\"range_end\":\"L2I=\"}}");
    ck_assert_ptr_nonnull(strstr(fake_gateway_head(gateway, 0), "hasleader: true"));
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

/* What breaks a watch after it was confirmed. */
static const struct {
    struct gateway_step step;
    enum ps_status expected;
} breaks[] = {
    {{GATEWAY_REPLY, 200, CREATED}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_TRUNCATE, 200, CREATED}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_STREAM, 200, CREATED COMPACTED}, PS_ERR_CONFLICT},
    {{GATEWAY_STREAM, 200, CREATED CANCELLED}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_STREAM, 200, CREATED "nonsense\n"}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_STREAM, 200, CREATED "{}\n"}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_STREAM, 200, CREATED "[1]\n"}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_REPLY, 200,
      CREATED "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"no leader\"}}"},
     PS_ERR_UNAVAILABLE},
    {{GATEWAY_REPLY, 200, CREATED "{\"error\":{\"code\":11,\"message\":\"compacted\"}}"},
     PS_ERR_CONFLICT},
};

START_TEST(a_broken_watch_says_so_and_is_closed)
{
    struct fake_gateway *gateway = fake_gateway_start(&breaks[_i].step, 1, 0);
    struct ps_kv *kv = open_at(gateway);
    bool changed = false;
    struct ps_error error = {0};

    enum ps_status status = try_watch(kv, &error);
    if (status == PS_OK)
        status = ps_kv_watch_wait(kv, in_ms(120000), &changed, &error);

    ck_assert_int_eq(status, breaks[_i].expected);
    ck_assert_int_eq(error.status, breaks[_i].expected);
    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_ERR_UNAVAILABLE);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

/* What is not a watch from the start. */
static const struct {
    struct gateway_step step;
    enum ps_status expected;
} refusals[] = {
    {{GATEWAY_REPLY, 503, TIMED_OUT}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_REPLY, 404, "Not Found"}, PS_ERR_UNSUPPORTED},
    {{GATEWAY_REPLY, 200, "nonsense"}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_CLOSE, 0, NULL}, PS_ERR_UNAVAILABLE},
    {{GATEWAY_STREAM, 200, DENIED}, PS_ERR_DENIED},
    {{GATEWAY_REPLY, 401, TOKEN_INVALID}, PS_ERR_DENIED},
    {{GATEWAY_FLOOD, 200, "                                                "}, PS_ERR_UNAVAILABLE},
};

START_TEST(a_watch_that_is_not_confirmed_is_refused)
{
    struct fake_gateway *gateway = fake_gateway_start(&refusals[_i].step, 1, 0);
    struct ps_kv *kv = open_at(gateway);
    struct ps_error error = {0};

    ck_assert_int_eq(try_watch(kv, &error), refusals[_i].expected);

    ck_assert_int_eq(error.status, refusals[_i].expected);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(an_endpoint_that_does_not_confirm_is_left_for_the_next_one)
{
    const struct gateway_step silent[] = {{GATEWAY_SILENT, 0, NULL}};
    const struct gateway_step good[] = {{GATEWAY_STREAM, 200, CREATED}};
    struct fake_gateway *first = START(silent);
    struct fake_gateway *second = START(good);
    char endpoints[192];
    (void)snprintf(endpoints, sizeof endpoints, "127.0.0.1:%u,%s,%s", free_port(),
                   fake_gateway_url(first), fake_gateway_url(second));
    struct ps_kv *kv = open_as(endpoints, NULL, 2000);

    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);

    ck_assert_uint_eq(fake_gateway_requests(first), 1);
    ps_kv_destroy(kv);
    fake_gateway_stop(second);
    fake_gateway_stop(first);
}
END_TEST

START_TEST(a_stale_token_is_replaced_once_for_a_watch)
{
    const struct gateway_step steps[] = {
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_STREAM, 200, DENIED},
        {GATEWAY_REPLY, 200, TOKEN},
        {GATEWAY_STREAM, 200, CREATED},
    };
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), "user", 60000);

    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);

    ck_assert_uint_eq(fake_gateway_requests(gateway), 4);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_hung_etcd_breaks_the_watch)
{
    const struct gateway_step steps[] = {{GATEWAY_STREAM, 200, CREATED}, {GATEWAY_SILENT, 0, NULL}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 2000);
    bool changed = false;
    struct ps_error error = {0};
    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);

    ck_assert_int_eq(ps_kv_watch_wait(kv, PS_DEADLINE_NEVER, &changed, &error), PS_ERR_UNAVAILABLE);

    ck_assert_ptr_nonnull(strstr(error.text, "does not answer"));
    ck_assert_uint_eq(fake_gateway_requests(gateway), 2);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_hung_etcd_is_noticed_over_several_short_waits)
{
    const struct gateway_step steps[] = {{GATEWAY_STREAM, 200, CREATED}, {GATEWAY_SILENT, 0, NULL}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 2000);
    bool changed = false;
    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);

    enum ps_status status = PS_OK;
    while (status == PS_OK)
        status = ps_kv_watch_wait(kv, in_ms(10), &changed, NULL);

    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert_uint_eq(fake_gateway_requests(gateway), 2);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

START_TEST(a_quiet_watch_on_a_living_etcd_stays)
{
    const struct gateway_step steps[] = {{GATEWAY_STREAM, 200, CREATED},
                                         {GATEWAY_REPLY, 200, RANGE_EMPTY}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 2000);
    bool changed = true;
    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);

    while (fake_gateway_requests(gateway) < 3)
        ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(300), &changed, NULL), PS_OK);

    ck_assert(!changed);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

static void interrupt(void *context)
{
    ps_kv_interrupt(context);
}

START_TEST(another_thread_ends_a_wait)
{
    const struct gateway_step steps[] = {{GATEWAY_STREAM, 200, CREATED}};
    struct fake_gateway *gateway = START(steps);
    struct ps_kv *kv = open_as(fake_gateway_url(gateway), NULL, 60000);
    ck_assert_int_eq(try_watch(kv, NULL), PS_OK);
    struct ps_thread thread;
    ck_assert_int_eq(ps_thread_start(&thread, "interrupter", interrupt, kv, NULL), PS_OK);
    bool changed = true;

    ck_assert_int_eq(ps_kv_watch_wait(kv, PS_DEADLINE_NEVER, &changed, NULL), PS_OK);

    ck_assert(!changed);
    ps_thread_join(&thread);
    ps_kv_destroy(kv);
    fake_gateway_stop(gateway);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("etcd_watch");
    tcase_add_test(tests, an_event_is_a_change);
    tcase_add_loop_test(tests, a_broken_watch_says_so_and_is_closed, 0,
                        (int)PS_ARRAY_COUNT(breaks));
    tcase_add_loop_test(tests, a_watch_that_is_not_confirmed_is_refused, 0,
                        (int)PS_ARRAY_COUNT(refusals));
    tcase_add_test(tests, an_endpoint_that_does_not_confirm_is_left_for_the_next_one);
    tcase_add_test(tests, a_stale_token_is_replaced_once_for_a_watch);
    tcase_add_test(tests, a_hung_etcd_breaks_the_watch);
    tcase_add_test(tests, a_hung_etcd_is_noticed_over_several_short_waits);
    tcase_add_test(tests, a_quiet_watch_on_a_living_etcd_stays);
    tcase_add_test(tests, another_thread_ends_a_wait);
    return run_case("etcd_watch", tests);
}
