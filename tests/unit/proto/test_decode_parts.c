/* SPDX-License-Identifier: Apache-2.0 */
/* proto/decode_parts.c: what was found of a message is kept where it lies, or in one block. */
#include "proto/decode_parts.h"

#include "base/bounds.h"
#include "pieces.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer message;
static struct ps_random chance;
static struct pieces pieces;
static struct ps_decoded decoded;
static struct ps_kept kept;
static struct ps_request_id request;
static struct ps_error error;

static void set_up(void)
{
    ps_buffer_init(&message, ps_allocator_heap(), 1024);
    ps_random_init(&chance, 7);
    kept = (struct ps_kept){0};
    request = (struct ps_request_id){0};
    error = (struct ps_error){0};
    pieces = (struct pieces){0};
}

static void tear_down(void)
{
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
    ps_buffer_fini(&message);
}

/* A message of three fields: name 1, content 3, request id 15. */
static enum ps_status keep_message(size_t piece_size_max)
{
    struct ps_found found = {0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    pieces_cut(&pieces, bytes, piece_size_max, &chance);
    ps_wire_reader_init(&reader, pieces.view, &error);
    while (ps_wire_next(&reader, &field)) {
        if (field.number == 1)
            found.name = ps_decode_name(&reader, &field);
        else if (field.number == 3)
            found.content = ps_wire_bytes(&reader, &field, SIZE_MAX, "content");
        else if (field.number == 15)
            ps_decode_request_id(&reader, &field, &request, &found.client_id);
    }
    return ps_decode_keep(&reader, &found, ps_allocator_heap(), &kept, &decoded);
}

static bool is_text(struct ps_bytes bytes, const char *text)
{
    return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static void put_request_id(const char *client, uint64_t sequence)
{
    struct ps_buffer nested;
    ps_buffer_init(&nested, ps_allocator_heap(), 256);
    if (client != NULL)
        ps_wire_put_text(&nested, 1, client);
    ps_wire_put_uint(&nested, 3, sequence);
    ps_wire_put_bytes(&message, 15, (struct ps_bytes){(const uint8_t *)nested.text, nested.size});
    ps_buffer_fini(&nested);
}

START_TEST(small_fields_in_one_piece_stay_where_they_lie)
{
    ps_wire_put_text(&message, 1, "weights");

    ck_assert_int_eq(keep_message(0), PS_OK);

    ck_assert(is_text(kept.name, "weights"));
    ck_assert_ptr_eq(kept.name.data, pieces.list[0].data + 2);
    ck_assert_ptr_null(decoded.message);
}
END_TEST

START_TEST(fields_that_are_cut_are_put_together)
{
    ps_wire_put_text(&message, 1, "a name that is longer than a piece");
    put_request_id("a client whose id is cut too", 7);
    ps_wire_put_text(&message, 3, "content of some bytes");

    ck_assert_int_eq(keep_message(3), PS_OK);

    ck_assert(is_text(kept.name, "a name that is longer than a piece"));
    ck_assert(is_text(kept.client_id, "a client whose id is cut too"));
    ck_assert_uint_eq(kept.content.size, strlen("content of some bytes"));
    ck_assert_ptr_nonnull(decoded.message);
}
END_TEST

START_TEST(a_request_id_that_comes_twice_is_merged)
{
    put_request_id("trainer", 7);
    put_request_id(NULL, 8);

    ck_assert_int_eq(keep_message(0), PS_OK);

    ck_assert(request.present);
    ck_assert_uint_eq(request.sequence, 8);
    ck_assert(is_text(kept.client_id, "trainer"));
}
END_TEST

START_TEST(a_name_that_is_too_long_is_refused_and_nothing_is_held)
{
    static char name[PS_NAME_BYTES_MAX + 2];
    memset(name, 'n', PS_NAME_BYTES_MAX + 1);
    ps_wire_put_text(&message, 3, "content");
    ps_wire_put_text(&message, 1, name);

    ck_assert_int_eq(keep_message(3), PS_ERR_BAD_INPUT);

    ck_assert_ptr_null(decoded.memory);
    ck_assert_ptr_null(decoded.pieces);
}
END_TEST

START_TEST(a_name_that_is_not_text_is_refused_and_nothing_is_held)
{
    ps_wire_put_text(&message, 3, "content");
    ps_wire_put_text(&message, 1, "\xff\xfe a name");

    ck_assert_int_eq(keep_message(3), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "UTF-8"));
    ck_assert_ptr_null(decoded.memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode_parts");
    TCase *tests = tcase_create("decode_parts");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, small_fields_in_one_piece_stay_where_they_lie);
    tcase_add_test(tests, fields_that_are_cut_are_put_together);
    tcase_add_test(tests, a_request_id_that_comes_twice_is_merged);
    tcase_add_test(tests, a_name_that_is_too_long_is_refused_and_nothing_is_held);
    tcase_add_test(tests, a_name_that_is_not_text_is_refused_and_nothing_is_held);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
