/* SPDX-License-Identifier: Apache-2.0 */
/* A pserver in a process of its own, to be killed and restarted.
 *
 * Threads:  one.
 * Blocking: start waits until the server listens, at most two minutes.
 * Errors:   whatever fails ends the test.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SUPPORT_CLIENT_PSERVER_PROCESS_H
#define PS_TESTS_SUPPORT_CLIENT_PSERVER_PROCESS_H

#include <sys/types.h>

struct temp_folder;

struct pserver_process {
    pid_t pid;        /* 0: not running */
    int log;          /* what it writes to standard error */
    char address[64]; /* where it listens */
};

/* Starts `program --listen ADDRESS ARGUMENTS`; the list ends with NULL. The process dies with the
 * test. */
void pserver_process_start(struct pserver_process *process, const char *program, const char *listen,
                           const char *const *arguments);

/* Starts a server without a store, with the data folder "s<index>" of `folder`: at the address that
 * this process had before, or at a free port of its own. */
void pserver_process_start_alone(struct pserver_process *process, const char *program,
                                 const struct temp_folder *folder, unsigned index);

/* SIGKILL, and waits for its end. Accepts one that is not running. */
void pserver_process_kill(struct pserver_process *process);

/* SIGTERM; returns the exit status. */
int pserver_process_stop(struct pserver_process *process);

#endif
