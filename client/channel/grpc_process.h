/* SPDX-License-Identifier: Apache-2.0 */
/* Whose gRPC this is. What gRPC polls with is the kernel's and stays one and the same across a
 * fork: a child that uses it as well has its events come to the parent, with pointers into the
 * child's memory, and the parent ends with a signal. So gRPC is used by the process that began it,
 * and by a child only when nobody used it at the fork.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   a number of the whole process, as gRPC's own state is.
 */
#ifndef PS_CLIENT_CHANNEL_GRPC_PROCESS_H
#define PS_CLIENT_CHANNEL_GRPC_PROCESS_H

#include <stdbool.h>

/* Before grpc_init. False: a process that this one was forked from uses gRPC, or did at the fork;
 * nothing was done. */
bool ps_grpc_process_enter(void);

/* After grpc_shutdown, once for each time that entering was true. */
void ps_grpc_process_leave(void);

#endif
