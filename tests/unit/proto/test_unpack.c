/* SPDX-License-Identifier: Apache-2.0 */
/* proto/unpack.c: protobuf-c within a bound of memory. */
#include "proto/unpack.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A message of the build's own generated code. */
extern const ProtobufCMessageDescriptor paddle__optimizer_config__descriptor;

/* OptimizerConfig{optimizer: Adam, adam: {beta_1: ...}} */
static const uint8_t sample[] = {0x08, 4, 0x32, 9, 0x09, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f};

static enum ps_status unpack(struct ps_bytes bytes, size_t arena_bytes, struct fault_heap *heap,
                             struct ps_error *error)
{
    struct ps_allocator memory = fault_heap_allocator(heap);
    struct ps_arena arena;
    ps_arena_init(&arena, &memory, arena_bytes);
    ProtobufCMessage *message = NULL;
    enum ps_status status =
        ps_unpack(&paddle__optimizer_config__descriptor, bytes, &arena, &message, error);
    ck_assert_int_eq(message != NULL, status == PS_OK);
    if (status == PS_OK) {
        uint8_t packed[64];
        ck_assert_uint_eq(protobuf_c_message_get_packed_size(message), bytes.size);
        ck_assert_uint_eq(protobuf_c_message_pack(message, packed), bytes.size);
        ck_assert_mem_eq(packed, bytes.data, bytes.size);
    }
    ps_arena_release(&arena);
    ck_assert_int_eq(heap->live, 0);
    return status;
}

START_TEST(a_message_is_unpacked_into_the_arena)
{
    struct fault_heap heap = {.refuse_at = -1};

    enum ps_status status = unpack((struct ps_bytes){sample, sizeof sample},
                                   ps_unpack_bytes_max(sizeof sample), &heap, NULL);

    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(heap.seen, 0);
}
END_TEST

START_TEST(bytes_that_are_not_such_a_message_are_bad_input)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_error error;

    enum ps_status status = unpack((struct ps_bytes){sample, sizeof sample - 1},
                                   ps_unpack_bytes_max(sizeof sample), &heap, &error);

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "paddle.OptimizerConfig"));
}
END_TEST

START_TEST(a_message_beyond_the_bound_is_a_lack_of_memory)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_error error;

    enum ps_status status = unpack((struct ps_bytes){sample, sizeof sample}, 64, &heap, &error);

    ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
    ck_assert_str_eq(error.text, "paddle.OptimizerConfig: takes too much memory");
}
END_TEST

START_TEST(any_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};

    enum ps_status status = unpack((struct ps_bytes){sample, sizeof sample},
                                   ps_unpack_bytes_max(sizeof sample), &heap, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(_i < 7 || status == PS_OK);
}
END_TEST

START_TEST(an_honest_message_of_any_size_fits_its_bound)
{
    ck_assert_uint_ge(ps_unpack_bytes_max(0), 4096);
    ck_assert_uint_eq(ps_unpack_bytes_max(1000) - ps_unpack_bytes_max(0), 16000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unpack");
    TCase *tests = tcase_create("unpack");
    tcase_add_test(tests, a_message_is_unpacked_into_the_arena);
    tcase_add_test(tests, bytes_that_are_not_such_a_message_are_bad_input);
    tcase_add_test(tests, a_message_beyond_the_bound_is_a_lack_of_memory);
    tcase_add_loop_test(tests, any_refused_allocation_leaves_nothing, 0, 8);
    tcase_add_test(tests, an_honest_message_of_any_size_fits_its_bound);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
