/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends of the bare gRPC echo do alike. Private to psbench_echo_*.c, the only files of
 * psbench that know gRPC.
 *
 * Threads:  none of its own.
 * Blocking: next, until there is an event.
 * Errors:   none.
 * Memory:   `list` holds what the arguments point to.
 */
#ifndef PS_TOOLS_PSBENCH_ECHO_COMMON_H
#define PS_TOOLS_PSBENCH_ECHO_COMMON_H

#include "base/busy_poll.h"

#include <grpc/grpc.h>

#define PS_BENCH_ECHO_ARGUMENTS 4

/* The leanest that gRPC offers, for messages of any size. */
grpc_channel_args ps_bench_echo_arguments(grpc_arg list[PS_BENCH_ECHO_ARGUMENTS]);

/* The next event, looked for before sleeping as long as busy polling says. */
grpc_event ps_bench_echo_next(grpc_completion_queue *queue, struct ps_busy_poll *poll);

#endif
