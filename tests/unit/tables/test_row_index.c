/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_index.c: lines that fill, run over, and empty again. */
#include "server/core/tables/row_index.h"
#include "tests/unit/tables/row_model.h"

#define ROWS 1000

static bool has(const struct ps_row_index *index, uint64_t hash, uint32_t row)
{
    for (uint32_t at = ps_row_home(index, hash);; at = ps_row_line_after(index, at)) {
        uint32_t found = ps_row_line_match(&index->lines[at], ps_row_tag(hash));
        for (; found != 0; found &= found - 1)
            if (ps_row_line_number(&index->lines[at], (uint32_t)__builtin_ctz(found)) == row)
                return true;
        if (index->lines[at].past == 0)
            return false;
    }
}

static void expect_empty(const struct ps_row_index *index)
{
    for (uint32_t i = 0; i < index->line_count; i++) {
        ck_assert_uint_eq(index->lines[i].past, 0);
        ck_assert_uint_eq(ps_row_line_match(&index->lines[i], 0), 0x7FFF);
    }
}

START_TEST(a_line_says_which_places_have_a_tag)
{
    struct ps_random random;
    ps_random_init(&random, 1);
    for (int round = 0; round < 2000; round++) {
        struct ps_row_line line;
        for (int i = 0; i < PS_ROW_LINE_ROWS; i++)
            line.tags[i] = (uint8_t)ps_random_below(&random, round % 2 == 0 ? 3 : 256);
        for (uint32_t tag = 0; tag < 256; tag++) {
            uint32_t expected = 0;
            for (uint32_t i = 0; i < PS_ROW_LINE_ROWS; i++)
                expected |= (uint32_t)(line.tags[i] == tag) << i;
            if (ps_row_line_match(&line, (uint8_t)tag) != expected)
                ck_abort_msg("tag %u", tag);
            if (ps_row_line_match_words(&line, (uint8_t)tag) != expected)
                ck_abort_msg("tag %u by words", tag);
        }
    }
}
END_TEST

START_TEST(rows_are_found_until_they_are_taken_out)
{
    struct ps_row_index index = {0};
    struct ps_random random;
    uint64_t hashes[ROWS];
    ps_random_init(&random, 2);
    ck_assert(ps_row_index_create(&index, ps_allocator_heap(), ROWS));
    for (int round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            /* In some rounds all hashes are one, or have half of their bits in common. */
            hashes[i] = ps_random_next(&random);
            if (round == 1)
                hashes[i] = 7;
            if (round == 2)
                hashes[i] |= UINT32_MAX;
            ps_row_index_insert(&index, hashes[i], i);
        }
        for (uint32_t i = 0; i < ROWS; i++)
            ck_assert(has(&index, hashes[i], i));
        for (uint32_t i = 0; i < ROWS; i++) {
            uint32_t row = (i * 7 + (uint32_t)round) % ROWS;
            ps_row_index_remove(&index, hashes[row], row);
            ck_assert(!has(&index, hashes[row], row));
        }
        expect_empty(&index);
    }
    ps_row_index_destroy(&index, ps_allocator_heap());
}
END_TEST

/* Hashes whose lower 32 bits somebody chose to be the same, and others that rise evenly. Of one
 * index the lines may be met unluckily, of several they are not. */
START_TEST(hashes_that_somebody_chose_are_spread_over_the_lines)
{
    enum { INDEXES = 8 };
    static const uint64_t steps[] = {(uint64_t)1 << 32, (uint64_t)1 << 40, 1, 0x100000001};
    struct ps_row_index indexes[INDEXES] = {0};
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i < INDEXES; i++) {
        uint64_t past = 0;
        ck_assert(ps_row_index_create(&indexes[i], ps_allocator_heap(), ROWS));
        for (uint32_t row = 0; row < ROWS; row++)
            ps_row_index_insert(&indexes[i], 0x1234567 + row * steps[_i], row);
        for (uint32_t line = 0; line < indexes[i].line_count; line++)
            past += indexes[i].lines[line].past;
        fewest = past < fewest ? past : fewest;
    }
    /* From one home on they would go past lines 40,000 times. */
    ck_assert_uint_lt(fewest, ROWS);
    for (size_t i = 0; i < INDEXES; i++)
        ps_row_index_destroy(&indexes[i], ps_allocator_heap());
}
END_TEST

START_TEST(it_takes_five_bytes_for_a_row_when_it_is_full)
{
    ck_assert_uint_le(ps_row_index_bytes(1000000), 5100000);
}
END_TEST

/* Every number that there is comes back, and those beside it stay. */
START_TEST(numbers_of_three_bytes_are_kept_apart)
{
    struct ps_row_line line;
    struct ps_random random;
    uint32_t rows[PS_ROW_LINE_ROWS] = {0, PS_ROW_NUMBERS - 1};
    ps_random_init(&random, 4);
    memset(&line, 0xFF, sizeof line);
    for (uint32_t i = 0; i < PS_ROW_LINE_ROWS; i++)
        ps_row_line_set_number(&line, i, rows[i]);
    for (int round = 0; round < 1000; round++) {
        uint32_t place = (uint32_t)ps_random_below(&random, PS_ROW_LINE_ROWS);
        rows[place] = (uint32_t)ps_random_below(&random, PS_ROW_NUMBERS);
        ps_row_line_set_number(&line, place, rows[place]);
        for (uint32_t i = 0; i < PS_ROW_LINE_ROWS; i++) {
            ck_assert_uint_eq(ps_row_line_number(&line, i), rows[i]);
            ck_assert_uint_eq(line.tags[i], 0xFF);
        }
        ck_assert_uint_eq(line.past, UINT32_MAX);
    }
}
END_TEST

START_TEST(more_rows_than_numbers_are_refused)
{
    struct ps_row_index index = {0};
    ck_assert(!ps_row_index_create(&index, ps_allocator_heap(), (uint64_t)1 << 40));
    ck_assert(!ps_row_index_create(&index, ps_allocator_heap(), (uint64_t)PS_ROW_NUMBERS + 1));
    ck_assert_ptr_null(index.lines);
    ck_assert(ps_row_index_create(&index, ps_allocator_heap(), PS_ROW_NUMBERS));
    ck_assert_uint_eq(index.rows_max, PS_ROW_NUMBERS);
    ps_row_index_insert(&index, 7, PS_ROW_NUMBERS - 1);
    ck_assert(has(&index, 7, PS_ROW_NUMBERS - 1));
    ps_row_index_destroy(&index, ps_allocator_heap());
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_index");
    tcase_add_test(tests, a_line_says_which_places_have_a_tag);
    tcase_add_test(tests, rows_are_found_until_they_are_taken_out);
    tcase_add_loop_test(tests, hashes_that_somebody_chose_are_spread_over_the_lines, 0, 4);
    tcase_add_test(tests, it_takes_five_bytes_for_a_row_when_it_is_full);
    tcase_add_test(tests, numbers_of_three_bytes_are_kept_apart);
    tcase_add_test(tests, more_rows_than_numbers_are_refused);
    return run_tests("row_index", tests);
}
