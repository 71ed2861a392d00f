/* SPDX-License-Identifier: Apache-2.0 */
/* A server, a load of many parameters on it, and what a step over all of them pushes and pulls.
 *
 * Threads:  one.
 * Blocking: open, as the server's start and the load's.
 * Errors:   said by open.
 * Memory:   everything belongs to the step, until close.
 */
#ifndef PS_TOOLS_PSBENCH_STEP_H
#define PS_TOOLS_PSBENCH_STEP_H

#include "client/psclient.h"
#include "tools/psbench/psbench_promise.h"

struct ps_bench_step {
    struct ps_bench_server server;
    struct ps_bench_load *load;
    struct psclient_gradient *gradients;
    struct psclient_parameter *parameters;
    uint8_t *content; /* of all parameters */
};

/* `step` is zeroed first, and to be closed in any case. The parameters have the size that the
 * options say. */
PS_MUST_USE enum ps_status ps_bench_step_open(struct ps_bench_step *step, struct ps_bench *bench,
                                              enum ps_bench_promise promise, size_t parameter_count,
                                              struct ps_error *error);
void ps_bench_step_close(struct ps_bench_step *step);

#endif
