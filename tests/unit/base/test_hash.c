/* SPDX-License-Identifier: Apache-2.0 */
/* base/hash.c: placement is part of the public contract. */
#include "base/hash.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct vector {
    const char *text;
    uint32_t hash;
};

static const struct vector vectors[] = {
    {"", 0x811c9dc5},        {"a", 0xe40c292c},       {"b", 0xe70c2de5},   {"w", 0xf20c3f36},
    {"param_a", 0xc39eda42}, {"param_b", 0xc29ed8af}, {"p_0", 0x11a9bc60}, {"p_1", 0x12a9bdf3},
};

START_TEST(hash_is_fnv1a32)
{
    ck_assert_uint_eq(ps_hash_fnv1a32(ps_bytes_of_text(vectors[_i].text)), vectors[_i].hash);
}
END_TEST

struct placement {
    const char *name;
    uint32_t of_2, of_3, of_4, of_10;
};

static const struct placement placements[] = {
    {"param_a", 0, 1, 2, 2}, {"param_b", 1, 2, 3, 3}, {"p_0", 0, 2, 0, 0}, {"p_1", 1, 1, 3, 9}};

START_TEST(names_live_where_they_always_lived)
{
    const struct placement *placement = &placements[_i];
    struct ps_bytes name = ps_bytes_of_text(placement->name);

    ck_assert_uint_eq(ps_hash_shard(name, 2), placement->of_2);
    ck_assert_uint_eq(ps_hash_shard(name, 3), placement->of_3);
    ck_assert_uint_eq(ps_hash_shard(name, 4), placement->of_4);
    ck_assert_uint_eq(ps_hash_shard(name, 10), placement->of_10);
    ck_assert_uint_eq(ps_hash_shard(name, 1), 0);
}
END_TEST

START_TEST(thousand_names_spread_over_ten_shards)
{
    static const int expected[10] = {95, 98, 98, 94, 95, 107, 109, 104, 103, 97};
    int counts[10] = {0};

    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "p_%d", i);
        counts[ps_hash_shard(ps_bytes_of_text(name), 10)]++;
    }

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(counts[i], expected[i]);
}
END_TEST

START_TEST(bytes_above_127_count_as_unsigned)
{
    ck_assert_uint_eq(ps_hash_fnv1a32((struct ps_bytes){(const uint8_t *)"\xff", 1}),
                      (0x811c9dc5u ^ 0xffu) * 16777619u);
}
END_TEST

static const struct {
    const char *name;
    uint64_t placement, hash;
    uint32_t of[4];
} placed[] = {{"param_a", 2, UINT64_C(0xb05f1acff0ab9a02), {0, 1, 0, 0}},
              {"param_b", 2, UINT64_C(0xb05f19cff0ab984f), {1, 2, 1, 5}},
              {"p_1", 2, UINT64_C(0x783e191956d92593), {1, 1, 1, 7}},
              {"param_a", 3, UINT64_C(0xb05f1acff0ab9a02), {1, 0, 1, 1}},
              {"param_a", 506330, UINT64_C(0xb05f1acff0ab9a02), {0, 1, 2, 6}},
              {"param_a", UINT64_MAX, UINT64_C(0xb05f1acff0ab9a02), {1, 0, 1, 9}}};

/* The vectors of docs/placement.md, made by a program in another language. */
START_TEST(a_placement_puts_names_where_the_page_says)
{
    static const uint32_t counts[4] = {2, 3, 4, 10};
    uint64_t hash = ps_hash_fnv1a64(ps_bytes_of_text(placed[_i].name));
    ck_assert_uint_eq(hash, placed[_i].hash);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(ps_hash_placed_shard(hash, placed[_i].placement, counts[i]),
                          placed[_i].of[i]);
}
END_TEST

START_TEST(placement_over_no_shards_is_a_bug)
{
    (void)ps_hash_shard(ps_bytes_of_text("w"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *tests = tcase_create("hash");
    tcase_add_loop_test(tests, hash_is_fnv1a32, 0, (int)(sizeof(vectors) / sizeof(vectors[0])));
    tcase_add_loop_test(tests, names_live_where_they_always_lived, 0, 4);
    tcase_add_test(tests, thousand_names_spread_over_ten_shards);
    tcase_add_test(tests, bytes_above_127_count_as_unsigned);
    tcase_add_loop_test(tests, a_placement_puts_names_where_the_page_says, 0,
                        (int)(sizeof placed / sizeof placed[0]));
    tcase_add_test_raise_signal(tests, placement_over_no_shards_is_a_bug, SIGABRT);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
