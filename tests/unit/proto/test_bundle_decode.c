/* SPDX-License-Identifier: Apache-2.0 */
/* proto/bundle_decode.c: bundles that come back as they were sent, wherever the network cuts them,
 * and those that are refused. */
#include "proto/bundle_codec.h"

#include "pieces.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20260401, WIRE_BYTES_MAX = 4 * 1024 * 1024, PUSHES = 5 };

static struct ps_bytes text(const char *literal)
{
    return ps_bytes_of_text(literal);
}

static struct ps_request_id base_id(void)
{
    return (struct ps_request_id){
        .present = true, .client_id = text("client-7"), .session = 3, .sequence = 300};
}

static struct ps_buffer new_wire(void)
{
    struct ps_buffer wire;
    ps_buffer_init(&wire, ps_allocator_heap(), WIRE_BYTES_MAX);
    return wire;
}

static struct ps_bytes bytes_of(const struct ps_buffer *wire)
{
    ck_assert(!wire->failed);
    return (struct ps_bytes){(const uint8_t *)wire->text, wire->size};
}

/* Five pushes of rising sizes, the fourth with a number of its own, and two pulls. */
static struct ps_buffer sample(const uint8_t *content, size_t size)
{
    static const char *const names[PUSHES] = {"a", "b/weight-\xc3\xa4", "c", "d", "e"};
    struct ps_request_id base = base_id();
    struct ps_buffer wire = new_wire();
    ps_encode_bundle_id(&base, &wire);
    for (size_t i = 0; i < PUSHES; i++) {
        struct ps_bytes part = {content, size * i / PUSHES};
        struct ps_push_request push = {.name = text(names[i]),
                                       .dtype = PS_F32,
                                       .content = ps_view_of(&part),
                                       .ack = PS_ACK_LOGGED,
                                       .row_width = (uint32_t)i,
                                       .request = base};
        push.request.sequence = i == 3 ? 777 : base.sequence + i;
        ps_encode_bundle_push(&push, &base, i, &wire);
        ps_buffer_append(&wire, part);
    }
    const struct ps_pull_request pulls[] = {
        {.name = text("a")}, {.name = text("e"), .range = {5, 6}, .version = 8, .of_push = true}};
    for (size_t i = 0; i < PS_ARRAY_COUNT(pulls); i++)
        ps_encode_bundle_pull(&pulls[i], &wire);
    return wire;
}

START_TEST(a_bundle_comes_back_wherever_it_is_cut)
{
    const size_t sizes[] = {0, 1, 2, 3, 9, 1000};
    uint8_t content[5000];
    struct ps_random random;
    ps_random_init(&random, SEED + (uint64_t)_i);
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)ps_random_next(&random);
    struct ps_buffer wire = sample(content, sizeof content);
    struct pieces pieces;
    pieces_cut(&pieces, bytes_of(&wire), sizes[(size_t)_i % PS_ARRAY_COUNT(sizes)], &random);
    struct ps_bundle_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(ps_decode_bundle(pieces.view, ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert_uint_eq(read.push_count, PUSHES);
    ck_assert_uint_eq(read.pull_count, 2);
    for (size_t i = 0; i < PUSHES; i++) {
        const struct ps_push_request *push = &read.pushes[i];
        ck_assert(
            pieces_equal(push->content, (struct ps_bytes){content, sizeof content * i / PUSHES}));
        ck_assert(push->request.present);
        ck_assert(ps_bytes_equal(push->request.client_id, text("client-7")));
        ck_assert_uint_eq(push->request.session, 3);
        ck_assert_uint_eq(push->request.sequence, i == 3 ? 777 : 300 + i);
        ck_assert_int_eq(push->ack, PS_ACK_LOGGED);
        ck_assert_uint_eq(push->row_width, i);
    }
    ck_assert(ps_bytes_equal(read.pushes[1].name, text("b/weight-\xc3\xa4")));
    ck_assert(ps_bytes_equal(read.pulls[1].name, text("e")));
    ck_assert_uint_eq(read.pulls[1].range.first, 5);
    ck_assert_uint_eq(read.pulls[1].range.count, 6);
    ck_assert_uint_eq(read.pulls[1].version, 8);
    ck_assert(read.pulls[1].of_push && !read.pulls[0].of_push);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(contents_of_a_bundle_are_never_copied)
{
    uint8_t content[4096] = {1, 2, 3};
    struct ps_buffer wire = sample(content, sizeof content);
    struct ps_bytes bytes = bytes_of(&wire);
    struct ps_bundle_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_bundle(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    for (size_t i = 1; i < PUSHES; i++) {
        const struct ps_bytes *piece = &read.pushes[i].content.pieces[0];
        ck_assert(piece->data > bytes.data && piece->data < bytes.data + bytes.size);
    }
    ps_decoded_release(&decoded);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(results_come_back_with_their_statuses)
{
    const uint8_t content[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct ps_bytes piece = {content, sizeof content};
    const struct ps_push_result pushed[] = {
        {.status = {.status = PS_OK, .from_server = true},
         .reply = {.version = 9, .duplicate = true, .position = 70, .durable_position = 60}},
        {.status = {.status = PS_ERR_BUSY,
                    .from_server = true,
                    .text = text("full; try again"),
                    .retry_ms = 50}},
        {.status = {.status = PS_OK, .from_server = true}, .reply = {.staged = true}},
    };
    const struct ps_pull_result pulled[] = {
        {.status = {.status = PS_ERR_NOT_FOUND,
                    .from_server = true,
                    .text = text("parameter: x does not exist")}},
        {.status = {.status = PS_OK, .from_server = true},
         .reply = {.name = text("w"),
                   .dtype = PS_F64,
                   .content = ps_view_of(&piece),
                   .version = 4,
                   .range = {7, 1},
                   .total = 11}},
    };
    struct ps_buffer wire = new_wire();
    for (size_t i = 0; i < PS_ARRAY_COUNT(pushed); i++)
        ps_encode_push_result(&pushed[i], &wire);
    ps_encode_pull_result(&pulled[0], &wire);
    ps_encode_pull_result(&pulled[1], &wire);
    ps_buffer_append(&wire, piece);
    struct ps_random random;
    ps_random_init(&random, SEED);
    struct pieces pieces;
    pieces_cut(&pieces, bytes_of(&wire), (size_t)_i, &random);
    struct ps_bundle_reply read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_bundle_reply(pieces.view, ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    ck_assert_uint_eq(read.push_count, 3);
    ck_assert_uint_eq(read.pushes[0].reply.version, 9);
    ck_assert(read.pushes[0].reply.duplicate && !read.pushes[0].reply.staged);
    ck_assert_uint_eq(read.pushes[0].reply.durable_position, 60);
    ck_assert_int_eq(read.pushes[1].status.status, PS_ERR_BUSY);
    ck_assert(read.pushes[1].status.from_server);
    ck_assert(ps_bytes_equal(read.pushes[1].status.text, text("full; try again")));
    ck_assert_uint_eq(read.pushes[1].status.retry_ms, 50);
    ck_assert(read.pushes[2].reply.staged);
    ck_assert_uint_eq(read.pull_count, 2);
    ck_assert_int_eq(read.pulls[0].status.status, PS_ERR_NOT_FOUND);
    ck_assert(pieces_equal(read.pulls[1].reply.content, piece));
    ck_assert_uint_eq(read.pulls[1].reply.version, 4);
    ck_assert_uint_eq(read.pulls[1].reply.total, 11);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
    ps_buffer_fini(&wire);
}
END_TEST

static enum ps_status decode(const struct ps_buffer *wire, struct ps_error *error)
{
    struct ps_bytes bytes = bytes_of(wire);
    struct ps_bundle_request read;
    struct ps_decoded decoded;
    enum ps_status status =
        ps_decode_bundle(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, error);
    if (status == PS_OK)
        ps_decoded_release(&decoded);
    return status;
}

static void put_pushes(struct ps_buffer *wire, const struct ps_request_id *base, size_t count)
{
    ps_encode_bundle_id(base, wire);
    struct ps_push_request push = {.name = text("w"), .dtype = PS_F32, .request = *base};
    for (size_t i = 0; i < count; i++) {
        push.request.sequence = base->sequence + i;
        ps_encode_bundle_push(&push, base, i, wire);
    }
}

START_TEST(more_numbers_than_a_server_remembers_are_refused)
{
    struct ps_request_id base = base_id();
    struct ps_error error;
    struct ps_buffer wire = new_wire();
    put_pushes(&wire, &base, PS_BUNDLE_NUMBERED_MAX);
    ck_assert_int_eq(decode(&wire, &error), PS_OK);
    ps_buffer_clear(&wire);
    put_pushes(&wire, &base, PS_BUNDLE_NUMBERED_MAX + 1);
    ck_assert_int_eq(decode(&wire, &error), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "a batch of 193 gradients under one request id: at most 192 go");
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(more_items_than_a_bundle_has_are_refused)
{
    const struct ps_request_id nobody = {0};
    const struct ps_pull_request pull = {.name = text("w")};
    struct ps_error error;
    struct ps_buffer wire = new_wire();
    put_pushes(&wire, &nobody, PS_BUNDLE_ITEMS_MAX);
    ck_assert_int_eq(decode(&wire, &error), PS_OK);
    ps_encode_bundle_pull(&pull, &wire);
    ck_assert_int_eq(decode(&wire, &error), PS_ERR_BAD_INPUT);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(malformed_items_are_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        {"\x08\x01", 2},              /* an item that is a number */
        {"\x0a\x05\x0a\x01w", 5},     /* ends after the message */
        {"\x0a\x03\x0a\x05w", 5},     /* a name that ends after its item */
        {"\x0a\x04\x0a\x02w\x00", 6}, /* a name with a NUL */
        {"\x0a\x02\x10\x09", 4},      /* no such type */
        {"\x12\x02\x08\x01", 4},      /* a name that is a number */
        {"\x7a\x02\x0a\x41", 4},      /* an id that ends after its field */
        {"\x0b", 1},                  /* a group */
    };
    struct ps_buffer wire = new_wire();
    ps_buffer_append(&wire, (struct ps_bytes){(const uint8_t *)cases[_i].bytes, cases[_i].size});
    ck_assert_int_eq(decode(&wire, NULL), PS_ERR_BAD_INPUT);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(a_sequence_at_the_end_of_all_numbers_is_refused)
{
    struct ps_request_id base = base_id();
    base.sequence = UINT64_MAX - 3;
    struct ps_buffer wire = new_wire();
    ps_encode_bundle_id(&base, &wire);
    ck_assert_int_eq(decode(&wire, NULL), PS_ERR_BAD_INPUT);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(an_empty_bundle_is_a_bundle)
{
    struct ps_buffer wire = new_wire();
    ck_assert_int_eq(decode(&wire, NULL), PS_OK);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(decoding_survives_any_refused_allocation)
{
    uint8_t content[600] = {0};
    struct ps_buffer wire = sample(content, sizeof content);
    struct ps_random random;
    ps_random_init(&random, SEED);
    struct pieces pieces;
    pieces_cut(&pieces, bytes_of(&wire), 3, &random);
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory;
    memory = fault_heap_allocator(&heap);
    struct ps_bundle_request read;
    struct ps_decoded decoded;

    enum ps_status status = ps_decode_bundle(pieces.view, &memory, &read, &decoded, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    pieces_release(&pieces);
    ps_buffer_fini(&wire);
}
END_TEST

int main(void)
{
    printf("seed %d\n", SEED);
    Suite *suite = suite_create("bundle_decode");
    TCase *t = tcase_create("bundle_decode");
    tcase_add_loop_test(t, a_bundle_comes_back_wherever_it_is_cut, 0, 60);
    tcase_add_test(t, contents_of_a_bundle_are_never_copied);
    tcase_add_loop_test(t, results_come_back_with_their_statuses, 0, 10);
    tcase_add_test(t, more_numbers_than_a_server_remembers_are_refused);
    tcase_add_test(t, more_items_than_a_bundle_has_are_refused);
    tcase_add_loop_test(t, malformed_items_are_refused, 0, 8);
    tcase_add_test(t, a_sequence_at_the_end_of_all_numbers_is_refused);
    tcase_add_test(t, an_empty_bundle_is_a_bundle);
    tcase_add_loop_test(t, decoding_survives_any_refused_allocation, 0, 16);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
