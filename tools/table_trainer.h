/* SPDX-License-Identifier: Apache-2.0 */
/* One training run of a model whose parameters are rows of a table: worker threads that read the
 * rows of a mini-batch, compute, and push. Asynchronous, or held together by clocks, or in rounds:
 * then all of them together make one step.
 *
 * Threads:  one per worker, started and joined inside; progress may be read from any thread.
 * Blocking: ps_table_trainer_run until all workers have finished, failed or were stopped.
 * Errors:   the first worker's failure ends the run.
 * Memory:   the run owns its buffers; models and their data are borrowed.
 */
#ifndef PS_TOOLS_TABLE_TRAINER_H
#define PS_TOOLS_TABLE_TRAINER_H

#include "tools/keyed_model.h"
#include "tools/remote_table.h"
#include "tools/trainer.h"

struct ps_table_trainer_options {
    struct psclient_options client; /* texts borrowed */
    const struct ps_keyed_model *train;
    const struct ps_keyed_model *test; /* NULL: none */
    struct psclient_table_options table;
    const struct psclient_clocks *clocks; /* borrowed. NULL: asynchronous */
    struct ps_bytes rounds;               /* borrowed; a change that sets the rounds. Empty: none */
    /* Shares of which each worker computes a gradient; their average is its step. One worker with
     * N has the bits of N workers in rounds. */
    uint32_t accumulate;
    uint32_t workers;
    uint32_t part, parts; /* this process trains share `part` of `parts` */
    uint32_t epochs;
    uint32_t batch;
    uint64_t seed;
    uint64_t call_timeout_ms;
};

/* How good the model was when this process' first worker had ended an epoch. The others may have
 * been behind, or ahead. */
struct ps_table_epoch {
    uint32_t number;           /* from 1 */
    double seconds;            /* since the run began */
    struct ps_row_score train; /* of that worker's batches, each before its push */
    struct ps_row_score test;  /* of the whole test set; no examples without one */
};

struct ps_table_trained {
    struct ps_table_epoch *epochs; /* owned */
    uint32_t epoch_count; /* fewer than asked for when it began in the middle, or ended early */
    struct ps_row_score train, test; /* over whole sets, after the last push of this process */
};
void ps_table_trained_release(struct ps_table_trained *trained);

PS_MUST_USE enum ps_status ps_table_trainer_run(const struct ps_table_trainer_options *options,
                                                struct ps_trainer_progress *progress,
                                                struct ps_table_trained *trained,
                                                struct ps_error *error);

#endif
