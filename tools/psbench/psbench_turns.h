/* SPDX-License-Identifier: Apache-2.0 */
/* Turns that write random lines of plain memory, as many as a push to a table has rows. What takes
 * long here is the machine's, and none of it a table's: a machine of somebody else's stands still
 * now and then, some ten milliseconds within some seconds, and counts that as the processor's time.
 * The longest push of a table is to be read beside the longest turn.
 *
 * Threads:  one; the file is written by a thread of the call's.
 * Blocking: for as long as is asked for, or the disk takes.
 * Errors:   PS_ERR_NO_MEMORY, PS_ERR_IO; nothing is left of either.
 * Memory:   taken and given back.
 */
#ifndef PS_TOOLS_PSBENCH_TURNS_H
#define PS_TOOLS_PSBENCH_TURNS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ps_bench_turns {
    double longest_us;           /* on the wall */
    double longest_processor_us; /* of the thread's processor time */
};

/* Over so many bytes of memory, for this time. */
enum ps_status ps_bench_turns_alone(size_t bytes, uint64_t length_ns, struct ps_bench_turns *turns,
                                    struct ps_error *error);

/* The same while a file of `file_bytes` is written into the folder, which is removed then. */
enum ps_status ps_bench_turns_beside_file(size_t bytes, const char *folder, uint64_t file_bytes,
                                          struct ps_bench_turns *turns, struct ps_error *error);

#endif
