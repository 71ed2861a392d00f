/* SPDX-License-Identifier: Apache-2.0 */
/* proto/bundle_encode.c: the bytes of bundles, and what is left out of them. */
#include "proto/bundle_codec.h"

#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct ps_bytes text(const char *literal)
{
    return ps_bytes_of_text(literal);
}

static void assert_bytes(const struct ps_buffer *wire, const void *bytes, size_t size)
{
    ck_assert_int_eq(ps_buffer_status(wire, NULL), PS_OK);
    ck_assert_uint_eq(wire->size, size);
    ck_assert_mem_eq(wire->text, bytes, size);
}

#define ASSERT_BYTES(wire, literal) assert_bytes((wire), (literal), sizeof(literal) - 1)

static char memory[8192];
static struct ps_buffer wire;

static void set_up(void)
{
    ps_buffer_init_fixed(&wire, memory, sizeof memory);
}

START_TEST(an_id_is_a_message_of_its_own)
{
    const struct ps_request_id nobody = {.client_id = text("x"), .session = 1};
    const struct ps_request_id base = {
        .present = true, .client_id = text("c"), .session = 2, .sequence = 300};

    ps_encode_bundle_id(&nobody, &wire);
    ck_assert_uint_eq(wire.size, 0);
    ps_encode_bundle_id(&base, &wire);

    ASSERT_BYTES(&wire, "\x7a\x08\x0a\x01"
                        "c\x10\x02\x18\xac\x02");
}
END_TEST

START_TEST(a_push_in_its_place_carries_no_number)
{
    const struct ps_request_id base = {.present = true, .client_id = text("c"), .sequence = 300};
    struct ps_push_request push = {.name = text("w"), .request = base};
    push.request.sequence = 307;

    ps_encode_bundle_push(&push, &base, 7, &wire);

    ASSERT_BYTES(&wire, "\x0a\x05\x0a\x01w\x1a\x00");
}
END_TEST

START_TEST(a_push_out_of_its_place_carries_its_number_and_nothing_else_of_its_id)
{
    const struct ps_request_id base = {.present = true, .client_id = text("c"), .sequence = 300};
    struct ps_push_request push = {.name = text("w"), .request = base};
    push.request.sequence = 5;

    ps_encode_bundle_push(&push, &base, 7, &wire);

    ASSERT_BYTES(&wire, "\x0a\x09\x0a\x01w\x7a\x02\x18\x05\x1a\x00");
}
END_TEST

START_TEST(an_item_is_as_long_as_its_head_and_the_content_that_follows)
{
    static const uint8_t content[200];
    const struct ps_request_id nobody = {0};
    const struct ps_bytes piece = {content, sizeof content};
    const struct ps_push_request push = {.name = text("w"), .content = ps_view_of(&piece)};

    ps_encode_bundle_push(&push, &nobody, 0, &wire);
    size_t head = wire.size;
    ps_buffer_append(&wire, piece);

    struct ps_bytes bytes = {(const uint8_t *)wire.text, wire.size};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&bytes), NULL);
    ck_assert(ps_wire_next(&reader, &field));
    ck_assert_uint_eq(field.number, 1);
    ck_assert_uint_eq(field.bytes.size, head - 3 + sizeof content);
    ck_assert(!ps_wire_next(&reader, &field));
    ck_assert_int_eq(reader.status, PS_OK);
}
END_TEST

START_TEST(numbered_and_other_pushes_in_one_message_abort)
{
    const struct ps_request_id base = {.present = true, .client_id = text("c")};
    const struct ps_push_request push = {.name = text("w")};

    ps_encode_bundle_push(&push, &base, 0, &wire);
}
END_TEST

START_TEST(since_is_its_pulls_the_most_bytes_and_the_shard)
{
    const struct ps_pull_request pulls[] = {{.name = text("a")}, {.name = text("b")}};
    const struct ps_since_request since = {pulls, 2, 9, 3};

    ps_encode_since(&since, &wire);

    ASSERT_BYTES(&wire, "\x12\x03\x0a\x01"
                        "a\x12\x03\x0a\x01"
                        "b\x20\x09\x70\x03");
}
END_TEST

START_TEST(a_result_is_a_reply_or_a_status_and_never_both)
{
    const struct ps_push_result worked = {.status = {.status = PS_OK}, .reply = {.version = 4}};
    const struct ps_push_result failed = {
        .status = {.status = PS_ERR_BUSY, .text = text("full"), .retry_ms = 50},
        .reply = {.version = 4}};

    ps_encode_push_result(&worked, &wire);
    ASSERT_BYTES(&wire, "\x0a\x04\x0a\x02\x08\x04");
    ps_buffer_clear(&wire);
    ps_encode_push_result(&failed, &wire);

    ASSERT_BYTES(&wire, "\x0a\x12\x12\x10\x08\x08\x12\x04"
                        "busy\x1a\x04"
                        "full\x20\x32");
}
END_TEST

START_TEST(a_pull_that_failed_has_no_content)
{
    const uint8_t content[] = {1, 2, 3, 4};
    const struct ps_bytes piece = {content, sizeof content};
    struct ps_pull_result result = {.status = {.status = PS_ERR_NOT_FOUND},
                                    .reply = {.content = ps_view_of(&piece)}};

    ps_encode_pull_result(&result, &wire);
    ck_assert_uint_eq((uint8_t)wire.text[1], wire.size - 2);
    ps_buffer_clear(&wire);
    result.status.status = PS_OK;
    ps_encode_pull_result(&result, &wire);

    ck_assert_uint_eq((uint8_t)wire.text[1], wire.size - 2 + sizeof content);
}
END_TEST

START_TEST(a_full_buffer_is_marked_whatever_was_to_be_written)
{
    const struct ps_pull_request pull = {.name = text("weights")};
    for (size_t room = 1; room <= 12; room++) {
        ps_buffer_init_fixed(&wire, memory, room);

        ps_encode_bundle_pull(&pull, &wire);

        ck_assert_int_eq(ps_buffer_status(&wire, NULL), room > 11 ? PS_OK : PS_ERR_NO_MEMORY);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bundle_encode");
    TCase *tests = tcase_create("bundle_encode");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, an_id_is_a_message_of_its_own);
    tcase_add_test(tests, a_push_in_its_place_carries_no_number);
    tcase_add_test(tests, a_push_out_of_its_place_carries_its_number_and_nothing_else_of_its_id);
    tcase_add_test(tests, an_item_is_as_long_as_its_head_and_the_content_that_follows);
    tcase_add_test_raise_signal(tests, numbered_and_other_pushes_in_one_message_abort, SIGABRT);
    tcase_add_test(tests, since_is_its_pulls_the_most_bytes_and_the_shard);
    tcase_add_test(tests, a_result_is_a_reply_or_a_status_and_never_both);
    tcase_add_test(tests, a_pull_that_failed_has_no_content);
    tcase_add_test(tests, a_full_buffer_is_marked_whatever_was_to_be_written);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
