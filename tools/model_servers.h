/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a training run, as the workers of one process share them: one client, and the
 * question who of them initialises the job.
 *
 * Threads:  any.
 * Blocking: until the time of a call is up.
 * Errors:   PS_ERR_UNAVAILABLE with what the client said.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_MODEL_SERVERS_H
#define PS_TOOLS_MODEL_SERVERS_H

#include "base/status.h"
#include "base/thread.h"
#include "client/psclient.h"

#include <stdbool.h>
#include <stdint.h>

/* What the models of a process share. */
struct ps_model_servers {
    struct psclient *client; /* owned */
    struct ps_mutex mutex;   /* guards what follows */
    struct ps_condition left;
    bool initialising; /* one of the models is */
    uint64_t newest;   /* round that one of the models has begun */
};

/* Finds the servers. PS_ERR_UNAVAILABLE: there is nothing to close. */
PS_MUST_USE enum ps_status ps_model_servers_open(struct ps_model_servers *servers,
                                                 const struct psclient_options *options,
                                                 struct ps_error *error);

/* All models have ended. */
void ps_model_servers_close(struct ps_model_servers *servers);

/* One worker's wish to have the job initialised. */
struct ps_model_init {
    /* Gives the servers what the job begins with; a status of the client. Called by the worker that
     * was selected, and again when that was in vain. */
    int (*put)(void *context, uint64_t timeout_ms, struct psclient_error *cause);
    void *context;
    uint32_t worker; /* for messages */
    uint64_t timeout_ms;
};

/* Afterwards the job is initialised, by this worker or by another one. */
PS_MUST_USE enum ps_status ps_model_servers_initialise(struct ps_model_servers *servers,
                                                       const struct ps_model_init *init,
                                                       struct ps_error *error);

/* Where workers wait for each other: may one of them begin the round? Not if the run is to stop,
 * unless another worker of the process has begun it already, and may wait for this one. */
bool ps_model_servers_begin_round(struct ps_model_servers *servers, uint64_t round, bool stops);

/* PS_ERR_UNAVAILABLE, with who could not do what, and the client's reason. */
enum ps_status ps_model_servers_fail(uint32_t worker, const char *what,
                                     const struct psclient_error *cause, struct ps_error *error);

#endif
