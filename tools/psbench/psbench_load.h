/* SPDX-License-Identifier: Apache-2.0 */
/* A worker under measurement: pushes and pulls parameters as fast as they are answered, and in the
 * end proves that every update happened exactly as often as it was acknowledged.
 *
 *     ps_bench_load_open(&wish, &load, &error);
 *     ps_bench_load_run(load, PS_BENCH_PUSH, 1000, &figures, &error);     as often as you like
 *     ps_bench_load_check(load, &error);
 *     ps_bench_load_close(load);
 *
 * Threads:  one uses a load; it starts threads of its own.
 * Blocking: as each function says.
 * Errors:   the first that a push or pull met, with its text; PS_ERR_CORRUPT for wrong results.
 * Memory:   open allocates everything; a run allocates nothing of ours.
 */
#ifndef PS_TOOLS_PSBENCH_LOAD_H
#define PS_TOOLS_PSBENCH_LOAD_H

#include "base/busy_poll.h"
#include "base/encoding.h"
#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_bench_operation {
    PS_BENCH_PUSH,
    PS_BENCH_PULL,
    PS_BENCH_PUSH_PULL /* both in one call: one operation */
};

enum ps_bench_via {
    PS_BENCH_VIA_CLIENT,  /* libpsclient, one thread for all operations in flight */
    PS_BENCH_VIA_THREADS, /* libpsclient, one thread for each */
    PS_BENCH_VIA_CHANNEL  /* the bare channel, one thread: psbench_channel.c */
};

struct ps_bench_load_wish {
    const char *servers; /* one of these two */
    const char *etcd;
    const char *job;
    uint64_t size;            /* bytes of one parameter */
    uint64_t parameter_count; /* pushed in turn */
    const char *prefix;       /* of the parameters' names */
    uint64_t first_parameter; /* their numbers begin here */
    uint64_t outstanding;
    enum ps_bench_via via;
    bool shares;                /* content goes through shared memory where that is possible */
    enum ps_encoding encoding;  /* of gradients; top-k of 1 % */
    const char *busy_poll_text; /* of the client */
    struct ps_busy_poll_wish busy_poll; /* the same */
    const char *tls_ca;                 /* NULL: plaintext */
    bool initialise;                    /* make the parameters; otherwise they must be there */
};

struct ps_bench_load;

/* Connects, makes the parameters if wished, and learns their versions. */
PS_MUST_USE enum ps_status ps_bench_load_open(const struct ps_bench_load_wish *wish,
                                              struct ps_bench_load **load, struct ps_error *error);

/* No run may be under way. NULL is allowed. */
void ps_bench_load_close(struct ps_bench_load *load);

/* Runs for `time_ms`; what is under way then is waited for and counted. */
PS_MUST_USE enum ps_status ps_bench_load_run(struct ps_bench_load *load,
                                             enum ps_bench_operation operation, uint64_t time_ms,
                                             struct ps_bench_figures *figures,
                                             struct ps_error *error);

/* The same in two halves. Every start that worked is followed by a finish. */
PS_MUST_USE enum ps_status ps_bench_load_start(struct ps_bench_load *load,
                                               enum ps_bench_operation operation,
                                               struct ps_error *error);
PS_MUST_USE enum ps_status ps_bench_load_finish(struct ps_bench_load *load,
                                                struct ps_bench_figures *figures,
                                                struct ps_error *error);

/* `count` operations, shared among the threads, as fast as they go. */
PS_MUST_USE enum ps_status ps_bench_load_do(struct ps_bench_load *load,
                                            enum ps_bench_operation operation, uint64_t count,
                                            struct ps_bench_figures *figures,
                                            struct ps_error *error);

/* Pulls every parameter: its version is the number of pushes acknowledged, its values are exactly
 * what so many pushes make of the start. */
PS_MUST_USE enum ps_status ps_bench_load_check(struct ps_bench_load *load, struct ps_error *error);

/* From here on gradients travel in that encoding. With int8 or top-k what is sent is not exactly
 * the gradient any more: the check is of the versions alone then. No run may be under way. */
PS_MUST_USE enum ps_status ps_bench_load_encode(struct ps_bench_load *load,
                                                enum ps_encoding encoding, struct ps_error *error);

/* What went which way, in all runs. */
struct ps_bench_ways {
    uint64_t shared_bytes; /* of content, through shared memory */
};
struct ps_bench_ways ps_bench_load_ways(const struct ps_bench_load *load);

/* Connects anew: the server was restarted elsewhere. No run may be under way. */
PS_MUST_USE enum ps_status ps_bench_load_reconnect(struct ps_bench_load *load, const char *servers,
                                                   struct ps_error *error);

#endif
