/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry keeps, for the two files that it is made of: one that updates and one that
 * renders.
 *
 * Threads:  the lists change only while registering; the numbers are atomic.
 * Blocking: none.
 * Errors:   none.
 * Memory:   families and rows belong to the registry.
 */
#ifndef PS_BASE_METRICS_ROWS_H
#define PS_BASE_METRICS_ROWS_H

#include "base/metrics.h"

#include <stdatomic.h>

#define PS_METRICS_ROWS_MAX 1024
#define PS_HISTOGRAM_BUCKETS 20

enum ps_metric_type { PS_METRIC_COUNTER, PS_METRIC_GAUGE, PS_METRIC_HISTOGRAM };

struct ps_counter {
    _Atomic uint64_t value;
};

struct ps_gauge {
    _Atomic double value;
};

struct ps_histogram {
    _Atomic uint64_t buckets[PS_HISTOGRAM_BUCKETS + 1]; /* the last is for all that is larger */
    _Atomic uint64_t sum_ns;
};

struct ps_metric_row {
    struct ps_metric_row *next;
    char *labels; /* owned; "" for none */
    union {
        struct ps_counter counter;
        struct ps_gauge gauge;
        struct ps_histogram histogram;
    } as;
};

struct ps_metric_family {
    struct ps_metric_family *next;
    struct ps_metric_row *rows; /* owned; in the order of registration */
    const char *name;           /* borrowed */
    const char *help;           /* borrowed */
    enum ps_metric_type type;
};

struct ps_metrics {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_metric_family *families; /* owned; in the order of registration */
    size_t row_count;
};

/* The upper bound, in seconds, of bucket `i` below PS_HISTOGRAM_BUCKETS. */
double ps_histogram_bound(size_t i);

#endif
