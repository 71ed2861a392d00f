/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_reply_error.c: errors recorded from etcd 3.4 and 3.5, and what they mean to us. */
#include "etcd/etcd_reply.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    long http_status;
    const char *text;
    enum ps_etcd_meaning meaning;
    enum ps_status status; /* of a refusal */
} recorded[] = {
    {200, "{\"header\":{\"revision\":\"5\"}}", PS_ETCD_FINE, PS_OK},
    {200, "{}", PS_ETCD_FINE, PS_OK},
    /* One answer, 3.4 and 3.5. */
    {404,
     "{\"error\":\"etcdserver: requested lease not found\","
     "\"message\":\"etcdserver: requested lease not found\",\"code\":5}",
     PS_ETCD_REFUSED, PS_ERR_LEASE_LOST},
    {404, "{\"code\":5, \"message\":\"etcdserver: requested lease not found\"}", PS_ETCD_REFUSED,
     PS_ERR_LEASE_LOST},
    {412, "{\"error\":\"etcdserver: lease already exists\",\"code\":9}", PS_ETCD_REFUSED,
     PS_ERR_EXISTS},
    {503, "{\"error\":\"etcdserver: request timed out\",\"code\":14}", PS_ETCD_UNKNOWN, PS_OK},
    {503, "{\"code\":14, \"message\":\"etcdserver: leader changed\"}", PS_ETCD_UNKNOWN, PS_OK},
    {500, "{\"error\":\"context deadline exceeded\",\"code\":2}", PS_ETCD_UNKNOWN, PS_OK},
    {429, "{\"error\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}", PS_ETCD_REFUSED,
     PS_ERR_BUSY},
    {400, "{\"error\":\"etcdserver: mvcc: required revision has been compacted\",\"code\":11}",
     PS_ETCD_REFUSED, PS_ERR_CONFLICT},
    {501, "{\"code\":12,\"message\":\"Method Not Allowed\"}", PS_ETCD_REFUSED, PS_ERR_UNSUPPORTED},
    {404, "{\"code\":5,\"message\":\"Not Found\",\"details\":[]}", PS_ETCD_REFUSED,
     PS_ERR_NOT_FOUND},
    {400, "{\"code\":3,\"message\":\"etcdserver: key is not provided\"}", PS_ETCD_REFUSED,
     PS_ERR_BAD_INPUT},
    /* Authentication. */
    {401, "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}", PS_ETCD_AUTHENTICATE,
     PS_ERR_DENIED},
    {400, "{\"error\":\"etcdserver: user name is empty\",\"code\":3}", PS_ETCD_AUTHENTICATE,
     PS_ERR_DENIED},
    {400, "{\"error\":\"etcdserver: revision of auth store is old\",\"code\":3}",
     PS_ETCD_AUTHENTICATE, PS_ERR_DENIED},
    {412, "{\"error\":\"etcdserver: authentication is not enabled\",\"code\":9}", PS_ETCD_NO_AUTH,
     PS_ERR_UNSUPPORTED},
    {400,
     "{\"error\":\"etcdserver: authentication failed, invalid user ID or password\",\"code\":3}",
     PS_ETCD_REFUSED, PS_ERR_DENIED},
    {403, "{\"error\":\"etcdserver: permission denied\",\"code\":7}", PS_ETCD_REFUSED,
     PS_ERR_DENIED},
    {401, "Unauthorized", PS_ETCD_AUTHENTICATE, PS_ERR_DENIED},
    {400,
     "CommonName of client sending a request against gateway will be ignored and not used as "
     "expected\n",
     PS_ETCD_REFUSED, PS_ERR_DENIED},
    /* Within a stream. */
    {200,
     "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\","
     "\"http_status\":\"Service Unavailable\"}}",
     PS_ETCD_UNKNOWN, PS_OK},
    {200, "{\"error\":{\"code\":7,\"message\":\"etcdserver: permission denied\"}}", PS_ETCD_REFUSED,
     PS_ERR_DENIED},
    /* Not etcd. */
    {404, "404 page not found", PS_ETCD_REFUSED, PS_ERR_UNSUPPORTED},
    {405, "", PS_ETCD_REFUSED, PS_ERR_UNSUPPORTED},
    {502, "<html>Bad Gateway</html>", PS_ETCD_UNKNOWN, PS_OK},
    {200, "<html>Welcome</html>", PS_ETCD_UNKNOWN, PS_OK},
    {200, "", PS_ETCD_UNKNOWN, PS_OK},
    {500, "{}", PS_ETCD_UNKNOWN, PS_OK},
    {200, "{\"error\":7}", PS_ETCD_UNKNOWN, PS_OK},
    {200, "{\"error\":{}}", PS_ETCD_UNKNOWN, PS_OK},
};

START_TEST(an_error_means_what_is_known_of_it)
{
    struct ps_etcd_error error;

    ps_etcd_reply_error(ps_bytes_of_text(recorded[_i].text), recorded[_i].http_status, &error);

    ck_assert_int_eq(error.meaning, recorded[_i].meaning);
    if (error.meaning == PS_ETCD_REFUSED || error.meaning == PS_ETCD_AUTHENTICATE)
        ck_assert_int_eq(error.status, recorded[_i].status);
}
END_TEST

START_TEST(words_of_an_error_are_printable_and_bounded)
{
    char text[1024] = "{\"code\":3,\"message\":\"a\\u0007\\n\xc3\xa4";
    size_t used = strlen(text);
    memset(text + used, 'x', 600);
    memcpy(text + used + 600, "\"}", 3);
    struct ps_etcd_error error;

    ps_etcd_reply_error(ps_bytes_of_text(text), 400, &error);

    ck_assert_int_eq(strncmp(error.text, "a????x", 6), 0);
    ck_assert_uint_eq(strlen(error.text), sizeof error.text - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("etcd_reply_error");
    TCase *tests = tcase_create("etcd_reply_error");
    tcase_add_loop_test(tests, an_error_means_what_is_known_of_it, 0,
                        (int)PS_ARRAY_COUNT(recorded));
    tcase_add_test(tests, words_of_an_error_are_printable_and_bounded);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
