/* SPDX-License-Identifier: Apache-2.0 */
/* One training run: worker threads that compute gradients on their share of the rows, push them and
 * get the model back. Asynchronous: workers never wait for each other.
 *
 * Threads:  one per worker, started and joined inside; progress may be read from any thread.
 * Blocking: ps_trainer_run until all workers have finished, failed or were stopped.
 * Errors:   the first worker's failure ends the run.
 * Memory:   the run owns its buffers; data sets are borrowed.
 */
#ifndef PS_TOOLS_TRAINER_H
#define PS_TOOLS_TRAINER_H

#include "base/buffer.h"
#include "base/status.h"
#include "client/psclient.h"
#include "tools/linear_model.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Most worker threads of one process. */
#define PS_WORKERS_MAX 64

struct ps_trainer_options {
    struct psclient_options client; /* texts borrowed */
    const struct ps_dataset *train; /* borrowed */
    const struct ps_class_map *map; /* borrowed */
    struct ps_linear_model model;
    struct ps_bytes config; /* serialized OptimizerConfig; borrowed */
    const char *name;       /* parameters are NAME/weight and NAME/bias; borrowed */
    uint32_t workers;
    uint32_t part, parts; /* this process trains share `part` of `parts` */
    uint32_t epochs;
    uint32_t batch;
    uint64_t seed;
    bool pipeline;            /* a gradient is computed while the last one is under way */
    uint64_t call_timeout_ms; /* how long a server may be away before the run fails */
};

/* What has been done so far; every field may be read while the run goes on. */
struct ps_trainer_progress {
    atomic_ullong examples;
    atomic_ullong steps;  /* that are over: one for each mini-batch */
    atomic_ullong pushes; /* acknowledged: one for each parameter and step */
    /* Steps that may be missing: the time passed while it was open whether they were applied, or
     * the servers lost the parameters that they were for. None of them was applied twice. */
    atomic_ullong lost_pushes;
    atomic_ullong retries;
    /* Of all workers together, from the first step to the last, and what of it they have spent in
     * calls to the servers. */
    atomic_ullong training_ns, waiting_ns;
    atomic_ullong loss_millionths; /* of a recent mini-batch, smoothed */
    atomic_bool stop;              /* set it to end the run early */
};

/* The trained model, pulled after the last push. Release with ps_trained_release. */
struct ps_trained {
    float *weights; /* the bias lies behind them */
    float *bias;
};
void ps_trained_release(struct ps_trained *trained);

PS_MUST_USE enum ps_status ps_trainer_run(const struct ps_trainer_options *options,
                                          struct ps_trainer_progress *progress,
                                          struct ps_trained *trained, struct ps_error *error);

#endif
