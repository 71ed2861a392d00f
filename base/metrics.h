/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, gauges and histograms in the Prometheus text format 0.0.4.
 *
 * Names follow Prometheus' rules: prefix ps_, base units (seconds, bytes), _total for counters.
 *
 * Threads:  registering belongs to start-up (one thread); updates and rendering to any thread.
 * Blocking: never; updates are one or two atomic operations, rendering reads without a lock.
 * Errors:   a full registry or a refused allocation gives NULL, and every update accepts NULL, so
 *           that a missing metric never stops the service.
 * Memory:   metrics live until the registry is destroyed. Names and help texts are borrowed and
 *           must outlive it (string constants); labels are copied.
 */
#ifndef PS_BASE_METRICS_H
#define PS_BASE_METRICS_H

#include "base/alloc.h"
#include "base/buffer.h"

#include <stdint.h>

struct ps_metrics;
struct ps_counter;
struct ps_gauge;
struct ps_histogram;

struct ps_metrics *ps_metrics_create(const struct ps_allocator *memory);
void ps_metrics_destroy(struct ps_metrics *metrics);

/* At most 1,024 rows. `labels` is what stands between the braces, already quoted:
 * "method=\"SendGrad\"", or NULL. Other labels under the same name are rows of one family, which is
 * printed once; the same name and labels give the same row again. A name that is known as another
 * type gives NULL. */
struct ps_counter *ps_metrics_counter(struct ps_metrics *metrics, const char *name,
                                      const char *help, const char *labels);
struct ps_gauge *ps_metrics_gauge(struct ps_metrics *metrics, const char *name, const char *help,
                                  const char *labels);
/* Buckets double from 50 microseconds to about 26 seconds; values are seconds. */
struct ps_histogram *ps_metrics_histogram(struct ps_metrics *metrics, const char *name,
                                          const char *help, const char *labels);

void ps_counter_add(struct ps_counter *counter, uint64_t amount);
uint64_t ps_counter_value(const struct ps_counter *counter);
void ps_gauge_set(struct ps_gauge *gauge, double value);
/* For what is counted up and down; `amount` may be negative. */
void ps_gauge_add(struct ps_gauge *gauge, double amount);
double ps_gauge_value(const struct ps_gauge *gauge);
/* A negative number counts as 0; NaN is not counted. */
void ps_histogram_observe(struct ps_histogram *histogram, double seconds);

/* Appends the whole page: what was registered, in that order, then ps_build_info and process_*. */
void ps_metrics_render(const struct ps_metrics *metrics, struct ps_buffer *page);

#endif
