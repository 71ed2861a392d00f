/* SPDX-License-Identifier: Apache-2.0 */
/* What a figure is worth nothing without: the machine, the program, the settings.
 *
 * Threads:  one.
 * Blocking: reads a few files of /proc.
 * Errors:   none; what cannot be learned says "unknown".
 * Memory:   in place.
 */
#ifndef PS_TOOLS_PSBENCH_MACHINE_H
#define PS_TOOLS_PSBENCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct ps_bench_machine {
    char processor[128];
    uint32_t cores; /* that this process may run on */
    uint64_t memory_bytes;
    char kernel[128];
    double load; /* average of the last minute, before the run: 0 is a quiet machine */
    char congestion_control[32];
    char file_system[32]; /* of the private folder */
    char allocator[64];
    const char *commit; /* git describe, when the program was built. Static. */
};

/* `folder` is the one whose file system counts. Call it inside the network namespace measured. */
void ps_bench_machine_learn(struct ps_bench_machine *machine, const char *folder, bool tuned);

/* Defined in a source that the build writes. */
extern const char ps_bench_commit[];

#endif
