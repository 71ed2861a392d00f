/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages and answers them: the other end of every raw socket that psbench measures. Serves
 * one connection after the other, because psbench measures one thing at a time. The process keeps
 * no state between connections and never ends by itself. */
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve_one(int connection, uint8_t *buffer, size_t buffer_size);

/* The two listeners are TCP and unix, in this order. An accept that fails concerns a connection
 * that is gone already. */
void ps_bench_peer_serve(const int listeners[2], uint8_t *buffer, size_t buffer_size)
{
    for (;;) {
        struct pollfd waiting[2] = {{listeners[0], POLLIN, 0}, {listeners[1], POLLIN, 0}};
        /* Listeners do not fail; if they do, the process ends and the other side says that the
         * connection broke. */
        if (poll(waiting, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++) {
            if ((waiting[i].revents & POLLIN) == 0)
                continue;
            int connection = accept(listeners[i], NULL, NULL);
            if (connection < 0)
                continue;
            ps_bench_peer_tune(connection, i == 0);
            serve_one(connection, buffer, buffer_size);
            (void)close(connection);
        }
    }
}

/* A connection that asks for more than the buffer holds is closed, which the other side reports as
 * broken. Whole messages are read, of the size that was agreed; nobody looks at their bytes. */
static void serve_one(int connection, uint8_t *buffer, size_t buffer_size)
{
    struct ps_bench_peer_order order;
    if (!ps_bench_peer_read(connection, &order, sizeof order) || order.request > buffer_size ||
        order.reply > buffer_size)
        return;
    while (ps_bench_peer_read(connection, buffer, order.request)) {
        if (order.reply > 0 && !ps_bench_peer_write(connection, buffer, order.reply))
            return;
    }
    /* The end of a stream: everything before the other side's shutdown was read. */
    const uint8_t read_all = 1;
    if (order.reply == 0)
        (void)ps_bench_peer_write(connection, &read_all, sizeof read_all);
}

/* Without TCP_NODELAY a small answer would wait for the acknowledgement of the one before (Nagle),
 * which no server of ours does. Timeouts on both directions make every read and write end, so that
 * neither process can wait for a dead one. */
void ps_bench_peer_tune(int connection, bool tcp)
{
    const int on = 1;
    const struct timeval wait = {.tv_sec = PS_BENCH_PEER_WAIT_MS / 1000};
    if (tcp)
        (void)setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

/* SIGKILL cannot be held back, so the wait is short. */
void ps_bench_process_end(pid_t *process)
{
    if (*process <= 0)
        return;
    (void)kill(*process, SIGKILL);
    while (waitpid(*process, NULL, 0) < 0 && errno == EINTR)
        continue;
    *process = 0;
}

/* MSG_NOSIGNAL: a peer that has gone is an error to be told, not a signal. Returns only when all
 * bytes are in the kernel's hands, or false. */
bool ps_bench_peer_write(int connection, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t put = send(connection, bytes, size, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes += put;
        size -= (size_t)put;
    }
    return true;
}

/* The end of the connection within a message is a failure, too. */
bool ps_bench_peer_read(int connection, void *data, size_t size)
{
    uint8_t *bytes = data;
    while (size > 0) {
        ssize_t got = recv(connection, bytes, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        size -= (size_t)got;
    }
    return true;
}
