/* SPDX-License-Identifier: Apache-2.0 */
/* proto/cluster_codec.c: who serves what, there and back. */
#include "proto/cluster_codec.h"

#include "proto/wire.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer message;
static struct ps_cluster_reply reply;
static struct ps_error error;

static void setup(void)
{
    ps_buffer_init(&message, ps_allocator_heap(), 1 << 20);
    memset(&reply, 0, sizeof reply);
}

static void teardown(void)
{
    ps_cluster_reply_release(&reply);
    ps_buffer_fini(&message);
}

static enum ps_status decode(void)
{
    const struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    return ps_decode_cluster(ps_view_of(&bytes), ps_allocator_heap(), &reply, &error);
}

static void put_head(uint32_t shard_count)
{
    const struct ps_cluster_reply head = {
        .shard_count = shard_count, .revision = 77, .split_bytes = 4096, .alone = true};
    ps_encode_cluster(&head, "mnist", "9.9", &message);
}

START_TEST(what_was_said_is_read)
{
    const struct ps_cluster_member first = {.address = "a:1", .epoch = 5, .answers = true};
    const struct ps_cluster_member third = {.epoch = 9};
    put_head(3);
    ps_encode_cluster_member(0, &first, "/run/ps.sock", &message);
    ps_encode_cluster_member(2, &third, NULL, &message);

    ck_assert_int_eq(decode(), PS_OK);

    ck_assert_uint_eq(reply.shard_count, 3);
    ck_assert_uint_eq(reply.revision, 77);
    ck_assert_uint_eq(reply.split_bytes, 4096);
    ck_assert(reply.alone);
    ck_assert_str_eq(reply.rows[0].address, "a:1");
    ck_assert(reply.rows[0].answers);
    ck_assert_uint_eq(reply.rows[0].epoch, 5);
    ck_assert_uint_eq(reply.rows[1].epoch, 0);
    ck_assert_str_eq(reply.rows[2].address, "");
    ck_assert_uint_eq(reply.rows[2].epoch, 9);
}
END_TEST

START_TEST(servers_may_come_before_their_number)
{
    const struct ps_cluster_member member = {.address = "b:2", .epoch = 6};
    ps_encode_cluster_member(1, &member, NULL, &message);
    put_head(2);

    ck_assert_int_eq(decode(), PS_OK);
    ck_assert_str_eq(reply.rows[1].address, "b:2");
}
END_TEST

START_TEST(an_empty_message_knows_nobody)
{
    ck_assert_int_eq(decode(), PS_OK);
    ck_assert_uint_eq(reply.shard_count, 0);
    ck_assert_ptr_null(reply.rows);
}
END_TEST

START_TEST(more_shards_than_a_job_may_have_are_refused)
{
    ps_wire_put_uint(&message, 1, PS_SHARDS_MAX + 1);
    ck_assert_int_eq(decode(), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_server_of_no_shard_is_refused)
{
    const struct ps_cluster_member member = {.address = "b:2", .epoch = 6};
    put_head(2);
    ps_encode_cluster_member(2, &member, NULL, &message);
    ck_assert_int_eq(decode(), PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(reply.rows);
}
END_TEST

START_TEST(an_address_that_is_too_long_or_no_text_is_refused)
{
    char row[400];
    struct ps_buffer member;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    memset(address, 'a', sizeof address - 1);
    address[sizeof address - 1] = '\0';
    ps_buffer_init_fixed(&member, row, sizeof row);
    ps_wire_put_text(&member, 2, _i == 0 ? address : "\xff");
    put_head(1);
    ps_wire_put_bytes(&message, 2, (struct ps_bytes){(const uint8_t *)row, member.size});
    ck_assert_int_eq(decode(), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_path_beyond_the_bound_is_left_out)
{
    char path[600];
    const struct ps_cluster_member member = {.address = "b:2", .epoch = 6, .answers = true};
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    put_head(1);
    ps_encode_cluster_member(0, &member, path, &message);
    ck_assert_int_eq(decode(), PS_OK);
    ck_assert_str_eq(reply.rows[0].address, "b:2");
}
END_TEST

START_TEST(a_refused_allocation_is_told)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    put_head(2);
    const struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    ck_assert_int_eq(ps_decode_cluster(ps_view_of(&bytes), &memory, &reply, NULL),
                     PS_ERR_NO_MEMORY);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_codec");
    TCase *tests = tcase_create("cluster_codec");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_said_is_read);
    tcase_add_test(tests, servers_may_come_before_their_number);
    tcase_add_test(tests, an_empty_message_knows_nobody);
    tcase_add_test(tests, more_shards_than_a_job_may_have_are_refused);
    tcase_add_test(tests, a_server_of_no_shard_is_refused);
    tcase_add_loop_test(tests, an_address_that_is_too_long_or_no_text_is_refused, 0, 2);
    tcase_add_test(tests, a_path_beyond_the_bound_is_left_out);
    tcase_add_test(tests, a_refused_allocation_is_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
