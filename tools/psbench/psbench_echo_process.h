/* SPDX-License-Identifier: Apache-2.0 */
/* The two processes of psbench_echo.h.
 *
 * Threads:  one each, beside gRPC's own.
 * Blocking: both serve until they are killed.
 * Errors:   by ending: whoever waits for them sees the end of the socket.
 * Memory:   theirs ends with them.
 */
#ifndef PS_TOOLS_PSBENCH_ECHO_PROCESS_H
#define PS_TOOLS_PSBENCH_ECHO_PROCESS_H

#include "base/busy_poll.h"
#include "tools/psbench/psbench_tls.h"

#include <stddef.h>
#include <stdint.h>

#define PS_BENCH_ECHO_CALLS_MAX 256

/* The one method. A message begins with the size of the answer, 8 bytes. */
#define PS_BENCH_ECHO_METHOD "/psbench.Echo/Echo"

struct ps_bench_echo_order {
    uint64_t request; /* bytes, at least 8 */
    uint64_t reply;
    uint64_t outstanding; /* at most PS_BENCH_ECHO_CALLS_MAX */
    uint64_t time_ms;
};

/* Writes its port (an int) to `told` once it listens. `tls` NULL: plaintext; also below. */
void ps_bench_echo_serve(int told, size_t size_max, struct ps_busy_poll_wish busy_poll,
                         const struct ps_bench_tls *tls);

/* Answers every order on the socket `orders` with struct ps_bench_figures. */
void ps_bench_echo_ask(int orders, int port, size_t size_max, struct ps_busy_poll_wish busy_poll,
                       const struct ps_bench_tls *tls);

#endif
