/* SPDX-License-Identifier: Apache-2.0 */
/* The watch over a run: folder, signals, left-over processes. Two processes: the child measures and
 * may crash, run out of memory or be killed, and the parent does nothing but wait and clean up.
 * There is a folder of gigabytes to be removed, and there are servers that would go on for ever.
 * The parent is made the reaper of its grandchildren, so that servers whose parent died become its
 * own. */
#include "tools/psbench/psbench_guard.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define PATH_BYTES 400

static int wait_for_end(pid_t child, const sigset_t *signals);
static void wait_for_orphans(void);
static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *place);

/* Signals are blocked before the fork, so that none is lost between the two; the child unblocks
 * them for itself. */
int ps_bench_guard(const char *parent, int (*measure)(void *context, const char *folder),
                   void *context)
{
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof folder, "%s/psbench-XXXXXX", parent);
    if (length >= PATH_BYTES || mkdtemp(folder) == NULL) {
        (void)fprintf(stderr, "psbench: no folder in %s: %s\n", parent, strerror(errno));
        return EX_CANTCREAT;
    }
    sigset_t signals, before;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    /* Servers whose parent was killed become ours to wait for. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        /* exit, not return: the child must not run the parent's cleaning. */
        exit(measure(context, folder));
    }
    int code = EX_OSERR;
    if (child > 0)
        code = wait_for_end(child, &signals);
    else
        (void)fprintf(stderr, "psbench: no process to measure in: %s\n", strerror(errno));
    wait_for_orphans();
    ps_bench_remove_folder(folder);
    return code;
}

/* Links are not followed: only what the run made is removed. */
void ps_bench_remove_folder(const char *folder)
{
    (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Until the child has ended by itself, or because a signal told us to. A stop is passed on as
 * SIGKILL, since the child has nothing to put in order that the parent does not clean; its servers
 * die with it. */
static int wait_for_end(pid_t child, const sigset_t *signals)
{
    int status = 0;
    int stopped_by = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        int number = sigwaitinfo(signals, NULL);
        if (number <= 0 || number == SIGCHLD)
            continue;
        stopped_by = number;
        (void)kill(child, SIGKILL);
    }
    if (stopped_by != 0)
        return 128 + stopped_by;
    /* As a shell would say it. */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* They were told to die with their parent: this does not take long. A folder that a server still
 * writes to could not be removed. */
static void wait_for_orphans(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}

/* Failures are not told: what could not be removed stays in a temporary folder. */
static int remove_entry(const char *path, const struct stat *facts, int type, struct FTW *place)
{
    (void)facts;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}
