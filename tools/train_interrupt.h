/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C in the middle of a training run: says where the run stands and has it end after the steps
 * that are under way, so that nothing is left in doubt. A second one ends the process at once.
 *
 * Threads:  init and fini in the main thread, init before any other thread is started: SIGINT and
 *           SIGTERM are taken by a thread of the interrupt's own, and by no other.
 * Blocking: fini waits for that thread.
 * Errors:   PS_ERR_NO_MEMORY when the thread cannot be started.
 * Memory:   in place; what it shows is borrowed.
 */
#ifndef PS_TOOLS_TRAIN_INTERRUPT_H
#define PS_TOOLS_TRAIN_INTERRUPT_H

#include "base/thread.h"
#include "tools/trainer.h"

#include <signal.h>

struct ps_train_interrupt {
    struct ps_thread thread;
    struct ps_trainer_progress *progress;
    sigset_t signals, before;
    int number; /* of the signal that came; its thread until fini, then the caller's */
};

PS_MUST_USE enum ps_status ps_train_interrupt_init(struct ps_train_interrupt *interrupt,
                                                   struct ps_trainer_progress *progress,
                                                   struct ps_error *error);

/* Returns the number of the signal that came; 0: none. */
int ps_train_interrupt_fini(struct ps_train_interrupt *interrupt);

#endif
