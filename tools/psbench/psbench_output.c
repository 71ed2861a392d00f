/* SPDX-License-Identifier: Apache-2.0 */
/* Table, JSON, CSV. Three forms of one report: a table for people, JSON for programs, CSV for
 * spreadsheets. All print medians over the repeats; a spread beside the rate says how far to trust
 * it. The names in JSON and CSV are read by scripts and do not change. A figure that was not
 * measured is never printed as a number: dashes, an empty field or null, according to the form. The
 * reason why a row has no figures stands in its place. */
#include "tools/psbench/psbench_output.h"

#include "tools/json_document.h"

#include <math.h>
#include <stdio.h>

static void print_table(const struct ps_bench_options *options,
                        const struct ps_bench_machine *machine,
                        const struct ps_bench_report *report);
static void print_table_row(const struct ps_bench_row *row);
static void print_series(const char *title, const struct ps_bench_series *all, size_t count);
static double rounded(double value);
static void print_csv(const struct ps_bench_machine *machine, const struct ps_bench_report *report);
static void print_csv_number(double value, const char *behind);
static void print_csv_series(const struct ps_bench_series *all, size_t count, const char *behind);
static void print_json(const struct ps_bench_options *options,
                       const struct ps_bench_machine *machine,
                       const struct ps_bench_report *report);
static void json_machine(struct ps_json_writer *json, const struct ps_bench_machine *machine);
static void json_settings(struct ps_json_writer *json, const struct ps_bench_options *options,
                          const struct ps_bench_machine *machine);
static void json_row(struct ps_json_writer *json, const struct ps_bench_row *row);
static void json_series(struct ps_json_writer *json, const char *key,
                        const struct ps_bench_series *all, size_t count,
                        double (*value_of)(const struct ps_bench_series *series));

/* Only called with a report that is whole and was checked. Standard output has this and nothing
 * else; progress and complaints go to standard error. */
void ps_bench_print(const struct ps_bench_options *options, const struct ps_bench_machine *machine,
                    const struct ps_bench_report *report)
{
    if (options->json)
        print_json(options, machine, report);
    else if (options->csv)
        print_csv(machine, report);
    else
        print_table(options, machine, report);
}

/* The settings stand above the figures in one line, so that whoever copies the table copies them,
 * too. The width of each column fits the largest value that it can have, so that tables of several
 * runs line up. */
static void print_table(const struct ps_bench_options *options,
                        const struct ps_bench_machine *machine,
                        const struct ps_bench_report *report)
{
    (void)printf("machine   %s, %u cores, %.1f GiB, %s; load before the run %.2f\n",
                 machine->processor, machine->cores, (double)machine->memory_bytes / (1 << 30),
                 machine->kernel, machine->load);
    (void)printf("program   psbench %s (%s)\n", PS_VERSION, machine->commit);
    (void)printf("settings  TCP %s%s, %s, via %s, transport %s, busy polling %s, ack "
                 "%s, disk %s; "
                 "medians of "
                 "%llu times %.3f s\n\n",
                 machine->congestion_control,
                 options->name_space != NULL ? " in a namespace of its own" : "",
                 machine->allocator, options->via, options->transport, options->busy_poll_text,
                 options->ack, machine->file_system, (unsigned long long)options->repeat,
                 (double)options->time_ms / 1e3);
    (void)printf("%-26s %11s %6s %12s %12s %12s %9s %10s %10s\n", "name", "bytes", "flight",
                 "per second", "lowest", "highest", "GB/s", "p50 us", "p99 us");
    for (size_t i = 0; i < report->row_count; i++)
        print_table_row(&report->rows[i]);
}

/* Rows of which no single operation was timed (a copy, a stream) have dashes instead of
 * percentiles. The rate is of operations; gigabytes are those of one direction, so a push and pull
 * of 1 MiB counts 1 MiB. Lowest and highest stand beside the median, since a spread says how far to
 * trust it. */
static void print_table_row(const struct ps_bench_row *row)
{
    (void)printf("%-26s %11llu %6llu ", row->name, (unsigned long long)row->bytes,
                 (unsigned long long)row->outstanding);
    /* A row that the server could not fill, for instance of an older version without a journal. */
    if (row->per_second.count == 0) {
        (void)printf("unsupported: %s\n", row->unsupported);
        return;
    }
    (void)printf("%12.1f %12.1f %12.1f %9.3f ", ps_bench_series_median(&row->per_second),
                 ps_bench_series_lowest(&row->per_second),
                 ps_bench_series_highest(&row->per_second), ps_bench_row_gigabytes(row));
    if (row->p50_us.count > 0)
        (void)printf("%10.1f %10.1f\n", ps_bench_series_median(&row->p50_us),
                     ps_bench_series_median(&row->p99_us));
    else
        (void)printf("%10s %10s\n", "-", "-");
    print_series("ratio to", row->ratios, row->ratio_count);
    /* Behind the ratios, since it says what one of them is to. */
    if (row->reference[0] != '\0')
        (void)printf("    %-30s %s\n", "disk is", row->reference);
    print_series("", row->details, row->detail_count);
}

/* Rounded to a thousandth for the eye; JSON has all digits. Indented below their row, since each
 * row has other ratios and details. The name is padded, so that the figures stand below each
 * other. */
static void print_series(const char *title, const struct ps_bench_series *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)printf("    %s%s%-30s %.10g", title, title[0] != '\0' ? " " : "", all[i].name,
                     rounded(ps_bench_series_median(&all[i])));
        /* Counts that are the same in every repeat have no range. */
        if (ps_bench_series_spread(&all[i]) != 0)
            (void)printf("  (%.10g to %.10g)", rounded(ps_bench_series_lowest(&all[i])),
                         rounded(ps_bench_series_highest(&all[i])));
        (void)putchar('\n');
    }
}

/* More digits than three would claim more than five repeats can know. */
static double rounded(double value)
{
    return round(value * 1000) / 1000;
}

/* A figure per column; ratios and details, of which each row has its own, share one column each as
 * name=value pairs. The commit is the last field of every row: rows of several runs are put into
 * one sheet. */
static void print_csv(const struct ps_bench_machine *machine, const struct ps_bench_report *report)
{
    (void)printf("name,bytes,outstanding,per_second,gigabytes_per_second,p50_us,p99_us,spread,"
                 "repeats,supported,ratios,details,reference,commit\n");
    for (size_t i = 0; i < report->row_count; i++) {
        const struct ps_bench_row *row = &report->rows[i];
        (void)printf("%s,%llu,%llu,", row->name, (unsigned long long)row->bytes,
                     (unsigned long long)row->outstanding);
        print_csv_number(ps_bench_series_median(&row->per_second), ",");
        print_csv_number(ps_bench_row_gigabytes(row), ",");
        print_csv_number(ps_bench_series_median(&row->p50_us), ",");
        print_csv_number(ps_bench_series_median(&row->p99_us), ",");
        print_csv_number(ps_bench_series_spread(&row->per_second), ",");
        (void)printf("%u,%s,", row->per_second.count,
                     row->unsupported[0] == '\0' ? "true" : "false");
        print_csv_series(row->ratios, row->ratio_count, ",");
        print_csv_series(row->details, row->detail_count, ",");
        (void)printf("%s,%s\n", row->reference, machine->commit);
    }
}

/* A figure that there is not is an empty field: spreadsheets take "nan" for text. Nine digits are
 * more than any measurement is worth and keep files of repeated runs comparable. */
static void print_csv_number(double value, const char *behind)
{
    if (isnan(value))
        (void)fputs(behind, stdout);
    else
        (void)printf("%.9g%s", value, behind);
}

/* Semicolons inside, since commas end the field. Nothing is quoted: names hold neither commas nor
 * quotes. */
static void print_csv_series(const struct ps_bench_series *all, size_t count, const char *behind)
{
    for (size_t i = 0; i < count; i++)
        (void)printf("%s%s=%.9g", i > 0 ? ";" : "", all[i].name, ps_bench_series_median(&all[i]));
    (void)fputs(behind, stdout);
}

/* One document, nothing else on standard output. The layout is documented in docs/performance.md,
 * and plotting scripts read it; members may be added but not renamed. */
static void print_json(const struct ps_bench_options *options,
                       const struct ps_bench_machine *machine, const struct ps_bench_report *report)
{
    struct json_document document;
    json_document_init(&document);
    struct ps_json_writer *json = &document.json;
    ps_json_begin_object(json, NULL);
    json_text(json, "benchmark", options->name);
    json_text(json, "version", PS_VERSION);
    json_text(json, "commit", machine->commit);
    json_machine(json, machine);
    json_settings(json, options, machine);
    ps_json_begin_array(json, "rows");
    for (size_t i = 0; i < report->row_count; i++)
        json_row(json, &report->rows[i]);
    ps_json_end_array(json);
    ps_json_end_object(json);
    json_document_print(&document);
    json_document_fini(&document);
}

/* Together with the commit this is what makes two reports comparable. The load says how busy the
 * machine was when the run began. Bytes and counts are whole numbers, the load average is a real
 * one. */
static void json_machine(struct ps_json_writer *json, const struct ps_bench_machine *machine)
{
    ps_json_begin_object(json, "machine");
    json_text(json, "processor", machine->processor);
    ps_json_uint(json, "cores", machine->cores);
    ps_json_uint(json, "memory_bytes", machine->memory_bytes);
    json_text(json, "kernel", machine->kernel);
    ps_json_real(json, "load_before", machine->load);
    ps_json_end_object(json);
}

/* Everything that changes a figure and was chosen on the command line. Options that have no effect
 * on the benchmark at hand are written as well, so that the document has one shape. */
static void json_settings(struct ps_json_writer *json, const struct ps_bench_options *options,
                          const struct ps_bench_machine *machine)
{
    ps_json_begin_object(json, "settings");
    json_text(json, "congestion_control", machine->congestion_control);
    ps_json_bool(json, "own_namespace", options->name_space != NULL);
    json_text(json, "allocator", machine->allocator);
    json_text(json, "file_system", machine->file_system);
    json_text(json, "ack", options->ack);
    json_text(json, "via", options->via);
    json_text(json, "busy_poll", options->busy_poll_text);
    json_text(json, "transport", options->transport);
    json_text(json, "cache", options->cache);
    ps_json_uint(json, "lanes", options->lanes);
    ps_json_uint(json, "repeat", options->repeat);
    ps_json_real(json, "seconds", (double)options->time_ms / 1e3);
    ps_json_end_object(json);
}

/* NaN becomes null, which is how a program sees that a figure is missing. `supported` says whether
 * figures can be expected at all; `repeats` over how many the medians are. */
static void json_row(struct ps_json_writer *json, const struct ps_bench_row *row)
{
    ps_json_begin_object(json, NULL);
    json_text(json, "name", row->name);
    ps_json_uint(json, "bytes", row->bytes);
    ps_json_uint(json, "outstanding", row->outstanding);
    ps_json_bool(json, "supported", row->unsupported[0] == '\0');
    if (row->unsupported[0] != '\0')
        json_text(json, "reason", row->unsupported);
    ps_json_real(json, "per_second", ps_bench_series_median(&row->per_second));
    ps_json_real(json, "gigabytes_per_second", ps_bench_row_gigabytes(row));
    ps_json_real(json, "p50_us", ps_bench_series_median(&row->p50_us));
    ps_json_real(json, "p99_us", ps_bench_series_median(&row->p99_us));
    ps_json_real(json, "spread", ps_bench_series_spread(&row->per_second));
    /* The range goes with every median, so that a script can tell a difference from noise. */
    ps_json_real(json, "lowest", ps_bench_series_lowest(&row->per_second));
    ps_json_real(json, "highest", ps_bench_series_highest(&row->per_second));
    ps_json_uint(json, "repeats", row->per_second.count);
    if (row->reference[0] != '\0')
        json_text(json, "reference", row->reference);
    json_series(json, "ratios", row->ratios, row->ratio_count, ps_bench_series_median);
    json_series(json, "ratios_lowest", row->ratios, row->ratio_count, ps_bench_series_lowest);
    json_series(json, "ratios_highest", row->ratios, row->ratio_count, ps_bench_series_highest);
    json_series(json, "details", row->details, row->detail_count, ps_bench_series_median);
    ps_json_end_object(json);
}

/* Members in the order in which they were measured. A series without values cannot be: it is made
 * by adding the first one. */
static void json_series(struct ps_json_writer *json, const char *key,
                        const struct ps_bench_series *all, size_t count,
                        double (*value_of)(const struct ps_bench_series *series))
{
    ps_json_begin_object(json, key);
    for (size_t i = 0; i < count; i++)
        ps_json_real(json, all[i].name, value_of(&all[i]));
    ps_json_end_object(json);
}
