/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of training against the servers. Values that come back never land where the last whole ones
 * are: an answer that breaks off would leave a mixture, and servers that have lost everything would
 * be given that mixture. So each step has room of its own for its answer, which trades places with
 * the values at hand once all of it is there. */
#include "tools/remote_model.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static void describe_step(struct ps_remote_model *model, struct ps_model_step *step);
static void describe_values(const struct ps_remote_model *model, struct ps_model_values values,
                            struct psclient_parameter *parameters);
static enum ps_status initialise(struct ps_remote_model *model, struct ps_error *error);
static enum ps_status initialise_alone(struct ps_remote_model *model, struct ps_error *error);
static enum ps_status initialise_once(struct ps_remote_model *model, uint64_t timeout_ms,
                                      bool *finished, struct psclient_error *cause,
                                      struct ps_error *error);
static enum ps_status finish(struct ps_remote_model *model, struct ps_model_step *step,
                             struct ps_error *error);
static enum ps_status settle(struct ps_remote_model *model, struct ps_model_step *step, int status,
                             const struct psclient_error *cause, struct ps_error *error);
static void take_reply(struct ps_remote_model *model, struct ps_model_step *step);
static enum ps_status fail_from_client(const struct ps_remote_model *model, const char *what,
                                       const struct psclient_error *cause, struct ps_error *error);

/* The client is all that may fail; what it says is the whole message, since no worker is at fault.
 */
enum ps_status ps_model_servers_open(struct ps_model_servers *servers,
                                     const struct psclient_options *options, struct ps_error *error)
{
    *servers = (struct ps_model_servers){.client = NULL};
    struct psclient_error cause;
    if (psclient_open(options, &servers->client, &cause) != PSCLIENT_OK)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "could not find the servers: %s (%s)", cause.text,
                       psclient_status_name(cause.status));
    ps_mutex_init(&servers->mutex, PS_RANK_LEAF);
    ps_condition_init(&servers->left);
    return PS_OK;
}

/* No thread uses the client any more: operations have been ended with their models. */
void ps_model_servers_close(struct ps_model_servers *servers)
{
    psclient_close(servers->client);
    ps_condition_fini(&servers->left);
    ps_mutex_fini(&servers->mutex);
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
    struct psclient_error cause;
    if (psclient_pull(model->options.servers->client, step->in, PS_MODEL_PARAMETERS,
                      model->options.call_timeout_ms, NULL, &cause) != PSCLIENT_OK)
        return fail_from_client(model, "pull the model", &cause, error);
    take_reply(model, step);
    model->stale = false;
    return PS_OK;
}

/* A client has one initialisation at a time. Whoever comes second finds a job that is initialised,
 * mostly by the first. */
static enum ps_status initialise(struct ps_remote_model *model, struct ps_error *error)
{
    struct ps_model_servers *servers = model->options.servers;
    ps_mutex_lock(&servers->mutex);
    while (servers->initialising)
        (void)ps_condition_wait(&servers->left, &servers->mutex, PS_DEADLINE_NEVER);
    servers->initialising = true;
    ps_mutex_unlock(&servers->mutex);
    enum ps_status status = initialise_alone(model, error);
    ps_mutex_lock(&servers->mutex);
    servers->initialising = false;
    ps_condition_signal_all(&servers->left);
    ps_mutex_unlock(&servers->mutex);
    return status;
}

/* Selected: puts the values at hand (zeros at first, the last whole ones when the servers lost
 * their state). Not selected: somebody else did, and pulling gets theirs. The deadline is for all
 * tries together. Called again in the middle of a run when servers have lost their state. */
static enum ps_status initialise_alone(struct ps_remote_model *model, struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(clock, model->options.call_timeout_ms);
    for (;;) {
        struct psclient_error cause;
        bool finished = false;
        /* The time left of the one deadline goes down into the call, and no call begins a new
         * one. */
        uint64_t left_ms = ps_time_left_ms(clock, deadline_ms);
        PS_TRY(initialise_once(model, left_ms, &finished, &cause, error));
        if (finished)
            return PS_OK;
        if (ps_time_left_ms(clock, deadline_ms) == 0)
            return fail_from_client(model, "finish initialisation", &cause, error);
    }
}

/* PS_OK without *finished: a server, or the lock, was lost meanwhile, as `cause` says, so that it
 * has to be done again. The first worker to ask is selected and writes the values; all others wait
 * inside psclient_begin_init until it has finished. A lock that was lost in between (the worker was
 * too slow, a server restarted) makes another try, not a failure. */
static enum ps_status initialise_once(struct ps_remote_model *model, uint64_t timeout_ms,
                                      bool *finished, struct psclient_error *cause,
                                      struct ps_error *error)
{
    struct psclient *client = model->options.servers->client;
    int selected = 0;
    if (psclient_begin_init(client, timeout_ms, &selected, cause) != PSCLIENT_OK)
        return fail_from_client(model, "wait for initialisation", cause, error);
    *finished = !selected;
    if (!selected)
        return PS_OK;
    struct psclient_parameter parameters[PS_MODEL_PARAMETERS];
    describe_values(model, model->at_hand, parameters);
    if (psclient_init(client, parameters, PS_MODEL_PARAMETERS, timeout_ms, NULL, cause) !=
        PSCLIENT_OK)
        return fail_from_client(model, "initialise the parameters", cause, error);
    int status = psclient_finish_init(client, timeout_ms, cause);
    if (status != PSCLIENT_OK && status != PSCLIENT_NOT_INITIALIZED)
        return fail_from_client(model, "finish initialisation", cause, error);
    *finished = status == PSCLIENT_OK;
    return PS_OK;
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
    struct psclient *client = model->options.servers->client;
    struct psclient_error cause;
    uint64_t timeout_ms = model->options.call_timeout_ms;
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
        if (step->results[i].status == PSCLIENT_OK)
            model->counts.pushes++;
        else if (step->results[i].status == PSCLIENT_UNKNOWN ||
                 step->results[i].status == PSCLIENT_NOT_INITIALIZED)
            model->counts.lost_pushes++;
        else
            return fail_from_client(model, "push a gradient", cause, error);
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
    describe_values(model, step->reply, step->in);
}

/* The message has the errand, the reason, and the client's name for the reason. */
static enum ps_status fail_from_client(const struct ps_remote_model *model, const char *what,
                                       const struct psclient_error *cause, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_UNAVAILABLE, "worker %u could not %s: %s (%s)",
                   model->options.worker, what, cause->text, psclient_status_name(cause->status));
}
