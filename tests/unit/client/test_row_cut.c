/* SPDX-License-Identifier: Apache-2.0 */
/* client/row_cut.c and row_cut_push.c: keys to shards, in messages, and rows back into the caller's
 * order. */
#include "client/row_cut.h"

#include "base/random.h"
#include "base/row_hash.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

/* Any but that of the shards. */
enum { SEED = 1 };

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

/* Cut and packed. */
static enum ps_status push(const struct ps_partition *partition,
                           const struct ps_row_gradients *gradients, size_t piece_rows_max,
                           struct ps_row_cut *cut)
{
    enum ps_status status =
        ps_row_cut_push(&memory, partition, gradients, piece_rows_max, cut, &error);
    for (size_t i = 0; status == PS_OK && i < cut->piece_count; i++)
        ps_row_cut_pack(cut, i);
    return status;
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

START_TEST(a_read_goes_in_pieces_of_about_one_size)
{
    static const uint64_t keys[] = {3, 3, 1, 2, 3, 0, 1, 2, 3, 9};
    struct ps_row_cut cut;

    ck_assert_int_eq(ps_row_cut_read(&memory, &two_ranges, keys, 10, 4, &cut, &error), PS_OK);

    /* Nine of shard 0. */
    ck_assert_uint_eq(cut.piece_count, 4);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(cut.pieces[i].shard, 0);
        ck_assert_uint_eq(cut.pieces[i].first, 3 * i);
        ck_assert_uint_eq(cut.pieces[i].count, 3);
    }
    ck_assert_uint_eq(cut.pieces[3].count, 1);
    ps_row_cut_fini(&cut);
}
END_TEST

/* Also where the server sums: its gradients are in order then, too. */
START_TEST(a_push_that_fits_goes_in_one_message_for_each_shard)
{
    static const uint64_t keys[] = {5, 1, 5};
    static const float rows[] = {1, 2, 3, 4, 5, 6};
    const struct ps_row_gradients gradients = {keys, 3, rows, PS_F32, 2, PS_ROW_SUM, SEED};
    struct ps_row_cut cut;

    ck_assert_int_eq(push(&two_ranges, &gradients, 2, &cut), PS_OK);

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
    const struct ps_row_gradients gradients = {keys, 6, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    float sums[8] = {0};
    struct ps_row_cut cut;

    ck_assert_int_eq(push(&two_ranges, &gradients, 2, &cut), PS_OK);

    ck_assert_uint_eq(cut.piece_count, 3);
    for (size_t i = 1; i < 3; i++) {
        ck_assert_uint_eq(cut.pieces[i].shard, 1);
        for (size_t k = 0; k < cut.pieces[i].count; k++)
            sums[key_of_piece(&cut.pieces[i], k)] += value_of_piece(&cut.pieces[i], k, 1, 0);
    }
    ck_assert_uint_eq(cut.pieces[1].count + cut.pieces[2].count, 3);
    ck_assert_float_eq(sums[5], 1 + 3 + 6);
    ck_assert_float_eq(sums[6], 4);
    ck_assert_float_eq(sums[7], 5);
    ps_row_cut_fini(&cut);
}
END_TEST

/* A sum of assignments is what nobody has assigned. */
START_TEST(gradients_of_other_rules_become_what_a_server_makes_of_them)
{
    static const uint64_t keys[] = {5, 5, 5};
    static const float rows[] = {2, 6, 3};
    static const float expected[] = {
        [PS_ROW_SUM] = 11, [PS_ROW_LAST] = 3, [PS_ROW_GREATEST] = 6, [PS_ROW_LEAST] = 2};
    const struct ps_row_gradients gradients = {keys, 3, rows, PS_F32, 1, (enum ps_row_repeats)_i,
                                               SEED};
    struct ps_row_cut cut;

    ck_assert_int_eq(push(&two_ranges, &gradients, 1, &cut), PS_OK);

    ck_assert_uint_eq(cut.piece_count, 1);
    ck_assert_float_eq(value_of_piece(&cut.pieces[0], 0, 1, 0), expected[_i]);
    ps_row_cut_fini(&cut);
}
END_TEST

START_TEST(whole_numbers_wrap_when_they_are_summed)
{
    static const uint64_t keys[] = {1, 1, 1};
    static const int64_t rows[] = {INT64_MAX, 1, 1};
    const struct ps_partition one = {.shard_count = 1};
    const struct ps_row_gradients gradients = {keys, 3, rows, PS_I64, 1, PS_ROW_SUM, SEED};
    struct ps_row_cut cut;
    int64_t sum;

    ck_assert_int_eq(push(&one, &gradients, 1, &cut), PS_OK);

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
    ck_assert_int_eq(push(&two_ranges, &gradients, 9, &cut), PS_OK);
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
        const struct ps_row_gradients gradients = {keys, COUNT, rows, PS_F64, 1, PS_ROW_SUM, SEED};
        struct ps_row_cut cut;
        ck_assert_int_eq(push(&hashed, &gradients, piece_rows, &cut), PS_OK);
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

/* Enough rows for buckets. Of each key the gradients count up, so that their order shows. */
enum { MANY = 20000, MANY_KEYS = 15000, PIECE_ROWS = 2000 };

static void draw_many(uint64_t *keys, float *rows, uint64_t seed, bool one_is_hot)
{
    static float next[MANY_KEYS];
    struct ps_random random;
    memset(next, 0, sizeof next);
    ps_random_init(&random, seed);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t key = one_is_hot && i % 3 == 0 ? 7 : ps_random_below(&random, MANY_KEYS);
        /* Not the numbers themselves, which a bucket might have as a range. */
        keys[i] = key * 0x9E3779B97F4A7C15u;
        rows[i] = next[key]++;
    }
}

START_TEST(all_gradients_of_a_key_go_in_one_message_in_their_order)
{
    static uint64_t keys[MANY];
    static float rows[MANY];
    static uint32_t piece_of[MANY_KEYS];
    static float next[MANY_KEYS];
    const struct ps_partition one = {.shard_count = 1};
    const struct ps_row_gradients gradients = {keys, MANY, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    size_t sent = 0;
    struct ps_row_cut cut;
    draw_many(keys, rows, 1, false);
    memset(piece_of, 0, sizeof piece_of);
    memset(next, 0, sizeof next);

    ck_assert_int_eq(push(&one, &gradients, PIECE_ROWS, &cut), PS_OK);

    for (size_t i = 0; i < cut.piece_count; i++) {
        const struct ps_row_piece *piece = &cut.pieces[i];
        ck_assert_uint_le(piece->count, PIECE_ROWS);
        /* The first one is small, and no other. */
        ck_assert_uint_gt(piece->count, i == 0 ? PIECE_ROWS / 8 : PIECE_ROWS / 2);
        ck_assert(i > 0 || piece->count < PIECE_ROWS / 2);
        for (size_t k = 0; k < piece->count; k++, sent++) {
            uint64_t key = key_of_piece(piece, k) * 0xF1DE83E19937733Du;
            ck_assert_uint_lt(key, MANY_KEYS);
            ck_assert(piece_of[key] == 0 || piece_of[key] == i + 1);
            piece_of[key] = (uint32_t)i + 1;
            ck_assert_float_eq(value_of_piece(piece, k, 1, 0), next[key]);
            next[key]++;
        }
    }
    ck_assert_uint_eq(sent, MANY);
    ps_row_cut_fini(&cut);
}
END_TEST

/* From one shard's first message to its last, so that its server has nothing to sort. */
START_TEST(rows_go_in_the_order_in_which_a_server_has_them)
{
    static uint64_t keys[MANY];
    static float rows[MANY];
    const struct ps_partition partition = {.shard_count = (uint32_t)_i};
    const struct ps_row_gradients gradients = {keys, MANY, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    draw_many(keys, rows, 4, _i == 2);
    for (size_t most = 1500; most <= MANY; most *= 3) {
        struct ps_row_cut cut;
        uint64_t before = 0;
        ck_assert_int_eq(push(&partition, &gradients, most, &cut), PS_OK);
        for (size_t i = 0; i < cut.piece_count; i++) {
            if (i > 0 && cut.pieces[i].shard != cut.pieces[i - 1].shard)
                before = 0;
            for (size_t k = 0; k < cut.pieces[i].count; k++) {
                uint64_t hash = ps_row_hash(key_of_piece(&cut.pieces[i], k), SEED);
                ck_assert_uint_le(before, hash);
                before = hash;
            }
        }
        ps_row_cut_fini(&cut);
    }
}
END_TEST

START_TEST(a_key_that_comes_too_often_for_a_message_is_summed)
{
    static uint64_t keys[MANY];
    static float rows[MANY];
    const struct ps_partition one = {.shard_count = 1};
    const struct ps_row_gradients gradients = {keys, MANY, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    struct ps_row_cut cut;
    double sent = 0, given = 0;
    size_t hot = 0;
    draw_many(keys, rows, 2, true);
    /* Small enough for a float to have the sum of a key exactly. */
    for (size_t i = 0; i < MANY; i++)
        rows[i] = (float)(i % 16);

    ck_assert_int_eq(push(&one, &gradients, PIECE_ROWS, &cut), PS_OK);

    for (size_t i = 0; i < MANY; i++)
        given += (double)rows[i];
    for (size_t i = 0; i < cut.piece_count; i++) {
        ck_assert_uint_le(cut.pieces[i].count, PIECE_ROWS);
        for (size_t k = 0; k < cut.pieces[i].count; k++) {
            hot += key_of_piece(&cut.pieces[i], k) == 7 * 0x9E3779B97F4A7C15u ? 1 : 0;
            sent += (double)value_of_piece(&cut.pieces[i], k, 1, 0);
        }
    }
    ck_assert_uint_eq(hot, 1);
    ck_assert_double_eq(sent, given);
    ps_row_cut_fini(&cut);
}
END_TEST

/* A message is all or nothing; what is more than one is cut so that a server can begin early. */
START_TEST(narrow_rows_go_in_one_message_or_in_several_of_few_keys)
{
    static uint64_t keys[100000];
    static float rows[100000];
    const struct ps_partition one = {.shard_count = 1};
    size_t most = ps_row_piece_rows(sizeof *keys + sizeof *rows);
    struct ps_row_gradients gradients = {keys, most, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    struct ps_row_cut cut;
    for (size_t i = 0; i < PS_ARRAY_COUNT(keys); i++)
        keys[i] = i * 0x9E3779B97F4A7C15u;
    ck_assert_uint_gt(most, 2 * PS_ROW_PIECE_KEYS);

    ck_assert_int_eq(push(&one, &gradients, most, &cut), PS_OK);
    ck_assert_uint_eq(cut.piece_count, 1);
    ps_row_cut_fini(&cut);

    gradients.count = PS_ARRAY_COUNT(keys);
    ck_assert_int_eq(push(&one, &gradients, most, &cut), PS_OK);
    ck_assert_uint_gt(cut.piece_count, 3);
    for (size_t i = 0; i < cut.piece_count; i++)
        ck_assert_uint_le(cut.pieces[i].count, PS_ROW_PIECE_KEYS);
    ps_row_cut_fini(&cut);
}
END_TEST

START_TEST(refused_memory_leaves_nothing_behind_of_buckets)
{
    static uint64_t keys[MANY];
    static float rows[MANY];
    const struct ps_partition two = {.shard_count = 2};
    const struct ps_row_gradients gradients = {keys, MANY, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    struct ps_row_cut cut;
    enum ps_status status = PS_ERR_NO_MEMORY;
    draw_many(keys, rows, 3, true);

    for (int64_t at = 0; status != PS_OK; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        status = push(&two, &gradients, PIECE_ROWS, &cut);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        if (status == PS_OK)
            ps_row_cut_fini(&cut);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

START_TEST(refused_memory_leaves_nothing_behind)
{
    static const uint64_t keys[] = {5, 1, 5, 6, 7, 5};
    static const float rows[6] = {0};
    const struct ps_row_gradients gradients = {keys, 6, rows, PS_F32, 1, PS_ROW_SUM, SEED};
    struct ps_row_cut cut;
    enum ps_status read = PS_ERR_NO_MEMORY, pushed = PS_ERR_NO_MEMORY;

    for (int64_t at = 0; read != PS_OK || pushed != PS_OK; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        read = ps_row_cut_read(&memory, &two_ranges, keys, 6, 2, &cut, &error);
        if (read == PS_OK)
            ps_row_cut_fini(&cut);
        ck_assert_int_eq(heap.live, 0);
        heap.seen = 0;
        pushed = push(&two_ranges, &gradients, 2, &cut);
        if (pushed == PS_OK)
            ps_row_cut_fini(&cut);
        ck_assert_int_eq(heap.live, 0);
        ck_assert(read == PS_OK || read == PS_ERR_NO_MEMORY);
        ck_assert(pushed == PS_OK || pushed == PS_ERR_NO_MEMORY);
    }
}
END_TEST

START_TEST(a_piece_has_a_row_however_wide)
{
    ck_assert_uint_eq(ps_row_piece_rows(PS_ROW_PIECE_BYTES * 2), 1);
    ck_assert_uint_eq(ps_row_piece_rows(PS_ROW_PIECE_BYTES / 4), 4);
    ck_assert_uint_eq(ps_row_piece_reads(PS_ROW_PIECE_BYTES / 4), 4);
    ck_assert_uint_eq(ps_row_piece_reads(sizeof(float)), PS_ROW_PIECE_KEYS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row cut");
    TCase *tests = tcase_create("cut");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, SimpleRangePartitionManager);
    tcase_add_test(tests, rows_come_back_in_the_callers_order);
    tcase_add_test(tests, a_read_goes_in_pieces_of_about_one_size);
    tcase_add_test(tests, a_push_that_fits_goes_in_one_message_for_each_shard);
    tcase_add_test(tests, gradients_of_a_key_are_summed_where_messages_are_cut);
    tcase_add_loop_test(tests, gradients_of_other_rules_become_what_a_server_makes_of_them,
                        PS_ROW_SUM, PS_ROW_LEAST + 1);
    tcase_add_test(tests, whole_numbers_wrap_when_they_are_summed);
    tcase_add_test(tests, a_key_that_no_shard_has_is_refused);
    tcase_add_test(tests, no_keys_make_no_messages);
    tcase_add_loop_test(tests, every_gradient_is_sent_once, 0, 5);
    tcase_add_test(tests, all_gradients_of_a_key_go_in_one_message_in_their_order);
    tcase_add_loop_test(tests, rows_go_in_the_order_in_which_a_server_has_them, 1, 4);
    tcase_add_test(tests, a_key_that_comes_too_often_for_a_message_is_summed);
    tcase_add_test(tests, narrow_rows_go_in_one_message_or_in_several_of_few_keys);
    tcase_add_test(tests, refused_memory_leaves_nothing_behind_of_buckets);
    tcase_add_test(tests, refused_memory_leaves_nothing_behind);
    tcase_add_test(tests, a_piece_has_a_row_however_wide);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
