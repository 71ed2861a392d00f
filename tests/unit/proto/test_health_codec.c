/* SPDX-License-Identifier: Apache-2.0 */
/* proto/health_codec.c: which service is asked about, and how it is. */
#include "proto/health_codec.h"

#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(health_names_its_service)
{
    const uint8_t request[] = {0x0a, 3, 'a', 'b', 'c'};
    const uint8_t no_text[] = {0x0a, 1, 0};
    struct ps_bytes bytes = {request, sizeof request};
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];

    ck_assert_int_eq(ps_decode_health(ps_view_of(&bytes), service, NULL), PS_OK);
    ck_assert_str_eq(service, "abc");
    ck_assert_int_eq(ps_decode_health((struct ps_view){0}, service, NULL), PS_OK);
    ck_assert_str_eq(service, "");
    bytes = (struct ps_bytes){no_text, sizeof no_text};
    ck_assert_int_eq(ps_decode_health(ps_view_of(&bytes), service, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_name_may_have_its_whole_bound_and_no_more)
{
    char name[PS_HEALTH_SERVICE_BYTES_MAX + 2];
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    for (size_t more = 0; more < 2; more++) {
        char memory[512];
        struct ps_buffer request;
        ps_buffer_init_fixed(&request, memory, sizeof memory);
        ps_wire_put_text(&request, 1, name + 1 - more);
        struct ps_bytes bytes = {(const uint8_t *)request.text, request.size};

        enum ps_status status = ps_decode_health(ps_view_of(&bytes), service, NULL);

        ck_assert_int_eq(status, more == 0 ? PS_OK : PS_ERR_BAD_INPUT);
    }
    ck_assert_uint_eq(strlen(service), PS_HEALTH_SERVICE_BYTES_MAX);
}
END_TEST

START_TEST(a_name_in_pieces_is_joined_and_the_last_one_counts)
{
    const uint8_t request[] = {0x0a, 1, 'x', 0x10, 7, 0x0a, 3, 'a', 'b', 'c'};
    struct ps_bytes pieces[sizeof request];
    for (size_t i = 0; i < sizeof request; i++)
        pieces[i] = (struct ps_bytes){&request[i], 1};
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];

    ck_assert_int_eq(
        ps_decode_health((struct ps_view){pieces, sizeof request, sizeof request}, service, NULL),
        PS_OK);

    ck_assert_str_eq(service, "abc");
}
END_TEST

START_TEST(a_reply_is_one_number)
{
    char memory[16];
    struct ps_buffer reply;
    ps_buffer_init_fixed(&reply, memory, sizeof memory);

    ps_encode_health_reply(PS_HEALTH_UNKNOWN, &reply);
    ck_assert_uint_eq(reply.size, 0);
    ps_encode_health_reply(PS_HEALTH_NOT_SERVING, &reply);

    ck_assert_uint_eq(reply.size, 2);
    ck_assert_mem_eq(reply.text, "\x08\x02", 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("health_codec");
    TCase *tests = tcase_create("health_codec");
    tcase_add_test(tests, health_names_its_service);
    tcase_add_test(tests, a_name_may_have_its_whole_bound_and_no_more);
    tcase_add_test(tests, a_name_in_pieces_is_joined_and_the_last_one_counts);
    tcase_add_test(tests, a_reply_is_one_number);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
