/* Starting, killing and stopping a real server. */
#include "tests/support/client/pserver_process.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 30000

static void become_server(int log, const char *program, const char *listen,
                          const char *const *arguments)
{
    const char *all[32] = {program, "--listen", listen};
    for (size_t i = 0; arguments[i] != NULL && i < 28; i++)
        all[3 + i] = arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(log, 2);
    execv(program, (char *const *)(uintptr_t)all);
    _exit(127);
}

/* Reads the log up to the line that says where the server listens. */
static void read_address(struct pserver_process *process)
{
    char text[16384] = "";
    size_t size = 0;
    for (;;) {
        const char *found = strstr(text, "listening address=");
        if (found != NULL && strchr(found, '\n') != NULL) {
            ck_assert_int_eq(sscanf(found, "listening address=%63s", process->address), 1);
            return;
        }
        struct pollfd readable = {process->log, POLLIN, 0};
        ck_assert_int_eq(poll(&readable, 1, READY_MS), 1);
        ssize_t got = read(process->log, text + size, sizeof text - 1 - size);
        ck_assert_msg(got > 0, "the server ended: %s", text);
        size += (size_t)got;
        text[size] = '\0';
    }
}

void pserver_process_start(struct pserver_process *process, const char *program, const char *listen,
                           const char *const *arguments)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    process->pid = fork();
    ck_assert_int_ge(process->pid, 0);
    if (process->pid == 0)
        become_server(ends[1], program, listen, arguments);
    close(ends[1]);
    process->log = ends[0];
    read_address(process);
}

static int end_with(struct pserver_process *process, int signal_number)
{
    int status = 0;
    if (process->pid == 0)
        return 0;
    kill(process->pid, signal_number);
    ck_assert_int_eq(waitpid(process->pid, &status, 0), process->pid);
    close(process->log);
    process->pid = 0;
    return status;
}

void pserver_process_kill(struct pserver_process *process)
{
    end_with(process, SIGKILL);
}

int pserver_process_stop(struct pserver_process *process)
{
    int status = end_with(process, SIGTERM);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
