/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing a curve as SVG, which is text: no library is needed, and every browser shows it. The
 * height goes from the lowest to the highest value, since the differences are what is looked for;
 * the figures at both ends say how far that is. */
#include "tools/train_curve.h"

#include "base/alloc.h"
#include "base/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 640
#define HEIGHT 400
#define LEFT 70.0
#define RIGHT 610.0
#define TOP 60.0
#define BOTTOM 350.0
/* Two lines of a point for each epoch. */
#define BYTES_MAX ((size_t)16 << 20)

/* Where values are on the paper. */
struct scale {
    double lowest, highest;
    double first, last; /* epochs */
};

static struct scale scale_of(const struct ps_curve *curve);
static void draw(struct ps_buffer *svg, const struct ps_curve *curve);
static void draw_axes(struct ps_buffer *svg, const struct scale *scale);
static void draw_line(struct ps_buffer *svg, const struct ps_curve *curve,
                      const struct scale *scale, bool test);

/* Made in memory first; closing is part of writing, since a full disk may show only then. */
enum ps_status ps_curve_write(const char *path, const struct ps_curve *curve,
                              struct ps_error *error)
{
    struct ps_buffer svg;
    ps_buffer_init(&svg, ps_allocator_heap(), BYTES_MAX);
    draw(&svg, curve);
    enum ps_status status = ps_buffer_status(&svg, error);
    if (status == PS_OK) {
        FILE *file = fopen(path, "we");
        bool written = file != NULL && fwrite(svg.text, 1, svg.size, file) == svg.size;
        if (file != NULL)
            written = fclose(file) == 0 && written;
        /* A file that was written in part stays: it says more than none. */
        if (!written)
            status = ps_fail(error, PS_ERR_IO, "--plot %s: %s", path, strerror(errno));
    }
    ps_buffer_fini(&svg);
    return status;
}

/* A curve that is flat, or of one point, gets some height: nothing is divided by 0. */
static struct scale scale_of(const struct ps_curve *curve)
{
    struct scale scale = {.lowest = INFINITY, .highest = -INFINITY, .first = 0, .last = 1};
    for (size_t i = 0; i < curve->count; i++) {
        const struct ps_curve_point *point = &curve->points[i];
        /* fmin and fmax pass over NaN. */
        scale.lowest = fmin(scale.lowest, fmin(point->train, point->test));
        scale.highest = fmax(scale.highest, fmax(point->train, point->test));
    }
    if (!isfinite(scale.lowest) || !isfinite(scale.highest))
        scale.lowest = 0, scale.highest = 1;
    /* Also where both are NaN, for which no comparison holds. */
    if (!(scale.highest > scale.lowest))
        scale.highest = scale.lowest + 1;
    /* One epoch alone gets a width, too. */
    if (curve->count > 0) {
        scale.first = curve->points[0].epoch;
        scale.last = fmax(curve->points[curve->count - 1].epoch, scale.first + 1);
    }
    return scale;
}

/* Epochs are as far apart as their numbers, also where a run began in the middle. */
static double place_x(const struct scale *scale, double epoch)
{
    return LEFT + (epoch - scale->first) / (scale->last - scale->first) * (RIGHT - LEFT);
}

/* Downwards, as SVG counts. */
static double place_y(const struct scale *scale, double value)
{
    return BOTTOM - (value - scale->lowest) / (scale->highest - scale->lowest) * (BOTTOM - TOP);
}

/* Title and measure are our own words: nothing in them has to be escaped. */
static void draw(struct ps_buffer *svg, const struct ps_curve *curve)
{
    /* Computed once: both lines share it, or the picture would compare nothing. */
    struct scale scale = scale_of(curve);
    ps_buffer_append_format(svg,
                            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                            "font-family=\"sans-serif\" font-size=\"13\">\n"
                            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                            "<text x=\"16\" y=\"26\" font-size=\"17\">pstrain %s: %s</text>\n"
                            "<text x=\"%d\" y=\"26\" text-anchor=\"end\">"
                            "<tspan fill=\"#b8b8b8\">training</tspan> "
                            "<tspan fill=\"#2a6fb0\">test</tspan></text>\n",
                            WIDTH, HEIGHT, curve->title, curve->measure, (int)RIGHT);
    draw_axes(svg, &scale);
    draw_line(svg, curve, &scale, false);
    draw_line(svg, curve, &scale, true);
    ps_buffer_append_text(svg, "</svg>\n");
}

/* The range of values on the left, that of epochs below. */
static void draw_axes(struct ps_buffer *svg, const struct scale *scale)
{
    ps_buffer_append_format(svg,
                            "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#555\"/>\n",
                            LEFT, TOP, BOTTOM, RIGHT);
    ps_buffer_append_format(svg,
                            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n"
                            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                            LEFT - 8, TOP + 5, scale->highest, LEFT - 8, BOTTOM + 5, scale->lowest);
    ps_buffer_append_format(svg,
                            "<text x=\"%.1f\" y=\"%.1f\">epoch %.0f</text>\n"
                            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                            LEFT, BOTTOM + 22, scale->first, RIGHT, BOTTOM + 22, scale->last);
}

/* A line, and a dot at each point: a run of one epoch has no line. */
static void draw_line(struct ps_buffer *svg, const struct ps_curve *curve,
                      const struct scale *scale, bool test)
{
    /* As in psbench's pictures: what is judged is blue, what it is held against grey. */
    const char *color = test ? "#2a6fb0" : "#b8b8b8";
    ps_buffer_append_format(
        svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color);
    for (size_t i = 0; i < curve->count; i++) {
        const struct ps_curve_point *point = &curve->points[i];
        double value = test ? point->test : point->train;
        if (isfinite(value))
            ps_buffer_append_format(svg, "%.1f,%.1f ", place_x(scale, point->epoch),
                                    place_y(scale, value));
    }
    /* Dots come behind the line, and so lie on it. */
    ps_buffer_append_text(svg, "\"/>\n");
    for (size_t i = 0; i < curve->count; i++) {
        const struct ps_curve_point *point = &curve->points[i];
        double value = test ? point->test : point->train;
        if (isfinite(value))
            ps_buffer_append_format(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                                    place_x(scale, point->epoch), place_y(scale, value), color);
    }
}
