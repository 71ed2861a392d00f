/* SPDX-License-Identifier: Apache-2.0 */
/* What pstrain shows: one progress line while it runs, and the result at the end.
 *
 * Threads:  the progress line has a thread of its own between init and fini.
 * Blocking: fini waits for that thread.
 * Errors:   PS_ERR_NO_MEMORY when the thread cannot be started.
 * Memory:   in place; what it shows is borrowed.
 */
#ifndef PS_TOOLS_TRAIN_REPORT_H
#define PS_TOOLS_TRAIN_REPORT_H

#include "base/thread.h"
#include "tools/trainer.h"

#include <stdbool.h>

/* Writes to standard error: on a terminal one line that is rewritten, elsewhere a line a second. */
struct ps_progress_line {
    struct ps_thread thread;
    struct ps_mutex mutex;
    struct ps_condition ended;
    bool end;
    const struct ps_trainer_options *options;
    struct ps_trainer_progress *progress;
};

PS_MUST_USE enum ps_status ps_progress_line_init(struct ps_progress_line *line,
                                                 const struct ps_trainer_options *options,
                                                 struct ps_trainer_progress *progress,
                                                 struct ps_error *error);
void ps_progress_line_fini(struct ps_progress_line *line);

/* What part of this process' share of the work is done, from 0 to 1. */
double ps_train_share(const struct ps_trainer_options *options,
                      const struct ps_trainer_progress *progress);

struct ps_train_report {
    const char *model;
    const char *optimizer;
    uint32_t workers;
    uint32_t epochs;
    bool pipeline;
    double seconds;
    bool interrupted;
    const struct ps_trainer_progress *progress;
    struct ps_evaluation train;
    bool has_test;
    struct ps_evaluation test;
};

/* On standard output: a few lines, or one JSON document. */
void ps_train_report_print(const struct ps_train_report *report, bool json);

#endif
