/* SPDX-License-Identifier: Apache-2.0 */
/* When a machine stood still: of turns that one process takes, those that took ten times what is
 * usual, in memory that another process sees.
 *
 * Threads:  one process notes, others look; none waits for another.
 * Blocking: never.
 * Errors:   none; more standstills than there is room for are not noted.
 * Memory:   in place, 64 KiB.
 */
#ifndef PS_TOOLS_PSBENCH_STILLS_H
#define PS_TOOLS_PSBENCH_STILLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PS_BENCH_STILL_FACTOR 10
#define PS_BENCH_STILLS_MAX 4096

struct ps_bench_still {
    uint64_t from_ns, to_ns;
};

struct ps_bench_stills {
    atomic_uint count;
    _Atomic uint64_t longest_ns; /* of all turns */
    struct ps_bench_still list[PS_BENCH_STILLS_MAX];
};

/* Nothing was seen yet. */
void ps_bench_stills_clear(struct ps_bench_stills *stills);

/* A turn that took so much processor time, where `usual_ns` is usual. From the end of the turn
 * before to its own end, so that no moment is left out. */
void ps_bench_stills_note(struct ps_bench_stills *stills, uint64_t usual_ns, uint64_t taken_ns,
                          uint64_t from_ns, uint64_t to_ns);

/* Was there a standstill that had a moment in common with this time? */
bool ps_bench_stills_meet(const struct ps_bench_stills *stills, uint64_t from_ns, uint64_t to_ns);

#endif
