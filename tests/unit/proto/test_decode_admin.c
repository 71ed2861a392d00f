/* SPDX-License-Identifier: Apache-2.0 */
/* What operators' tools read. */
#include "proto/codec.h"

#include "base/bounds.h"
#include "pieces.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20260104, PARAMS = 20 };

static struct ps_bytes bytes_of(const struct ps_buffer *buffer)
{
    ck_assert(!buffer->failed);
    return (struct ps_bytes){(const uint8_t *)buffer->text, buffer->size};
}

static struct ps_buffer new_buffer(void)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 1 << 20);
    return buffer;
}

static const struct ps_status_reply status_sent = {.program_version = "0.1.0",
                                                   .index = 1,
                                                   .shard_count = 2,
                                                   .epoch = 3,
                                                   .state = "ready",
                                                   .parameter_count = 4,
                                                   .parameter_bytes = 5,
                                                   .state_bytes = 6,
                                                   .push_count = 7,
                                                   .pull_count = 8,
                                                   .position = 9,
                                                   .checkpoint_uuid = "uuid",
                                                   .checkpoint_position = 10,
                                                   .checkpoint_unix_ns = UINT64_MAX,
                                                   .uptime_ms = 12,
                                                   .device = "cuda:0",
                                                   .job = "job",
                                                   .address = "host:1",
                                                   .lost_count = 13,
                                                   .placement = 14};

START_TEST(a_status_comes_back)
{
    struct ps_buffer buffer = new_buffer();
    ps_encode_status_reply(&status_sent, &buffer);
    struct ps_random random;
    ps_random_init(&random, SEED);
    struct pieces pieces;
    pieces_cut(&pieces, bytes_of(&buffer), (size_t)_i, &random);
    struct ps_status_reply read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_status_reply(pieces.view, ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    ck_assert_str_eq(read.program_version, "0.1.0");
    ck_assert_uint_eq(read.shard_count, 2);
    ck_assert_uint_eq(read.epoch, 3);
    ck_assert_str_eq(read.state, "ready");
    ck_assert_uint_eq(read.position, 9);
    ck_assert_str_eq(read.checkpoint_uuid, "uuid");
    ck_assert_uint_eq(read.checkpoint_unix_ns, UINT64_MAX);
    ck_assert_str_eq(read.device, "cuda:0");
    ck_assert_str_eq(read.address, "host:1");
    ck_assert_uint_eq(read.lost_count, 13);
    ck_assert_uint_eq(read.placement, 14);
    ps_decoded_release(&decoded);
    pieces_release(&pieces);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(absent_texts_are_empty)
{
    struct ps_status_reply read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_status_reply((struct ps_view){0}, ps_allocator_heap(), &read, &decoded, NULL),
        PS_OK);

    ck_assert_str_eq(read.state, "");
    ck_assert_str_eq(read.checkpoint_uuid, "");
    ps_decoded_release(&decoded);
}
END_TEST

/* `names` has PARAMS rows. */
static void encode_list(struct ps_buffer *buffer, char names[][16])
{
    struct ps_param_info params[PARAMS];
    for (int i = 0; i < PARAMS; i++) {
        (void)snprintf(names[i], sizeof names[i], "p_%d", i);
        params[i] = (struct ps_param_info){.name = ps_bytes_of_text(names[i]),
                                           .dtype = (enum ps_dtype)(i % PS_DTYPE_COUNT),
                                           .element_count = 1ULL << i,
                                           .version = (uint64_t)i,
                                           .rule = "adam",
                                           .learning_rate = 1.0 / (1 + i),
                                           .state_bytes = 3,
                                           .config = ps_bytes_of_text(i > 0 ? names[i] : ""),
                                           .round_workers = (uint32_t)i,
                                           .round_counted = (uint32_t)i / 2};
        (void)snprintf(params[i].round_missing, sizeof params[i].round_missing, " %d", i);
    }
    const struct ps_list_reply sent = {params, PARAMS, true};
    ps_encode_list_reply(&sent, buffer);
}

START_TEST(a_list_comes_back)
{
    char names[PARAMS][16];
    struct ps_buffer buffer = new_buffer();
    encode_list(&buffer, names);
    struct ps_bytes bytes = bytes_of(&buffer);
    struct ps_list_reply read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_list_reply(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL),
        PS_OK);

    ck_assert_uint_eq(read.param_count, PARAMS);
    ck_assert(read.more);
    for (int i = 0; i < PARAMS; i++) {
        ck_assert(ps_bytes_equal(read.params[i].name, ps_bytes_of_text(names[i])));
        ck_assert_int_eq(read.params[i].dtype, i % PS_DTYPE_COUNT);
        ck_assert_uint_eq(read.params[i].element_count, 1ULL << i);
        ck_assert_str_eq(read.params[i].rule, "adam");
        ck_assert_double_eq(read.params[i].learning_rate, 1.0 / (1 + i));
        ck_assert_uint_eq(read.params[i].config.size, i > 0 ? strlen(names[i]) : 0);
        ck_assert_uint_eq(read.params[i].round_workers, (uint32_t)i);
        ck_assert_uint_eq(read.params[i].round_counted, (uint32_t)i / 2);
        ck_assert_int_eq(atoi(read.params[i].round_missing), i);
    }
    ps_decoded_release(&decoded);
    ps_buffer_fini(&buffer);
}
END_TEST

/* Entries of few bytes, as many as a server gives in one page. */
START_TEST(a_page_of_parameters_with_short_names_comes_back)
{
    enum { ENTRIES = 1000 };
    static struct ps_param_info params[ENTRIES];
    static char names[ENTRIES][8];
    struct ps_buffer buffer;
    struct ps_decoded decoded;
    struct ps_list_reply read;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        (void)snprintf(names[i], sizeof names[i], "%u", i);
        params[i] = (struct ps_param_info){
            .name = ps_bytes_of_text(names[i]), .dtype = PS_F32, .rule = "sgd", .element_count = 1};
    }
    const struct ps_list_reply sent = {params, ENTRIES, true};
    ps_buffer_init(&buffer, ps_allocator_heap(), 1 << 20);
    ps_encode_list_reply(&sent, &buffer);
    const struct ps_bytes bytes = {(const uint8_t *)buffer.text, buffer.size};
    ck_assert_int_eq(
        ps_decode_list_reply(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL),
        PS_OK);
    ck_assert_uint_eq(read.param_count, ENTRIES);
    ck_assert(ps_bytes_equal(read.params[ENTRIES - 1].name, params[ENTRIES - 1].name));
    ps_decoded_release(&decoded);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(a_list_request_comes_back)
{
    const struct ps_list_request sent = {.after = ps_bytes_of_text("p_9"),
                                         .limit = UINT32_MAX,
                                         .with_config = true,
                                         .prefix = ps_bytes_of_text("p_")};
    struct ps_buffer buffer = new_buffer();
    ps_encode_list(&sent, &buffer);
    struct ps_bytes bytes = bytes_of(&buffer);
    struct ps_list_request read;
    struct ps_decoded decoded;

    ck_assert_int_eq(ps_decode_list(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(ps_bytes_equal(read.after, sent.after));
    ck_assert_uint_eq(read.limit, UINT32_MAX);
    ck_assert(read.with_config);
    ck_assert(ps_bytes_equal(read.prefix, sent.prefix));
    ps_decoded_release(&decoded);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(a_save_comes_back)
{
    const struct ps_save_reply sent = {.uuid = "u", .path = "/p", .position = 5, .bytes = 6};
    struct ps_buffer buffer = new_buffer();
    ps_encode_save_reply(&sent, &buffer);
    struct ps_bytes bytes = bytes_of(&buffer);
    struct ps_save_reply read;
    struct ps_decoded decoded;

    ck_assert_int_eq(
        ps_decode_save_reply(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, NULL),
        PS_OK);

    ck_assert_str_eq(read.uuid, "u");
    ck_assert_str_eq(read.path, "/p");
    ck_assert_uint_eq(read.position, 5);
    ck_assert_uint_eq(read.bytes, 6);
    ps_decoded_release(&decoded);
    ps_buffer_fini(&buffer);
}
END_TEST

static enum ps_status decode_list_bytes(const void *bytes, size_t size)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_bytes piece = {bytes, size};
    struct ps_list_reply read;
    struct ps_decoded decoded;
    enum ps_status status =
        ps_decode_list_reply(ps_view_of(&piece), &memory, &read, &decoded, NULL);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    return status;
}

START_TEST(malformed_lists_are_refused)
{
    const uint8_t cut[] = {0x0a, 9, 0x0a};
    const uint8_t no_such_type[] = {0x0a, 2, 0x10, 6};
    const uint8_t no_text[] = {0x0a, 3, 0x0a, 1, 0xff};

    ck_assert_int_eq(decode_list_bytes(cut, sizeof cut), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_list_bytes(no_such_type, sizeof no_such_type), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode_list_bytes(no_text, sizeof no_text), PS_ERR_BAD_INPUT);
}
END_TEST

/* Two bytes of an empty ParamInfo become a hundred: the arena's cap ends it. */
START_TEST(lists_that_blow_up_are_refused)
{
    size_t size = 1 << 20;
    uint8_t *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < size; i += 2) {
        bytes[i] = 0x0a;
        bytes[i + 1] = 0;
    }

    ck_assert_int_eq(decode_list_bytes(bytes, size), PS_ERR_NO_MEMORY);
    free(bytes);
}
END_TEST

START_TEST(lists_survive_any_refused_allocation)
{
    char names[PARAMS][16];
    struct ps_buffer buffer = new_buffer();
    encode_list(&buffer, names);
    struct ps_bytes bytes = bytes_of(&buffer);
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_list_reply read;
    struct ps_decoded decoded;

    enum ps_status status =
        ps_decode_list_reply(ps_view_of(&bytes), &memory, &read, &decoded, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(_i < 119 || status == PS_OK);
    ps_decoded_release(&decoded);
    ck_assert_int_eq(heap.live, 0);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(a_request_without_fields_is_still_a_message)
{
    static const struct {
        const char *text;
        size_t size;
        enum ps_status status;
    } cases[] = {{"", 0, PS_OK},
                 {"\x98\x06\x01", 3, PS_OK},
                 {"\x7a\x01x", 3, PS_OK},
                 {"\xff", 1, PS_ERR_BAD_INPUT},
                 {"\x7a\x05x", 3, PS_ERR_BAD_INPUT},
                 {"\x00\x00", 2, PS_ERR_BAD_INPUT}};
    struct ps_bytes bytes = {(const uint8_t *)cases[_i].text, cases[_i].size};

    ck_assert_int_eq(ps_decode_nothing(ps_view_of(&bytes), NULL), cases[_i].status);
}
END_TEST

int main(void)
{
    printf("seed %d\n", SEED);
    Suite *suite = suite_create("decode admin");
    TCase *tests = tcase_create("decode admin");
    tcase_add_loop_test(tests, a_status_comes_back, 0, 4);
    tcase_add_test(tests, absent_texts_are_empty);
    tcase_add_test(tests, a_list_comes_back);
    tcase_add_test(tests, a_page_of_parameters_with_short_names_comes_back);
    tcase_add_test(tests, a_list_request_comes_back);
    tcase_add_test(tests, a_save_comes_back);
    tcase_add_loop_test(tests, a_request_without_fields_is_still_a_message, 0, 6);
    tcase_add_test(tests, malformed_lists_are_refused);
    tcase_add_test(tests, lists_that_blow_up_are_refused);
    tcase_add_loop_test(tests, lists_survive_any_refused_allocation, 0, 120);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
