/* The page of metrics: Prometheus' text format, version 0.0.4. */
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
    const struct ps_metric_family *family = metrics->families;
    for (; family != NULL; family = family->next)
        render_family(family, page);
    ps_metrics_render_process(page);
}

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

static void append_number(struct ps_buffer *page, double value)
{
    if (isfinite(value))
        ps_buffer_append_format(page, "%.17g\n", value);
    else
        ps_buffer_append_text(page, isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
}

static void append_bucket(struct ps_buffer *page, const char *name, const char *labels,
                          const char *bound, uint64_t count)
{
    ps_buffer_append_format(page, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels,
                            labels[0] != '\0' ? "," : "", bound, count);
}

/* Buckets count all that is at most their bound, so they are summed up on the way. The total is
 * the last of them, so that the page agrees with itself while others observe. */
static void render_histogram(const char *name, const char *labels,
                             const struct ps_histogram *histogram, struct ps_buffer *page)
{
    uint64_t count = 0;
    for (size_t i = 0; i < PS_HISTOGRAM_BUCKETS; i++) {
        char text[32];
        struct ps_buffer bound;
        ps_buffer_init_fixed(&bound, text, sizeof text);
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
