/* SPDX-License-Identifier: Apache-2.0 */
/* Which acknowledgements are measured, and how their rows are called. A row names the promise that
 * its pushes had: a figure without it would be quoted for the other one.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none; texts are static.
 */
#ifndef PS_TOOLS_PSBENCH_PROMISE_H
#define PS_TOOLS_PSBENCH_PROMISE_H

#include "tools/psbench/psbench.h"

enum ps_bench_promise {
    PS_BENCH_MEMORY,   /* acknowledged when applied; no journal */
    PS_BENCH_LOGGED,   /* acknowledged when on the disk */
    PS_BENCH_AS_GIVEN, /* of servers that were there already */
    PS_BENCH_PROMISE_COUNT
};

/* Those that the options ask for, in the order of measuring; one or two. */
struct ps_bench_promises {
    enum ps_bench_promise list[2];
    size_t count;
};
struct ps_bench_promises ps_bench_promises_of(const struct ps_bench_options *options);

/* The acknowledgement of a server that is to give that promise, for ps_bench_server_wish_of; NULL
 * for MEMORY, which needs no data folder. */
const char *ps_bench_promise_ack(enum ps_bench_promise promise);

/* The row "<name>_memory", "<name>_logged" or, as given, "<name>" of the report. */
struct ps_bench_row *ps_bench_promised_row(struct ps_bench *bench, const char *name,
                                           enum ps_bench_promise promise, uint64_t bytes,
                                           uint64_t outstanding);

/* "<name>_memory" and so on, for rows and for servers. */
void ps_bench_promised_name(const char *name, enum ps_bench_promise promise,
                            char text[PS_BENCH_ROW_NAME_BYTES]);

#endif
