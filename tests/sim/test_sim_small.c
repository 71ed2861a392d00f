/* SPDX-License-Identifier: Apache-2.0 */
/* Small worlds of the kind that this is linked with can fail: each deliberate fault is noticed by
 * some of them. */
#include "tests/sim/sim_small.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

enum { WORLDS = 1000, FEW = 100 };

START_TEST(every_mutation_is_noticed)
{
    int noticed = 0;
    for (uint64_t seed = 1; seed <= WORLDS && noticed == 0; seed++)
        noticed += sim_small_world(seed, _i, false).failed;
    ck_assert_msg(noticed > 0, "no world of %d has noticed mutation %d", WORLDS, _i);
}
END_TEST

/* Nothing of it is chance but the seed. */
START_TEST(a_seed_is_a_world)
{
    struct sim_small_result first = sim_small_world(77, 0, false);
    struct sim_small_result second = sim_small_world(77, 0, false);
    ck_assert_msg(!first.failed, "%s", first.failure);
    ck_assert_mem_eq(first.counts, second.counts, sizeof first.counts);
    ck_assert_mem_eq(first.faults, second.faults, sizeof first.faults);
}
END_TEST

/* A network that loses nothing would let all worlds pass. */
START_TEST(everything_happens_in_some_world)
{
    uint64_t counts[SIM_SMALL_COUNTS_MAX] = {0}, faults[SIM_SMALL_FAULTS] = {0};
    for (uint64_t seed = 1; seed <= FEW; seed++) {
        struct sim_small_result result = sim_small_world(seed, 0, false);
        for (size_t i = 0; i < SIM_SMALL_COUNTS_MAX; i++)
            counts[i] += result.counts[i];
        for (size_t i = 0; i < SIM_SMALL_FAULTS; i++)
            faults[i] += result.faults[i];
    }
    for (size_t i = 0; i < SIM_SMALL_COUNTS_MAX && sim_small_kind.counted[i] != NULL; i++)
        ck_assert_msg(counts[i] > 0, "%s: none", sim_small_kind.counted[i]);
    for (int i = 0; i < SIM_SMALL_FAULTS; i++)
        ck_assert_msg(faults[i] > 0 || (i == SIM_SMALL_TWICE && !sim_small_kind.repeats),
                      "fault %d: none", i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_small");
    TCase *tests = tcase_create("sim_small");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_mutation_is_noticed, 1, sim_small_kind.mutations);
    tcase_add_test(tests, a_seed_is_a_world);
    tcase_add_test(tests, everything_happens_in_some_world);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
