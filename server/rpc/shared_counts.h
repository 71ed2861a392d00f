/* SPDX-License-Identifier: Apache-2.0 */
/* What the memory that clients share is counted by (docs/metrics.md).
 *
 * Threads:  register by one; the metrics themselves are safe from any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the registry's.
 */
#ifndef PS_SERVER_RPC_SHARED_COUNTS_H
#define PS_SERVER_RPC_SHARED_COUNTS_H

#include "base/metrics.h"

struct ps_shared_counts {
    struct ps_gauge *client_count, *segment_count, *mapped_bytes, *device_bytes;
    struct ps_counter *refused, *push_bytes, *pull_bytes, *copied_bytes;
};

/* `metrics` is borrowed, and may be NULL: then counting does nothing. */
void ps_shared_counts_register(struct ps_metrics *metrics, struct ps_shared_counts *counts);

#endif
