/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/gradient_parts.c: where gradients are cut, and how a part lies in a slot. */
#include "optimizer/device/gradient_parts.h"

#include "base/random.h"
#include "optimizer/encoded.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)65536)
#define UNIT PS_SUM_ELEMENTS

/* A content of its own kind, every byte another than its neighbours'. */
static struct ps_gradient_source source_of(enum ps_encoding encoding, enum ps_dtype dtype,
                                           uint64_t count, struct ps_bytes *content)
{
    struct ps_gradient_source source = {.encoding = encoding, .dtype = dtype, .count = count};
    content->size = (size_t)ps_gradient_source_bytes(&source);
    uint8_t *bytes = malloc(content->size + 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < content->size; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    content->data = bytes;
    source.content = ps_view_of(content);
    return source;
}

static void release(struct ps_bytes *content)
{
    free((void *)(uintptr_t)content->data);
}

/* Every part fits, begins at a unit and goes on where the one before ended; returns how many. */
static size_t walk(const struct ps_gradient_source *source, size_t room)
{
    struct ps_gradient_part part = {0};
    uint64_t reached = 0;
    size_t count = 0;
    for (;;) {
        part = ps_gradient_part_next(source, &part, room);
        if (part.count == 0)
            break;
        ck_assert_uint_eq(part.first, reached);
        ck_assert_uint_eq(part.first % UNIT, 0);
        ck_assert_uint_le(part.bytes, room);
        ck_assert_uint_eq(part.bytes % 256, 0);
        ck_assert_uint_le(part.extra, part.bytes);
        reached += part.count;
        count++;
    }
    ck_assert_uint_eq(reached, source->count);
    return count;
}

START_TEST(parts_cover_every_element_once_and_fit)
{
    static const enum ps_encoding encodings[] = {PS_ENCODING_NATIVE, PS_ENCODING_INT8};
    static const uint64_t counts[] = {1, 255, 4096, 4097, 16384, 16385, 1000003};
    for (size_t e = 0; e < PS_ARRAY_COUNT(encodings); e++)
        for (size_t i = 0; i < PS_ARRAY_COUNT(counts); i++)
            for (size_t room = ROOM; room <= 4 * ROOM; room += ROOM) {
                struct ps_bytes content;
                struct ps_gradient_source source =
                    source_of(encodings[e], PS_F32, counts[i], &content);
                size_t parts = walk(&source, room);
                ck_assert_uint_ge(parts, (content.size + room - 1) / room);
                release(&content);
            }
}
END_TEST

START_TEST(wide_elements_take_more_parts)
{
    struct ps_bytes narrow;
    struct ps_bytes wide;
    struct ps_gradient_source floats = source_of(PS_ENCODING_NATIVE, PS_F32, 100000, &narrow);
    struct ps_gradient_source doubles = source_of(PS_ENCODING_NATIVE, PS_F64, 100000, &wide);

    ck_assert_uint_eq(walk(&floats, ROOM), 7);
    ck_assert_uint_eq(walk(&doubles, ROOM), 13);

    release(&narrow);
    release(&wide);
}
END_TEST

START_TEST(native_parts_are_the_contents_own_bytes)
{
    struct ps_bytes content;
    struct ps_gradient_source source = source_of(PS_ENCODING_NATIVE, PS_F64, 20000, &content);
    static uint8_t slot[4 * ROOM];
    struct ps_gradient_part part = {0};
    for (;;) {
        part = ps_gradient_part_next(&source, &part, ROOM);
        if (part.count == 0)
            break;
        ps_gradient_part_copy(&source, &part, slot);
        ck_assert_mem_eq(slot, content.data + part.first * 8, (size_t)part.count * 8);
    }
    release(&content);
}
END_TEST

/* On the wire the scales of all groups come first; in a slot each part's own stand behind it. */
START_TEST(int8_parts_have_their_own_scales_behind_them)
{
    struct ps_bytes content;
    struct ps_gradient_source source = source_of(PS_ENCODING_INT8, PS_F32, 150001, &content);
    size_t scales = (size_t)ps_encoding_groups(source.count) * 4;
    static uint8_t slot[ROOM];
    struct ps_gradient_part part = {0};
    for (;;) {
        part = ps_gradient_part_next(&source, &part, ROOM);
        if (part.count == 0)
            break;
        ps_gradient_part_copy(&source, &part, slot);
        struct ps_cuda_gradient told = ps_gradient_part_at(&source, &part, slot);
        ck_assert_mem_eq(told.elements, content.data + scales + part.first, (size_t)part.count);
        ck_assert_mem_eq(told.scales, content.data + part.first / PS_ENCODING_GROUP * 4,
                         (size_t)ps_encoding_groups(part.count) * 4);
        ck_assert_ptr_null(told.indices);
    }
    release(&content);
}
END_TEST

/* `kept` entries for a parameter of `count` elements: indices rise by random steps, and each value
 * is made of its index. */
static struct ps_gradient_source listed_source(uint64_t count, uint32_t kept, uint32_t step_max,
                                               struct ps_bytes *content)
{
    struct ps_random random;
    uint32_t *words = malloc((size_t)kept * 8 + 1);
    uint32_t index = 0;
    ck_assert_ptr_nonnull(words);
    ps_random_init(&random, 42);
    for (uint32_t i = 0; i < kept; i++) {
        index += i == 0 ? 0 : 1 + (uint32_t)ps_random_below(&random, step_max);
        ck_assert_uint_lt(index, count);
        words[i] = index;
        words[kept + i] = index ^ 0x5a5a5a5a;
    }
    *content = (struct ps_bytes){(const uint8_t *)words, (size_t)kept * 8};
    return (struct ps_gradient_source){.content = ps_view_of(content),
                                       .encoding = PS_ENCODING_TOP_K,
                                       .dtype = PS_F32,
                                       .count = count};
}

START_TEST(a_list_goes_with_the_elements_that_it_names)
{
    struct ps_bytes content;
    struct ps_gradient_source source = listed_source(400000, 30000, 13, &content);
    static uint8_t slot[ROOM];
    struct ps_gradient_part part = {0};
    uint64_t entries = 0;
    size_t parts = 0;
    for (;;) {
        part = ps_gradient_part_next(&source, &part, ROOM);
        if (part.count == 0)
            break;
        ps_gradient_part_copy(&source, &part, slot);
        struct ps_cuda_gradient told = ps_gradient_part_at(&source, &part, slot);
        const uint32_t *values = told.elements;
        ck_assert_uint_eq(told.kept, part.listed);
        ck_assert_uint_eq(part.skipped, entries);
        for (uint64_t i = 0; i < part.listed; i++) {
            ck_assert_uint_ge(told.indices[i], part.first);
            ck_assert_uint_lt(told.indices[i], part.first + part.count);
            ck_assert_uint_eq(values[i], told.indices[i] ^ 0x5a5a5a5a);
        }
        entries += part.listed;
        parts++;
    }
    ck_assert_uint_eq(entries, 30000);
    ck_assert_uint_gt(parts, 3);
    ck_assert_uint_eq(walk(&source, ROOM), parts);
    release(&content);
}
END_TEST

START_TEST(a_short_list_stands_for_all_elements_at_once)
{
    struct ps_bytes content;
    struct ps_gradient_source source = listed_source(1000000, 10, 50000, &content);

    struct ps_gradient_part part =
        ps_gradient_part_next(&source, &(struct ps_gradient_part){0}, ROOM);

    ck_assert_uint_eq(part.count, 1000000);
    ck_assert_uint_eq(part.listed, 10);
    ck_assert_uint_eq(part.bytes, 512);
    release(&content);
}
END_TEST

START_TEST(an_empty_list_is_a_part_of_nothing_but_elements)
{
    const struct ps_gradient_source source = {
        .encoding = PS_ENCODING_TOP_K, .dtype = PS_F32, .count = 77};

    struct ps_gradient_part part =
        ps_gradient_part_next(&source, &(struct ps_gradient_part){0}, ROOM);

    ck_assert_uint_eq(part.count, 77);
    ck_assert_uint_eq(part.listed, 0);
    ck_assert_uint_eq(part.bytes, 0);
    ck_assert_uint_eq(ps_gradient_part_next(&source, &part, ROOM).count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradient_parts");
    TCase *tests = tcase_create("gradient_parts");
    tcase_add_test(tests, parts_cover_every_element_once_and_fit);
    tcase_add_test(tests, wide_elements_take_more_parts);
    tcase_add_test(tests, native_parts_are_the_contents_own_bytes);
    tcase_add_test(tests, int8_parts_have_their_own_scales_behind_them);
    tcase_add_test(tests, a_list_goes_with_the_elements_that_it_names);
    tcase_add_test(tests, a_short_list_stands_for_all_elements_at_once);
    tcase_add_test(tests, an_empty_list_is_a_part_of_nothing_but_elements);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
