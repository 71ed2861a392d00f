/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of training against the servers. Values that come back never land where the last whole ones
 * are: an answer that breaks off would leave a mixture, and servers that have lost everything would
 * be given that mixture. So each step has room of its own for its answer, which trades places with
 * the values at hand once all of it is there. */
#include "tools/remote_model.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

static void describe_step(struct ps_remote_model *model, struct ps_model_step *step);
static void describe_values(const struct ps_remote_model *model, struct ps_model_values values,
                            struct psclient_parameter *parameters);
static enum ps_status set_rounds(struct ps_remote_model *model, struct ps_error *error);
static enum ps_status set_clocks(struct ps_remote_model *model, struct ps_error *error);
static enum ps_status initialise(struct ps_remote_model *model, struct ps_error *error);
static enum ps_status step_by_clock(struct ps_remote_model *model, struct ps_model_step *step,
                                    struct ps_error *error);
static enum ps_status finish(struct ps_remote_model *model, struct ps_model_step *step,
                             struct ps_error *error);
static enum ps_status settle(struct ps_remote_model *model, struct ps_model_step *step, int status,
                             const struct psclient_error *cause, struct ps_error *error);
static void take_reply(struct ps_remote_model *model, struct ps_model_step *step);
static enum ps_status fail_from_client(const struct ps_remote_model *model, const char *what,
                                       const struct psclient_error *cause, struct ps_error *error);

/* Rounds that are given are taken part in, by every step. */
static bool is_sync(const struct ps_remote_model *model)
{
    return model->options.rounds.size > 0;
}

/* With two, one gradient travels while the next is computed. More would hide nothing that two do
 * not hide, and make gradients older. */
static size_t steps_max(const struct ps_remote_model *model)
{
    return model->options.pipeline ? PS_MODEL_STEPS_MAX : 1;
}

/* Steps take turns, so with two of them the next one is the older of those under way. */
static struct ps_model_step *next_step(struct ps_remote_model *model)
{
    return &model->steps[model->begun % steps_max(model)];
}

/* One piece of memory for all arrays, so that there is one thing to refuse and one to release. A
 * step allocates nothing of ours. */
enum ps_status ps_remote_model_init(struct ps_remote_model *model,
                                    const struct ps_remote_model_options *options)
{
    *model = (struct ps_remote_model){.options = *options, .stale = true};
    size_t weights = options->shape.features * options->shape.outputs;
    size_t floats = weights + options->shape.outputs;
    size_t arrays = 1 + 2 * steps_max(model);
    /* A gradient and an answer for each step, and the values at hand. */
    model->memory = ps_zeroed_array(ps_allocator_heap(), arrays * sizeof(float), floats);
    if (model->memory == NULL)
        return PS_ERR_NO_MEMORY;
    static const char *const endings[PS_MODEL_PARAMETERS] = {"weight", "bias"};
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++)
        (void)snprintf(model->names[i], sizeof model->names[i], "%s/%s", options->name, endings[i]);
    float *next = model->memory;
    model->at_hand = (struct ps_model_values){next, next + weights};
    for (size_t i = 0; i < steps_max(model); i++) {
        struct ps_model_step *step = &model->steps[i];
        next += floats;
        step->gradient = (struct ps_model_values){next, next + weights};
        next += floats;
        step->reply = (struct ps_model_values){next, next + weights};
        describe_step(model, step);
    }
    return PS_OK;
}

/* The names and sizes of a step never change; where its answer lands does (take_reply). */
static void describe_step(struct ps_remote_model *model, struct ps_model_step *step)
{
    describe_values(model, step->reply, step->in);
    const float *gradients[PS_MODEL_PARAMETERS] = {step->gradient.weights, step->gradient.bias};
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++)
        step->out[i] = (struct psclient_gradient){.name = step->in[i].name,
                                                  .type = step->in[i].type,
                                                  .content = gradients[i],
                                                  .content_size = step->in[i].content_size};
}

/* Values as the client sees them. The configuration counts for initialisation only. */
static void describe_values(const struct ps_remote_model *model, struct ps_model_values values,
                            struct psclient_parameter *parameters)
{
    size_t outputs = model->options.shape.outputs;
    float *content[PS_MODEL_PARAMETERS] = {values.weights, values.bias};
    size_t counts[PS_MODEL_PARAMETERS] = {model->options.shape.features * outputs, outputs};
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++)
        parameters[i] = (struct psclient_parameter){.name = model->names[i],
                                                    .type = PSCLIENT_FLOAT32,
                                                    .content = content[i],
                                                    .content_size = counts[i] * sizeof(float),
                                                    .config = model->options.config.data,
                                                    .config_size = model->options.config.size};
}

/* Operations borrow the arrays, so they end first. What they say is of no use to a run that gives
 * up. */
void ps_remote_model_fini(struct ps_remote_model *model)
{
    struct psclient_error cause;
    for (size_t i = 0; i < PS_MODEL_STEPS_MAX; i++) {
        if (model->steps[i].operation != NULL)
            (void)psclient_end(model->steps[i].operation, NULL, &cause);
    }
    ps_release(ps_allocator_heap(), model->memory);
    *model = (struct ps_remote_model){.memory = NULL};
}

/* At first, and when an answer is missing, the store is asked whether the job is initialised:
 * servers that have lost everything hold a pull back until somebody initialises them, and that may
 * be for us to do. Whoever was selected pulls as well, since servers that had values before keep
 * them. */
enum ps_status ps_remote_model_refresh(struct ps_remote_model *model, struct ps_error *error)
{
    struct ps_model_step *step = next_step(model);
    PS_ASSERT(step->operation == NULL);
    if (model->stale)
        PS_TRY(initialise(model, error));
    if (model->stale && is_sync(model))
        PS_TRY(set_rounds(model, error));
    if (model->stale && model->options.clocks != NULL)
        PS_TRY(set_clocks(model, error));
    struct psclient_error cause;
    if (psclient_pull(model->options.servers->client, step->in, PS_MODEL_PARAMETERS,
                      model->options.call_timeout_ms, NULL, &cause) != PSCLIENT_OK)
        return fail_from_client(model, "pull the model", &cause, error);
    take_reply(model, step);
    model->stale = false;
    return PS_OK;
}

/* The parameters may be those of an earlier run, with other rounds or none. Where they have these
 * already nothing changes, so that every worker may say so. */
static enum ps_status set_rounds(struct ps_remote_model *model, struct ps_error *error)
{
    /* Both parameters at once: a step is one round of each. */
    const struct ps_bytes rounds = model->options.rounds;
    const char *const names[PS_MODEL_PARAMETERS] = {model->names[0], model->names[1]};
    struct psclient_error cause;
    if (psclient_configure(model->options.servers->client, names, PS_MODEL_PARAMETERS, rounds.data,
                           rounds.size, model->options.call_timeout_ms, NULL, NULL,
                           &cause) != PSCLIENT_OK)
        return fail_from_client(model, "set the rounds", &cause, error);
    return PS_OK;
}

/* Every worker sets the same ones, and learns where it stands: a worker that was killed goes on
 * from there. What a server has lost is told again. */
static enum ps_status set_clocks(struct ps_remote_model *model, struct ps_error *error)
{
    const struct ps_remote_model_options *options = &model->options;
    struct psclient *client = options->servers->client;
    struct psclient_error cause;
    if (psclient_set_clocks(client, options->name, options->clocks, options->call_timeout_ms,
                            &cause) != PSCLIENT_OK ||
        psclient_clock(client, options->name, options->worker + 1, model->clock,
                       options->call_timeout_ms, &model->clock, &cause) != PSCLIENT_OK)
        return fail_from_client(model, "set the clocks", &cause, error);
    return PS_OK;
}

/* The values at hand: zeros at first, the last whole ones when the servers lost their state. */
static int put_values(void *context, uint64_t timeout_ms, struct psclient_error *cause)
{
    const struct ps_remote_model *model = context;
    struct psclient_parameter parameters[PS_MODEL_PARAMETERS];
    describe_values(model, model->at_hand, parameters);
    return psclient_init(model->options.servers->client, parameters, PS_MODEL_PARAMETERS,
                         timeout_ms, NULL, cause);
}

/* Called again in the middle of a run when servers have lost their state. */
static enum ps_status initialise(struct ps_remote_model *model, struct ps_error *error)
{
    const struct ps_model_init init = {.put = put_values,
                                       .context = model,
                                       .worker = model->options.worker,
                                       .timeout_ms = model->options.call_timeout_ms};
    return ps_model_servers_initialise(model->options.servers, &init, error);
}

/* The step whose turn it is may still be under way: then it is the oldest, and its answer is the
 * newest that can be had without waiting for the other. */
enum ps_status ps_remote_model_ready(struct ps_remote_model *model,
                                     struct ps_model_values *gradient, struct ps_error *error)
{
    struct ps_model_step *step = next_step(model);
    if (step->operation != NULL)
        PS_TRY(finish(model, step, error));
    /* Only once no other step is under way, which might meet the same. */
    if (model->stale) {
        PS_TRY(ps_remote_model_end(model, error));
        PS_TRY(ps_remote_model_refresh(model, error));
    }
    *gradient = step->gradient;
    return PS_OK;
}

/* Every parameter has rounds of its own, and they are one round of the model while nobody is late.
 * Without rounds a gradient names no worker. */
static void name_rounds(const struct ps_remote_model *model, struct ps_model_step *step)
{
    for (size_t i = 0; i < PS_MODEL_PARAMETERS && is_sync(model); i++) {
        step->out[i].worker = model->options.worker + 1;
        step->out[i].round = model->versions[i] + 1;
    }
}

/* Of rounds the weights' version: the bias has the same, but for rounds without somebody. */
uint64_t ps_remote_model_position(const struct ps_remote_model *model)
{
    PS_ASSERT(is_sync(model) || model->options.clocks != NULL);
    return is_sync(model) ? model->versions[0] : model->clock;
}

bool ps_remote_model_begin_round(struct ps_remote_model *model, bool stops)
{
    PS_ASSERT(is_sync(model) || model->options.clocks != NULL);
    return ps_model_servers_begin_round(model->options.servers, ps_remote_model_position(model) + 1,
                                        stops);
}

/* Without the pipeline the call that waits is taken, which also knows how to talk to servers that
 * have no PushPull. */
enum ps_status ps_remote_model_push(struct ps_remote_model *model, struct ps_error *error)
{
    struct ps_model_step *step = next_step(model);
    PS_ASSERT(step->operation == NULL);
    model->begun++;
    /* A call that has no memory to begin with writes no results: what is not answered has
     * failed. */
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++)
        step->results[i].status = PSCLIENT_FAILED;
    name_rounds(model, step);
    struct psclient *client = model->options.servers->client;
    struct psclient_error cause;
    uint64_t timeout_ms = model->options.call_timeout_ms;
    if (model->options.clocks != NULL)
        return step_by_clock(model, step, error);
    if (!model->options.pipeline) {
        int status = psclient_push_pull(client, step->out, step->in, PS_MODEL_PARAMETERS,
                                        timeout_ms, step->results, &cause);
        return settle(model, step, status, &cause, error);
    }
    int status = psclient_push_pull_begin(client, step->out, step->in, PS_MODEL_PARAMETERS,
                                          timeout_ms, NULL, &step->operation, &cause);
    return status == PSCLIENT_OK ? PS_OK
                                 : fail_from_client(model, "push a gradient", &cause, error);
}

/* The clock moves when the push is in, and not before: whoever reads at that clock reads the push,
 * too. A wait that was too long once is so again, and ends the run. */
static enum ps_status step_by_clock(struct ps_remote_model *model, struct ps_model_step *step,
                                    struct ps_error *error)
{
    const struct ps_remote_model_options *options = &model->options;
    struct psclient *client = options->servers->client;
    struct psclient_error cause;
    int status = psclient_push(client, step->out, PS_MODEL_PARAMETERS, options->call_timeout_ms,
                               step->results, &cause);
    /* Lost or refused, it is no step: the clock stays, and the same batch is taken again. */
    if (status != PSCLIENT_OK)
        return settle(model, step, status, &cause, error);
    status = psclient_clock(client, options->name, options->worker + 1, model->clock + 1,
                            options->call_timeout_ms, &model->clock, &cause);
    if (status != PSCLIENT_OK)
        return fail_from_client(model, "tell its clock", &cause, error);
    /* Set for each pull anew: what lands where is described again with each answer. */
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++) {
        step->in[i].clocks = options->name;
        step->in[i].worker = options->worker + 1;
        step->in[i].clock = model->clock;
    }
    status = psclient_pull(client, step->in, PS_MODEL_PARAMETERS, options->call_timeout_ms, NULL,
                           &cause);
    if (status != PSCLIENT_OK && status != PSCLIENT_NOT_INITIALIZED)
        return fail_from_client(model, "read at its clock", &cause, error);
    return settle(model, step, status, &cause, error);
}

/* In the order in which they were begun, so that the values at hand are the newest in the end. */
enum ps_status ps_remote_model_end(struct ps_remote_model *model, struct ps_error *error)
{
    for (size_t i = 0; i < steps_max(model); i++) {
        /* The next step's place has the oldest of those under way. */
        struct ps_model_step *step = &model->steps[(model->begun + i) % steps_max(model)];
        if (step->operation != NULL)
            PS_TRY(finish(model, step, error));
    }
    return PS_OK;
}

/* Forgotten before the answer is looked at: whatever that says, the operation is over. */
static enum ps_status finish(struct ps_remote_model *model, struct ps_model_step *step,
                             struct ps_error *error)
{
    struct psclient_error cause;
    int status = psclient_end(step->operation, step->results, &cause);
    step->operation = NULL;
    return settle(model, step, status, &cause, error);
}

/* A step whose push or whose answer is not there leaves the values at hand as they were, until the
 * next step refreshes them. */
static enum ps_status settle(struct ps_remote_model *model, struct ps_model_step *step, int status,
                             const struct psclient_error *cause, struct ps_error *error)
{
    model->counts.steps++;
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++) {
        /* The client has repeated it for as long as the timeout allows. What is still unknown then
         * was applied once or not at all. Nor is a gradient pushed to parameters that were lost and
         * begin anew: it was computed for others. */
        bool is_open = step->results[i].status == PSCLIENT_UNKNOWN;
        if (step->results[i].status == PSCLIENT_OK)
            model->counts.pushes++;
        /* A round that is not over in time would not be over in time at the next try. */
        else if ((is_open && !is_sync(model)) ||
                 step->results[i].status == PSCLIENT_NOT_INITIALIZED)
            model->counts.lost_pushes++;
        else
            return fail_from_client(model, "push a gradient", cause, error);
        if (step->results[i].status == PSCLIENT_OK && step->results[i].late != 0)
            model->counts.late_pushes++;
    }
    if (status == PSCLIENT_OK)
        take_reply(model, step);
    else
        model->stale = true;
    return PS_OK;
}

/* The answer and the values at hand trade places: nothing is copied, and what was at hand is where
 * the next answer of this step lands. */
static void take_reply(struct ps_remote_model *model, struct ps_model_step *step)
{
    struct ps_model_values values = step->reply;
    step->reply = model->at_hand;
    model->at_hand = values;
    /* Also of values that were refreshed: a step that follows is of the round behind them. */
    for (size_t i = 0; i < PS_MODEL_PARAMETERS; i++)
        model->versions[i] = step->in[i].version;
    describe_values(model, step->reply, step->in);
}

static enum ps_status fail_from_client(const struct ps_remote_model *model, const char *what,
                                       const struct psclient_error *cause, struct ps_error *error)
{
    return ps_model_servers_fail(model->options.worker, what, cause, error);
}
