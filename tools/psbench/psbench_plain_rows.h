/* SPDX-License-Identifier: Apache-2.0 */
/* What a table of rows is compared with: an array of the same rows, states beside the values, in
 * large pages, walked by row number with the lines of 24 rows ahead asked for. Nobody searches,
 * sorts or adds up here: no table can be as fast.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY of open.
 * Memory:   the array is owned until close.
 */
#ifndef PS_TOOLS_PSBENCH_PLAIN_ROWS_H
#define PS_TOOLS_PSBENCH_PLAIN_ROWS_H

#include "base/status.h"
#include "optimizer/settings.h"

#include <stddef.h>
#include <stdint.h>

struct ps_bench_plain_rows {
    void *memory; /* owned */
    float *rows;
    uint32_t width;  /* values of a row */
    uint32_t states; /* as many arrays of that width behind them: 0 SGD, 1 Adagrad, 2 FTRL */
};

/* `count` rows of zeros, all of them touched. A zeroed struct may be closed. */
PS_MUST_USE enum ps_status ps_bench_plain_rows_open(struct ps_bench_plain_rows *plain,
                                                    uint64_t count, uint32_t width, uint32_t states,
                                                    struct ps_error *error);
void ps_bench_plain_rows_close(struct ps_bench_plain_rows *plain);

/* Copies the values of rows by number. */
void ps_bench_plain_rows_get(const struct ps_bench_plain_rows *plain, const uint64_t *numbers,
                             size_t count, float *to);

/* One step of the rule for each number, one after the other. `gradients` are in their order. */
void ps_bench_plain_rows_add(struct ps_bench_plain_rows *plain, const uint64_t *numbers,
                             size_t count, const float *gradients);

#endif
