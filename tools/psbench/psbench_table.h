/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `psbench table`.
 *
 * Threads:  one.
 * Blocking: for as long as measuring takes.
 * Errors:   the first; a table that the machine has no memory for is a row without figures.
 * Memory:   what a part makes is gone when it returns.
 */
#ifndef PS_TOOLS_PSBENCH_TABLE_H
#define PS_TOOLS_PSBENCH_TABLE_H

#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_keys.h"
#include "tools/psbench/psbench_witness.h"

/* Whether so many bytes may be taken; otherwise the row says that they are missing. */
bool ps_bench_table_fits(struct ps_bench_row *row, double bytes);

/* A table that doubles in size under pushes of new keys: the longest of them, and the longest while
 * the witness saw the machine at work. */
PS_MUST_USE enum ps_status ps_bench_table_growth(struct ps_bench *bench,
                                                 struct ps_bench_witness *witness,
                                                 struct ps_error *error);

/* Pushes beside the writing of one instant of the table to a file. */
PS_MUST_USE enum ps_status ps_bench_table_hold(struct ps_bench *bench,
                                               struct ps_bench_witness *witness,
                                               struct ps_error *error);

/* Pushes beside a sweep for old rows. */
PS_MUST_USE enum ps_status ps_bench_table_sweep(struct ps_bench *bench, struct ps_error *error);

/* Pushes to a table that is above its row limit, until it is not. */
PS_MUST_USE enum ps_status ps_bench_table_limit(struct ps_bench *bench, struct ps_error *error);

/* Pushes and pulls of one client, over the network. */
PS_MUST_USE enum ps_status ps_bench_table_remote(struct ps_bench *bench, struct ps_error *error);

#endif
