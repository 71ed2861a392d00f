/* SPDX-License-Identifier: Apache-2.0 */
/* A linear model that lives on the servers, as one worker has it: a copy to compute from, and
 * steps, each of which pushes a gradient and brings the values back in the same call.
 *
 *     ready ──► the caller writes the gradient of the step ──► push ──► ready ...     end
 *
 * Without the pipeline a step is over when push returns. With it one more step may be under way:
 * push begins it and returns, and the gradient after it is computed from values that do not have it
 * yet. Nothing but that differs; whatever fails is treated alike.
 *
 * A synchronous step is a contribution to the round behind the values at hand, and waits for the
 * other workers. A worker that begins anew goes on with the servers' version: nothing else says
 * where it is.
 *
 * Servers that have lost the parameters are given the last values that came whole. A push whose
 * fate is open, or that met servers without parameters, is counted as lost and not made again: it
 * was applied once or not at all, and one missing step does less harm than one applied twice.
 *
 * Threads:  one model belongs to one thread. All models of a process share one client: their small
 *           messages join, and one connection is looked at by whoever waits.
 * Blocking: until the calls' time is up.
 * Errors:   PS_ERR_UNAVAILABLE with what the client said.
 * Memory:   in place; five arrays of the model's size with the pipeline, three without.
 */
#ifndef PS_TOOLS_REMOTE_MODEL_H
#define PS_TOOLS_REMOTE_MODEL_H

#include "base/buffer.h"
#include "base/status.h"
#include "client/psclient.h"
#include "tools/linear_model.h"
#include "tools/model_servers.h"

#include <stdbool.h>
#include <stdint.h>

/* Weights and bias. */
#define PS_MODEL_PARAMETERS 2
/* Under way at a time, at most. */
#define PS_MODEL_STEPS_MAX 2

struct ps_remote_model_options {
    struct ps_model_servers *servers; /* borrowed; outlives the model */
    struct ps_linear_model shape;
    struct ps_bytes config; /* serialized OptimizerConfig; borrowed; outlives the model */
    const char *name;       /* parameters are NAME/weight and NAME/bias */
    uint64_t call_timeout_ms;
    uint32_t worker; /* number for messages, and the rank of contributions */
    bool pipeline;
    /* Pushes are contributions to rounds, without the pipeline: the fields of an OptimizerConfig
     * that say which. Borrowed; outlives the model. Empty: asynchronous. */
    struct ps_bytes rounds;
    /* Workers count their steps by these clocks, without the pipeline, and read when the clocks
     * allow it: a push, then a pull. Borrowed; outlives the model. NULL: asynchronous. */
    const struct psclient_clocks *clocks;
};

/* Values of the whole model; the order is that of the parameters. */
struct ps_model_values {
    float *weights;
    float *bias;
};

struct ps_model_counts {
    uint64_t steps;       /* that are over */
    uint64_t pushes;      /* of parameters, acknowledged */
    uint64_t lost_pushes; /* applied once or not at all */
    uint64_t late_pushes; /* contributions to rounds that were over */
};

/* One step: the gradient that goes out and the values that come back. */
struct ps_model_step {
    struct ps_model_values gradient;
    struct ps_model_values reply;
    struct psclient_gradient out[PS_MODEL_PARAMETERS];
    struct psclient_parameter in[PS_MODEL_PARAMETERS];
    struct psclient_result results[PS_MODEL_PARAMETERS];
    struct psclient_operation *operation; /* NULL: not under way */
};

struct ps_remote_model {
    struct ps_remote_model_options options;
    float *memory;                  /* owned: all arrays */
    struct ps_model_values at_hand; /* the last that came whole; zeros before */
    struct ps_model_step steps[PS_MODEL_STEPS_MAX];
    uint64_t versions[PS_MODEL_PARAMETERS]; /* of the values at hand */
    uint64_t clock;                         /* steps that this worker has ended, by the clocks */
    bool stale;                             /* values are missing: refresh before the next step */
    uint64_t begun;                         /* steps */
    struct ps_model_counts counts;
    char names[PS_MODEL_PARAMETERS][128];
};

/* Only memory; PS_ERR_NO_MEMORY. `model` may be released with fini afterwards in any case. */
PS_MUST_USE enum ps_status ps_remote_model_init(struct ps_remote_model *model,
                                                const struct ps_remote_model_options *options);

/* Waits for what is under way. Accepts a zeroed struct. */
void ps_remote_model_fini(struct ps_remote_model *model);

/* Has the values at hand that the servers have now, with what others have pushed. Servers without
 * any are given those at hand: zeros at first. Nothing is under way. */
PS_MUST_USE enum ps_status ps_remote_model_refresh(struct ps_remote_model *model,
                                                   struct ps_error *error);

/* Steps that this worker has behind it, in whichever life: of rounds those that the model has, of
 * clocks its own. */
uint64_t ps_remote_model_position(const struct ps_remote_model *model);

/* Where workers wait for each other: may this one begin the step behind its position? Not if the
 * run is to stop, unless another worker of the process has begun that step already, and may wait
 * for this one. */
bool ps_remote_model_begin_round(struct ps_remote_model *model, bool stops);

/* Waits until another step may begin. `*gradient` is where its gradient goes; the values to
 * compute it from are `model->at_hand`, until the push. */
PS_MUST_USE enum ps_status ps_remote_model_ready(struct ps_remote_model *model,
                                                 struct ps_model_values *gradient,
                                                 struct ps_error *error);

/* Pushes the gradient that was written after `ready`. */
PS_MUST_USE enum ps_status ps_remote_model_push(struct ps_remote_model *model,
                                                struct ps_error *error);

/* Waits for the steps under way. */
PS_MUST_USE enum ps_status ps_remote_model_end(struct ps_remote_model *model,
                                               struct ps_error *error);

#endif
