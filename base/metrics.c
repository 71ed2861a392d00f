/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of metrics, and the updates that running code makes.
 *
 * Registration is done once at start by one thread and builds two levels of lists: families (one
 * name, type and help text) and their rows (one set of labels each). Afterwards the lists never
 * change, so updates and rendering walk them without a lock; only the numbers in the rows change,
 * and each is an atomic of its own. */
#include "base/metrics.h"

#include "base/assert.h"
#include "base/metrics_rows.h"

#include <math.h>
#include <string.h>
#include <utlist.h>

/* Sums are kept in nanoseconds in 64 bits, which is 584 years in all. A single observation is
 * bounded to eleven days, so that one absurd value (a clock that jumped) cannot use that up. */
#define SECONDS_MAX 1e6

static struct ps_metric_row *register_row(struct ps_metrics *metrics, enum ps_metric_type type,
                                          const char *name, const char *help, const char *labels);
static struct ps_metric_family *find_family(struct ps_metrics *metrics, enum ps_metric_type type,
                                            const char *name, const char *help);
static struct ps_metric_row *find_row(struct ps_metrics *metrics, struct ps_metric_family *family,
                                      const char *labels);
static void destroy_row(struct ps_metrics *metrics, struct ps_metric_row *row);

/* NULL is a registry, too: see the header's "Errors". */
struct ps_metrics *ps_metrics_create(const struct ps_allocator *memory)
{
    struct ps_metrics *metrics = ps_zeroed(memory, sizeof *metrics);
    if (metrics != NULL)
        metrics->memory = memory;
    return metrics;
}

void ps_metrics_destroy(struct ps_metrics *metrics)
{
    if (metrics == NULL)
        return;
    struct ps_metric_family *family, *next_family;
    struct ps_metric_row *row, *next_row;
    LL_FOREACH_SAFE(metrics->families, family, next_family) {
        LL_FOREACH_SAFE(family->rows, row, next_row)
            destroy_row(metrics, row);
        ps_release(metrics->memory, family);
    }
    ps_release(metrics->memory, metrics);
}

struct ps_counter *ps_metrics_counter(struct ps_metrics *metrics, const char *name,
                                      const char *help, const char *labels)
{
    struct ps_metric_row *row = register_row(metrics, PS_METRIC_COUNTER, name, help, labels);
    return row != NULL ? &row->as.counter : NULL;
}

struct ps_gauge *ps_metrics_gauge(struct ps_metrics *metrics, const char *name, const char *help,
                                  const char *labels)
{
    struct ps_metric_row *row = register_row(metrics, PS_METRIC_GAUGE, name, help, labels);
    return row != NULL ? &row->as.gauge : NULL;
}

struct ps_histogram *ps_metrics_histogram(struct ps_metrics *metrics, const char *name,
                                          const char *help, const char *labels)
{
    struct ps_metric_row *row = register_row(metrics, PS_METRIC_HISTOGRAM, name, help, labels);
    return row != NULL ? &row->as.histogram : NULL;
}

/* All three types register here. A registry that could not be created (NULL) refuses every row, so
 * a program that runs out of memory at start still runs, without numbers. */
static struct ps_metric_row *register_row(struct ps_metrics *metrics, enum ps_metric_type type,
                                          const char *name, const char *help, const char *labels)
{
    if (metrics == NULL)
        return NULL;
    PS_ASSERT(name != NULL && help != NULL);
    struct ps_metric_family *family = find_family(metrics, type, name, help);
    /* The same name as two types is a mistake of ours that Prometheus would reject with the whole
     * page; the later registration gets no row, and its updates go nowhere. */
    if (family == NULL || family->type != type)
        return NULL;
    return find_row(metrics, family, labels != NULL ? labels : "");
}

/* The family of that name, made when it is new. */
static struct ps_metric_family *find_family(struct ps_metrics *metrics, enum ps_metric_type type,
                                            const char *name, const char *help)
{
    struct ps_metric_family *family;
    /* A walk along the list: registration happens some hundred times, at start. */
    LL_FOREACH(metrics->families, family)
        if (strcmp(family->name, name) == 0)
            return family;
    /* Name and help are kept as pointers: they are string constants (the header demands it). */
    family = ps_zeroed(metrics->memory, sizeof *family);
    if (family == NULL)
        return NULL;
    family->name = name;
    family->help = help;
    family->type = type;
    /* Appended and not prepended: the page keeps the order in which things were registered, and
     * rows of one family stay together, which the text format requires. */
    LL_APPEND(metrics->families, family);
    return family;
}

/* The row with those labels, made when it is new. */
static struct ps_metric_row *find_row(struct ps_metrics *metrics, struct ps_metric_family *family,
                                      const char *labels)
{
    struct ps_metric_row *row;
    LL_FOREACH(family->rows, row)
        if (strcmp(row->labels, labels) == 0)
            return row;
    /* Labels such as shard numbers depend on the deployment. A bound keeps a page that a server
     * renders every few seconds from growing without end. */
    if (metrics->row_count == PS_METRICS_ROWS_MAX)
        return NULL;
    row = ps_zeroed(metrics->memory, sizeof *row);
    if (row == NULL)
        return NULL;
    row->labels = ps_copy_text(metrics->memory, labels, strlen(labels));
    if (row->labels == NULL) {
        destroy_row(metrics, row);
        return NULL;
    }
    metrics->row_count++;
    LL_APPEND(family->rows, row);
    return row;
}

/* Also ends a row that was made by half: releasing NULL is allowed. */
static void destroy_row(struct ps_metrics *metrics, struct ps_metric_row *row)
{
    ps_release(metrics->memory, row->labels);
    ps_release(metrics->memory, row);
}

/* Relaxed order throughout: each number stands alone, and nobody concludes from one what another
 * must be. Anything stronger would put a fence on the serving path for the sake of a graph. */
void ps_counter_add(struct ps_counter *counter, uint64_t amount)
{
    if (counter != NULL)
        atomic_fetch_add_explicit(&counter->value, amount, memory_order_relaxed);
}

uint64_t ps_counter_value(const struct ps_counter *counter)
{
    return counter != NULL ? atomic_load_explicit(&counter->value, memory_order_relaxed) : 0;
}

void ps_gauge_set(struct ps_gauge *gauge, double value)
{
    if (gauge != NULL)
        atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

void ps_gauge_add(struct ps_gauge *gauge, double amount)
{
    if (gauge == NULL)
        return;
    double old = atomic_load_explicit(&gauge->value, memory_order_relaxed);
    /* C11 has no fetch_add for doubles. On failure `old` is reloaded by the exchange itself. */
    while (!atomic_compare_exchange_weak_explicit(&gauge->value, &old, old + amount,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

double ps_gauge_value(const struct ps_gauge *gauge)
{
    return gauge != NULL ? atomic_load_explicit(&gauge->value, memory_order_relaxed) : 0;
}

double ps_histogram_bound(size_t i)
{
    PS_ASSERT(i < PS_HISTOGRAM_BUCKETS);
    /* Doubling from 50 microseconds: the relative error of a quantile is then the same at 100 us
     * and at 10 s, with twenty buckets instead of a table that fits one machine. */
    return 50e-6 * (double)((uint64_t)1 << i);
}

void ps_histogram_observe(struct ps_histogram *histogram, double seconds)
{
    /* NaN belongs to no bucket and would make the sum NaN for ever. */
    if (histogram == NULL || isnan(seconds))
        return;
    /* A clock that was set back may give a negative time, which as an unsigned number would be
     * centuries. */
    seconds = fmin(fmax(seconds, 0), SECONDS_MAX);
    size_t bucket = 0;
    while (bucket < PS_HISTOGRAM_BUCKETS && seconds > ps_histogram_bound(bucket))
        bucket++;
    uint64_t nanoseconds = (uint64_t)(seconds * 1e9);
    atomic_fetch_add_explicit(&histogram->sum_ns, nanoseconds, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
}
