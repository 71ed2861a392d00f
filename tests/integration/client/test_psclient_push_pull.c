/* SPDX-License-Identifier: Apache-2.0 */
/* A push and a pull in one call, against servers that know no such call, or fail at half of it. */
#include "tests/integration/client/psclient_rig.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "proto/bundle_codec.h"
#include "run_suite.h"

#include <check.h>

static const struct fake_answer break_it = {.kind = FAKE_BREAK};

/* The reply to a push, which was applied, and a pull, of which became this. */
static struct ps_buffer pushed_and_pulled(enum ps_status status)
{
    const struct ps_bytes content = {(const uint8_t *)ones, sizeof ones};
    const struct ps_push_result pushed = {.status = {.status = PS_OK}, .reply = {.version = 7}};
    struct ps_pull_result pulled = {.status = {.status = status}};
    struct ps_buffer reply;
    ps_buffer_init(&reply, ps_allocator_heap(), 1000);
    ps_encode_push_result(&pushed, &reply);
    if (status == PS_OK)
        pulled.reply =
            (struct ps_pull_reply){.dtype = PS_F32, .version = 7, .content = ps_view_of(&content)};
    ps_encode_pull_result(&pulled, &reply);
    if (status == PS_OK)
        ps_buffer_append(&reply, content);
    return reply;
}

START_TEST(what_was_pushed_is_not_pushed_again_because_it_cannot_be_pulled)
{
    float content[4];
    struct psclient_gradient gradients[] = {gradient("w")};
    struct psclient_parameter parameters[] = {parameter("w", content)};
    struct ps_buffer reply = pushed_and_pulled(PS_ERR_UNSUPPORTED);
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL,
                       (struct fake_answer){.kind = FAKE_REPLY,
                                            .bytes = {(const uint8_t *)reply.text, reply.size}});

    int status = psclient_push_pull(client, gradients, parameters, 1, LONG_MS, NULL, &error);

    ck_assert_int_eq(status, PSCLIENT_INVALID);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH_PULL), 1);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 0);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

/* The server that broke may have applied it, before another took its place that knows no such call:
 * under a number of its own it might be applied twice. */
START_TEST(what_may_have_been_pushed_is_not_pushed_again_by_itself)
{
    float content[4];
    struct psclient_gradient gradients[] = {gradient("w")};
    struct psclient_parameter parameters[] = {parameter("w", content)};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL, refuse(PS_ERR_UNSUPPORTED));
    fake_server_next(servers[0], PS_METHOD_PUSH_PULL, 1, break_it);

    int status = psclient_push_pull(client, gradients, parameters, 1, LONG_MS, NULL, &error);

    ck_assert_int_eq(status, PSCLIENT_UNKNOWN);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 0);
    close_client();
}
END_TEST

START_TEST(a_server_without_push_pull_gets_a_push_and_a_pull)
{
    float content[4];
    struct psclient_gradient gradients[] = {gradient("w")};
    struct psclient_parameter parameters[] = {parameter("w", content)};
    open_client(1, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL, refuse(PS_ERR_UNSUPPORTED));

    int status = psclient_push_pull(client, gradients, parameters, 1, LONG_MS, NULL, &error);

    ck_assert_int_eq(status, PSCLIENT_OK);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 1);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PULL), 1);
    close_client();
}
END_TEST

/* A fleet of which one server is older: what the newer one has applied is not repeated. */
START_TEST(one_server_without_push_pull_makes_no_other_apply_twice)
{
    float contents[2][4];
    struct psclient_gradient gradients[] = {gradient("param_a"), gradient("param_b")};
    struct psclient_parameter parameters[] = {parameter("param_a", contents[0]),
                                              parameter("param_b", contents[1])};
    struct ps_buffer reply = pushed_and_pulled(PS_OK);
    open_client(2, "ready");
    fake_server_answer(servers[0], PS_METHOD_PUSH_PULL,
                       (struct fake_answer){.kind = FAKE_REPLY,
                                            .bytes = {(const uint8_t *)reply.text, reply.size}});
    fake_server_answer(servers[1], PS_METHOD_PUSH_PULL, refuse(PS_ERR_UNSUPPORTED));

    int first = psclient_push_pull(client, gradients, parameters, 2, LONG_MS, NULL, &error);
    uint32_t pushes = fake_server_calls(servers[0], PS_METHOD_PUSH);
    int second = psclient_push_pull(client, gradients, parameters, 2, LONG_MS, NULL, &error);

    ck_assert_int_eq(first, PSCLIENT_INVALID);
    ck_assert_uint_eq(pushes, 0);
    ck_assert_int_eq(second, PSCLIENT_OK); /* what follows goes as pushes and pulls */
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_PUSH), 1);
    close_client();
    ps_buffer_fini(&reply);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient push pull");
    TCase *tests = tcase_create("push pull");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, what_was_pushed_is_not_pushed_again_because_it_cannot_be_pulled);
    tcase_add_test(tests, what_may_have_been_pushed_is_not_pushed_again_by_itself);
    tcase_add_test(tests, a_server_without_push_pull_gets_a_push_and_a_pull);
    tcase_add_test(tests, one_server_without_push_pull_makes_no_other_apply_twice);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
