/* SPDX-License-Identifier: Apache-2.0 */
/* client/row_cut.c: keys to shards, in messages, and rows back into the caller's order. */
#include "client/row_cut.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_error error;

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
}

static void end(void)
{
    ck_assert_int_eq(heap.live, 0);
}

static uint64_t key_of_piece(const struct ps_row_piece *piece, size_t i)
{
    uint64_t key;
    memcpy(&key, piece->content.data + i * sizeof key, sizeof key);
    return key;
}

static float value_of_piece(const struct ps_row_piece *piece, size_t row, size_t width, size_t i)
{
    float value;
    memcpy(&value, piece->content.data + piece->count * 8 + (row * width + i) * sizeof value,
           sizeof value);
    return value;
}

/* The reference's case: [2, 4) and [4, 7). */
static const uint64_t four = 4;
static const struct ps_partition two_ranges = {
    .kind = PS_PARTITION_GIVEN, .shard_count = 2, .bounds = &four, .bound_count = 1};

START_TEST(SimpleRangePartitionManager)
{
    static const uint64_t keys[] = {3, 4, 5, 6};
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_read(&memory, &two_ranges, keys, 4, 100, &cut, &error), PS_OK);

    ck_assert_uint_eq(cut.piece_count, 2);
    ck_assert_uint_eq(cut.pieces[0].shard, 0);
    ck_assert_uint_eq(cut.pieces[0].count, 1);
    ck_assert_uint_eq(cut.keys[0], 3);
    ck_assert_uint_eq(cut.pieces[1].shard, 1);
    ck_assert_uint_eq(cut.pieces[1].count, 3);
    ck_assert_mem_eq(cut.keys + 1, keys + 1, 3 * sizeof *keys);
    ps_row_cut_fini(&cut);
}
END_TEST

START_TEST(rows_come_back_in_the_callers_order)
{
    static const uint64_t keys[] = {9, 3, 4, 3, 2};
    static const uint16_t answers[] = {3, 3, 2, 9, 4}; /* shard 0 has 3, 3, 2 */
    uint16_t rows[5];
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_read(&memory, &two_ranges, keys, 5, 2, &cut, &error), PS_OK);
    ck_assert_uint_eq(cut.piece_count, 3);
    ps_row_cut_scatter(&cut, (const uint8_t *)answers, 2, (uint8_t *)rows);

    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(rows[i], keys[i]);
    ps_row_cut_fini(&cut);
}
END_TEST

START_TEST(a_push_that_fits_goes_as_it_came)
{
    static const uint64_t keys[] = {5, 1, 5};
    static const float rows[] = {1, 2, 3, 4, 5, 6};
    const struct ps_row_gradients gradients = {keys, 3, rows, PS_F32, 2};
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_push(&memory, &two_ranges, &gradients, 2, &cut, &error), PS_OK);

    ck_assert_uint_eq(cut.piece_count, 2);
    ck_assert_uint_eq(cut.pieces[0].content.size, 16);
    ck_assert_uint_eq(key_of_piece(&cut.pieces[0], 0), 1);
    ck_assert_float_eq(value_of_piece(&cut.pieces[0], 0, 2, 1), 4);
    ck_assert_uint_eq(cut.pieces[1].count, 2);
    ck_assert_uint_eq(key_of_piece(&cut.pieces[1], 1), 5);
    ck_assert_float_eq(value_of_piece(&cut.pieces[1], 1, 2, 0), 5);
    ps_row_cut_fini(&cut);
}
END_TEST

/* A key in two messages would be pushed twice. */
START_TEST(gradients_of_a_key_are_summed_where_messages_are_cut)
{
    static const uint64_t keys[] = {5, 1, 5, 6, 7, 5};
    static const float rows[] = {1, 2, 3, 4, 5, 6};
    const struct ps_row_gradients gradients = {keys, 6, rows, PS_F32, 1};
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_push(&memory, &two_ranges, &gradients, 2, &cut, &error), PS_OK);

    ck_assert_uint_eq(cut.piece_count, 3);
    ck_assert_uint_eq(cut.pieces[1].count, 2);
    ck_assert_uint_eq(key_of_piece(&cut.pieces[1], 0), 5);
    ck_assert_float_eq(value_of_piece(&cut.pieces[1], 0, 1, 0), 1 + 3 + 6);
    ck_assert_uint_eq(key_of_piece(&cut.pieces[1], 1), 6);
    ck_assert_uint_eq(cut.pieces[2].count, 1);
    ck_assert_uint_eq(key_of_piece(&cut.pieces[2], 0), 7);
    ps_row_cut_fini(&cut);
}
END_TEST

START_TEST(whole_numbers_wrap_when_they_are_summed)
{
    static const uint64_t keys[] = {1, 1, 1};
    static const int64_t rows[] = {INT64_MAX, 1, 1};
    const struct ps_partition one = {.shard_count = 1};
    const struct ps_row_gradients gradients = {keys, 3, rows, PS_I64, 1};
    struct ps_row_cut cut;
    int64_t sum;

    ck_assert_int_eq(ps_row_cut_push(&memory, &one, &gradients, 1, &cut, &error), PS_OK);

    ck_assert_uint_eq(cut.piece_count, 1);
    memcpy(&sum, cut.pieces[0].content.data + 8, sizeof sum);
    ck_assert_int_eq(sum, INT64_MIN + 1);
    ps_row_cut_fini(&cut);
}
END_TEST

START_TEST(a_key_that_no_shard_has_is_refused)
{
    static const uint64_t keys[] = {0, 9};
    const struct ps_partition ranges = {
        .kind = PS_PARTITION_RANGE, .shard_count = 2, .keys_max = 9};
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_read(&memory, &ranges, keys, 2, 9, &cut, &error),
                     PS_ERR_OUT_OF_RANGE);

    ck_assert_ptr_nonnull(strstr(error.text, "key 9"));
}
END_TEST

START_TEST(no_keys_make_no_messages)
{
    const struct ps_row_gradients gradients = {.dtype = PS_F32, .width = 4};
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_read(&memory, &two_ranges, NULL, 0, 9, &cut, &error), PS_OK);
    ck_assert_uint_eq(cut.piece_count, 0);
    ps_row_cut_fini(&cut);
    ck_assert_int_eq(ps_row_cut_push(&memory, &two_ranges, &gradients, 9, &cut, &error), PS_OK);
    ck_assert_uint_eq(cut.piece_count, 0);
    ps_row_cut_fini(&cut);
}
END_TEST

/* Random keys against a plain array of sums. */
START_TEST(every_gradient_is_sent_once)
{
    enum { KEYS = 40, COUNT = 500 };
    uint64_t keys[COUNT];
    double rows[COUNT], sums[KEYS] = {0}, sent[KEYS] = {0};
    struct ps_random random;
    struct ps_partition hashed = {.shard_count = (uint32_t)_i + 1};
    ps_random_init(&random, (uint64_t)_i);
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = ps_random_below(&random, KEYS);
        rows[i] = (double)ps_random_below(&random, 100);
        sums[keys[i]] += rows[i];
    }
    for (size_t piece_rows = 1; piece_rows < 300; piece_rows = piece_rows * 2 + 1) {
        const struct ps_row_gradients gradients = {keys, COUNT, rows, PS_F64, 1};
        struct ps_row_cut cut;
        ck_assert_int_eq(ps_row_cut_push(&memory, &hashed, &gradients, piece_rows, &cut, &error),
                         PS_OK);
        memset(sent, 0, sizeof sent);
        for (size_t i = 0; i < cut.piece_count; i++) {
            const struct ps_row_piece *piece = &cut.pieces[i];
            ck_assert_uint_le(piece->count, piece_rows);
            for (size_t k = 0; k < piece->count; k++) {
                uint64_t key = key_of_piece(piece, k);
                double value;
                memcpy(&value, piece->content.data + piece->count * 8 + k * 8, 8);
                ck_assert_uint_eq(ps_partition_shard(&hashed, key), piece->shard);
                sent[key] += value;
            }
        }
        for (size_t key = 0; key < KEYS; key++)
            ck_assert_double_eq(sent[key], sums[key]);
        ps_row_cut_fini(&cut);
    }
}
END_TEST

START_TEST(refused_memory_leaves_nothing_behind)
{
    static const uint64_t keys[] = {5, 1, 5, 6, 7, 5};
    static const float rows[6] = {0};
    const struct ps_row_gradients gradients = {keys, 6, rows, PS_F32, 1};
    struct ps_row_cut cut;
    enum ps_status read = PS_ERR_NO_MEMORY, push = PS_ERR_NO_MEMORY;

    for (int64_t at = 0; read != PS_OK || push != PS_OK; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        read = ps_row_cut_read(&memory, &two_ranges, keys, 6, 2, &cut, &error);
        if (read == PS_OK)
            ps_row_cut_fini(&cut);
        ck_assert_int_eq(heap.live, 0);
        heap.seen = 0;
        push = ps_row_cut_push(&memory, &two_ranges, &gradients, 2, &cut, &error);
        if (push == PS_OK)
            ps_row_cut_fini(&cut);
        ck_assert_int_eq(heap.live, 0);
        ck_assert(read == PS_OK || read == PS_ERR_NO_MEMORY);
        ck_assert(push == PS_OK || push == PS_ERR_NO_MEMORY);
    }
}
END_TEST

START_TEST(a_piece_has_a_row_however_wide)
{
    ck_assert_uint_eq(ps_row_piece_rows(PS_ROW_PIECE_BYTES * 2), 1);
    ck_assert_uint_eq(ps_row_piece_rows(PS_ROW_PIECE_BYTES / 4), 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row cut");
    TCase *tests = tcase_create("cut");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, SimpleRangePartitionManager);
    tcase_add_test(tests, rows_come_back_in_the_callers_order);
    tcase_add_test(tests, a_push_that_fits_goes_as_it_came);
    tcase_add_test(tests, gradients_of_a_key_are_summed_where_messages_are_cut);
    tcase_add_test(tests, whole_numbers_wrap_when_they_are_summed);
    tcase_add_test(tests, a_key_that_no_shard_has_is_refused);
    tcase_add_test(tests, no_keys_make_no_messages);
    tcase_add_loop_test(tests, every_gradient_is_sent_once, 0, 5);
    tcase_add_test(tests, refused_memory_leaves_nothing_behind);
    tcase_add_test(tests, a_piece_has_a_row_however_wide);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
