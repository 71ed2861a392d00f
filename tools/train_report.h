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

#include "base/json_writer.h"
#include "base/thread.h"
#include "tools/trainer.h"

#include <stdbool.h>

/* Writes to standard error: on a terminal one line that is rewritten, elsewhere a line a second. */
struct ps_progress_line {
    struct ps_thread thread;
    struct ps_mutex mutex;
    struct ps_condition ended;
    bool end;
    struct ps_trainer_progress *progress;
};

PS_MUST_USE enum ps_status ps_progress_line_init(struct ps_progress_line *line,
                                                 struct ps_trainer_progress *progress,
                                                 struct ps_error *error);
void ps_progress_line_fini(struct ps_progress_line *line);

/* What part of this process' share of the work is done, from 0 to 1. */
double ps_train_share(const struct ps_trainer_progress *progress);

struct ps_train_report {
    const char *model;
    const char *optimizer;
    uint32_t workers;
    uint32_t epochs;
    bool pipeline;
    uint64_t sync;   /* contributions that make a step; 0: asynchronous */
    uint32_t digest; /* of the model's bytes: runs that are equal to the bit have the same */
    double seconds;
    bool interrupted;
    const struct ps_trainer_progress *progress;
    struct ps_evaluation train;
    bool has_test;
    struct ps_evaluation test;
};

/* On standard output: a few lines, or one JSON document. */
void ps_train_report_print(const struct ps_train_report *report, bool json);

/* The lines, or the members of an open object, that every kind of run has: pushes, steps, and what
 * their time was spent on. */
void ps_train_print_counts(const struct ps_trainer_progress *progress, uint32_t workers);
void ps_train_json_counts(struct ps_json_writer *json, const struct ps_trainer_progress *progress,
                          uint32_t workers);

#endif
