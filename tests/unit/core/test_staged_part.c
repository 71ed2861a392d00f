/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/staged_part.c: contents of ranges are the content of the whole when they are put
 * together, and what cannot be a range is refused. */
#include "server/core/requests/staged_part.h"

#include "core_encoded.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 65536 + 12345, RANGES = 3, KEPT = 3000 };

static const struct ps_elements ranges[RANGES] = {
    {0, 16384}, {16384, 49152}, {65536, COUNT - 65536}};

static struct encoded encoded;
static const struct ps_request_id id = {
    .present = true, .client_id = {(const uint8_t *)"a", 1}, .session = 1, .sequence = 1};

static struct ps_part part_of(struct ps_elements range, struct ps_view content)
{
    return (struct ps_part){.method = PS_METHOD_PUSH,
                            .id = &id,
                            .name = text("w"),
                            .dtype = encoded.dtype,
                            .encoding = encoded.encoding,
                            .total = COUNT,
                            .range = range,
                            .content = content};
}

/* Keeps content where it lies. */
static void *keep(void *self)
{
    return self;
}

static void drop(void *kept)
{
    (void)kept;
}

static struct ps_staged_part *list_of(const struct ps_allocator *memory, bool held)
{
    static struct ps_bytes pieces[RANGES][2];
    struct ps_staged_part *first = NULL;
    for (size_t i = RANGES; i-- > 0;) {
        struct ps_part from = part_of(
            ranges[i], encoded_range(&encoded, ranges[i].first, ranges[i].count, pieces[i]));
        if (held)
            from.hold = (struct ps_hold){.keep = keep, .drop = drop, .self = &encoded};
        ck_assert_int_eq(ps_staged_part_check(&from, NULL), PS_OK);
        struct ps_staged_part *part = ps_staged_part_create(memory, &from, true);
        ck_assert_ptr_nonnull(part);
        part->next = first;
        first = part;
    }
    return first;
}

static void release(const struct ps_allocator *memory, struct ps_staged_part *first)
{
    while (first != NULL) {
        struct ps_staged_part *part = first;
        first = part->next;
        ps_staged_part_release(memory, part);
    }
}

START_TEST(contents_of_ranges_put_together_are_that_of_the_whole)
{
    enum ps_encoding encoding = (enum ps_encoding)(_i / 4);
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    bool held = _i % 2 == 1;
    encoded_make(&encoded, encoding, _i % 4 < 2 ? PS_F32 : PS_F64, COUNT, KEPT, 7);
    struct ps_staged_part *first = list_of(&memory, held);
    struct ps_view content;

    struct ps_bytes *pieces = ps_staged_part_join(&memory, first, encoding, &content);

    ck_assert_ptr_nonnull(pieces);
    ck_assert_uint_eq(content.size, encoded.bytes);
    uint8_t *copy = malloc(encoded.bytes);
    ck_assert_ptr_nonnull(copy);
    ps_view_copy(content, 0, copy, encoded.bytes);
    ck_assert(memcmp(copy, encoded.content, encoded.bytes) == 0);
    ck_assert(!held || content.pieces[0].data == encoded.content);
    free(copy);
    ps_release(&memory, pieces);
    heap.refuse_at = heap.seen;
    ck_assert_ptr_null(ps_staged_part_join(&memory, first, encoding, &content));
    release(&memory, first);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(pairs_may_lie_all_in_one_range_or_nowhere)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    const uint32_t indices[2] = {20000, 20001};
    encoded_clear(&encoded, PS_ENCODING_TOP_K, PS_F32, COUNT);
    encoded.bytes = _i == 0 ? 16 : 0;
    memcpy(encoded.content, indices, sizeof indices);
    struct ps_staged_part *first = list_of(&memory, true);
    struct ps_view content;
    uint8_t copy[16];

    struct ps_bytes *pieces = ps_staged_part_join(&memory, first, PS_ENCODING_TOP_K, &content);

    ck_assert_ptr_nonnull(pieces);
    ck_assert_uint_eq(content.size, encoded.bytes);
    ps_view_copy(content, 0, copy, encoded.bytes);
    ck_assert(memcmp(copy, encoded.content, encoded.bytes) == 0);
    ps_release(&memory, pieces);
    release(&memory, first);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* As a message without content is decoded: there is not even an empty piece. */
START_TEST(a_range_without_pairs_has_no_pieces)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    encoded.encoding = PS_ENCODING_TOP_K;
    encoded.dtype = PS_F32;
    struct ps_part from = part_of(ranges[0], (struct ps_view){NULL, 0, 0});
    if (_i == 1)
        from.hold = (struct ps_hold){.keep = keep, .drop = drop, .self = &encoded};
    ck_assert_int_eq(ps_staged_part_check(&from, NULL), PS_OK);
    struct ps_staged_part *part = ps_staged_part_create(&memory, &from, true);
    struct ps_view content;
    ck_assert_ptr_nonnull(part);
    struct ps_bytes *pieces = ps_staged_part_join(&memory, part, PS_ENCODING_TOP_K, &content);
    ck_assert_ptr_nonnull(pieces);
    ck_assert_uint_eq(content.size, 0);
    ps_release(&memory, pieces);
    release(&memory, part);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(a_length_that_is_not_that_of_the_range_is_refused)
{
    enum ps_encoding encoding = (enum ps_encoding)_i;
    struct ps_bytes pieces[2];
    encoded_make(&encoded, encoding, PS_F32, COUNT, KEPT, 7);
    struct ps_view content = encoded_range(&encoded, ranges[1].first, ranges[1].count, pieces);
    struct ps_part right = part_of(ranges[1], content);
    ck_assert_int_eq(ps_staged_part_check(&right, NULL), PS_OK);
    for (int byte = -1; byte <= 1; byte += 2) {
        struct ps_part wrong = right;
        pieces[1].size += (size_t)byte;
        wrong.content.size += (size_t)byte;
        ck_assert_int_eq(ps_staged_part_check(&wrong, NULL), PS_ERR_BAD_INPUT);
        pieces[1].size -= (size_t)byte;
    }
    struct ps_part of_more = part_of((struct ps_elements){0, COUNT - 1}, content);
    ck_assert_int_eq(ps_staged_part_check(&of_more, NULL),
                     encoding == PS_ENCODING_TOP_K ? PS_OK : PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_range_is_as_long_as_its_elements_would_be)
{
    static const struct ps_elements cuts[] = {{0, 256}, {COUNT - 57, 57}, {0, 16384}};
    struct ps_bytes pieces[2];
    struct ps_error error;
    encoded_make(&encoded, PS_ENCODING_INT8, PS_F32, COUNT, 0, 7);
    for (size_t i = 0; i < 3; i++) {
        struct ps_part part =
            part_of(cuts[i], encoded_range(&encoded, cuts[i].first, cuts[i].count, pieces));
        enum ps_status status = ps_staged_part_check(&part, &error);
        ck_assert_int_eq(status, i == 0 ? PS_ERR_BAD_INPUT : PS_OK);
        if (status != PS_OK)
            ck_assert_ptr_nonnull(strstr(error.text, "256 elements"));
    }
}
END_TEST

START_TEST(what_is_more_than_can_be_is_refused)
{
    struct ps_part part = {.id = &id, .name = text("w"), .dtype = PS_F32, .total = COUNT};
    part.encoding = (enum ps_encoding)_i;
    part.range = (struct ps_elements){COUNT, 1};
    ck_assert_int_eq(ps_staged_part_check(&part, NULL), PS_ERR_BAD_INPUT);
    part.range = (struct ps_elements){UINT64_MAX, 16384};
    ck_assert_int_eq(ps_staged_part_check(&part, NULL), PS_ERR_BAD_INPUT);
    part.range = (struct ps_elements){0, UINT64_MAX - 5};
    part.total = UINT64_MAX;
    ck_assert_int_eq(ps_staged_part_check(&part, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

/* A range of 64 KiB in a message of 64 MiB: who holds it holds all of that. */
START_TEST(a_message_far_longer_than_its_range_is_not_held)
{
    static const uint8_t bytes[PS_STAGING_PART_BYTES];
    struct ps_bytes piece = {bytes, sizeof bytes};
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_part from = {.content = ps_view_of(&piece),
                           .hold = {.keep = keep, .drop = drop, .self = &encoded}};

    for (int i = 0; i < 2; i++) {
        from.hold.bytes = i == 0 ? sizeof bytes + 4096 : (uint64_t)64 << 20;
        struct ps_staged_part *part = ps_staged_part_create(&memory, &from, true);
        ck_assert_ptr_nonnull(part);
        ck_assert_int_eq(part->kept != NULL, i == 0);
        ck_assert_uint_eq(part->content.size, sizeof bytes);
        ps_staged_part_release(&memory, part);
    }
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("staged_part");
    tcase_add_loop_test(t, contents_of_ranges_put_together_are_that_of_the_whole, 0,
                        4 * PS_ENCODING_COUNT);
    tcase_add_loop_test(t, pairs_may_lie_all_in_one_range_or_nowhere, 0, 2);
    tcase_add_loop_test(t, a_range_without_pairs_has_no_pieces, 0, 2);
    tcase_add_loop_test(t, a_length_that_is_not_that_of_the_range_is_refused, 0, PS_ENCODING_COUNT);
    tcase_add_test(t, a_message_far_longer_than_its_range_is_not_held);
    tcase_add_test(t, a_range_is_as_long_as_its_elements_would_be);
    tcase_add_loop_test(t, what_is_more_than_can_be_is_refused, 0, PS_ENCODING_COUNT);
    return run_tests("staged_part", t);
}
