/* SPDX-License-Identifier: Apache-2.0 */
/* Says when the machine stood still while something was measured: a process of its own writes
 * random lines of plain memory, turn after turn, and notes each turn that took ten times what turns
 * usually take. It has nothing in common with what is measured but the machine, so a push that is
 * long just then is long for the machine's reasons. Virtual machines stand still so: a host that
 * takes back free memory takes the translations of everybody's memory with it, and they come again
 * page by page, which the kernel counts as processor time of whoever touches a page first.
 *
 * The process takes a fourteenth of a processor while it watches, and 256 MiB.
 *
 * Threads:  one.
 * Blocking: watch, for a tenth of a second; settle, for seconds.
 * Errors:   said at each function.
 * Memory:   shared with the process, and gone with close.
 */
#ifndef PS_TOOLS_PSBENCH_WITNESS_H
#define PS_TOOLS_PSBENCH_WITNESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ps_bench_watch;

struct ps_bench_witness {
    pid_t process;
    struct ps_bench_watch *watch; /* what both processes see */
};

/* To be called before psbench has much memory: the process shares what there is by then, and
 * whoever writes to that pays for a copy. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_bench_witness_open(struct ps_bench_witness *witness,
                                                 struct ps_error *error);

/* Accepts one that was never opened. */
void ps_bench_witness_close(struct ps_bench_witness *witness);

/* Waits until the machine has not stood still for five seconds, at most a minute: memory
 * that was given back just before, by whomever, comes to the host gibibyte by gibibyte.
 * PS_ERR_TIMEOUT   the process does not turn */
PS_MUST_USE enum ps_status ps_bench_witness_settle(struct ps_bench_witness *witness,
                                                   struct ps_error *error);

/* From when this returns until rest. What was noted before is forgotten.
 * PS_ERR_TIMEOUT   the process does not turn */
PS_MUST_USE enum ps_status ps_bench_witness_watch(struct ps_bench_witness *witness,
                                                  struct ps_error *error);
void ps_bench_witness_rest(struct ps_bench_witness *witness);

/* Of the time watched: did the machine stand still between these two times of ps_clock_precise_ns,
 * or up to the turn that began before the second? To be asked behind rest. */
bool ps_bench_witness_stood_still(const struct ps_bench_witness *witness, uint64_t from_ns,
                                  uint64_t to_ns);

/* The longest turn that was watched, in processor time; most take some dozen microseconds. */
double ps_bench_witness_longest_us(const struct ps_bench_witness *witness);

#endif
