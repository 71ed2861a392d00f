/* SPDX-License-Identifier: Apache-2.0 */
/* report: every figure that users ask for, from one run, as a page with its pictures. Figures that
 * were measured on different days, or with different settings, cannot stand in one table; so one
 * command measures all of them and writes the whole page anew. Nothing is written before everything
 * was measured and its results were right. */
#include "tools/psbench/psbench_sections.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "tools/psbench/psbench_output.h"
#include "tools/psbench/psbench_page.h"

#include <stdio.h>
#include <sys/stat.h>

/* Some hundred rows of a few hundred bytes each. */
#define PAGE_BYTES_MAX ((size_t)1 << 20)

static enum ps_status run_all(struct ps_bench *bench, struct ps_bench_section_result *results,
                              struct ps_error *error);
static enum ps_status write_all(const struct ps_bench *bench,
                                const struct ps_bench_section_result *results,
                                struct ps_error *error);
static enum ps_status draw(const struct ps_bench *bench, const char *picture,
                           const struct ps_bench_options *options,
                           const struct ps_bench_report *report, struct ps_error *error);
static enum ps_status draw_all(const struct ps_bench *bench,
                               const struct ps_bench_section_result *results,
                               struct ps_error *error);

/* A folder that is not there is said before minutes of measuring, not after. */
enum ps_status ps_bench_make_report(struct ps_bench *bench, struct ps_error *error)
{
    struct stat facts;
    const char *folder = bench->options->output;
    if (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode))
        return ps_fail(error, PS_ERR_NOT_FOUND, "--output %s is not a folder", folder);
    struct ps_bench_section_result *results =
        ps_zeroed_array(ps_allocator_heap(), PS_BENCH_SECTION_COUNT, sizeof *results);
    if (results == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the figures");
    enum ps_status status = run_all(bench, results, error);
    if (status == PS_OK)
        status = write_all(bench, results, error);
    ps_release(ps_allocator_heap(), results);
    return status;
}

/* A line for each section, also where standard error is a file: this takes minutes, and whoever
 * waits wants to know how many. */
static enum ps_status run_all(struct ps_bench *bench, struct ps_bench_section_result *results,
                              struct ps_error *error)
{
    for (int i = 0; i < PS_BENCH_SECTION_COUNT; i++) {
        const struct ps_bench_section *section = ps_bench_section_of((enum ps_bench_section_id)i);
        if (bench->options->progress)
            (void)fprintf(stderr, "%2d of %d  %s\n", i + 1, PS_BENCH_SECTION_COUNT, section->title);
        PS_TRY(ps_bench_section_run(bench, (enum ps_bench_section_id)i, &results[i], error));
    }
    return PS_OK;
}

/* Pictures before the page that names them. */
static enum ps_status write_all(const struct ps_bench *bench,
                                const struct ps_bench_section_result *results,
                                struct ps_error *error)
{
    char path[PS_BENCH_PATH_MAX];
    struct ps_buffer page;
    int length = snprintf(path, sizeof path, "%s/figures.md", bench->options->output);
    if (length >= PS_BENCH_PATH_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "--output: the path is too long");
    /* Made before any file is touched: what does not fit is noticed while the old page stands. */
    ps_buffer_init(&page, ps_allocator_heap(), PAGE_BYTES_MAX);
    ps_bench_page_append(&page, bench, results);
    enum ps_status status = ps_buffer_status(&page, error);
    if (status == PS_OK)
        status = draw_all(bench, results, error);
    if (status == PS_OK)
        status = ps_bench_write_file("--output", path, &page, error);
    /* All that standard output gets; whoever looks for the page finds it there. */
    if (status == PS_OK)
        (void)printf("%s and %d pictures beside it\n", path, PS_BENCH_SECTION_COUNT + 1);
    ps_buffer_fini(&page);
    return status;
}

/* One picture of the first table, and one of each section. */
static enum ps_status draw_all(const struct ps_bench *bench,
                               const struct ps_bench_section_result *results,
                               struct ps_error *error)
{
    struct ps_bench_report *summary = ps_zeroed(ps_allocator_heap(), sizeof *summary);
    if (summary == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a picture");
    ps_bench_page_summary(results, summary);
    enum ps_status status = draw(bench, "all", bench->options, summary, error);
    ps_release(ps_allocator_heap(), summary);
    for (int i = 0; i < PS_BENCH_SECTION_COUNT && status == PS_OK; i++)
        status = draw(bench, ps_bench_section_of((enum ps_bench_section_id)i)->picture,
                      &results[i].options, &results[i].report, error);
    return status;
}

/* As --plot draws it, with the section's own name in the headline. */
static enum ps_status draw(const struct ps_bench *bench, const char *picture,
                           const struct ps_bench_options *options,
                           const struct ps_bench_report *report, struct ps_error *error)
{
    char path[PS_BENCH_PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/figures-%s.svg", bench->options->output, picture);
    if (length >= PS_BENCH_PATH_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "--output: the path is too long");
    return ps_bench_plot(path, options, &bench->machine, report, error);
}
