/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that come back as they were sent, wherever the network cuts them. */
#include "proto/codec.h"

#include "base/bounds.h"
#include "pieces.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20260101, MESSAGE_BYTES_MAX = 128 * 1024 };

static uint8_t wire[MESSAGE_BYTES_MAX];

static struct ps_bytes text(const char *literal)
{
    return ps_bytes_of_text(literal);
}

/* Head and content as they go on the wire. */
static struct ps_bytes join(struct ps_buffer *head, struct ps_view content)
{
    ck_assert(!head->failed);
    ck_assert_uint_le(head->size + content.size, sizeof wire);
    memcpy(wire, head->text, head->size);
    ps_view_copy(content, 0, wire + head->size, content.size);
    struct ps_bytes joined = {wire, head->size + content.size};
    ps_buffer_fini(head);
    return joined;
}

static struct ps_buffer new_head(void)
{
    struct ps_buffer head;
    ps_buffer_init(&head, ps_allocator_heap(), MESSAGE_BYTES_MAX);
    return head;
}

static struct ps_bytes wire_of_push(struct ps_bytes content, const char *name)
{
    const struct ps_push_request request = {
        .name = text(name),
        .dtype = PS_F32,
        .content = ps_view_of(&content),
        .ack = PS_ACK_LOGGED,
        .row_width = 4096,
        .shard = 300,
        .request = {.present = true, .client_id = text("client-7"), .session = 3, .sequence = 300},
    };
    struct ps_buffer head = new_head();
    ps_encode_push(&request, &head);
    return join(&head, request.content);
}

START_TEST(push_comes_back_wherever_it_is_cut)
{
    const size_t sizes[] = {0, 1, 2, 3, 9, 1000};
    uint8_t content[5000];
    struct ps_random random;
    ps_random_init(&random, SEED + (uint64_t)_i);
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)ps_random_next(&random);
    struct ps_bytes sent = {content, (size_t)ps_random_below(&random, sizeof content)};
    struct ps_bytes bytes = wire_of_push(sent, "layer1/weight-\xc3\xa4");
    struct pieces pieces;
    pieces_cut(&pieces, bytes, sizes[(size_t)_i % PS_ARRAY_COUNT(sizes)], &random);
    struct ps_push_request read;
    struct ps_decoded decoded;

    enum ps_status status = ps_decode_push(pieces.view, ps_allocator_heap(), &read, &decoded, NULL);

    ck_assert_int_eq(status, PS_OK);
    ck_assert(ps_bytes_equal(read.name, text("layer1/weight-\xc3\xa4")));
    ck_assert_int_eq(read.dtype, PS_F32);
    ck_assert_int_eq(read.ack, PS_ACK_LOGGED);
    ck_assert_uint_eq(read.row_width, 4096);
    ck_assert_uint_eq(read.shard, 300);
    ck_assert(read.request.present);
    ck_assert(ps_bytes_equal(read.request.client_id, text("client-7")));
    ck_assert_uint_eq(read.request.session, 3);
    ck_assert_uint_eq(read.request.sequence, 300);
    ck_assert(pieces_equal(read.content, sent));
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
}
END_TEST

START_TEST(content_stays_where_it_lies)
{
    uint8_t content[64] = {1, 2, 3};
    struct ps_bytes bytes = wire_of_push((struct ps_bytes){content, sizeof content}, "w");
    struct ps_push_request read;
    struct ps_decoded decoded;

    enum ps_status status =
        ps_decode_push(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL);

    ck_assert_int_eq(status, PS_OK);
    ck_assert_uint_eq(read.content.piece_count, 1);
    ck_assert_ptr_eq(read.content.pieces[0].data, wire + bytes.size - sizeof content);
    ck_assert_ptr_null(decoded.message);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(init_comes_back_with_config_and_content)
{
    uint8_t content[16] = {9, 8, 7};
    uint8_t config[300];
    memset(config, 0x5a, sizeof config);
    struct ps_bytes sent = {content, sizeof content};
    const struct ps_init_request request = {.name = text("w"),
                                            .dtype = PS_U64,
                                            .content = ps_view_of(&sent),
                                            .config = {config, sizeof config}};
    struct ps_buffer head = new_head();
    ps_encode_init(&request, &head);
    struct ps_bytes bytes = join(&head, request.content);
    struct ps_random random;
    ps_random_init(&random, SEED);
    struct pieces pieces;
    pieces_cut(&pieces, bytes, 7, &random);
    struct ps_init_request read;
    struct ps_decoded decoded;

    enum ps_status status = ps_decode_init(pieces.view, ps_allocator_heap(), &read, &decoded, NULL);

    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_eq(read.dtype, PS_U64);
    ck_assert(ps_bytes_equal(read.config, request.config));
    ck_assert(pieces_equal(read.content, sent));
    ck_assert(!read.request.present);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
}
END_TEST

START_TEST(init_reply_comes_back)
{
    const struct ps_init_reply reply = {.epoch = UINT64_MAX};
    struct ps_buffer head = new_head();
    ps_encode_init_reply(&reply, &head);
    struct ps_bytes bytes = join(&head, (struct ps_view){0});
    struct ps_init_reply read;

    ck_assert_int_eq(ps_decode_init_reply(ps_view_of(&bytes), ps_allocator_heap(), &read, NULL),
                     PS_OK);

    ck_assert_uint_eq(read.epoch, UINT64_MAX);
}
END_TEST

START_TEST(what_older_programs_send_has_no_epoch)
{
    struct ps_init_reply reply = {.epoch = 99};
    struct ps_finish_request finish = {.epoch = 99};
    struct ps_decoded decoded;
    const struct ps_view nothing = {0};

    ck_assert_int_eq(ps_decode_init_reply(nothing, ps_allocator_heap(), &reply, NULL), PS_OK);
    ck_assert_int_eq(ps_decode_finish(nothing, ps_allocator_heap(), &finish, &decoded, NULL),
                     PS_OK);

    ck_assert_uint_eq(reply.epoch, 0);
    ck_assert_uint_eq(finish.epoch, 0);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(finish_comes_back_with_its_epoch_and_request_id)
{
    const struct ps_finish_request request = {
        .epoch = 1ULL << 52,
        .shard = UINT32_MAX,
        .request = {.present = true, .client_id = text("c"), .session = UINT64_MAX}};
    struct ps_buffer head = new_head();
    ps_encode_finish(&request, &head);
    struct ps_bytes bytes = join(&head, (struct ps_view){0});
    struct ps_finish_request read;
    struct ps_decoded decoded;

    enum ps_status status =
        ps_decode_finish(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL);

    ck_assert_int_eq(status, PS_OK);
    ck_assert_uint_eq(read.epoch, 1ULL << 52);
    ck_assert_uint_eq(read.shard, UINT32_MAX);
    ck_assert(read.request.present);
    ck_assert_uint_eq(read.request.session, UINT64_MAX);
    ck_assert_uint_eq(read.request.sequence, 0);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(encodings_come_back)
{
    const struct ps_push_request push = {.name = text("w"), .encoding = PS_ENCODING_TOP_K};
    const struct ps_pull_request pull = {.name = text("w"), .encoding = PS_ENCODING_INT8};
    const struct ps_pull_reply reply = {.name = text("w"), .encoding = PS_ENCODING_BFLOAT16};
    struct ps_push_request read_push;
    struct ps_pull_request read_pull;
    struct ps_pull_reply read_reply;
    struct ps_decoded decoded;

    struct ps_buffer head = new_head();
    ps_encode_push(&push, &head);
    struct ps_bytes bytes = join(&head, push.content);
    ck_assert_int_eq(
        ps_decode_push(ps_view_of(&bytes), ps_allocator_heap(), &read_push, &decoded, NULL), PS_OK);
    ps_decoded_release(&decoded);
    head = new_head();
    ps_encode_pull(&pull, &head);
    bytes = join(&head, (struct ps_view){0});
    ck_assert_int_eq(
        ps_decode_pull(ps_view_of(&bytes), ps_allocator_heap(), &read_pull, &decoded, NULL), PS_OK);
    ps_decoded_release(&decoded);
    head = new_head();
    ps_encode_pull_reply(&reply, &head);
    bytes = join(&head, reply.content);
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &read_reply, &decoded, NULL),
        PS_OK);
    ps_decoded_release(&decoded);

    ck_assert_int_eq(read_push.encoding, PS_ENCODING_TOP_K);
    ck_assert_int_eq(read_pull.encoding, PS_ENCODING_INT8);
    ck_assert_int_eq(read_reply.encoding, PS_ENCODING_BFLOAT16);
}
END_TEST

START_TEST(keys_of_a_pull_come_back)
{
    uint64_t keys[3] = {1, UINT64_MAX, 1};
    struct ps_bytes piece = {(const uint8_t *)keys, sizeof keys};
    const struct ps_pull_request pull = {.name = text("t"), .keys = ps_view_of(&piece)};
    struct ps_pull_request read;
    struct ps_decoded decoded;
    struct ps_buffer head = new_head();

    ps_encode_pull(&pull, &head);
    struct ps_bytes bytes = join(&head, pull.keys);
    ck_assert_int_eq(ps_decode_pull(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    uint64_t got[3];
    ck_assert_uint_eq(read.keys.size, sizeof keys);
    ps_view_copy(read.keys, 0, got, sizeof got);
    ck_assert_mem_eq(got, keys, sizeof keys);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(replies_come_back)
{
    uint8_t content[24] = {4, 5, 6};
    struct ps_bytes sent = {content, sizeof content};
    const struct ps_pull_reply reply = {
        .name = text("w"), .dtype = PS_F64, .content = ps_view_of(&sent), .version = 1ULL << 40};
    struct ps_buffer head = new_head();
    ps_encode_pull_reply(&reply, &head);
    struct ps_bytes bytes = join(&head, reply.content);
    struct ps_pull_reply read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL),
        PS_OK);

    ck_assert(ps_bytes_equal(read.name, reply.name));
    ck_assert_int_eq(read.dtype, PS_F64);
    ck_assert_uint_eq(read.version, 1ULL << 40);
    ck_assert(pieces_equal(read.content, sent));
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(ranges_of_a_pull_come_back)
{
    const struct ps_pull_request request = {
        .name = text("w"), .range = {3, 9}, .version = 5, .life = UINT64_MAX};
    const struct ps_pull_reply reply = {
        .name = text("w"), .range = {3, 9}, .total = 70, .version = 4, .life = 1ULL << 63};
    struct ps_pull_request read_request;
    struct ps_pull_reply read_reply;
    struct ps_decoded decoded;

    struct ps_buffer head = new_head();
    ps_encode_pull(&request, &head);
    struct ps_bytes bytes = join(&head, (struct ps_view){NULL, 0, 0});
    ck_assert_int_eq(
        ps_decode_pull(ps_view_of(&bytes), ps_allocator_heap(), &read_request, &decoded, NULL),
        PS_OK);
    ps_decoded_release(&decoded);
    head = new_head();
    ps_encode_pull_reply(&reply, &head);
    bytes = join(&head, reply.content);
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &read_reply, &decoded, NULL),
        PS_OK);
    ps_decoded_release(&decoded);

    ck_assert_uint_eq(read_request.version, 5);
    ck_assert_uint_eq(read_request.life, UINT64_MAX);
    ck_assert_uint_eq(read_reply.life, 1ULL << 63);
    ck_assert_uint_eq(read_reply.total, 70);
}
END_TEST

START_TEST(push_reply_comes_back)
{
    const struct ps_push_reply reply = {
        .version = 77, .duplicate = true, .position = 300, .durable_position = 299};
    struct ps_buffer head = new_head();
    ps_encode_push_reply(&reply, &head);
    struct ps_bytes bytes = join(&head, (struct ps_view){0});
    struct ps_push_reply read;

    ck_assert_int_eq(ps_decode_push_reply(ps_view_of(&bytes), ps_allocator_heap(), &read, NULL),
                     PS_OK);

    ck_assert_uint_eq(read.version, 77);
    ck_assert(read.duplicate);
    ck_assert_uint_eq(read.position, 300);
    ck_assert_uint_eq(read.durable_position, 299);
}
END_TEST

START_TEST(an_empty_message_has_every_default)
{
    struct ps_push_request push;
    struct ps_pull_request pull;
    struct ps_decoded decoded;
    const struct ps_view nothing = {0};

    ck_assert_int_eq(ps_decode_push(nothing, ps_allocator_heap(), &push, &decoded, NULL), PS_OK);
    ck_assert_uint_eq(push.name.size, 0);
    ck_assert_int_eq(push.dtype, PS_I32);
    ck_assert_uint_eq(push.content.size, 0);
    ck_assert(!push.request.present);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(ps_decode_pull(nothing, ps_allocator_heap(), &pull, &decoded, NULL), PS_OK);
    ck_assert_uint_eq(pull.name.size, 0);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(the_last_of_a_repeated_field_counts)
{
    const uint8_t bytes[] = {0x0a, 1,   'a',  0x10, 4,    0x1a, 1, 7, 0x0a,
                             1,    'b', 0x10, 5,    0x1a, 2,    8, 9};
    struct ps_bytes piece = {bytes, sizeof bytes};
    struct ps_push_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(ps_decode_push(ps_view_of(&piece), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(ps_bytes_equal(read.name, text("b")));
    ck_assert_int_eq(read.dtype, PS_F64);
    ck_assert(pieces_equal(read.content, (struct ps_bytes){bytes + sizeof bytes - 2, 2}));
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(a_request_id_that_comes_twice_is_merged)
{
    const uint8_t bytes[] = {0x7a, 3, 0x0a, 1, 'x', 0x7a, 2, 0x10, 6, 0x7a, 2, 0x18, 9};
    struct ps_bytes piece = {bytes, sizeof bytes};
    struct ps_finish_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_finish(ps_view_of(&piece), ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    ck_assert(ps_bytes_equal(read.request.client_id, text("x")));
    ck_assert_uint_eq(read.request.session, 6);
    ck_assert_uint_eq(read.request.sequence, 9);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(unknown_fields_are_skipped)
{
    /* Field 127 as varint, fixed64, bytes and fixed32, around a name. */
    const uint8_t bytes[] = {0xf8, 7,   0x96, 1, 0xf9, 7,   1,   2,   3,    4, 5, 6, 7, 8, 0x0a,
                             1,    'n', 0xfa, 7, 3,    'x', 'y', 'z', 0xfd, 7, 1, 2, 3, 4};
    struct ps_bytes piece = {bytes, sizeof bytes};
    struct ps_pull_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(ps_decode_pull(ps_view_of(&piece), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(ps_bytes_equal(read.name, text("n")));
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(decoding_survives_any_refused_allocation)
{
    uint8_t content[40] = {0};
    struct ps_bytes bytes = wire_of_push((struct ps_bytes){content, sizeof content}, "name");
    struct ps_random random;
    ps_random_init(&random, SEED);
    struct pieces pieces;
    pieces_cut(&pieces, bytes, 2, &random);
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_push_request read;
    struct ps_decoded decoded;

    enum ps_status status = ps_decode_push(pieces.view, &memory, &read, &decoded, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(_i < 2 || status == PS_OK);
    ps_decoded_release(&decoded);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    pieces_release(&pieces);
}
END_TEST

START_TEST(encoding_into_a_full_buffer_marks_it)
{
    const struct ps_pull_request request = {.name = text("a name of some length")};
    char memory[8];
    struct ps_buffer head;
    ps_buffer_init_fixed(&head, memory, sizeof memory);

    ps_encode_pull(&request, &head);

    ck_assert_int_eq(ps_buffer_status(&head, NULL), PS_ERR_NO_MEMORY);
}
END_TEST

START_TEST(a_reply_of_a_version_that_nobody_could_ask_for_is_refused)
{
    const uint64_t versions[] = {PS_VERSION_MAX, PS_VERSION_MAX + 1};
    const enum ps_status wanted[] = {PS_OK, PS_ERR_BAD_INPUT};
    for (size_t i = 0; i < 2; i++) {
        const struct ps_pull_reply pull = {.name = text("w"), .version = versions[i]};
        const struct ps_push_reply push = {.version = versions[i]};
        struct ps_pull_reply read_pull;
        struct ps_push_reply read_push;
        struct ps_decoded decoded = {0};
        struct ps_buffer head;
        ps_buffer_init(&head, ps_allocator_heap(), 4096);
        ps_encode_pull_reply(&pull, &head);
        struct ps_bytes bytes = {(const uint8_t *)head.text, head.size};
        ck_assert_int_eq(ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &read_pull,
                                              &decoded, NULL),
                         wanted[i]);
        if (wanted[i] == PS_OK)
            ps_decoded_release(&decoded);
        ps_buffer_fini(&head);
        ps_buffer_init(&head, ps_allocator_heap(), 4096);
        ps_encode_push_reply(&push, &head);
        bytes = (struct ps_bytes){(const uint8_t *)head.text, head.size};
        ck_assert_int_eq(
            ps_decode_push_reply(ps_view_of(&bytes), ps_allocator_heap(), &read_push, NULL),
            wanted[i]);
        ps_buffer_fini(&head);
    }
}
END_TEST

int main(void)
{
    printf("seed %d\n", SEED);
    Suite *suite = suite_create("codec");
    TCase *tests = tcase_create("codec");
    tcase_add_loop_test(tests, push_comes_back_wherever_it_is_cut, 0, 120);
    tcase_add_test(tests, a_reply_of_a_version_that_nobody_could_ask_for_is_refused);
    tcase_add_test(tests, content_stays_where_it_lies);
    tcase_add_test(tests, init_comes_back_with_config_and_content);
    tcase_add_test(tests, init_reply_comes_back);
    tcase_add_test(tests, what_older_programs_send_has_no_epoch);
    tcase_add_test(tests, finish_comes_back_with_its_epoch_and_request_id);
    tcase_add_test(tests, encodings_come_back);
    tcase_add_test(tests, keys_of_a_pull_come_back);
    tcase_add_test(tests, replies_come_back);
    tcase_add_test(tests, ranges_of_a_pull_come_back);
    tcase_add_test(tests, push_reply_comes_back);
    tcase_add_test(tests, an_empty_message_has_every_default);
    tcase_add_test(tests, the_last_of_a_repeated_field_counts);
    tcase_add_test(tests, a_request_id_that_comes_twice_is_merged);
    tcase_add_test(tests, unknown_fields_are_skipped);
    tcase_add_loop_test(tests, decoding_survives_any_refused_allocation, 0, 4);
    tcase_add_test(tests, encoding_into_a_full_buffer_marks_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
