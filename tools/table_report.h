/* SPDX-License-Identifier: Apache-2.0 */
/* What pstrain says of a run of a model in a table: how good it was after each epoch and in the
 * end, and what its steps cost.
 *
 * Threads:  one, after the run.
 * Blocking: printing and drawing, as the files do.
 * Errors:   of the picture: PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   everything is borrowed.
 */
#ifndef PS_TOOLS_TABLE_REPORT_H
#define PS_TOOLS_TABLE_REPORT_H

#include "tools/table_trainer.h"

struct ps_table_report {
    const char *model, *optimizer, *consistency;
    uint64_t sync; /* contributions that make a step; 0: asynchronous */
    const struct ps_table_trainer_options *options;
    bool
        is_error; /* the measure is the sum of squared errors; otherwise examples that were right */
    const struct ps_table_trained *trained;
    const struct ps_trainer_progress *progress;
    double seconds;
    bool interrupted;
};

/* On standard output: a few lines, or one JSON document. */
void ps_table_report_print(const struct ps_table_report *report, bool json);

/* A curve with a point for each epoch. */
PS_MUST_USE enum ps_status ps_table_report_plot(const struct ps_table_report *report,
                                                const char *path, struct ps_error *error);

#endif
