/* SPDX-License-Identifier: Apache-2.0 */
/* Runs worlds of server programs and barriers: sim_programs_worlds --seed FIRST --count N
 * [--trace]. Prints the seed of each that failed, and what all of them did together. */
#include "tests/sim/sim_programs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
    uint64_t seed = 1;
    uint64_t worlds = 1;
    bool trace = false;
    uint64_t failed = 0;
    struct sim_programs_result all = {0};
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--trace") == 0)
            trace = true;
        else if (strcmp(arguments[i], "--seed") == 0 && i + 1 < count)
            seed = strtoull(arguments[++i], NULL, 10);
        else if (strcmp(arguments[i], "--count") == 0 && i + 1 < count)
            worlds = strtoull(arguments[++i], NULL, 10);
        else
            return 64;
    }
    for (uint64_t i = 0; i < worlds; i++) {
        struct sim_programs_result result = sim_programs_world(seed + i, SIM_PROGRAMS_NONE, trace);
        all.asked += result.asked;
        all.answered += result.answered;
        all.aborted += result.aborted;
        all.untaken += result.untaken;
        all.runs += result.runs;
        all.taken_again += result.taken_again;
        all.passed += result.passed;
        all.torn += result.torn;
        if (!result.failed)
            continue;
        failed++;
        (void)printf("world %" PRIu64 ": %s\n", seed + i, result.failure);
    }
    (void)printf("%" PRIu64 " worlds: %" PRIu64 " requests, %" PRIu64 " begun, %" PRIu64
                 " of them again; %" PRIu64 " answered, %" PRIu64 " aborted, %" PRIu64
                 " that nobody took; %" PRIu64 " members let go at barriers, %" PRIu64
                 " late; %" PRIu64 " worlds failed\n",
                 worlds, all.asked, all.runs, all.taken_again, all.answered, all.aborted,
                 all.untaken, all.passed, all.torn, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
