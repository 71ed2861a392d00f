/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the page. The first answers "how many gradients a second, of what model, with which
 * setting, and what am I promised?"; every line of it is a row of a section below, so that nothing
 * stands there that was not measured in this run. Medians are printed with lowest and highest
 * wherever they are held against something. */
#include "tools/psbench/psbench_page.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Room for a number and its unit. */
#define SIZE_TEXT_BYTES 32

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* A row of a section in the first table. */
struct line {
    enum ps_bench_section_id section;
    const char *memory, *logged; /* rows of the section, one for each promise; NULL: none */
    const char *setting;         /* what a user would have to do to get it */
};

/* From the smallest model to the largest, first for a worker that waits for each step, then for
 * several. */
static const struct line lines[] = {
    /* A worker that waits for each step before it begins the next. */
    {PS_BENCH_SECTION_4_KIB, "pushpull_memory", "pushpull_logged", "one worker, push and pull"},
    {PS_BENCH_SECTION_64_KIB, "pushpull_memory", "pushpull_logged", "one worker, push and pull"},
    {PS_BENCH_SECTION_1_MIB, "pushpull_memory", "pushpull_logged", "one worker, push and pull"},
    {PS_BENCH_SECTION_BATCH, "batch_memory", "batch_logged",
     "one worker, all parameters in one call"},
    {PS_BENCH_SECTION_64_MIB, "pushpull_memory", "pushpull_logged", "one worker, push and pull"},
    {PS_BENCH_SECTION_SHARED, "pushpull_memory", "pushpull_logged",
     "one worker on the server's host, shared memory"},
    /* Several workers, by the size of what they push. */
    {PS_BENCH_SECTION_JOURNAL, "small_push_memory_64", "small_push_logged_64",
     "pushes, 64 at a time"},
    {PS_BENCH_SECTION_JOURNAL, "medium_push_memory", "medium_push_logged", "pushes, 16 at a time"},
    {PS_BENCH_SECTION_PUSH, "push_memory", "push_logged", "pushes, 8 at a time"},
    {PS_BENCH_SECTION_ENCODING, "encoding_bfloat16_memory", "encoding_bfloat16_logged",
     "pushes as bfloat16, 8 at a time"},
    {PS_BENCH_SECTION_ENCODING, "encoding_int8_memory", "encoding_int8_logged",
     "pushes as int8, 8 at a time"},
    {PS_BENCH_SECTION_SCALE, "scale_memory", "scale_logged",
     "two workers on two servers, push and pull"},
    {PS_BENCH_SECTION_TRAIN, "train_memory", "train_logged",
     "pstrain: logistic regression, two workers on two servers"},
    {PS_BENCH_SECTION_TRAIN, NULL, "train_pipeline_logged", "the same with `--pipeline 1`"},
};
enum { LINES = sizeof lines / sizeof lines[0] };

/* One of the machine's own limits. */
struct limit {
    enum ps_bench_section_id section;
    const char *row;
    uint64_t bytes;   /* of the row; 0: the section has one size */
    const char *what; /* in words */
};

/* Of memory, network and disk the fastest and the shortest: rates for large pieces, times for small
 * ones. The disk is that of the journal's section, whose figures have the most repeats. */
static const struct limit limits[] = {
    /* What no server can beat on this machine. */
    {PS_BENCH_SECTION_PUSH, "memcpy", 0, "memory: a copy that stays in the cache"},
    {PS_BENCH_SECTION_SHARED, "memcpy_far", 0, "memory: a copy that no cache holds"},
    /* What each gradient costs even if it came by itself. */
    {PS_BENCH_SECTION_PUSH, "update_loop", 0, "SGD alone, one thread"},
    /* The network without us. */
    {PS_BENCH_SECTION_PUSH, "raw_tcp_one_way", 0, "TCP on loopback, one way"},
    {PS_BENCH_SECTION_4_KIB, "raw_tcp", 0, "TCP on loopback, there and back"},
    {PS_BENCH_SECTION_4_KIB, "bare_grpc", 0, "gRPC alone, there and back"},
    /* The disk without us, by both ways: its rate, and the time of a small write. */
    {PS_BENCH_SECTION_JOURNAL, "disk_direct", 4 * MIB, "disk: direct writes"},
    {PS_BENCH_SECTION_JOURNAL, "disk_direct", 4 * KIB, "disk: direct writes"},
    {PS_BENCH_SECTION_JOURNAL, "disk_append", 4 * MIB, "disk: appended and synced"},
    {PS_BENCH_SECTION_JOURNAL, "disk_append", 4 * KIB, "disk: appended and synced"},
};

static void append_head(struct ps_buffer *page, const struct ps_bench *bench);
static void append_lines(struct ps_buffer *page, const struct ps_bench_section_result *results);
static void append_line(struct ps_buffer *page, const struct ps_bench_section_result *result,
                        const struct line *line, bool logged);
static void append_beside(struct ps_buffer *page, const struct ps_bench_row *row);
static void append_limits(struct ps_buffer *page, const struct ps_bench_section_result *results);
static void append_section(struct ps_buffer *page, const struct ps_bench_section *section,
                           const struct ps_bench_report *report);
static void append_row(struct ps_buffer *page, const struct ps_bench_row *row);
static void append_notes(struct ps_buffer *page, const struct ps_bench_row *row);
static void append_number(struct ps_buffer *page, double value);
static void append_time(struct ps_buffer *page, double us);
static const struct ps_bench_row *find(const struct ps_bench_report *report, const char *name,
                                       uint64_t bytes);
static uint64_t model_bytes(const struct ps_bench_row *row);
static void size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

/* Answers first, then what they are to be judged by, then everything. */
void ps_bench_page_append(struct ps_buffer *page, const struct ps_bench *bench,
                          const struct ps_bench_section_result *results)
{
    append_head(page, bench);
    append_lines(page, results);
    append_limits(page, results);
    for (int i = 0; i < PS_BENCH_SECTION_COUNT; i++)
        append_section(page, ps_bench_section_of((enum ps_bench_section_id)i), &results[i].report);
}

/* Everything that a figure depends on stands above it, from the machine itself. */
static void append_head(struct ps_buffer *page, const struct ps_bench *bench)
{
    const struct ps_bench_machine *machine = &bench->machine;
    const struct ps_bench_options *options = bench->options;
    /* The day of the run, not of the program: the same version differs from machine to machine. */
    char day[32] = "an unknown day";
    time_t seconds = (time_t)(ps_unix_ns(ps_clock_real()) / 1000000000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(day, sizeof day, "%Y-%m-%d", &parts);
    ps_buffer_append_text(page, "# Figures\n\n");
    ps_buffer_append_format(
        page,
        "Written by `psbench report` on %s; nobody edits this page. psbench %s (%s) on %s, %u "
        "cores, %.0f GiB, %s, disk %s, TCP %s, %s; load before the run %.2f. Every figure is the "
        "median of %llu measurements of %.3g s, all of one run; server and workers share the "
        "machine. [performance.md](performance.md) says what each row is and how it is measured.\n",
        day, PS_VERSION, machine->commit, machine->processor, machine->cores,
        (double)machine->memory_bytes / (1 << 30), machine->kernel, machine->file_system,
        machine->congestion_control, machine->allocator, machine->load,
        (unsigned long long)options->repeat, (double)options->time_ms / 1e3);
    /* Half of a processor for others already shows in every rate. */
    if (machine->load > 0.5)
        ps_buffer_append_text(page, "\n**The machine did other work as well: look at lowest and "
                                    "highest before any figure.**\n");
    if (options->quick)
        /* Such a page may lie in a test's folder for long enough to be taken for a real one. */
        ps_buffer_append_text(page, "\n**Made with `--quick`: sizes and times are those of a test, "
                                    "and the figures mean nothing.**\n");
}

/* The promises are explained where their words first stand, since a reader of figures reads nothing
 * else. */
static void append_lines(struct ps_buffer *page, const struct ps_bench_section_result *results)
{
    ps_buffer_append_text(
        page,
        "\n## How many gradients a second\n\n"
        "MEMORY: a push is acknowledged when it was applied; a crash loses what came after the "
        "last checkpoint. LOGGED, the default with a data directory: acknowledged when it is on "
        "the disk; nothing that was acknowledged is lost. A gradient is one of the whole model.\n\n"
        "| model | setting | promise | gradients/s | GB/s | half take at most | beside the machine "
        "|\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < LINES; i++) {
        append_line(page, &results[lines[i].section], &lines[i], false);
        append_line(page, &results[lines[i].section], &lines[i], true);
    }
    ps_buffer_append_text(page, "\n![GB/s of all of them](figures-all.svg)\n");
}

/* A row that a section did not make (an older server without a journal) is left out. */
static void append_line(struct ps_buffer *page, const struct ps_bench_section_result *result,
                        const struct line *line, bool logged)
{
    const struct ps_bench_row *row = find(&result->report, logged ? line->logged : line->memory, 0);
    if (row == NULL || row->per_second.count == 0)
        return;
    char size[SIZE_TEXT_BYTES];
    double per_second = ps_bench_series_median(&row->per_second);
    size_text(model_bytes(row), size);
    ps_buffer_append_format(page, "| %s%s | %s | %s | ", size,
                            model_bytes(row) > row->bytes ? ", 1,000 parameters" : "",
                            line->setting, logged ? "LOGGED" : "MEMORY");
    append_number(page, per_second);
    ps_buffer_append_text(page, " | ");
    append_number(page, per_second * (double)model_bytes(row) / 1e9);
    ps_buffer_append_text(page, " | ");
    append_time(page, ps_bench_series_median(&row->p50_us));
    ps_buffer_append_text(page, " | ");
    append_beside(page, row);
    ps_buffer_append_text(page, " |\n");
}

/* What is durable stands beside the disk: many pushes beside its rate, a lone small one beside the
 * time of a single write. The rest beside gRPC alone or one worker on one server. */
static void append_beside(struct ps_buffer *page, const struct ps_bench_row *row)
{
    static const struct {
        const char *ratio, *words;
    } known[] = {{"cost_to_direct", "bare writes more than MEMORY"},
                 {"cost_to_fdatasync", "bare writes more than MEMORY"},
                 {"disk", "of the disk"},
                 {"bare_grpc", "of gRPC alone"},
                 {"one_by_one", "of one worker and server"},
                 {"without_pipeline", "times without it"},
                 {"float32", "times float32"},
                 {"single_calls", "times single calls"},
                 {"memory", "of MEMORY"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        for (size_t at = 0; at < row->ratio_count; at++) {
            if (strcmp(row->ratios[at].name, known[i].ratio) != 0)
                continue;
            append_number(page, ps_bench_series_median(&row->ratios[at]));
            ps_buffer_append_format(page, " %s", known[i].words);
            return;
        }
    }
    ps_buffer_append_text(page, "-");
}

/* The limits are those of this run: without them no figure above says whether it is a good one. */
static void append_limits(struct ps_buffer *page, const struct ps_bench_section_result *results)
{
    ps_buffer_append_text(page, "\n## What the machine does by itself\n\n"
                                "| limit | bytes at a time | GB/s | half take at most |\n"
                                "|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct limit *limit = &limits[i];
        const struct ps_bench_row *row =
            find(&results[limit->section].report, limit->row, limit->bytes);
        if (row == NULL)
            continue;
        char size[SIZE_TEXT_BYTES];
        size_text(row->bytes, size);
        ps_buffer_append_format(page, "| %s | %s | ", limit->what, size);
        if (row->per_second.count == 0) {
            ps_buffer_append_format(page, "%s | - |\n", row->unsupported);
            continue;
        }
        append_number(page, ps_bench_row_gigabytes(row));
        ps_buffer_append_text(page, " | ");
        append_time(page, ps_bench_series_median(&row->p50_us));
        ps_buffer_append_text(page, " |\n");
    }
}

/* All that was measured, for whoever does not believe the first table. The disk's own rows stand in
 * one section only: every other has its rate beside what is held against it. */
static void append_section(struct ps_buffer *page, const struct ps_bench_section *section,
                           const struct ps_bench_report *report)
{
    ps_buffer_append_format(page,
                            "\n## %s\n\n| `psbench %s` | bytes | at a time | per second | lowest | "
                            "highest | GB/s | p50 us | p99 us | beside |\n"
                            "|---|---|---|---|---|---|---|---|---|---|\n",
                            section->title, section->benchmark);
    for (size_t i = 0; i < report->row_count; i++) {
        bool disk = strncmp(report->rows[i].name, "disk_", strlen("disk_")) == 0;
        if (!disk || strcmp(section->benchmark, "journal") == 0)
            append_row(page, &report->rows[i]);
    }
    ps_buffer_append_format(page, "\n![%s](figures-%s.svg)\n", section->title, section->picture);
}

/* As the table on a terminal has it, with the lines below a row as its last column. A row without
 * figures says why. */
static void append_row(struct ps_buffer *page, const struct ps_bench_row *row)
{
    ps_buffer_append_format(page, "| `%s` | %llu | %llu | ", row->name,
                            (unsigned long long)row->bytes, (unsigned long long)row->outstanding);
    if (row->per_second.count == 0) {
        ps_buffer_append_format(page, "- | - | - | - | - | - | %s |\n", row->unsupported);
        return;
    }
    /* In the order of the heading. */
    const double values[] = {
        ps_bench_series_median(&row->per_second),  ps_bench_series_lowest(&row->per_second),
        ps_bench_series_highest(&row->per_second), ps_bench_row_gigabytes(row),
        ps_bench_series_median(&row->p50_us),      ps_bench_series_median(&row->p99_us)};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        append_number(page, values[i]);
        ps_buffer_append_text(page, " | ");
    }
    append_notes(page, row);
    ps_buffer_append_text(page, " |\n");
}

/* Ratios with their range, since a single repeat may be half of another; then the row's own
 * figures. */
static void append_notes(struct ps_buffer *page, const struct ps_bench_row *row)
{
    const char *between = "";
    for (size_t i = 0; i < row->ratio_count; i++) {
        ps_buffer_append_format(page, "%s%s ", between, row->ratios[i].name);
        append_number(page, ps_bench_series_median(&row->ratios[i]));
        if (ps_bench_series_spread(&row->ratios[i]) != 0) {
            ps_buffer_append_text(page, " (");
            append_number(page, ps_bench_series_lowest(&row->ratios[i]));
            ps_buffer_append_text(page, " to ");
            append_number(page, ps_bench_series_highest(&row->ratios[i]));
            ps_buffer_append_text(page, ")");
        }
        between = ", ";
    }
    if (row->reference[0] != '\0')
        ps_buffer_append_format(page, "%sdisk is %s", between, row->reference);
    for (size_t i = 0; i < row->detail_count; i++) {
        ps_buffer_append_format(page, "%s%s ", row->ratio_count + i > 0 ? ", " : "",
                                row->details[i].name);
        append_number(page, ps_bench_series_median(&row->details[i]));
    }
}

/* Three digits that mean something; a figure that there is not is a dash. */
static void append_number(struct ps_buffer *page, double value)
{
    if (isnan(value))
        ps_buffer_append_text(page, "-");
    else if (fabs(value) >= 100 || value == round(value))
        ps_buffer_append_format(page, "%.0f", value);
    else
        ps_buffer_append_format(page, "%.3g", value);
}

/* As people say it: microseconds, or milliseconds from one on. */
static void append_time(struct ps_buffer *page, double us)
{
    append_number(page, us < 1000 ? us : us / 1000);
    if (!isnan(us))
        ps_buffer_append_text(page, us < 1000 ? " us" : " ms");
}

/* The first row of that name (NULL: of none); with `bytes` not 0, of that size. */
static const struct ps_bench_row *find(const struct ps_bench_report *report, const char *name,
                                       uint64_t bytes)
{
    for (size_t i = 0; name != NULL && i < report->row_count; i++) {
        const struct ps_bench_row *row = &report->rows[i];
        if (strcmp(row->name, name) == 0 && (bytes == 0 || row->bytes == bytes))
            return row;
    }
    return NULL;
}

/* A batch says of how many parameters it is. */
static uint64_t model_bytes(const struct ps_bench_row *row)
{
    for (size_t i = 0; i < row->detail_count; i++) {
        if (strcmp(row->details[i].name, "parameters") == 0)
            return row->bytes * (uint64_t)ps_bench_series_median(&row->details[i]);
    }
    return row->bytes;
}

/* Powers of two where they are whole, as options are typed. */
static void size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
    if (bytes >= 10 * MIB || (bytes >= MIB && bytes % MIB == 0))
        (void)snprintf(text, SIZE_TEXT_BYTES, "%.0f MiB", (double)bytes / (double)MIB);
    else if (bytes >= KIB)
        (void)snprintf(text, SIZE_TEXT_BYTES, "%.0f KiB", (double)bytes / (double)KIB);
    else
        (void)snprintf(text, SIZE_TEXT_BYTES, "%llu B", (unsigned long long)bytes);
}

/* Bars are of whole models, so the bytes of a row are those of its model. */
void ps_bench_page_summary(const struct ps_bench_section_result *results,
                           struct ps_bench_report *summary)
{
    for (size_t i = 0; i < 2 * LINES; i++) {
        const struct line *line = &lines[i / 2];
        const char *name = i % 2 == 0 ? line->memory : line->logged;
        const struct ps_bench_row *row = find(&results[line->section].report, name, 0);
        if (row == NULL || row->per_second.count == 0)
            continue;
        struct ps_bench_row *bar = &summary->rows[summary->row_count++];
        char size[SIZE_TEXT_BYTES];
        *bar = *row;
        bar->bytes = model_bytes(row);
        size_text(bar->bytes, size);
        bool shared = line->section == PS_BENCH_SECTION_SHARED;
        (void)snprintf(bar->name, sizeof bar->name, "%.30s %.8s%s", name, size,
                       shared ? " shared" : "");
    }
}
