/* SPDX-License-Identifier: Apache-2.0 */
/* How far the loops that are compiled for several instruction sets may go on this processor.
 *
 * Threads:  safe from any thread.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_INSTRUCTION_SETS_H
#define PS_OPTIMIZER_INSTRUCTION_SETS_H

#include <stddef.h>

/* Sets that this processor runs, of: baseline, avx2, avx512 (as loops.cmake switches them on). At
 * least 1. It costs a few loads of what the compiler's start-up code found out, and no global of
 * ours. */
size_t ps_instruction_sets(void);

#endif
