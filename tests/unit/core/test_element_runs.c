/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/element_runs.c: whole elements out of pieces cut at any byte. */
#include "base/random.h"
#include "server/core/values/element_runs.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <string.h>

/* Walks through `view` and collects its elements into `collected`; returns how many. */
static size_t collect(struct ps_view view, size_t element_size, size_t count_max,
                      uint8_t *collected)
{
    struct ps_element_runs runs;
    size_t count = 0;
    ps_element_runs_init(&runs, view, element_size);
    for (;;) {
        struct ps_element_run run = ps_element_runs_next(&runs, count_max);
        if (run.count == 0)
            return count;
        ck_assert_uint_le(run.count, count_max);
        memcpy(collected + count * element_size, run.elements, run.count * element_size);
        count += run.count;
    }
}

static const uint8_t letters[] = "abcdefghijklmnopqrstuvwx";
#define LETTERS 24

START_TEST(one_piece_is_one_run)
{
    struct ps_bytes piece = {letters, LETTERS};
    struct ps_element_runs runs;
    ps_element_runs_init(&runs, ps_view_of(&piece), 4);

    struct ps_element_run run = ps_element_runs_next(&runs, 100);

    ck_assert_ptr_eq(run.elements, letters);
    ck_assert_uint_eq(run.count, 6);
    ck_assert_uint_eq(ps_element_runs_next(&runs, 100).count, 0);
}
END_TEST

START_TEST(a_run_is_never_longer_than_asked)
{
    struct ps_bytes piece = {letters, LETTERS};
    struct ps_element_runs runs;
    ps_element_runs_init(&runs, ps_view_of(&piece), 8);

    ck_assert_uint_eq(ps_element_runs_next(&runs, 2).count, 2);
    ck_assert_uint_eq(ps_element_runs_next(&runs, 2).count, 1);
    ck_assert_uint_eq(ps_element_runs_next(&runs, 2).count, 0);
}
END_TEST

START_TEST(an_empty_view_has_no_run)
{
    struct ps_element_runs runs;
    ps_element_runs_init(&runs, (struct ps_view){NULL, 0, 0}, 4);

    ck_assert_uint_eq(ps_element_runs_next(&runs, 1).count, 0);
}
END_TEST

/* _i says where the second of two cuts is; the first goes over all places before it. */
START_TEST(two_cuts_at_any_bytes_change_nothing)
{
    for (size_t first = 0; first <= (size_t)_i; first++) {
        struct ps_bytes pieces[] = {{letters, first},
                                    {letters + first, (size_t)_i - first},
                                    {letters + _i, LETTERS - (size_t)_i}};
        struct ps_view view = {pieces, 3, LETTERS};
        for (size_t element_size = 4; element_size <= 8; element_size += 4) {
            uint8_t collected[LETTERS] = {0};
            size_t count_max = 1 + first % 7;

            size_t count = collect(view, element_size, count_max, collected);

            ck_assert_uint_eq(count, LETTERS / element_size);
            ck_assert_mem_eq(collected, letters, LETTERS);
        }
    }
}
END_TEST

START_TEST(pieces_of_one_byte_make_whole_elements)
{
    struct ps_bytes pieces[LETTERS];
    uint8_t collected[LETTERS] = {0};
    for (size_t i = 0; i < LETTERS; i++)
        pieces[i] = (struct ps_bytes){letters + i, 1};

    size_t count = collect((struct ps_view){pieces, LETTERS, LETTERS}, 8, 5, collected);

    ck_assert_uint_eq(count, 3);
    ck_assert_mem_eq(collected, letters, LETTERS);
}
END_TEST

START_TEST(random_cuts_change_nothing)
{
    struct ps_random random;
    uint64_t seed = 0x5eed0000 + (uint64_t)_i;
    ps_random_init(&random, seed);
    struct ps_bytes pieces[64];
    uint8_t bytes[512];
    uint8_t collected[512];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)ps_random_next(&random);
    size_t piece_count = 0;
    size_t offset = 0;
    while (offset < sizeof bytes) {
        size_t size = ps_random_below(&random, 40);
        if (piece_count == 63 || size > sizeof bytes - offset)
            size = sizeof bytes - offset;
        pieces[piece_count++] = (struct ps_bytes){bytes + offset, size};
        offset += size;
    }

    size_t count = collect((struct ps_view){pieces, piece_count, sizeof bytes}, 8,
                           1 + ps_random_below(&random, 20), collected);

    ck_assert_msg(count == 64, "seed %llu", (unsigned long long)seed);
    ck_assert_msg(memcmp(collected, bytes, sizeof bytes) == 0, "seed %llu",
                  (unsigned long long)seed);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("element_runs");
    tcase_add_test(tests, one_piece_is_one_run);
    tcase_add_test(tests, a_run_is_never_longer_than_asked);
    tcase_add_test(tests, an_empty_view_has_no_run);
    tcase_add_loop_test(tests, two_cuts_at_any_bytes_change_nothing, 0, LETTERS + 1);
    tcase_add_test(tests, pieces_of_one_byte_make_whole_elements);
    tcase_add_loop_test(tests, random_cuts_change_nothing, 0, 50);
    return run_tests("element_runs", tests);
}
