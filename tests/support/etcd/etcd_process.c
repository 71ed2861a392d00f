/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, stops and disturbs an etcd. It tells that it is ready through the socket that systemd
 * would listen on, so nobody has to ask again and again. */
#include "tests/support/etcd/etcd_process.h"

#include "base/random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 120000
#define PORT_FIRST 20000
#define PORT_COUNT 12000
#define TRIES_MAX 5

static void need(bool fine, const char *what)
{
    if (fine)
        return;
    (void)fprintf(stderr, "etcd_process: %s: %s\n", what, strerror(errno));
    abort();
}

static const char *program(void)
{
    const char *chosen = getenv("PSERVER_TEST_ETCD");
    return chosen != NULL && chosen[0] != '\0' ? chosen : "etcd";
}

bool etcd_process_available(void)
{
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(nowhere, 1);
        (void)dup2(nowhere, 2);
        execlp(program(), program(), "--version", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    need(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool port_is_free(uint16_t port)
{
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(descriptor >= 0, "socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool bound = bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(descriptor);
    return bound;
}

uint16_t free_port(void)
{
    for (;;) {
        uint16_t number = 0;
        ps_random_system(&number, sizeof number);
        uint16_t port = (uint16_t)(PORT_FIRST + number % PORT_COUNT);
        if (port_is_free(port))
            return port;
    }
}

static int open_ready_socket(const struct etcd_process *process, struct sockaddr_un *address)
{
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    need(descriptor >= 0, "socket");
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)temp_folder_path(&process->folder, "ready", address->sun_path, sizeof address->sun_path);
    (void)unlink(address->sun_path);
    need(bind(descriptor, (struct sockaddr *)address, sizeof *address) == 0, "bind");
    return descriptor;
}

/* In the child: becomes etcd. */
static void become_etcd(const struct etcd_process *process, const char *ready_path)
{
    char data[600];
    char log[600];
    char peer[64];
    char cluster[80];
    (void)temp_folder_path(&process->folder, "data", data, sizeof data);
    (void)temp_folder_path(&process->folder, "etcd.log", log, sizeof log);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%u", process->peer_port);
    (void)snprintf(cluster, sizeof cluster, "default=%s", peer);
    const char *arguments[32] = {program(),    "--data-dir",
                                 data,         "--listen-client-urls",
                                 process->url, "--advertise-client-urls",
                                 process->url, "--listen-peer-urls",
                                 peer,         "--initial-advertise-peer-urls",
                                 peer,         "--heartbeat-interval",
                                 "20",         "--election-timeout",
                                 "200",        "--initial-cluster",
                                 cluster};
    size_t count = 17;
    for (size_t i = 0; process->extra[i] != NULL; i++)
        arguments[count++] = process->extra[i];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    (void)dup2(file, 1);
    (void)dup2(file, 2);
    (void)setenv("NOTIFY_SOCKET", ready_path, 1);
    (void)execvp(arguments[0], (char *const *)arguments);
    _exit(127);
}

/* Whether it became ready; false when it ended first, for a port that was taken meanwhile. */
static bool wait_ready(pid_t pid, int ready)
{
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    need(process >= 0, "pidfd_open");
    struct pollfd either[] = {{ready, POLLIN, 0}, {process, POLLIN, 0}};
    int count = poll(either, 2, READY_MS);
    (void)close(process);
    need(count > 0, "etcd is not ready in time");
    return (either[0].revents & POLLIN) != 0;
}

static bool try_start(struct etcd_process *process)
{
    struct sockaddr_un address;
    int ready = open_ready_socket(process, &address);
    process->starts++;
    pid_t pid = fork();
    need(pid >= 0, "fork");
    if (pid == 0)
        become_etcd(process, address.sun_path);
    bool started = wait_ready(pid, ready);
    (void)close(ready);
    process->pid = pid;
    if (!started)
        etcd_process_kill(process);
    return started;
}

void etcd_process_start(struct etcd_process *process, const char *const *extra)
{
    memset(process, 0, sizeof *process);
    for (size_t i = 0; extra != NULL && extra[i] != NULL; i++)
        process->extra[i] = extra[i];
    temp_folder_init(&process->folder);
    for (int i = 0; i < TRIES_MAX; i++) {
        process->client_port = free_port();
        process->peer_port = free_port();
        (void)snprintf(process->url, sizeof process->url, "http://127.0.0.1:%u",
                       process->client_port);
        if (try_start(process))
            return;
    }
    need(false, "etcd does not start");
}

void etcd_process_restart(struct etcd_process *process)
{
    if (process->pid != 0)
        etcd_process_kill(process);
    need(try_start(process), "etcd does not start again");
}

void etcd_process_kill(struct etcd_process *process)
{
    if (process->pid == 0)
        return;
    (void)kill(process->pid, SIGKILL);
    (void)waitpid(process->pid, NULL, 0);
    process->pid = 0;
}

void etcd_process_freeze(struct etcd_process *process)
{
    need(kill(process->pid, SIGSTOP) == 0, "SIGSTOP");
    /* Its threads stop one by one; each may answer until then. */
    need(waitpid(process->pid, NULL, WUNTRACED) == process->pid, "waitpid");
}

void etcd_process_thaw(struct etcd_process *process)
{
    need(kill(process->pid, SIGCONT) == 0, "SIGCONT");
}

void etcd_process_fini(struct etcd_process *process)
{
    if (process->url[0] == '\0')
        return;
    etcd_process_kill(process);
    temp_folder_fini(&process->folder);
    memset(process, 0, sizeof *process);
}

int etcd_process_ctl(const struct etcd_process *process, const char *const *arguments)
{
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        const char *all[32] = {"etcdctl", "--endpoints", process->url};
        for (size_t i = 0; i < 28 && arguments[i] != NULL; i++)
            all[3 + i] = arguments[i];
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(nowhere, 1);
        (void)setenv("ETCDCTL_API", "3", 1);
        (void)execvp(all[0], (char *const *)all);
        _exit(127);
    }
    int status = 0;
    need(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
