/* SPDX-License-Identifier: Apache-2.0 */
/* The page of figures: what users ask first, the machine's own limits in the same run, then every
 * section with a picture.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   kept by the buffer.
 * Memory:   the buffer's; everything else is borrowed.
 */
#ifndef PS_TOOLS_PSBENCH_PAGE_H
#define PS_TOOLS_PSBENCH_PAGE_H

#include "base/buffer.h"
#include "tools/psbench/psbench_sections.h"

/* Appends the whole page, in Markdown. `results` has one entry for each section. */
void ps_bench_page_append(struct ps_buffer *page, const struct ps_bench *bench,
                          const struct ps_bench_section_result *results);

/* The rows of the first table, under names that people read, for a picture. `summary` is zeroed. */
void ps_bench_page_summary(const struct ps_bench_section_result *results,
                           struct ps_bench_report *summary);

#endif
