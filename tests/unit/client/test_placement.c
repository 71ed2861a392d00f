/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/placement.c: which shard holds what. docs/wire.md has the rule and these
 * examples. */
#include "client/engine/placement.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_placement place(size_t size, size_t element_size, uint64_t split_bytes,
                                 uint32_t shard_count)
{
    const struct ps_layout layout = {.split_bytes = split_bytes, .shard_count = shard_count};
    return ps_placement_of(size, element_size, &layout);
}

START_TEST(whole_parameters_live_where_fnv_says)
{
    static const struct {
        const char *name;
        uint32_t shards, shard;
    } rows[] = {{"param_a", 2, 0}, {"param_a", 3, 1},  {"param_a", 4, 2}, {"param_a", 10, 2},
                {"param_b", 2, 1}, {"param_b", 10, 3}, {"p_1", 10, 9},    {"anything", 1, 0}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ps_bytes name = ps_bytes_of_text(rows[i].name);
        struct ps_placement placement = place(40, 4, 1000, rows[i].shards);
        struct ps_range range = ps_placement_range(&placement, name, 0);

        ck_assert_uint_eq(placement.range_count, 1);
        ck_assert_uint_eq(range.shard, rows[i].shard);
        ck_assert_uint_eq(range.size, 40);
    }
}
END_TEST

START_TEST(a_parameter_of_exactly_the_split_size_stays_whole)
{
    ck_assert_uint_eq(place(4096, 4, 4096, 3).range_count, 1);
    ck_assert_uint_eq(place(4100, 4, 4096, 3).range_count, 3);
}
END_TEST

START_TEST(the_first_ranges_take_what_is_left_over)
{
    struct ps_placement placement = place(11 * 4, 4, 8, 4);
    static const struct ps_range expected[] = {{0, 0, 12}, {1, 12, 12}, {2, 24, 12}, {3, 36, 8}};

    for (uint32_t k = 0; k < 4; k++) {
        struct ps_range range = ps_placement_range(&placement, ps_bytes_of_text("w"), k);
        ck_assert_uint_eq(range.shard, expected[k].shard);
        ck_assert_uint_eq(range.offset, expected[k].offset);
        ck_assert_uint_eq(range.size, expected[k].size);
    }
}
END_TEST

START_TEST(fewer_elements_than_shards_make_fewer_ranges)
{
    struct ps_placement placement = place(3 * 8, 8, 8, 5);

    ck_assert_uint_eq(placement.range_count, 3);
    ck_assert_uint_eq(ps_placement_range(&placement, ps_bytes_of_text("w"), 2).size, 8);
}
END_TEST

START_TEST(one_element_is_never_cut)
{
    ck_assert_uint_eq(place(8, 8, 1, 5).range_count, 1);
}
END_TEST

START_TEST(any_cut_covers_every_byte_once)
{
    struct ps_random random;
    ps_random_init(&random, 20);
    for (int turn = 0; turn < 2000; turn++) {
        size_t element_size = turn % 2 == 0 ? 4 : 8;
        size_t size = (1 + (size_t)ps_random_below(&random, 5000)) * element_size;
        uint32_t shards = 1 + (uint32_t)ps_random_below(&random, 64);
        struct ps_placement placement =
            place(size, element_size, ps_random_below(&random, size + 10), shards);
        size_t end = 0;

        for (uint32_t k = 0; k < placement.range_count; k++) {
            struct ps_range range = ps_placement_range(&placement, ps_bytes_of_text("w"), k);
            ck_assert_uint_eq(range.offset, end);
            ck_assert_uint_gt(range.size, 0);
            ck_assert_uint_eq(range.size % element_size, 0);
            ck_assert_uint_lt(range.shard, shards);
            end += range.size;
        }
        ck_assert_uint_eq(end, size);
    }
}
END_TEST

START_TEST(ranges_are_named_after_their_number)
{
    char text[PS_NAME_BYTES_MAX];
    struct ps_placement cut = place(400, 4, 8, 12);
    struct ps_placement whole = place(4, 4, 8, 12);

    size_t size = ps_placement_name(&cut, ps_bytes_of_text("layer/w"), 11, text);
    ck_assert(ps_bytes_equal((struct ps_bytes){(uint8_t *)text, size},
                             ps_bytes_of_text("layer/w#11/12")));
    size = ps_placement_name(&whole, ps_bytes_of_text("layer/w"), 0, text);
    ck_assert(
        ps_bytes_equal((struct ps_bytes){(uint8_t *)text, size}, ps_bytes_of_text("layer/w")));
}
END_TEST

START_TEST(ordinary_names_are_taken)
{
    static const char *const names[] = {"w", "a#b", "a#1", "1/2", "w#1/", "w#/2", "w#1/2x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_int_eq(ps_placement_check_name(ps_bytes_of_text(names[i]), true, NULL), PS_OK);
}
END_TEST

START_TEST(names_that_could_meet_a_range_are_refused)
{
    static const char *const names[] = {"w#0/2", "a#b#11/12", "#1/2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_int_eq(ps_placement_check_name(ps_bytes_of_text(names[i]), false, NULL),
                         PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(empty_long_and_nul_names_are_refused)
{
    char name[PS_NAME_BYTES_MAX + 1];
    memset(name, 'x', sizeof name);
    struct ps_bytes longest = {(uint8_t *)name, PS_NAME_BYTES_MAX};
    struct ps_bytes longer = {(uint8_t *)name, PS_NAME_BYTES_MAX + 1};

    ck_assert_int_eq(ps_placement_check_name(ps_bytes_of_text(""), false, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_placement_check_name(longest, false, NULL), PS_OK);
    ck_assert_int_eq(ps_placement_check_name(longer, false, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_placement_check_name(longest, true, NULL), PS_ERR_BAD_INPUT);
    name[3] = '\0';
    ck_assert_int_eq(ps_placement_check_name(longest, false, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("placement");
    TCase *tests = tcase_create("placement");
    tcase_add_test(tests, whole_parameters_live_where_fnv_says);
    tcase_add_test(tests, a_parameter_of_exactly_the_split_size_stays_whole);
    tcase_add_test(tests, the_first_ranges_take_what_is_left_over);
    tcase_add_test(tests, fewer_elements_than_shards_make_fewer_ranges);
    tcase_add_test(tests, one_element_is_never_cut);
    tcase_add_test(tests, any_cut_covers_every_byte_once);
    tcase_add_test(tests, ranges_are_named_after_their_number);
    tcase_add_test(tests, ordinary_names_are_taken);
    tcase_add_test(tests, names_that_could_meet_a_range_are_refused);
    tcase_add_test(tests, empty_long_and_nul_names_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
