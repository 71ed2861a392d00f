/* SPDX-License-Identifier: Apache-2.0 */
/* proto/change_codec.c: DropParam and ConfigureParam there and back, and what is not one. */
#include "proto/change_codec.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>

static char room[2 * PS_CONFIG_BYTES_MAX];
static struct ps_buffer message;
static struct ps_bytes written;

static void begin_test(void)
{
    ps_buffer_init_fixed(&message, room, sizeof room);
}

static struct ps_view view(void)
{
    written = (struct ps_bytes){(const uint8_t *)message.text, message.size};
    return ps_view_of(&written);
}

START_TEST(a_request_comes_back_as_it_went)
{
    const struct ps_change_request request = {
        .name = ps_bytes_of_text("w"),
        .change = ps_bytes_of_text("change"),
        .shard = 3,
        .request = {
            .present = true, .client_id = ps_bytes_of_text("id"), .session = 7, .sequence = 8}};
    struct ps_change_request read;
    struct ps_decoded decoded;
    ps_encode_change(&request, &message);

    ck_assert_int_eq(ps_decode_change(view(), ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    ck_assert(ps_bytes_equal(read.name, request.name));
    ck_assert(ps_bytes_equal(read.change, request.change));
    ck_assert_uint_eq(read.shard, 3);
    ck_assert(read.request.present &&
              ps_bytes_equal(read.request.client_id, request.request.client_id));
    ck_assert_uint_eq(read.request.session, 7);
    ck_assert_uint_eq(read.request.sequence, 8);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(a_reply_comes_back_as_it_went)
{
    const struct ps_change_reply reply = {.version = 1,
                                          .duplicate = true,
                                          .position = 2,
                                          .config = ps_bytes_of_text("config"),
                                          .step = 4};
    struct ps_change_reply read;
    struct ps_decoded decoded;
    ps_encode_change_reply(&reply, &message);
    ps_encode_change_durable(3, &message);

    ck_assert_int_eq(ps_decode_change_reply(view(), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(read.version == 1 && read.duplicate && read.position == 2 && read.step == 4);
    ck_assert_uint_eq(read.durable_position, 3);
    ck_assert(ps_bytes_equal(read.config, reply.config));
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(a_change_beyond_its_bound_is_refused)
{
    static const uint8_t many[PS_CONFIG_BYTES_MAX + 1] = {0};
    struct ps_change_request read;
    struct ps_decoded decoded;
    ps_wire_put_bytes(&message, 2, (struct ps_bytes){many, sizeof many});

    ck_assert_int_eq(ps_decode_change(view(), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("change_codec");
    tcase_add_checked_fixture(tests, begin_test, NULL);
    tcase_add_test(tests, a_request_comes_back_as_it_went);
    tcase_add_test(tests, a_reply_comes_back_as_it_went);
    tcase_add_test(tests, a_change_beyond_its_bound_is_refused);
    Suite *suite = suite_create("change_codec");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
