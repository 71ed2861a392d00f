/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's writer, from memory to disk: without a server, a network or an update around it.
 *
 * Threads:  one.
 * Blocking: for the disk; a run for about its time.
 * Errors:   those of checkpoint/journal.h.
 * Memory:   one record's content and the records in flight, from open to close.
 */
#ifndef PS_TOOLS_PSBENCH_JOURNAL_ALONE_H
#define PS_TOOLS_PSBENCH_JOURNAL_ALONE_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stddef.h>
#include <stdint.h>

struct ps_bench_journal_alone;

/* A journal in a folder "<name>" of `folder`, whose records have contents of `size` bytes, with as
 * many handed over at a time as a server has in flight. */
PS_MUST_USE enum ps_status ps_bench_journal_alone_open(const char *folder, const char *name,
                                                       size_t size, uint64_t outstanding,
                                                       struct ps_bench_journal_alone **alone,
                                                       struct ps_error *error);

/* NULL is allowed. What was written stays for whoever removes the folder. */
void ps_bench_journal_alone_close(struct ps_bench_journal_alone *alone);

/* Writes records for `time_ms` and counts those that are durable; the times are those until all
 * that were handed over together were. `*processor` is what the process used of its processors, in
 * seconds for 10^9 bytes of content. */
PS_MUST_USE enum ps_status ps_bench_journal_alone_run(struct ps_bench_journal_alone *alone,
                                                      uint64_t time_ms,
                                                      struct ps_bench_figures *figures,
                                                      double *processor, struct ps_error *error);

#endif
