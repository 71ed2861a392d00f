/* SPDX-License-Identifier: Apache-2.0 */
/* What a process with a server in it does from its start to its end. All that a signal does is done
 * here, in a thread that waits for it (sigwaitinfo): no code of ours runs in a handler. */
#include "server/process.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/attributes.h"
#include "server/address.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

/* Signals that come this close together are one request to stop. */
#define SAME_REQUEST_MS 1000

/* Longest that a server whose device has failed tries to give its shard back. */
#define BROKEN_MS 1500

/* Longest that a start waits for addresses which another process has, and between two looks. */
#define PREDECESSOR_MS 10000
#define PREDECESSOR_LOOK_MS 50

static void block_signals(sigset_t *signals);
static bool wait_for_addresses(const struct ps_process *process);
static bool is_end(int number);
static void end_broken(struct ps_process *process, int number);
static int next_signal(const sigset_t *signals, uint64_t timeout_ms);

/* Signals are blocked before the first thread is started, so that all threads inherit that and only
 * one takes them. */
void ps_process_begin(struct ps_process *process, const struct ps_pserver_options *options)
{
    struct ps_error error = {0};
    /* Freed message buffers stay in the process: giving each back to the kernel costs a 1 MiB
     * message more than half its speed (docs/performance-calls.md). */
    if (options->tune_malloc)
        ps_allocator_keep_freed();
    /* The gRPC library writes lines of its own to standard error, which no log parser knows. */
    (void)setenv("GRPC_VERBOSITY", "NONE", 0);
    *process = (struct ps_process){.options = options,
                                   .log = {.clock = ps_clock_real(),
                                           .descriptor = STDERR_FILENO,
                                           .level = options->log_level,
                                           .format = options->log_format}};
    block_signals(&process->signals);
    /* A misspelt variable is no reason to refuse: other software uses the same prefix. */
    for (char **variable = environ; *variable != NULL; variable++)
        if (ps_options_misspelt(ps_pserver_option_set(), *variable, &error))
            PS_LOG(&process->log, PS_LOG_WARN, "server", "a variable is ignored",
                   PS_FIELD_TEXT("reason", error.text));
}

/* PS_ERR_CANCELLED is no failure: somebody has asked for the end before there was anything. */
enum ps_status ps_process_start(struct ps_process *process, const struct ps_preparation *prepare,
                                struct ps_error *error)
{
    PS_ASSERT(process->instance == NULL);
    if (!wait_for_addresses(process))
        return ps_fail(error, PS_ERR_CANCELLED, "asked to end while an address was in use");
    enum ps_status status =
        ps_instance_create(process->options, &process->log, prepare, &process->instance, error);
    if (status != PS_OK)
        PS_LOG(&process->log, PS_LOG_ERROR, "server", "start failed", PS_FIELD_ERROR(error));
    return status;
}

/* From any thread: what it tells is told through locks and atomics. */
void ps_process_stop(struct ps_process *process)
{
    PS_ASSERT(process->instance != NULL);
    /* Without the delay that a signal has: whoever calls this has waited for what it wants to.
     */
    ps_instance_announce_stop(process->instance);
    ps_instance_stop(process->instance);
    /* A signal that comes behind it is a second request. */
    process->is_stopping = true;
}

/* A server that is started right behind a kill -9 often comes while its predecessor, which may have
 * gigabytes to give back, still holds the addresses. false: asked to end meanwhile. An address that
 * stays taken is told by whoever listens on it. */
static bool wait_for_addresses(const struct ps_process *process)
{
    const struct ps_pserver_options *options = process->options;
    PS_ASSERT(options->listen != NULL);
    /* A socket of this host is taken over by itself. */
    const char *const addresses[] = {options->listen, options->http};
    uint64_t waited_ms = 0;
    for (size_t i = 0; i < PS_ARRAY_COUNT(addresses); i++) {
        while (addresses[i] != NULL && waited_ms < PREDECESSOR_MS &&
               ps_address_is_taken(addresses[i])) {
            if (waited_ms == 0)
                PS_LOG(&process->log, PS_LOG_WARN, "server",
                       "waiting for an address that is in use",
                       PS_FIELD_TEXT("address", addresses[i]));
            waited_ms += PREDECESSOR_LOOK_MS;
            if (next_signal(&process->signals, PREDECESSOR_LOOK_MS) != 0)
                return false;
        }
    }
    return true;
}

/* Every thread inherits the mask, so that signals are only ever taken by wait_for_end. A write to a
 * connection that is gone is an error of that write, and not the end of the server. */
static void block_signals(sigset_t *signals)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of that write */
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)sigaddset(signals, PS_INSTANCE_ENDED_SIGNAL);
    (void)sigaddset(signals, PS_INSTANCE_BROKEN_SIGNAL);
    (void)pthread_sigmask(SIG_BLOCK, signals, NULL);
}

/* The first SIGTERM or SIGINT ends the server cleanly, a later one at once. Between the first
 * signal and the stop a server may go on serving for a while (--drain-delay), until load balancers
 * have seen that it goes. A second request ends it at once, with the shell's exit status for that
 * signal. */
int ps_process_wait(struct ps_process *process)
{
    struct ps_instance *instance = process->instance;
    const sigset_t *signals = &process->signals;
    PS_ASSERT(instance != NULL);
    int number = next_signal(signals, PS_DEADLINE_NEVER);
    if (!is_end(number) && !process->is_stopping) {
        ps_instance_announce_stop(instance);
        number = next_signal(signals, process->options->drain_delay_ms);
        ps_instance_stop(instance);
    }
    /* Supervisors often signal a process and its group: that is one request, not two. */
    if (!is_end(number))
        number = next_signal(signals, SAME_REQUEST_MS);
    if (!is_end(number))
        number = next_signal(signals, PS_DEADLINE_NEVER);
    /* The shell's exit status for that signal. */
    process->is_forced = !is_end(number);
    if (process->is_forced)
        return 128 + number;
    /* The instance has set the outcome before it sent the signal. */
    int code = ps_instance_exit_code(instance);
    if (code == EX_SOFTWARE) {
        end_broken(process, number);
        process->is_forced = true;
    }
    return code;
}

/* Threads that wait for a dead device may never come back, and whoever asked twice does not want to
 * wait for anything. */
void ps_process_end(struct ps_process *process)
{
    if (!process->is_forced)
        ps_instance_destroy(process->instance);
    process->instance = NULL;
}

/* Sent by the instance itself. */
static bool is_end(int number)
{
    return number == PS_INSTANCE_ENDED_SIGNAL || number == PS_INSTANCE_BROKEN_SIGNAL;
}

/* The shard is being given back; a store that does not answer is not waited for. The note is what a
 * later start looks at; it is written while the shard is given back. */
static void end_broken(struct ps_process *process, int number)
{
    ps_instance_note_death(process->instance);
    if (number == PS_INSTANCE_BROKEN_SIGNAL)
        (void)next_signal(&process->signals, BROKEN_MS);
}

/* The next signal; 0 when none came within the time. EINTR is a signal that nobody waits for, such
 * as one of a debugger. */
static int next_signal(const sigset_t *signals, uint64_t timeout_ms)
{
    PS_ASSERT(signals != NULL);
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                                     .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    for (;;) {
        int number = timeout_ms == PS_DEADLINE_NEVER ? sigwaitinfo(signals, NULL)
                                                     : sigtimedwait(signals, NULL, &timeout);
        if (number > 0)
            return number;
        if (errno == EAGAIN)
            return 0;
    }
}
