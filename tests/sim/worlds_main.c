/* SPDX-License-Identifier: Apache-2.0 */
/* Lives worlds through, one seed after the other.
 *
 *     sim_worlds [--seed N] [--count M] [--mutation K] [--trace]
 *
 * The first that breaks a promise ends it, with the line that repeats it. */
#include "tests/sim/sim_random_world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile uint64_t seed_now; /* for the handler only */

/* An assertion of the product has failed: say which world it was. */
static void on_abort(int number)
{
    char line[96];
    int size = snprintf(line, sizeof line, "repeat with: sim_worlds --seed %" PRIu64 " --trace\n",
                        seed_now);
    (void)number;
    if (size > 0)
        (void)!write(STDERR_FILENO, line, (size_t)size);
    signal(SIGABRT, SIG_DFL);
}

static uint64_t number_after(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return strtoull(argv[i + 1], NULL, 10);
    return otherwise;
}

static bool given(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    bool traces = given(argc, argv, "--trace");
    uint64_t seed = number_after(argc, argv, "--seed", 1);
    uint64_t count = number_after(argc, argv, "--count", traces ? 1 : 100);
    uint64_t mutation = number_after(argc, argv, "--mutation", SIM_MUTATION_NONE);
    struct sim_world_report sum = {0};
    if (mutation >= SIM_MUTATION_COUNT)
        return EXIT_FAILURE;

    signal(SIGABRT, on_abort);
    for (uint64_t i = 0; i < count; i++) {
        struct sim_world_report report;
        char *trace = NULL;
        seed_now = seed + i;
        sim_random_world(seed + i, (enum sim_mutation)mutation, &report, traces ? &trace : NULL);
        if (trace != NULL)
            fputs(trace, stdout);
        free(trace);
        sum.rounds += report.rounds;
        sum.faults += report.faults;
        sum.claims += report.claims;
        sum.simulated_ms += report.simulated_ms;
        if (report.failed) {
            printf("world %" PRIu64 ": %s\n", seed + i, report.failure);
            printf("repeat with: sim_worlds --seed %" PRIu64 " --trace\n", seed + i);
            return EXIT_FAILURE;
        }
    }
    printf("%" PRIu64 " worlds from seed %" PRIu64 ": %" PRIu64 " s simulated, %" PRIu64
           " faults, %" PRIu64 " claims, %" PRIu64 " rounds of training\n",
           count, seed, sum.simulated_ms / 1000, sum.faults, sum.claims, sum.rounds);
    return EXIT_SUCCESS;
}
