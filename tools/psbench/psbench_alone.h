/* SPDX-License-Identifier: Apache-2.0 */
/* What memory and the update alone can do, without any server: the other limits.
 *
 * Threads:  one.
 * Blocking: each for about its time.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   two buffers of the size measured, from open to close.
 */
#ifndef PS_TOOLS_PSBENCH_ALONE_H
#define PS_TOOLS_PSBENCH_ALONE_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

struct ps_bench_alone {
    float *values, *gradient; /* owned */
    size_t size;              /* bytes of each */
};

PS_MUST_USE enum ps_status ps_bench_alone_open(struct ps_bench_alone *alone, size_t size,
                                               struct ps_error *error);
/* Accepts a zeroed one. */
void ps_bench_alone_close(struct ps_bench_alone *alone);

/* Copies `size` bytes from one buffer to the other, over and over. */
PS_MUST_USE enum ps_status ps_bench_alone_copy(struct ps_bench_alone *alone, uint64_t time_ms,
                                               struct ps_bench_figures *figures,
                                               struct ps_error *error);

/* The same through PS_BENCH_FAR_BYTES on either side, so that no cache holds them.
 * PS_ERR_NO_MEMORY. */
#define PS_BENCH_FAR_BYTES ((size_t)256 << 20)
PS_MUST_USE enum ps_status ps_bench_alone_copy_far(const struct ps_bench_alone *alone,
                                                   uint64_t time_ms,
                                                   struct ps_bench_figures *figures,
                                                   struct ps_error *error);

/* SGD on float32 through the server's own loop: look at the gradient, prepare, apply, in blocks as
 * the server holds them. */
PS_MUST_USE enum ps_status ps_bench_alone_update(struct ps_bench_alone *alone, uint64_t time_ms,
                                                 struct ps_bench_figures *figures,
                                                 struct ps_error *error);

#endif
