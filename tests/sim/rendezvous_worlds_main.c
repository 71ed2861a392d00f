/* SPDX-License-Identifier: Apache-2.0 */
/* Runs worlds of the rendezvous: sim_rendezvous_worlds --seed FIRST --count N [--trace]. Prints the
 * seed of each that failed, and what all of them did together. */
#include "tests/sim/sim_rendezvous.h"

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
    struct sim_rendezvous_result all = {0};
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
        struct sim_rendezvous_result result =
            sim_rendezvous_world(seed + i, SIM_RENDEZVOUS_NONE, trace);
        all.sent += result.sent;
        all.delivered += result.delivered;
        all.dropped += result.dropped;
        all.taken_along += result.taken_along;
        all.refused += result.refused;
        all.timed_out += result.timed_out;
        if (!result.failed)
            continue;
        failed++;
        (void)printf("seed %" PRIu64 ": %s\n", seed + i, result.failure);
    }
    (void)printf("%" PRIu64 " worlds: %" PRIu64 " values sent, %" PRIu64 " delivered, %" PRIu64
                 " dropped, %" PRIu64 " taken along by receivers that died; %" PRIu64
                 " operations refused, %" PRIu64 " timed out; %" PRIu64 " worlds failed\n",
                 worlds, all.sent, all.delivered, all.dropped, all.taken_along, all.refused,
                 all.timed_out, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
