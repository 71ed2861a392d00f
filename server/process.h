/* SPDX-License-Identifier: Apache-2.0 */
/* A process with a server in it: from its options to its end. The program pserver is one, and so is
 * every program that links libpserver (server/program/).
 *
 * Signals end it: SIGTERM and SIGINT ask for a clean end, a second one ends it at once. They are
 * taken by whoever waits, and by no handler; begin blocks them for the calling thread and for all
 * that it starts.
 *
 * Threads:  begin, start, wait and end belong to one thread, the program's first; stop is safe from
 *           any, between start and the end of wait, once.
 * Blocking: start until the address is bound, wait until the server has ended.
 * Errors:   start: those of ps_instance_create, and PS_ERR_CANCELLED.
 * Memory:   the process owns its instance; the options are borrowed and outlive it.
 */
#ifndef PS_SERVER_PROCESS_H
#define PS_SERVER_PROCESS_H

#include "base/log.h"
#include "server/instance.h"
#include "server/pserver_options.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ps_process {
    const struct ps_pserver_options *options;
    struct ps_log log;
    sigset_t signals;
    struct ps_instance *instance; /* NULL: not started, or ended */
    atomic_bool is_stopping;
    bool is_forced; /* the end was: nothing is to be taken apart */
};

/* Blocks the signals; starts nothing. */
void ps_process_begin(struct ps_process *process, const struct ps_pserver_options *options);

/* Waits for addresses that a predecessor still has, then starts the server. `prepare` may be NULL.
 *
 * PS_ERR_CANCELLED  a signal asked for the end before that
 */
PS_MUST_USE enum ps_status ps_process_start(struct ps_process *process,
                                            const struct ps_preparation *prepare,
                                            struct ps_error *error);

/* Asks for the clean end, as a signal does. */
void ps_process_stop(struct ps_process *process);

/* Until the server has ended: by a signal, by stop, or by itself. The exit status of the program
 * (ps_instance_exit_code). */
int ps_process_wait(struct ps_process *process);

/* Takes the server apart, unless its end was forced: then the process is to end without that,
 * soon. */
void ps_process_end(struct ps_process *process);

#endif
