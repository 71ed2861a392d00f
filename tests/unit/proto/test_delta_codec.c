/* SPDX-License-Identifier: Apache-2.0 */
/* proto/delta_codec.c: what makes a pull a delta pull, there and back. */
#include "proto/delta_codec.h"

#include "pieces.h"
#include "proto/codec.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer new_wire(void)
{
    struct ps_buffer wire;
    ps_buffer_init(&wire, ps_allocator_heap(), 1 << 16);
    return wire;
}

static struct ps_bytes bytes_of(const struct ps_buffer *wire)
{
    ck_assert(!wire->failed);
    return (struct ps_bytes){(const uint8_t *)wire->text, wire->size};
}

/* Cut into pieces of at most `_i` bytes. */
static void cut(struct pieces *pieces, const struct ps_buffer *wire, size_t size_max)
{
    struct ps_random random;
    ps_random_init(&random, 7);
    pieces_cut(pieces, bytes_of(wire), size_max, &random);
}

START_TEST(what_is_held_comes_back_wherever_it_is_cut)
{
    const struct ps_pull_request sent = {.name = ps_bytes_of_text("w"),
                                         .held = {.present = true,
                                                  .version = UINT64_MAX,
                                                  .chain = {.epoch = 3, .life = 1},
                                                  .target = 9,
                                                  .block = 1000,
                                                  .mark = UINT64_MAX}};
    struct ps_buffer wire = new_wire();
    struct pieces pieces;
    struct ps_pull_request read;
    struct ps_decoded decoded;
    ps_encode_pull(&sent, &wire);
    cut(&pieces, &wire, (size_t)_i);

    ck_assert_int_eq(ps_decode_pull(pieces.view, ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(read.held.present);
    ck_assert_uint_eq(read.held.version, UINT64_MAX);
    ck_assert_uint_eq(read.held.chain.epoch, 3);
    ck_assert_uint_eq(read.held.chain.life, 1);
    ck_assert_uint_eq(read.held.target, 9);
    ck_assert_uint_eq(read.held.block, 1000);
    ck_assert_uint_eq(read.held.mark, UINT64_MAX);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(to_hold_nothing_is_not_to_pull_all)
{
    const struct ps_pull_request requests[] = {{.held.present = true}, {.held.present = false}};
    for (size_t i = 0; i < 2; i++) {
        struct ps_buffer wire = new_wire();
        struct ps_pull_request read;
        struct ps_decoded decoded;
        ps_encode_pull(&requests[i], &wire);
        struct ps_bytes bytes = bytes_of(&wire);
        ck_assert_int_eq(
            ps_decode_pull(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL), PS_OK);
        ck_assert(read.held.present == (i == 0));
        ps_decoded_release(&decoded);
        ps_buffer_fini(&wire);
    }
}
END_TEST

static struct ps_pull_reply sample(const uint32_t *runs, size_t bytes)
{
    return (struct ps_pull_reply){.name = ps_bytes_of_text("w"),
                                  .total = 77,
                                  .delta = {.present = true,
                                            .chain = {.epoch = 5, .life = UINT64_MAX},
                                            .block_bytes = 1 << 18,
                                            .runs = {(const uint8_t *)runs, bytes},
                                            .whole = PS_WHOLE_OTHER_CHAIN,
                                            .next = 12,
                                            .digest = UINT64_MAX - 1,
                                            .rows = UINT64_MAX - 2,
                                            .gone = 3,
                                            .mark = UINT64_MAX - 3}};
}

START_TEST(a_delta_comes_back_wherever_it_is_cut)
{
    const uint32_t runs[] = {0, 1, 7, 9};
    const struct ps_pull_reply sent = sample(runs, sizeof runs);
    struct ps_buffer wire = new_wire();
    struct pieces pieces;
    struct ps_pull_reply read;
    struct ps_decoded decoded;
    ps_encode_pull_reply(&sent, &wire);
    cut(&pieces, &wire, (size_t)_i);

    ck_assert_int_eq(ps_decode_pull_reply(pieces.view, ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(read.delta.present);
    ck_assert_uint_eq(read.total, 77);
    ck_assert_uint_eq(read.delta.chain.epoch, 5);
    ck_assert_uint_eq(read.delta.chain.life, UINT64_MAX);
    ck_assert_uint_eq(read.delta.block_bytes, 1 << 18);
    ck_assert_int_eq(read.delta.whole, PS_WHOLE_OTHER_CHAIN);
    ck_assert_uint_eq(read.delta.next, 12);
    ck_assert_uint_eq(read.delta.digest, UINT64_MAX - 1);
    ck_assert_uint_eq(read.delta.rows, UINT64_MAX - 2);
    ck_assert_uint_eq(read.delta.gone, 3);
    ck_assert_uint_eq(read.delta.mark, UINT64_MAX - 3);
    ck_assert_uint_eq(read.delta.runs.size, sizeof runs);
    ck_assert_mem_eq(read.delta.runs.data, runs, sizeof runs);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
    ps_buffer_fini(&wire);
}
END_TEST

START_TEST(a_delta_survives_a_refused_allocation)
{
    const uint32_t runs[] = {0, 1};
    const struct ps_pull_reply sent = sample(runs, sizeof runs);
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_buffer wire = new_wire();
    struct pieces pieces;
    struct ps_pull_reply read;
    struct ps_decoded decoded;
    ps_encode_pull_reply(&sent, &wire);
    cut(&pieces, &wire, 3);
    enum ps_status status = ps_decode_pull_reply(pieces.view, &memory, &read, &decoded, NULL);
    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    pieces_release(&pieces);
    ps_buffer_fini(&wire);
}
END_TEST

/* The longest that a server makes: every second block of as many as go in one answer. */
START_TEST(the_longest_head_fits)
{
    uint32_t runs[2 * PS_DELTA_BYTES_MAX / PS_BLOCK_BYTES];
    struct ps_buffer wire = new_wire();
    memset(runs, 0xff, sizeof runs);
    const struct ps_pull_reply sent = sample(runs, sizeof runs);
    ps_encode_pull_reply(&sent, &wire);
    ck_assert(!wire.failed);
    ps_buffer_fini(&wire);
}
END_TEST

static enum ps_status decode_request(const void *bytes, size_t size, struct ps_pull_request *read)
{
    const struct ps_bytes run = {bytes, size};
    struct ps_decoded decoded;
    enum ps_status status =
        ps_decode_pull(ps_view_of(&run), ps_allocator_heap(), read, &decoded, NULL);
    ps_decoded_release(&decoded);
    return status;
}

START_TEST(a_chain_of_another_length_is_none)
{
    struct ps_pull_request read;
    ck_assert_int_eq(decode_request("\x32\x05\x12\x03"
                                    "abc",
                                    7, &read),
                     PS_OK);
    ck_assert(read.held.present);
    ck_assert_uint_eq(read.held.chain.epoch, 0);
    ck_assert_uint_eq(read.held.chain.life, 0);
}
END_TEST

START_TEST(malformed_ones_are_refused)
{
    struct ps_pull_request read;
    ck_assert_int_eq(decode_request("\x32\x02\x12\x10", 4, &read), PS_ERR_BAD_INPUT); /* cut */
    ck_assert_int_eq(decode_request("\x32\x02\x10\x01", 4, &read), PS_ERR_BAD_INPUT); /* varint */
    ck_assert_int_eq(decode_request("\x30\x01", 2, &read), PS_ERR_BAD_INPUT); /* not a message */
}
END_TEST

static enum ps_status decode_reply(const void *bytes, size_t size)
{
    const struct ps_bytes run = {bytes, size};
    struct ps_pull_reply read;
    struct ps_decoded decoded;
    enum ps_status status =
        ps_decode_pull_reply(ps_view_of(&run), ps_allocator_heap(), &read, &decoded, NULL);
    ps_decoded_release(&decoded);
    return status;
}

START_TEST(a_malformed_delta_is_refused)
{
    uint8_t long_runs[4 + 1024] = {0x4a, 0x82, 0x08, 0x1a};
    ck_assert_int_eq(decode_reply("\x4a\x02\x20\x05", 4), PS_ERR_BAD_INPUT); /* no such reason */
    ck_assert_int_eq(decode_reply("\x4a\x02\x1a\x08", 4), PS_ERR_BAD_INPUT); /* cut */
    ck_assert_int_eq(decode_reply(long_runs, sizeof long_runs), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delta_codec");
    TCase *tests = tcase_create("delta_codec");
    tcase_add_loop_test(tests, what_is_held_comes_back_wherever_it_is_cut, 0, 20);
    tcase_add_test(tests, to_hold_nothing_is_not_to_pull_all);
    tcase_add_loop_test(tests, a_delta_comes_back_wherever_it_is_cut, 0, 20);
    tcase_add_loop_test(tests, a_delta_survives_a_refused_allocation, 0, 4);
    tcase_add_test(tests, the_longest_head_fits);
    tcase_add_test(tests, a_chain_of_another_length_is_none);
    tcase_add_test(tests, malformed_ones_are_refused);
    tcase_add_test(tests, a_malformed_delta_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
