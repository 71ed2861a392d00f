/* SPDX-License-Identifier: Apache-2.0 */
/* The report as people, programs and spreadsheets want it, and as a picture.
 *
 * Threads:  one.
 * Blocking: as standard output, or the file, does.
 * Errors:   the plot's; what does not arrive on standard output is found at the program's end.
 * Memory:   released before return.
 */
#ifndef PS_TOOLS_PSBENCH_OUTPUT_H
#define PS_TOOLS_PSBENCH_OUTPUT_H

#include "base/buffer.h"
#include "tools/psbench/psbench_machine.h"
#include "tools/psbench/psbench_options.h"
#include "tools/psbench/psbench_rows.h"

/* In the form that the options ask for. */
void ps_bench_print(const struct ps_bench_options *options, const struct ps_bench_machine *machine,
                    const struct ps_bench_report *report);

/* Writes an SVG with a bar for every row: 10^9 bytes a second. */
PS_MUST_USE enum ps_status ps_bench_plot(const char *path, const struct ps_bench_options *options,
                                         const struct ps_bench_machine *machine,
                                         const struct ps_bench_report *report,
                                         struct ps_error *error);

/* Writes the whole text to the file, whatever was in it. `what` goes before the path in
 * messages. */
PS_MUST_USE enum ps_status ps_bench_write_file(const char *what, const char *path,
                                               const struct ps_buffer *text,
                                               struct ps_error *error);

#endif
