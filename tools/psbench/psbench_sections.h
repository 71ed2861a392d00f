/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmarks that make up the page of figures, and how one is run apart from the others.
 *
 * Threads:  one; no other may have been started, since sections are forked.
 * Blocking: for as long as the section takes.
 * Errors:   those of the section, with its title.
 * Memory:   results belong to the caller.
 */
#ifndef PS_TOOLS_PSBENCH_SECTIONS_H
#define PS_TOOLS_PSBENCH_SECTIONS_H

#include "tools/psbench/psbench.h"

/* In the order in which they are run and stand on the page. */
enum ps_bench_section_id {
    PS_BENCH_SECTION_4_KIB,
    PS_BENCH_SECTION_64_KIB,
    PS_BENCH_SECTION_1_MIB,
    PS_BENCH_SECTION_64_MIB,
    PS_BENCH_SECTION_SHARED,
    PS_BENCH_SECTION_BATCH,
    PS_BENCH_SECTION_PUSH,
    PS_BENCH_SECTION_ENCODING,
    PS_BENCH_SECTION_SCALE,
    PS_BENCH_SECTION_TRAIN,
    PS_BENCH_SECTION_JOURNAL,
    PS_BENCH_SECTION_CHECKPOINT,
    PS_BENCH_SECTION_RECOVER,
    PS_BENCH_SECTION_COUNT
};

struct ps_bench_section {
    const char *benchmark;
    const char *title;   /* a heading of the page */
    const char *picture; /* the middle of its file's name */
    uint64_t size;       /* of one parameter; 0: as the benchmark has it */
    uint64_t outstanding;
    const char *transport;
};

const struct ps_bench_section *ps_bench_section_of(enum ps_bench_section_id id);

/* What a section found out. */
struct ps_bench_section_result {
    struct ps_bench_options options; /* that it was run with */
    struct ps_bench_report report;
};

/* Runs it in a process and a folder of its own, with the settings of `bench`. */
PS_MUST_USE enum ps_status ps_bench_section_run(const struct ps_bench *bench,
                                                enum ps_bench_section_id id,
                                                struct ps_bench_section_result *result,
                                                struct ps_error *error);

#endif
