/* SPDX-License-Identifier: Apache-2.0 */
/* Signals are waited for in a thread: a handler could not print, and would need globals. All
 * threads have the signals blocked (they inherit the mask, which is why init comes before any other
 * thread), and one waits for them. The first signal asks for an orderly end: every worker finishes
 * its step, so that no push is left whose fate nobody knows. The second is taken at its word. */
#include "tools/train_interrupt.h"

#include "tools/train_report.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Sent to the thread when there is nothing left to wait for. */
#define ENOUGH_SIGNAL SIGUSR1

static void interrupt_main(void *argument);
static void print_stand(const struct ps_train_interrupt *interrupt);

/* The mask is restored when the thread cannot be started: without it, Ctrl-C would do nothing at
 * all. */
enum ps_status ps_train_interrupt_init(struct ps_train_interrupt *interrupt,
                                       struct ps_trainer_progress *progress, struct ps_error *error)
{
    *interrupt = (struct ps_train_interrupt){.progress = progress};
    (void)sigemptyset(&interrupt->signals);
    (void)sigaddset(&interrupt->signals, SIGINT);
    (void)sigaddset(&interrupt->signals, SIGTERM);
    (void)sigaddset(&interrupt->signals, ENOUGH_SIGNAL);
    (void)pthread_sigmask(SIG_BLOCK, &interrupt->signals, &interrupt->before);
    enum ps_status status =
        ps_thread_start(&interrupt->thread, "interrupt", interrupt_main, interrupt, error);
    if (status != PS_OK)
        (void)pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    return status;
}

/* The thread is woken by a signal of its own, since it waits in sigwaitinfo; afterwards `number`
 * belongs to the caller. */
int ps_train_interrupt_fini(struct ps_train_interrupt *interrupt)
{
    (void)pthread_kill(interrupt->thread.thread, ENOUGH_SIGNAL);
    ps_thread_join(&interrupt->thread);
    (void)pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    return interrupt->number;
}

/* _exit and not exit for the second signal: other threads are in the middle of calls. A return of 0
 * or less is an interrupted wait. */
static void interrupt_main(void *argument)
{
    struct ps_train_interrupt *interrupt = argument;
    for (;;) {
        int number = sigwaitinfo(&interrupt->signals, NULL);
        if (number == ENOUGH_SIGNAL)
            return;
        if (number <= 0)
            continue;
        if (interrupt->number != 0)
            _exit(128 + number);
        interrupt->number = number;
        print_stand(interrupt);
        atomic_store(&interrupt->progress->stop, true);
    }
}

/* The line begins with a newline, because the progress line stands there without one. */
static void print_stand(const struct ps_train_interrupt *interrupt)
{
    struct ps_trainer_progress *progress = interrupt->progress;
    (void)fprintf(stderr,
                  "\npstrain: interrupted at %.0f %%: %llu examples in %llu pushes (%llu lost), "
                  "loss %.4f. It ends after the steps under way; once more: at once\n",
                  ps_train_share(progress) * 100, atomic_load(&progress->examples),
                  atomic_load(&progress->pushes), atomic_load(&progress->lost_pushes),
                  (double)atomic_load(&progress->loss_millionths) / 1e6);
}
