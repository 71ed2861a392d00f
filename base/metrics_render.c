/* SPDX-License-Identifier: Apache-2.0 */
/* The page of metrics: Prometheus' text format, version 0.0.4.
 *
 * Rendering takes no lock. Numbers may therefore be from slightly different moments, which scrapers
 * accept; within one histogram the parts must fit each other, and render_histogram sees to that. */
#include "base/assert.h"
#include "base/metrics.h"
#include "base/metrics_process.h"
#include "base/metrics_rows.h"

#include <inttypes.h>
#include <math.h>

static void render_family(const struct ps_metric_family *family, struct ps_buffer *page);
static void render_row(const struct ps_metric_family *family, const struct ps_metric_row *row,
                       struct ps_buffer *page);

void ps_metrics_render(const struct ps_metrics *metrics, struct ps_buffer *page)
{
    PS_ASSERT(metrics != NULL && page != NULL);
    /* What the kernel counts about the process follows the program's own families. */
    const struct ps_metric_family *family = metrics->families;
    for (; family != NULL; family = family->next)
        render_family(family, page);
    ps_metrics_render_process(page);
}

/* The format gives a help text to the end of the line: backslash and newline are the two characters
 * that must be escaped there, and a quote is not. */
static void append_help(struct ps_buffer *page, const char *help)
{
    for (; *help != '\0'; help++) {
        if (*help == '\\')
            ps_buffer_append_text(page, "\\\\");
        else if (*help == '\n')
            ps_buffer_append_text(page, "\\n");
        else
            ps_buffer_append(page, (struct ps_bytes){(const uint8_t *)help, 1});
    }
}

static void render_family(const struct ps_metric_family *family, struct ps_buffer *page)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    /* A refused allocation may leave a family without rows; its header alone would be a syntax
     * error to some readers. */
    if (family->rows == NULL)
        return;
    ps_buffer_append_format(page, "# HELP %s ", family->name);
    append_help(page, family->help);
    ps_buffer_append_format(page, "\n# TYPE %s %s\n", family->name, types[family->type]);
    for (const struct ps_metric_row *row = family->rows; row != NULL; row = row->next)
        render_row(family, row, page);
}

/* "NAME{LABELS}" or "NAME", and a space. */
static void append_name(struct ps_buffer *page, const char *name, const char *suffix,
                        const char *labels)
{
    ps_buffer_append_format(page, "%s%s", name, suffix);
    if (labels[0] != '\0')
        ps_buffer_append_format(page, "{%s}", labels);
    ps_buffer_append_text(page, " ");
}

/* %.17g reads back as the same double. The three words are the format's own spelling of what printf
 * would write as "inf" and "nan". */
static void append_number(struct ps_buffer *page, double value)
{
    if (isfinite(value))
        ps_buffer_append_format(page, "%.17g\n", value);
    else
        ps_buffer_append_text(page, isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
}

/* `labels` come from the registration already quoted; "le" is added behind them, so the comma
 * depends on whether there are any. */
static void append_bucket(struct ps_buffer *page, const char *name, const char *labels,
                          const char *bound, uint64_t count)
{
    ps_buffer_append_format(page, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels,
                            labels[0] != '\0' ? "," : "", bound, count);
}

/* In this format a bucket counts all observations up to its bound, so the counts are summed up on
 * the way. The total is the last of these sums and not a counter of its own: observers go on while
 * the page is made, and a total that is less than its last bucket makes quantiles nonsense. The sum
 * of seconds may run ahead of the buckets by the observations in flight. */
static void render_histogram(const char *name, const char *labels,
                             const struct ps_histogram *histogram, struct ps_buffer *page)
{
    uint64_t count = 0;
    for (size_t i = 0; i < PS_HISTOGRAM_BUCKETS; i++) {
        char text[32];
        struct ps_buffer bound;
        ps_buffer_init_fixed(&bound, text, sizeof text);
        /* %g on purpose: the bound is part of the row's identity, and "5e-05" must read the same in
         * every version, or a scraper would see new time series after an upgrade. */
        ps_buffer_append_format(&bound, "%g", ps_histogram_bound(i));
        count += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        append_bucket(page, name, labels, text, count);
    }
    count += atomic_load_explicit(&histogram->buckets[PS_HISTOGRAM_BUCKETS], memory_order_relaxed);
    append_bucket(page, name, labels, "+Inf", count);
    append_name(page, name, "_sum", labels);
    uint64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    append_number(page, (double)sum_ns / 1e9);
    append_name(page, name, "_count", labels);
    ps_buffer_append_format(page, "%" PRIu64 "\n", count);
}

/* One case per type and no default: a new type does not compile until this page knows it. */
static void render_row(const struct ps_metric_family *family, const struct ps_metric_row *row,
                       struct ps_buffer *page)
{
    switch (family->type) {
    case PS_METRIC_COUNTER:
        append_name(page, family->name, "", row->labels);
        ps_buffer_append_format(page, "%" PRIu64 "\n", ps_counter_value(&row->as.counter));
        return;
    case PS_METRIC_GAUGE:
        append_name(page, family->name, "", row->labels);
        append_number(page, ps_gauge_value(&row->as.gauge));
        return;
    case PS_METRIC_HISTOGRAM:
        render_histogram(family->name, row->labels, &row->as.histogram, page);
        return;
    }
    PS_ASSERT(false && "a family has one of the three types");
}
