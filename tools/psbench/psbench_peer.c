/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring side of raw sockets; psbench_peer_process.c is the other. The raw socket is the
 * strictest reference: no framing, no allocation, no threads, the kernel alone. One operation at a
 * time uses blocking calls, which are the fastest way for it; several in flight use poll on one
 * connection, since two processes that both only send would wait for each other for ever. */
#include "tools/psbench/psbench_peer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* As many as the options allow. */
#define OUTSTANDING_MAX 256

/* One connection while it is measured. `starts_ns` is a ring: answers come in the order of the
 * requests on one connection. */
struct exchange {
    int socket;
    const struct ps_bench_peer *peer;
    size_t request, reply;
    uint64_t outstanding;
    uint64_t started_ns, until_ns;
    uint64_t sent, answered;             /* whole messages */
    size_t sent_part, answered_part;     /* bytes of the next one */
    uint64_t starts_ns[OUTSTANDING_MAX]; /* by message number */
    struct ps_bench_times times;
};

static enum ps_status listen_on(struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                struct ps_error *error);
static enum ps_status connect_to(const struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                 const struct ps_bench_peer_order *order, int *out,
                                 struct ps_error *error);
static bool one_at_a_time(struct exchange *exchange);
static bool many_at_a_time(struct exchange *exchange);
static bool send_some(struct exchange *exchange);
static bool receive_some(struct exchange *exchange);
static enum ps_status broken(struct ps_error *error);

/* Forks before any thread exists. The buffer is written in both processes afterwards, so that
 * neither pays for copying pages while it is measured. */
enum ps_status ps_bench_peer_open(struct ps_bench_peer *peer, size_t size_max,
                                  struct ps_error *error)
{
    *peer = (struct ps_bench_peer){.listeners = {-1, -1}, .buffer_size = size_max};
    peer->buffer = ps_plain(ps_allocator_heap(), size_max);
    if (peer->buffer == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes", size_max);
    enum ps_status status = listen_on(peer, PS_BENCH_TCP, error);
    if (status == PS_OK)
        status = listen_on(peer, PS_BENCH_UNIX, error);
    if (status == PS_OK) {
        /* The only fork here; the child has the listeners, the parent their addresses. */
        peer->pid = fork();
        /* Both sides get pages of their own now, not while they are measured. */
        memset(peer->buffer, 0x5a, size_max);
        if (peer->pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            ps_bench_peer_serve(peer->listeners, peer->buffer, peer->buffer_size);
            _exit(0);
        }
        if (peer->pid < 0)
            status = ps_fail(error, PS_ERR_NO_MEMORY, "no second process: %s", strerror(errno));
    }
    if (status != PS_OK)
        ps_bench_peer_close(peer);
    return status;
}

/* A unix socket bound without a name gets one from the kernel that is no file and needs no cleaning
 * up. The backlog is small, since psbench connects once at a time. */
static enum ps_status listen_on(struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                struct ps_error *error)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un unnamed = {.sun_family = AF_UNIX}; /* the kernel chooses a name */
    bool tcp = kind == PS_BENCH_TCP;
    const struct sockaddr *wish = tcp ? (struct sockaddr *)&loopback : (struct sockaddr *)&unnamed;
    socklen_t size = tcp ? (socklen_t)sizeof loopback : (socklen_t)sizeof unnamed.sun_family;
    int listener = socket(wish->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    peer->listeners[kind] = listener;
    peer->address_sizes[kind] = sizeof peer->addresses[kind];
    if (listener < 0 || bind(listener, wish, size) != 0 || listen(listener, 4) != 0 ||
        getsockname(listener, (struct sockaddr *)&peer->addresses[kind],
                    &peer->address_sizes[kind]) != 0)
        return ps_fail(error, PS_ERR_IO, "no socket to compare with: %s", strerror(errno));
    return PS_OK;
}

/* Killing is enough: the second process owns nothing but sockets. */
void ps_bench_peer_close(struct ps_bench_peer *peer)
{
    if (peer->buffer == NULL)
        return;
    ps_bench_process_end(&peer->pid);
    for (int kind = 0; kind < PS_BENCH_SOCKET_COUNT; kind++) {
        if (peer->listeners[kind] >= 0)
            (void)close(peer->listeners[kind]);
    }
    ps_release(ps_allocator_heap(), peer->buffer);
    *peer = (struct ps_bench_peer){0};
}

/* A new connection for each run, told first what to expect; it is set up outside of the time. A
 * failure still fills the figures; the status says that they mean nothing. */
enum ps_status ps_bench_peer_echo(struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                  size_t request, size_t reply, uint64_t outstanding,
                                  uint64_t time_ms, struct ps_bench_figures *figures,
                                  struct ps_error *error)
{
    const struct ps_bench_peer_order order = {.request = request, .reply = reply};
    /* The record of times is too large for a stack. */
    struct exchange *exchange = ps_zeroed(ps_allocator_heap(), sizeof *exchange);
    if (exchange == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for times");
    *exchange = (struct exchange){
        .peer = peer, .request = request, .reply = reply, .outstanding = outstanding};
    enum ps_status status = connect_to(peer, kind, &order, &exchange->socket, error);
    if (status == PS_OK) {
        exchange->started_ns = ps_clock_precise_ns();
        exchange->until_ns = exchange->started_ns + time_ms * 1000000;
        bool whole = outstanding == 1 ? one_at_a_time(exchange) : many_at_a_time(exchange);
        uint64_t elapsed_ns = ps_clock_precise_ns() - exchange->started_ns;
        (void)close(exchange->socket);
        status = whole ? PS_OK : broken(error);
        *figures = ps_bench_figures_of(exchange->answered, elapsed_ns, &exchange->times);
    }
    ps_release(ps_allocator_heap(), exchange);
    return status;
}

/* No poll between: the fastest that there is. The end of one operation is the start of the next, so
 * a single reading of the clock serves both. The answer of one operation is read whole before the
 * next begins, which is what latency means. */
static bool one_at_a_time(struct exchange *exchange)
{
    uint64_t start_ns = exchange->started_ns;
    do {
        if (!ps_bench_peer_write(exchange->socket, exchange->peer->buffer, exchange->request) ||
            !ps_bench_peer_read(exchange->socket, exchange->peer->buffer, exchange->reply))
            return false;
        uint64_t now_ns = ps_clock_precise_ns();
        ps_bench_times_note(&exchange->times, now_ns - start_ns);
        exchange->answered++;
        start_ns = now_ns;
    } while (start_ns < exchange->until_ns || exchange->answered < PS_BENCH_REFERENCE_COUNT_MIN);
    return true;
}

/* Sends while there is room and receives while there is something, so that neither side ever waits
 * for the other to read. When the time is over nothing new is sent, and what is under way is still
 * received. A stall of half a minute is a failure: nothing on one machine takes so long. Receiving
 * comes before sending: it empties the socket's buffers, which keeps the other process from being
 * stopped by ours. */
static bool many_at_a_time(struct exchange *exchange)
{
    for (;;) {
        bool over = ps_clock_precise_ns() >= exchange->until_ns &&
                    exchange->sent >= PS_BENCH_REFERENCE_COUNT_MIN;
        bool room = exchange->sent - exchange->answered < exchange->outstanding;
        /* A message that was begun has to be finished, also when the time is over. */
        bool sending = exchange->sent_part > 0 || (room && !over);
        if (!sending && exchange->sent == exchange->answered)
            return true;
        /* Readable even where nothing is to be sent any more. */
        struct pollfd ready = {exchange->socket, (short)(POLLIN | (sending ? POLLOUT : 0)), 0};
        if (poll(&ready, 1, PS_BENCH_PEER_WAIT_MS) != 1)
            return false;
        /* A broken connection is found by reading from it. */
        if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !receive_some(exchange))
            return false;
        if ((ready.revents & POLLOUT) != 0 && !send_some(exchange))
            return false;
    }
}

/* A message's clock starts with its first byte. Without waiting: what does not fit into the
 * socket's buffer is sent when poll says so. */
static bool send_some(struct exchange *exchange)
{
    if (exchange->sent_part == 0)
        exchange->starts_ns[exchange->sent % OUTSTANDING_MAX] = ps_clock_precise_ns();
    ssize_t put = send(exchange->socket, exchange->peer->buffer + exchange->sent_part,
                       exchange->request - exchange->sent_part, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0)
        return errno == EAGAIN || errno == EINTR;
    exchange->sent_part += (size_t)put;
    if (exchange->sent_part == exchange->request) {
        exchange->sent++;
        exchange->sent_part = 0;
    }
    return true;
}

/* Any part of an answer counts toward its message; the time is taken with the last byte. Bytes of
 * two answers are never taken in one call, since only the remaining part of one is asked for:
 * simple, and the kernel has the others ready. */
static bool receive_some(struct exchange *exchange)
{
    ssize_t got = recv(exchange->socket, exchange->peer->buffer + exchange->answered_part,
                       exchange->reply - exchange->answered_part, MSG_DONTWAIT);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    exchange->answered_part += (size_t)got;
    if (exchange->answered_part < exchange->reply)
        return true;
    uint64_t start_ns = exchange->starts_ns[exchange->answered % OUTSTANDING_MAX];
    ps_bench_times_note(&exchange->times, ps_clock_precise_ns() - start_ns);
    exchange->answered++;
    exchange->answered_part = 0;
    return true;
}

/* The last byte has to be read by the other process before the clock stops, or the figure would be
 * that of filling a buffer; a single byte back says so. */
enum ps_status ps_bench_peer_stream(struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                    size_t size, uint64_t time_ms, struct ps_bench_figures *figures,
                                    struct ps_error *error)
{
    /* The other side reads and gives nothing back but one byte at the end. */
    const struct ps_bench_peer_order order = {.request = size, .reply = 0};
    int connection = -1;
    PS_TRY(connect_to(peer, kind, &order, &connection, error));
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t until_ns = started_ns + time_ms * 1000000;
    uint64_t count = 0;
    bool whole = true;
    do {
        whole = ps_bench_peer_write(connection, peer->buffer, size);
        count++;
    } while (whole && (count < PS_BENCH_REFERENCE_COUNT_MIN || ps_clock_precise_ns() < until_ns));
    uint8_t read_all = 0;
    whole = whole && shutdown(connection, SHUT_WR) == 0 &&
            ps_bench_peer_read(connection, &read_all, 1) && read_all == 1;
    *figures = ps_bench_figures_of(count, ps_clock_precise_ns() - started_ns, NULL);
    (void)close(connection);
    return whole ? PS_OK : broken(error);
}

/* The order goes first on every connection: how much comes and how much is to be sent back. Both
 * ends are tuned alike, and each has a timeout, so that a stall ends the run with a message. */
static enum ps_status connect_to(const struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                 const struct ps_bench_peer_order *order, int *out,
                                 struct ps_error *error)
{
    const struct sockaddr *address = (const struct sockaddr *)&peer->addresses[kind];
    int connection = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || connect(connection, address, peer->address_sizes[kind]) != 0) {
        (void)ps_fail(error, PS_ERR_IO, "cannot reach the second process: %s", strerror(errno));
        if (connection >= 0)
            (void)close(connection);
        return PS_ERR_IO;
    }
    ps_bench_peer_tune(connection, kind == PS_BENCH_TCP);
    if (!ps_bench_peer_write(connection, order, sizeof *order)) {
        (void)close(connection);
        return broken(error);
    }
    *out = connection;
    return PS_OK;
}

/* The other process may have been killed for memory; the kernel's log says so, we cannot. */
static enum ps_status broken(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_IO, "the connection to the second process broke or stalled");
}
