/* SPDX-License-Identifier: Apache-2.0 */
/* The server's table by itself: pushes and pulls as a server makes them, without messages between.
 *
 * Threads:  one; reading a hold beside it another.
 * Blocking: never.
 * Errors:   those of server/core/tables; PS_ERR_NO_MEMORY of open.
 * Memory:   owned until close.
 */
#ifndef PS_TOOLS_PSBENCH_TABLE_ALONE_H
#define PS_TOOLS_PSBENCH_TABLE_ALONE_H

#include "optimizer/settings.h"
#include "server/core/tables/row_table.h"

/* Keys of one push or pull. */
#define PS_BENCH_TABLE_KEYS 10000

struct ps_bench_table_alone {
    struct ps_optimizer_settings settings;
    struct ps_row_table *table; /* owned */
    uint64_t version;
    uint8_t *content; /* owned: keys, then gradients, as a message has them */
    float *gradients; /* within the content */
    size_t content_bytes;
};

/* An empty table of float32, by SGD, Adagrad or FTRL at the rate of psbench_values.h. `ahead`
 * (borrowed; may be NULL) touches memory for it. A zeroed struct may be closed. */
PS_MUST_USE enum ps_status ps_bench_table_alone_open(struct ps_bench_table_alone *alone,
                                                     enum ps_rule rule, uint32_t width,
                                                     struct ps_touch_ahead *ahead,
                                                     struct ps_error *error);
void ps_bench_table_alone_close(struct ps_bench_table_alone *alone);

/* Makes the rows 0 to `rows` - 1, all values 0, by pushes of zeros. */
PS_MUST_USE enum ps_status ps_bench_table_alone_fill(struct ps_bench_table_alone *alone,
                                                     uint64_t rows, struct ps_error *error);

/* Pushes PS_BENCH_TABLE_KEYS keys, by row number; the gradients are `alone->gradients`. Only the
 * push is within `*taken_ns`, in processor time of this thread (NULL: nobody asks). */
PS_MUST_USE enum ps_status ps_bench_table_alone_push(struct ps_bench_table_alone *alone,
                                                     const uint64_t *numbers, uint64_t *taken_ns,
                                                     struct ps_error *error);

/* Pulls as many, in the same way. */
PS_MUST_USE enum ps_status ps_bench_table_alone_pull(struct ps_bench_table_alone *alone,
                                                     const uint64_t *numbers, float *to,
                                                     uint64_t *taken_ns, struct ps_error *error);

/* Memory for each row beside its values and states. */
double ps_bench_table_alone_overhead(const struct ps_bench_table_alone *alone);

#endif
