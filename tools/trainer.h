/* SPDX-License-Identifier: Apache-2.0 */
/* One training run: worker threads that compute gradients on their share of the rows, push them and
 * get the model back. Asynchronous: workers never wait for each other. Or synchronous: each step of
 * all workers, in all processes, is one round, and one step of the optimizer.
 *
 * A synchronous run ends at a version of the model, the next that is a multiple of the run's steps:
 * where a worker is in its epochs follows from the version that it has pulled, so that one which
 * was killed and begins anew goes on with the others.
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
    /* Synchronous: the rounds that the parameters are trained in, as fields of an OptimizerConfig;
     * borrowed. Empty: asynchronous. */
    struct ps_bytes rounds;
    /* Clocks that hold the workers together; borrowed. NULL: none. */
    const struct psclient_clocks *clocks;
    /* Shares of the rows that each worker takes: a step is the average of one batch of each, in
     * their order, as the servers average what so many workers contribute. 1 or more. */
    uint32_t accumulate;
    /* Batches that a worker takes by itself for one push, with steps of plain gradient descent at
     * the rate; what it pushes is how far it came. 1 or less: the gradient of each batch. */
    uint32_t local_steps;
    double local_rate;
    bool pipeline;            /* a gradient is computed while the last one is under way */
    uint64_t call_timeout_ms; /* how long a server may be away before the run fails */
};

/* What has been done so far; every field may be read while the run goes on. */
struct ps_trainer_progress {
    uint64_t examples_all; /* of this process' share; set before the run, 0: nothing is known */
    atomic_ullong examples;
    atomic_ullong steps;  /* that are over: one for each mini-batch */
    atomic_ullong pushes; /* acknowledged: one for each parameter and step */
    /* Steps that may be missing: the time passed while it was open whether they were applied, or
     * the servers lost the parameters that they were for. None of them was applied twice. */
    atomic_ullong lost_pushes;
    atomic_ullong late_pushes; /* contributions to rounds that were over without them */
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

/* Of the model's bytes, weights and bias. */
uint32_t ps_trained_digest(const struct ps_trained *trained, const struct ps_linear_model *shape);

PS_MUST_USE enum ps_status ps_trainer_run(const struct ps_trainer_options *options,
                                          struct ps_trainer_progress *progress,
                                          struct ps_trained *trained, struct ps_error *error);

#endif
