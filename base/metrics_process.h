/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics that every process has, under the names that Prometheus' own clients use.
 *
 * Threads:  any.
 * Blocking: reads a few files of /proc, which wait for nothing.
 * Errors:   a number that cannot be read is left out.
 * Memory:   in the page.
 */
#ifndef PS_BASE_METRICS_PROCESS_H
#define PS_BASE_METRICS_PROCESS_H

#include "base/buffer.h"

/* Appends ps_build_info and the process_* families. */
void ps_metrics_render_process(struct ps_buffer *page);

/* What /proc/self/stat says. */
struct ps_process_stat {
    uint64_t cpu_ticks;      /* user and system */
    uint64_t start_ticks;    /* since the machine's start */
    uint64_t virtual_bytes;  /* address space */
    uint64_t resident_pages; /* in memory */
    uint64_t thread_count;
};

/* Reads the one line of /proc/self/stat. The name in it may hold spaces and brackets. False when
 * it does not look as expected. */
bool ps_process_stat_parse(const char *line, struct ps_process_stat *stat);

#endif
