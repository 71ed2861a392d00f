/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/gradient_pairs.c: pairs in their order, whatever the cuts and the limits. */
#include "server/core/update/gradient_pairs.h"
#include "tests/unit/core/core_encoded.h"

#include <string.h>

static struct encoded encoded;

/* Walks with limits that rise by `step`; asserts that every pair came once, in order. */
static void walk(struct ps_gradient gradient, size_t kept, uint64_t step)
{
    struct ps_gradient_pairs pairs;
    size_t seen = 0;
    ps_gradient_pairs_init(&pairs, gradient.content);
    for (uint64_t limit = step; limit < encoded.count + step; limit += step) {
        for (;;) {
            struct ps_gradient_pair_run run = ps_gradient_pairs_next(&pairs, limit);
            if (run.count == 0)
                break;
            ck_assert_uint_le(run.count, PS_GRADIENT_PAIRS);
            ck_assert_uint_lt(run.indices[run.count - 1], limit);
            ck_assert_uint_ge(run.indices[0], limit - step);
            ck_assert_mem_eq(run.indices, encoded.content + seen * 4, run.count * 4);
            ck_assert_mem_eq(run.values, encoded.content + kept * 4 + seen * 4, run.count * 4);
            seen += run.count;
        }
    }
    ck_assert_uint_eq(seen, kept);
}

static const size_t kept_counts[] = {1, 511, 512, 513, 3000};

START_TEST(every_pair_comes_once_and_in_order)
{
    size_t kept = kept_counts[_i];
    encoded_make(&encoded, PS_ENCODING_TOP_K, PS_F32, 5000, kept, 3);

    walk(encoded_whole(&encoded), kept, 5000);
    walk(encoded_whole(&encoded), kept, 700);
    for (uint64_t seed = 0; seed < 50; seed++)
        walk(encoded_cut(&encoded, seed), kept, 1 + seed * 97);
}
END_TEST

START_TEST(a_content_without_pairs_gives_none)
{
    struct ps_gradient_pairs pairs;
    ps_gradient_pairs_init(&pairs, (struct ps_view){NULL, 0, 0});

    ck_assert_uint_eq(ps_gradient_pairs_next(&pairs, UINT64_MAX).count, 0);
    ck_assert_uint_eq(ps_gradient_pairs_next(&pairs, UINT64_MAX).count, 0);
}
END_TEST

START_TEST(what_is_not_below_the_limit_waits)
{
    const uint32_t content[] = {5, 9, 0, 0};
    struct ps_bytes piece = {(const uint8_t *)content, sizeof content};
    struct ps_gradient_pairs pairs;
    ps_gradient_pairs_init(&pairs, ps_view_of(&piece));

    ck_assert_uint_eq(ps_gradient_pairs_next(&pairs, 5).count, 0);
    ck_assert_uint_eq(ps_gradient_pairs_next(&pairs, 9).count, 1);
    ck_assert_uint_eq(ps_gradient_pairs_next(&pairs, 9).count, 0);
    ck_assert_uint_eq(ps_gradient_pairs_next(&pairs, 10).indices[0], 9);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gradient_pairs");
    tcase_add_loop_test(tests, every_pair_comes_once_and_in_order, 0, 5);
    tcase_add_test(tests, a_content_without_pairs_gives_none);
    tcase_add_test(tests, what_is_not_below_the_limit_waits);
    return run_tests("gradient_pairs", tests);
}
