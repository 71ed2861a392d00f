/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the servers of a run, and initialising the job once, whichever of the workers does it. */
#include "tools/model_servers.h"

#include "base/clock.h"

static enum ps_status initialise_alone(struct psclient *client, const struct ps_model_init *init,
                                       struct ps_error *error);
static enum ps_status initialise_once(struct psclient *client, const struct ps_model_init *init,
                                      uint64_t timeout_ms, bool *finished,
                                      struct psclient_error *cause, struct ps_error *error);

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

/* A client has one initialisation at a time. Whoever comes second finds a job that is initialised,
 * mostly by the first. */
enum ps_status ps_model_servers_initialise(struct ps_model_servers *servers,
                                           const struct ps_model_init *init, struct ps_error *error)
{
    ps_mutex_lock(&servers->mutex);
    while (servers->initialising)
        (void)ps_condition_wait(&servers->left, &servers->mutex, PS_DEADLINE_NEVER);
    servers->initialising = true;
    ps_mutex_unlock(&servers->mutex);
    enum ps_status status = initialise_alone(servers->client, init, error);
    ps_mutex_lock(&servers->mutex);
    servers->initialising = false;
    ps_condition_signal_all(&servers->left);
    ps_mutex_unlock(&servers->mutex);
    return status;
}

/* The deadline is for all tries together. Called again in the middle of a run when servers have
 * lost their state. */
static enum ps_status initialise_alone(struct psclient *client, const struct ps_model_init *init,
                                       struct ps_error *error)
{
    const struct ps_clock *clock = ps_clock_real();
    uint64_t deadline_ms = ps_deadline_after(clock, init->timeout_ms);
    for (;;) {
        struct psclient_error cause;
        bool finished = false;
        /* The time left of the one deadline goes down into the call, and no call begins a new
         * one. */
        uint64_t left_ms = ps_time_left_ms(clock, deadline_ms);
        PS_TRY(initialise_once(client, init, left_ms, &finished, &cause, error));
        if (finished)
            return PS_OK;
        if (ps_time_left_ms(clock, deadline_ms) == 0)
            return ps_model_servers_fail(init->worker, "finish initialisation", &cause, error);
    }
}

/* PS_OK without *finished: a server, or the lock, was lost meanwhile, as `cause` says, so that it
 * has to be done again. The first worker to ask is selected and writes the values; all others wait
 * inside psclient_begin_init until it has finished. A lock that was lost in between (the worker was
 * too slow, a server restarted) makes another try, not a failure. */
static enum ps_status initialise_once(struct psclient *client, const struct ps_model_init *init,
                                      uint64_t timeout_ms, bool *finished,
                                      struct psclient_error *cause, struct ps_error *error)
{
    int selected = 0;
    if (psclient_begin_init(client, timeout_ms, &selected, cause) != PSCLIENT_OK)
        return ps_model_servers_fail(init->worker, "wait for initialisation", cause, error);
    *finished = !selected;
    if (!selected)
        return PS_OK;
    if (init->put(init->context, timeout_ms, cause) != PSCLIENT_OK)
        return ps_model_servers_fail(init->worker, "initialise the parameters", cause, error);
    int status = psclient_finish_init(client, timeout_ms, cause);
    if (status != PSCLIENT_OK && status != PSCLIENT_NOT_INITIALIZED)
        return ps_model_servers_fail(init->worker, "finish initialisation", cause, error);
    *finished = status == PSCLIENT_OK;
    return PS_OK;
}

/* Under the lock: a worker that looked for a stop, and another one that begins a round, must not
 * miss each other, or the second would wait for the first. */
bool ps_model_servers_begin_round(struct ps_model_servers *servers, uint64_t round, bool stops)
{
    ps_mutex_lock(&servers->mutex);
    bool begins = !stops || round <= servers->newest;
    if (begins && round > servers->newest)
        servers->newest = round;
    ps_mutex_unlock(&servers->mutex);
    return begins;
}

/* The message has the errand, the reason, and the client's name for the reason. */
enum ps_status ps_model_servers_fail(uint32_t worker, const char *what,
                                     const struct psclient_error *cause, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_UNAVAILABLE, "worker %u could not %s: %s (%s)", worker, what,
                   cause->text, psclient_status_name(cause->status));
}
