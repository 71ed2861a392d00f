/* SPDX-License-Identifier: Apache-2.0 */
/* A standstill is counted when all of it is written, so that whoever looks sees whole ones. */
#include "tools/psbench/psbench_stills.h"

/* The list stays as it is: only what is counted is looked at. */
void ps_bench_stills_clear(struct ps_bench_stills *stills)
{
    atomic_store(&stills->count, 0);
    atomic_store(&stills->longest_ns, 0);
}

/* The longest turn is known of usual ones, too: it says how far the machine is from standing
 * still. */
void ps_bench_stills_note(struct ps_bench_stills *stills, uint64_t usual_ns, uint64_t taken_ns,
                          uint64_t from_ns, uint64_t to_ns)
{
    unsigned count = atomic_load(&stills->count);
    if (taken_ns > atomic_load(&stills->longest_ns))
        atomic_store(&stills->longest_ns, taken_ns);
    if (taken_ns <= PS_BENCH_STILL_FACTOR * usual_ns || count == PS_BENCH_STILLS_MAX)
        return;
    stills->list[count] = (struct ps_bench_still){from_ns, to_ns};
    atomic_store(&stills->count, count + 1);
}

/* A machine that is well has none or a handful, so that all are looked at. */
bool ps_bench_stills_meet(const struct ps_bench_stills *stills, uint64_t from_ns, uint64_t to_ns)
{
    unsigned count = atomic_load(&stills->count);
    for (unsigned i = 0; i < count; i++) {
        if (stills->list[i].from_ns <= to_ns && stills->list[i].to_ns >= from_ns)
            return true;
    }
    return false;
}
