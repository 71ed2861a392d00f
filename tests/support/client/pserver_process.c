/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, killing and stopping a real server. */
#include "tests/support/client/pserver_process.h"

#include "tests/support/temp_folder.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 120000

/* Spawned, not forked: the test has threads, and a fork of a process with threads that a sanitizer
 * watches may stop for ever before the program takes its place. setpriv lets the server die with
 * the test. */
static pid_t spawn_server(int log, const char *program, const char *listen,
                          const char *const *arguments)
{
    const char *all[32] = {"setpriv", "--pdeathsig", "KILL", program, "--listen", listen};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    for (size_t i = 0; arguments[i] != NULL; i++) {
        ck_assert_uint_lt(i, 24);
        all[6 + i] = arguments[i];
    }
    ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO), 0);
    ck_assert_int_eq(
        posix_spawnp(&pid, all[0], &actions, NULL, (char *const *)(uintptr_t)all, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
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
        ck_assert_msg(poll(&readable, 1, READY_MS) == 1, "no word of the server after: %s", text);
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
    process->pid = spawn_server(ends[1], program, listen, arguments);
    close(ends[1]);
    process->log = ends[0];
    read_address(process);
}

void pserver_process_start_alone(struct pserver_process *process, const char *program,
                                 const struct temp_folder *folder, unsigned index)
{
    char data[600], name[16], listen[sizeof process->address] = "127.0.0.1:0";
    const char *const arguments[] = {"--etcd-ttl", "60s", "--data-dir", data, NULL};
    (void)snprintf(name, sizeof name, "s%u", index);
    temp_folder_path(folder, name, data, sizeof data);
    if (process->address[0] != '\0')
        memcpy(listen, process->address, sizeof listen);
    pserver_process_start(process, program, listen, arguments);
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
