/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the two processes and passes orders on. gRPC's C core starts threads and is not safe to
 * fork afterwards. Both processes are therefore forked before psbench itself uses gRPC, and each
 * initialises it on its own side. The parent only passes orders on and gets figures back, so that
 * nothing of its own runs while they measure. */
#include "tools/psbench/psbench_echo.h"

#include "base/assert.h"
#include "tools/psbench/psbench_echo_process.h"
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The task of a child, with its end of the socket. */
struct child {
    bool serves; /* otherwise it asks the server at `port` */
    int port;
    size_t size_max;
    struct ps_busy_poll_wish busy_poll;
    const struct ps_bench_tls *tls; /* NULL: plaintext */
};

static bool start(const struct child *child, pid_t *process, int *ours);
static enum ps_status no_process(struct ps_error *error);

/* The server chooses a free port and tells it over a socket; only then the client can be started. A
 * failure of either process ends both: half of a reference is none. */
enum ps_status ps_bench_echo_open(struct ps_bench_echo *echo, size_t size_max,
                                  struct ps_busy_poll_wish busy_poll,
                                  const struct ps_bench_tls *tls, struct ps_error *error)
{
    struct child child = {.serves = true, .size_max = size_max, .busy_poll = busy_poll, .tls = tls};
    int told = -1;
    *echo = (struct ps_bench_echo){.orders = -1};
    bool started = start(&child, &echo->server, &told);
    if (started) {
        ps_bench_peer_tune(told, false);
        started = ps_bench_peer_read(told, &child.port, sizeof child.port);
    }
    /* The server closes its end, too; it serves until it is killed. */
    if (told >= 0)
        (void)close(told);
    child.serves = false;
    if (started && start(&child, &echo->client, &echo->orders))
        return PS_OK;
    enum ps_status status = no_process(error);
    ps_bench_echo_close(echo);
    return status;
}

/* Forks, with a socket between parent and child, and keeps the parent's end. The child dies with
 * the thread that forked it: a benchmark that crashes leaves no process behind. The parent's end is
 * kept open even where it is not read: its end is how a child learns that the parent has gone. */
static bool start(const struct child *child, pid_t *process, int *ours)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    *process = fork();
    if (*process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[0]);
        if (child->serves)
            ps_bench_echo_serve(ends[1], child->size_max, child->busy_poll, child->tls);
        else
            ps_bench_echo_ask(ends[1], child->port, child->size_max, child->busy_poll, child->tls);
        _exit(0);
    }
    (void)close(ends[1]);
    *ours = ends[0];
    return *process > 0;
}

/* The message says what the process was for, since any of several calls may have failed. */
static enum ps_status no_process(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_IO, "no bare gRPC to compare with: %s", strerror(errno));
}

/* The client goes first, so that it does not see its server vanish. */
void ps_bench_echo_close(struct ps_bench_echo *echo)
{
    if (echo->server == 0)
        return;
    ps_bench_process_end(&echo->client);
    ps_bench_process_end(&echo->server);
    if (echo->orders >= 0)
        (void)close(echo->orders);
    *echo = (struct ps_bench_echo){0};
}

/* The client answers an order when its time is over, so the wait for it is that time and half a
 * minute more. A message has to have room for the size of the answer that it asks for. */
enum ps_status ps_bench_echo_run(struct ps_bench_echo *echo, size_t request, size_t reply,
                                 uint64_t outstanding, uint64_t time_ms,
                                 struct ps_bench_figures *figures, struct ps_error *error)
{
    const struct ps_bench_echo_order order = {
        request > sizeof order.reply ? request : sizeof order.reply, reply, outstanding, time_ms};
    const struct timeval wait = {.tv_sec = (time_t)(time_ms / 1000 + PS_BENCH_PEER_WAIT_MS / 1000)};
    PS_ASSERT(outstanding <= PS_BENCH_ECHO_CALLS_MAX);
    (void)setsockopt(echo->orders, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    if (ps_bench_peer_write(echo->orders, &order, sizeof order) &&
        ps_bench_peer_read(echo->orders, figures, sizeof *figures))
        return PS_OK;
    return ps_fail(error, PS_ERR_IO, "the bare gRPC to compare with broke or stalled");
}
