/* SPDX-License-Identifier: Apache-2.0 */
/* The worlds of server programs can fail: each deliberate fault is noticed by some of them. */
#include "tests/sim/sim_programs.h"

#include "run_suite.h"

#include <check.h>

enum { WORLDS = 1000 };

START_TEST(every_mutation_is_noticed)
{
    enum sim_programs_mutation mutation = (enum sim_programs_mutation)_i;
    int noticed = 0;
    for (uint64_t seed = 1; seed <= WORLDS && noticed == 0; seed++)
        noticed += sim_programs_world(seed, mutation, false).failed;
    ck_assert_msg(noticed > 0, "no world of %d has noticed mutation %d", WORLDS, _i);
}
END_TEST

/* Nothing of it is chance but the seed. */
START_TEST(a_seed_is_a_world)
{
    struct sim_programs_result first = sim_programs_world(77, SIM_PROGRAMS_NONE, false);
    struct sim_programs_result second = sim_programs_world(77, SIM_PROGRAMS_NONE, false);
    ck_assert_msg(!first.failed, "%s", first.failure);
    ck_assert_uint_eq(first.asked, second.asked);
    ck_assert_uint_eq(first.answered, second.answered);
    ck_assert_uint_eq(first.runs, second.runs);
    ck_assert_uint_eq(first.aborted, second.aborted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_programs");
    TCase *tests = tcase_create("sim_programs");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_mutation_is_noticed, SIM_PROGRAMS_NONE + 1,
                        SIM_PROGRAMS_MUTATIONS);
    tcase_add_test(tests, a_seed_is_a_world);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
