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
#include "base/thread.h"
#include "client/psclient.h"
#include "tools/linear_model.h"

#include <stdbool.h>
#include <stdint.h>

/* Weights and bias. */
#define PS_MODEL_PARAMETERS 2
/* Under way at a time, at most. */
#define PS_MODEL_STEPS_MAX 2

/* What the models of a process share. */
struct ps_model_servers {
    struct psclient *client; /* owned */
    struct ps_mutex mutex;   /* guards what follows */
    struct ps_condition left;
    bool initialising; /* one of the models is */
};

/* Finds the servers. PS_ERR_UNAVAILABLE: there is nothing to close. */
PS_MUST_USE enum ps_status ps_model_servers_open(struct ps_model_servers *servers,
                                                 const struct psclient_options *options,
                                                 struct ps_error *error);

/* All models have ended. */
void ps_model_servers_close(struct ps_model_servers *servers);

struct ps_remote_model_options {
    struct ps_model_servers *servers; /* borrowed; outlives the model */
    struct ps_linear_model shape;
    struct ps_bytes config; /* serialized OptimizerConfig; borrowed; outlives the model */
    const char *name;       /* parameters are NAME/weight and NAME/bias */
    uint64_t call_timeout_ms;
    uint32_t worker; /* number for messages */
    bool pipeline;
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
    bool stale;     /* values are missing: refresh before the next step */
    uint64_t begun; /* steps */
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
