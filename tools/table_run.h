/* SPDX-License-Identifier: Apache-2.0 */
/* One invocation of pstrain with a model in a table: its data, the model, the run and what it came
 * to.
 *
 * Threads:  one uses it; training starts threads of its own.
 * Blocking: prepare waits for the disk, train for the servers.
 * Errors:   PS_ERR_BAD_INPUT for options and data, what reading a file gives, PS_ERR_UNAVAILABLE.
 * Memory:   owned until ps_table_run_fini.
 */
#ifndef PS_TOOLS_TABLE_RUN_H
#define PS_TOOLS_TABLE_RUN_H

#include "base/buffer.h"
#include "tools/matrix_factors.h"
#include "tools/pstrain_options.h"
#include "tools/sparse_logistic.h"
#include "tools/table_trainer.h"

struct ps_table_run {
    const struct pstrain_options *options; /* borrowed; outlives this */
    bool factorises;                       /* ratings; otherwise rows with labels */
    struct ps_dataset dataset, test_dataset;
    struct ps_class_map map;
    struct ps_ratings ratings, test_ratings;
    struct ps_sparse_logistic logistic, test_logistic;
    struct ps_matrix_factors factors, test_factors;
    struct ps_keyed_model train, test;
    char table_name[96];
    struct ps_buffer config; /* serialized OptimizerConfig */
    struct ps_table_trainer_options trainer;
    struct ps_table_trained trained;
};

/* Whether the model of that name is in a table. */
bool ps_table_run_is_for(const char *model);

/* Refuses options that such a model does not have. */
PS_MUST_USE enum ps_status ps_table_run_check(const struct pstrain_options *options,
                                              struct ps_error *error);

/* Loads the data into a zeroed run, which stays where it is; fini afterwards in any case. `clocks`
 * are borrowed; without workers there are none. So is `rounds`, a change that sets the rounds; it
 * may be empty. */
PS_MUST_USE enum ps_status
ps_table_run_prepare(struct ps_table_run *run, const struct pstrain_options *options,
                     const struct psclient_clocks *clocks, struct ps_bytes rounds,
                     struct ps_trainer_progress *progress, struct ps_error *error);

PS_MUST_USE enum ps_status ps_table_run_train(struct ps_table_run *run,
                                              struct ps_trainer_progress *progress,
                                              struct ps_error *error);

/* On standard output, and with --plot a picture. */
PS_MUST_USE enum ps_status ps_table_run_report(const struct ps_table_run *run,
                                               const struct ps_trainer_progress *progress,
                                               double seconds, bool interrupted,
                                               struct ps_error *error);

/* Accepts a zeroed struct. */
void ps_table_run_fini(struct ps_table_run *run);

#endif
