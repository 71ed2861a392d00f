/* SPDX-License-Identifier: Apache-2.0 */
/* The report as a picture: horizontal bars, one for every row, longest 480 points. SVG is text, so
 * no library is needed, and every browser shows it. Our own rows are blue, what they are compared
 * with grey: rows with ratios are ours. All bars share one scale, since the picture is about
 * proportions. */
#include "tools/psbench/psbench_output.h"

#include "base/alloc.h"
#include "base/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 860
#define LEFT 220
/* The figure behind the longest bar still fits into the width. */
#define BAR_MAX 440.0
#define ROW_HEIGHT 26
#define TOP 76

static void draw(struct ps_buffer *svg, const struct ps_bench_options *options,
                 const struct ps_bench_machine *machine, const struct ps_bench_report *report);
static void draw_row(struct ps_buffer *svg, const struct ps_bench_report *report, size_t number,
                     double most, bool times);
static bool is_only_one(const struct ps_bench_report *report, const struct ps_bench_row *row);
static void append_escaped(struct ps_buffer *svg, const char *text);
static double value_of(const struct ps_bench_row *row, bool times);
static double most_of(const struct ps_bench_report *report, bool times);

/* The drawing is made in memory first: a file that exists is whole. */
enum ps_status ps_bench_plot(const char *path, const struct ps_bench_options *options,
                             const struct ps_bench_machine *machine,
                             const struct ps_bench_report *report, struct ps_error *error)
{
    struct ps_buffer svg;
    ps_buffer_init(&svg, ps_allocator_heap(), 1 << 20);
    draw(&svg, options, machine, report);
    enum ps_status status = ps_bench_write_file("--plot", path, &svg, error);
    ps_buffer_fini(&svg);
    return status;
}

/* Closing is part of writing: a full disk may show only then. */
enum ps_status ps_bench_write_file(const char *what, const char *path, const struct ps_buffer *text,
                                   struct ps_error *error)
{
    PS_TRY(ps_buffer_status(text, error));
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fwrite(text->text, 1, text->size, file) == text->size;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    return written ? PS_OK : ps_fail(error, PS_ERR_IO, "%s %s: %s", what, path, strerror(errno));
}

/* The headline repeats machine, network and commit, because pictures are passed on without their
 * tables. One line for each element and no styles: the file is small enough to be kept beside the
 * notes, and a difference between two of them can be read. */
static void draw(struct ps_buffer *svg, const struct ps_bench_options *options,
                 const struct ps_bench_machine *machine, const struct ps_bench_report *report)
{
    /* Whoever measures one operation at a time asks how long it takes. */
    bool times = strcmp(options->name, "latency") == 0;
    ps_buffer_append_format(svg,
                            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                            "font-family=\"sans-serif\" font-size=\"13\">\n"
                            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                            "<text x=\"16\" y=\"26\" font-size=\"17\">psbench %s: %s</text>\n"
                            "<text x=\"16\" y=\"48\" fill=\"#555\">",
                            WIDTH, TOP + report->row_count * ROW_HEIGHT + 16, options->name,
                            times ? "microseconds of one operation (median)" : "GB/s");
    append_escaped(svg, machine->processor);
    ps_buffer_append_format(svg, ", %u cores, TCP ", machine->cores);
    append_escaped(svg, machine->congestion_control);
    ps_buffer_append_text(svg, ", ");
    append_escaped(svg, machine->commit);
    ps_buffer_append_text(svg, "</text>\n");
    double most = most_of(report, times);
    for (size_t i = 0; i < report->row_count; i++)
        draw_row(svg, report, i, most, times);
    ps_buffer_append_text(svg, "</svg>\n");
}

/* The figure stands behind the bar, with the percentile that goes with it. A row without figures
 * keeps its place, so that two pictures line up. Rows of one name are told apart by their size. */
static void draw_row(struct ps_buffer *svg, const struct ps_bench_report *report, size_t number,
                     double most, bool times)
{
    const struct ps_bench_row *row = &report->rows[number];
    size_t y = TOP + number * ROW_HEIGHT;
    double value = value_of(row, times);
    ps_buffer_append_format(svg, "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">", LEFT - 10,
                            y + 14);
    append_escaped(svg, row->name);
    if (!is_only_one(report, row))
        ps_buffer_append_format(svg, " %llu KiB", (unsigned long long)row->bytes >> 10);
    ps_buffer_append_text(svg, "</text>\n");
    if (isnan(value)) {
        ps_buffer_append_format(svg, "<text x=\"%d\" y=\"%zu\" fill=\"#555\">unsupported</text>\n",
                                LEFT, y + 14);
        return;
    }
    /* References have no ratios of their own. */
    bool ours = row->ratio_count > 0;
    double length = most > 0 ? value / most * BAR_MAX : 0;
    ps_buffer_append_format(svg,
                            "<rect x=\"%d\" y=\"%zu\" width=\"%.1f\" height=\"18\" fill=\"%s\"/>\n"
                            "<text x=\"%.1f\" y=\"%zu\">%.3g",
                            LEFT, y, length, ours ? "#2a6fb0" : "#b8b8b8", LEFT + length + 6,
                            y + 14, value);
    if (times && row->p99_us.count > 0)
        ps_buffer_append_format(svg, " (p99 %.4g)", ps_bench_series_median(&row->p99_us));
    else if (!times && row->p50_us.count > 0)
        ps_buffer_append_format(svg, " (p50 %.4g us)", ps_bench_series_median(&row->p50_us));
    ps_buffer_append_text(svg, "</text>\n");
}

/* The disk has a row for each size of writes, all of one name. */
static bool is_only_one(const struct ps_bench_report *report, const struct ps_bench_row *row)
{
    size_t count = 0;
    for (size_t i = 0; i < report->row_count; i++)
        count += strcmp(report->rows[i].name, row->name) == 0;
    return count == 1;
}

/* Names of processors hold characters that XML reserves. Numeric entities are right in any XML,
 * whatever the character. */
static void append_escaped(struct ps_buffer *svg, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("<>&\"", *text) != NULL)
            ps_buffer_append_format(svg, "&#%d;", *text);
        else
            ps_buffer_append_format(svg, "%c", *text);
    }
}

/* The length of a bar: gigabytes a second, or for latency the median of one operation. Rows of
 * which no single operation was timed have their average. Both kinds of length grow with the
 * figure, so for latency the longer bar is the worse one; the headline says which it is. */
static double value_of(const struct ps_bench_row *row, bool times)
{
    if (!times)
        return ps_bench_row_gigabytes(row);
    if (row->p50_us.count > 0)
        return ps_bench_series_median(&row->p50_us);
    return 1e6 / ps_bench_series_median(&row->per_second);
}

/* fmax passes over NaN, so a row without figures does not spoil the scale. The longest bar is
 * always full, whatever the unit: a picture shows proportions, and the figures stand beside it. A
 * report without any figure has 0, and draw_row then draws no bars. */
static double most_of(const struct ps_bench_report *report, bool times)
{
    double most = 0;
    for (size_t i = 0; i < report->row_count; i++)
        most = fmax(most, value_of(&report->rows[i], times));
    return most;
}
