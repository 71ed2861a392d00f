/* SPDX-License-Identifier: Apache-2.0 */
/* client/ranges/range_cut.c: every byte of a content is in one range, and ranges cover all
 * elements. */
#include "client/ranges/range_cut.h"

#include "base/random.h"
#include "optimizer/encoded.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 40 * 1024 + 77, PART_BYTES = 8 * 1024, KEPT = 5000 };

static float elements[COUNT];
static uint8_t content[COUNT * 8];
static uint8_t again[COUNT * 8];

static struct ps_range_cut make(enum ps_encoding encoding, size_t kept)
{
    struct ps_random random;
    ps_random_init(&random, 11);
    for (size_t i = 0; i < COUNT; i++)
        elements[i] = (float)ps_random_below(&random, 100000) - 50000;
    size_t size = kept * PS_ENCODING_PAIR_BYTES;
    if (encoding == PS_ENCODING_TOP_K) {
        ps_encode_top_k(PS_F32, elements, COUNT, kept, content);
    } else {
        size = (size_t)ps_encoding_bytes(encoding, PS_F32, COUNT);
        ck_assert_int_eq(ps_encode_all(encoding, PS_F32, elements, COUNT, content, NULL), PS_OK);
    }
    return (struct ps_range_cut){.encoding = encoding,
                                 .dtype = PS_F32,
                                 .content = {content, size},
                                 .total = COUNT,
                                 .part = ps_range_cut_part(encoding, PS_F32, PART_BYTES)};
}

/* Puts all first pieces, then all second ones, together, and checks that each range is possible. */
static size_t join(struct ps_range_cut *cut, size_t *range_count)
{
    size_t size = 0;
    for (size_t half = 0; half < PS_RANGE_PIECES_MAX; half++) {
        uint64_t end = 0;
        *range_count = 0;
        ps_range_cut_rewind(cut);
        while (cut->next < cut->total) {
            struct ps_bytes pieces[PS_RANGE_PIECES_MAX];
            struct ps_view part;
            struct ps_elements range = ps_range_cut_next(cut, pieces, &part);
            ck_assert_uint_eq(range.first, end);
            ck_assert_uint_gt(range.count, 0);
            end += range.count;
            ck_assert_uint_le(part.size, PART_BYTES + PART_BYTES / 32);
            ck_assert_int_eq(ps_encoding_check(cut->encoding, PS_F32, range.count, part.size, NULL),
                             PS_OK);
            ck_assert_int_eq(
                ps_encoding_check_range(cut->encoding, range.first, range.count, cut->total, NULL),
                PS_OK);
            (*range_count)++;
            if (half >= part.piece_count)
                continue;
            memcpy(again + size, part.pieces[half].data, part.pieces[half].size);
            size += part.pieces[half].size;
        }
        ck_assert_uint_eq(end, COUNT);
    }
    return size;
}

START_TEST(ranges_put_together_are_the_content)
{
    struct ps_range_cut cut = make((enum ps_encoding)_i, KEPT);
    size_t range_count;

    size_t size = join(&cut, &range_count);

    ck_assert_uint_eq(size, cut.content.size);
    ck_assert(memcmp(again, content, size) == 0);
    ck_assert_uint_ge(range_count, cut.content.size / (PART_BYTES + PART_BYTES / 32));
    ck_assert_uint_le(range_count, cut.content.size / PART_BYTES + 2);
}
END_TEST

START_TEST(pairs_go_with_the_range_of_their_index)
{
    static const size_t kept[] = {0, 1, 1024, 1025, COUNT};
    struct ps_range_cut cut = make(PS_ENCODING_TOP_K, kept[_i]);
    size_t pairs = 0;
    do {
        struct ps_bytes pieces[PS_RANGE_PIECES_MAX];
        struct ps_view part;
        struct ps_elements range = ps_range_cut_next(&cut, pieces, &part);
        for (size_t i = 0; i < pieces[0].size / 4; i++) {
            uint32_t index;
            memcpy(&index, pieces[0].data + i * 4, sizeof index);
            ck_assert(index >= range.first && index < range.first + range.count);
            pairs++;
        }
    } while (cut.next < cut.total);
    ck_assert_uint_eq(pairs, kept[_i]);
}
END_TEST

START_TEST(a_part_is_whole_groups)
{
    ck_assert_uint_eq(ps_range_cut_part(PS_ENCODING_NATIVE, PS_F32, 512 * 1024), 128 * 1024);
    ck_assert_uint_eq(ps_range_cut_part(PS_ENCODING_NATIVE, PS_I64, 512 * 1024), 64 * 1024);
    ck_assert_uint_eq(ps_range_cut_part(PS_ENCODING_BFLOAT16, PS_F64, 512 * 1024), 256 * 1024);
    ck_assert_uint_eq(ps_range_cut_part(PS_ENCODING_INT8, PS_F32, 1000), 768);
    ck_assert_uint_eq(ps_range_cut_part(PS_ENCODING_TOP_K, PS_F32, 512 * 1024), 64 * 1024);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("range_cut");
    TCase *t = tcase_create("range_cut");
    tcase_add_loop_test(t, ranges_put_together_are_the_content, 0, PS_ENCODING_COUNT);
    tcase_add_loop_test(t, pairs_go_with_the_range_of_their_index, 0, 5);
    tcase_add_test(t, a_part_is_whole_groups);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
