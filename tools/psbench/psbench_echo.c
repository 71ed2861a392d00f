/* Starts the two processes and passes orders on. */
#include "tools/psbench/psbench_echo.h"

#include "base/assert.h"
#include "tools/psbench/psbench_echo_process.h"
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static enum ps_status start_server(struct ps_bench_echo *echo, size_t size_max,
                                   struct ps_busy_poll_wish busy_poll, int *port,
                                   struct ps_error *error);
static enum ps_status start_client(struct ps_bench_echo *echo, size_t size_max,
                                   struct ps_busy_poll_wish busy_poll, int port,
                                   struct ps_error *error);
static enum ps_status no_process(struct ps_error *error);
static void end_process(pid_t *process);

enum ps_status ps_bench_echo_open(struct ps_bench_echo *echo, size_t size_max,
                                  struct ps_busy_poll_wish busy_poll, struct ps_error *error)
{
    int port = 0;
    *echo = (struct ps_bench_echo){.orders = -1};
    enum ps_status status = start_server(echo, size_max, busy_poll, &port, error);
    if (status == PS_OK)
        status = start_client(echo, size_max, busy_poll, port, error);
    if (status != PS_OK)
        ps_bench_echo_close(echo);
    return status;
}

static enum ps_status start_server(struct ps_bench_echo *echo, size_t size_max,
                                   struct ps_busy_poll_wish busy_poll, int *port,
                                   struct ps_error *error)
{
    int told[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, told) != 0)
        return no_process(error);
    echo->server = fork();
    if (echo->server == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(told[0]);
        ps_bench_echo_serve(told[1], size_max, busy_poll);
        _exit(0);
    }
    (void)close(told[1]);
    ps_bench_peer_tune(told[0], false);
    bool listens = echo->server > 0 && ps_bench_peer_read(told[0], port, sizeof *port);
    (void)close(told[0]);
    return listens ? PS_OK : no_process(error);
}

static enum ps_status start_client(struct ps_bench_echo *echo, size_t size_max,
                                   struct ps_busy_poll_wish busy_poll, int port,
                                   struct ps_error *error)
{
    int orders[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0)
        return no_process(error);
    echo->orders = orders[0];
    echo->client = fork();
    if (echo->client == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(orders[0]);
        ps_bench_echo_ask(orders[1], port, size_max, busy_poll);
        _exit(0);
    }
    (void)close(orders[1]);
    return echo->client > 0 ? PS_OK : no_process(error);
}

static enum ps_status no_process(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_IO, "no bare gRPC to compare with: %s", strerror(errno));
}

void ps_bench_echo_close(struct ps_bench_echo *echo)
{
    if (echo->server == 0)
        return;
    end_process(&echo->client);
    end_process(&echo->server);
    if (echo->orders >= 0)
        (void)close(echo->orders);
    *echo = (struct ps_bench_echo){0};
}

static void end_process(pid_t *process)
{
    if (*process <= 0)
        return;
    (void)kill(*process, SIGKILL);
    while (waitpid(*process, NULL, 0) < 0 && errno == EINTR)
        continue;
    *process = 0;
}

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
