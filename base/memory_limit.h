/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may have: the machine's, or less where a container (a control group
 * of version 1 or 2) has a limit.
 *
 * Threads:  pure but for the files that it reads.
 * Blocking: reads some small files of the kernel.
 * Errors:   none: what cannot be read limits nothing.
 * Memory:   20 KiB of the stack.
 */
#ifndef PS_BASE_MEMORY_LIMIT_H
#define PS_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* In bytes; 0 when even the machine does not say. */
uint64_t ps_memory_limit(void);

/* The lowest limit of the control groups of this process; UINT64_MAX: none. `root` stands before
 * /proc and /sys: empty but in tests. */
uint64_t ps_memory_limit_of_groups(const char *root);

#endif
