/* SPDX-License-Identifier: Apache-2.0 */
/* client/calls/method_table.c: every method has its row, and the rows agree with each other. */
#include "client/calls/method_table.h"

#include "run_suite.h"

#include <check.h>

START_TEST(every_call_is_numbered_or_reading_but_those_that_ask_a_server_for_something)
{
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++)
        ck_assert_int_eq(ps_method_row(method)->numbered + ps_method_row(method)->reads,
                         method == PS_METHOD_SAVE || method == PS_METHOD_DRAIN ||
                                 method == PS_METHOD_SAVE_MODEL
                             ? 0
                             : 1);
}
END_TEST

START_TEST(every_numbered_request_has_an_id_of_its_own)
{
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++) {
        struct ps_call_request request = {.method = method};
        bool carries = method == PS_METHOD_PUSHES; /* its requests' ids are those of its parts */
        ck_assert_int_eq(ps_call_request_id(&request) != NULL,
                         ps_method_row(method)->numbered && !carries);
    }
    struct ps_call_request both = {.method = PS_METHOD_PUSH_PULL};
    ck_assert_ptr_eq(ps_call_request_id(&both), &both.push_pull.push.request);
}
END_TEST

START_TEST(a_request_says_for_which_shard_it_is_wherever_it_can)
{
    struct ps_call_request both = {.method = PS_METHOD_PUSH_PULL};
    struct ps_call_request since = {.method = PS_METHOD_SINCE};
    struct ps_call_request status = {.method = PS_METHOD_STATUS};

    ps_call_name_shard(&both, 4);
    ps_call_name_shard(&since, 0);
    ps_call_name_shard(&status, 4);

    ck_assert_uint_eq(both.push_pull.push.shard, 5);
    ck_assert_uint_eq(both.push_pull.pull.shard, 5);
    ck_assert_uint_eq(since.since.shard, 1);
}
END_TEST

START_TEST(what_goes_in_bundles_has_the_same_halves_as_its_bundle)
{
    for (enum ps_method method = 0; method < PS_METHOD_COUNT; method++) {
        const struct ps_method_row *row = ps_method_row(method);
        if (row->bundle == PS_METHOD_COUNT)
            continue;
        ck_assert_int_eq(row->pushes, ps_method_row(row->bundle)->pushes);
        ck_assert_int_eq(row->pulls, ps_method_row(row->bundle)->pulls);
        ck_assert_int_eq(row->reads, ps_method_row(row->bundle)->reads);
    }
}
END_TEST

START_TEST(a_row_encodes_and_decodes_the_member_of_its_method)
{
    struct ps_buffer head;
    struct ps_call_reply reply = {.method = PS_METHOD_PUSH};
    struct ps_decoded decoded = {0};
    const struct ps_push_reply said = {.version = 9, .duplicate = true};
    ps_buffer_init(&head, ps_allocator_heap(), 1000);
    ps_encode_push_reply(&said, &head);
    const struct ps_bytes bytes = {(const uint8_t *)head.text, head.size};

    ck_assert_int_eq(ps_method_row(PS_METHOD_PUSH)
                         ->decode(ps_view_of(&bytes), ps_allocator_heap(), &reply, &decoded, NULL),
                     PS_OK);

    ck_assert_uint_eq(reply.push.version, 9);
    ck_assert(reply.push.duplicate);
    ps_buffer_clear(&head);
    const struct ps_call_request request = {.method = PS_METHOD_PULL,
                                            .pull.name = ps_bytes_of_text("weights")};
    ps_method_row(PS_METHOD_PULL)->encode(&request, &head);
    ck_assert_uint_ge(head.size, 7);
    ck_assert(ps_method_row(PS_METHOD_STATUS)->encode == NULL);
    ps_buffer_fini(&head);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("method_table");
    TCase *tests = tcase_create("method_table");
    tcase_add_test(tests,
                   every_call_is_numbered_or_reading_but_those_that_ask_a_server_for_something);
    tcase_add_test(tests, every_numbered_request_has_an_id_of_its_own);
    tcase_add_test(tests, a_request_says_for_which_shard_it_is_wherever_it_can);
    tcase_add_test(tests, what_goes_in_bundles_has_the_same_halves_as_its_bundle);
    tcase_add_test(tests, a_row_encodes_and_decodes_the_member_of_its_method);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
