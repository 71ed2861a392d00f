/* SPDX-License-Identifier: Apache-2.0 */
/* Runs small worlds of the kind that it is linked with: sim_programs_worlds --seed FIRST --count N
 * [--trace]. Prints the seed of each that failed, what all of them did together, and what went
 * wrong around them. */
#include "tests/sim/sim_small.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const faults[SIM_SMALL_FAULTS] = {
    "messages", "lost", "late", "twice", "deaths of servers", "deaths of clients"};

static void add(struct sim_small_result *all, const struct sim_small_result *one)
{
    for (size_t i = 0; i < SIM_SMALL_COUNTS_MAX; i++)
        all->counts[i] += one->counts[i];
    for (size_t i = 0; i < SIM_SMALL_FAULTS; i++)
        all->faults[i] += one->faults[i];
}

static void print(const char *const *names, const uint64_t *counts, size_t count)
{
    for (size_t i = 0; i < count && names[i] != NULL; i++)
        (void)printf("%s%" PRIu64 " %s", i > 0 ? ", " : "", counts[i], names[i]);
    (void)printf("; ");
}

int main(int count, char **arguments)
{
    uint64_t seed = 1, worlds = 1, failed = 0;
    bool traces = false;
    struct sim_small_result all = {.failed = false};
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--trace") == 0)
            traces = true;
        else if (strcmp(arguments[i], "--seed") == 0 && i + 1 < count)
            seed = strtoull(arguments[++i], NULL, 10);
        else if (strcmp(arguments[i], "--count") == 0 && i + 1 < count)
            worlds = strtoull(arguments[++i], NULL, 10);
        else
            return 64;
    }
    for (uint64_t i = 0; i < worlds; i++) {
        struct sim_small_result result = sim_small_world(seed + i, 0, traces);
        add(&all, &result);
        failed += result.failed;
        if (result.failed)
            (void)printf("world %" PRIu64 ": %s\n", seed + i, result.failure);
    }
    (void)printf("%" PRIu64 " worlds: ", worlds);
    print(sim_small_kind.counted, all.counts, SIM_SMALL_COUNTS_MAX);
    print(faults, all.faults, SIM_SMALL_FAULTS);
    (void)printf("%" PRIu64 " worlds failed\n", failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
