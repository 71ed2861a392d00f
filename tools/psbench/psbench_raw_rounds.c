/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking reads and writes, a thread for each connection on either side, and a count for the
 * waiting: what somebody would write who needs nothing but the bytes. A worker sends to all servers
 * before it reads from any, as a client with several servers does. */
#include "tools/psbench/psbench_raw_rounds.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* One server process: all of its workers' threads share it. What they wait for is the same as at a
 * server that trains in rounds, so that the difference to one is not in the waiting. */
struct hall {
    struct ps_mutex lock;
    struct ps_condition full;
    uint64_t worker_count;
    uint64_t here;  /* in the present round */
    uint64_t round; /* that all have come to */
    size_t part;
};

struct seat {
    struct hall *hall;
    struct ps_thread thread;
    int connection;
    uint8_t *bytes; /* owned by the process */
};

static enum ps_status start_server(struct ps_bench_raw_rounds *raw, uint64_t server,
                                   struct ps_error *error);
static void serve(int listener, uint64_t worker_count, size_t part);
static void seat_main(void *argument);
static void meet(struct hall *hall);
static enum ps_status connect_all(struct ps_bench_raw_rounds *raw, uint64_t server,
                                  const struct sockaddr_in *address, struct ps_error *error);
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error);

/* A failure leaves what was opened for the caller to close. Every server's process is forked
 * before the next, and connected to at once: its listener holds as many connections as there are
 * workers. */
enum ps_status ps_bench_raw_rounds_open(struct ps_bench_raw_rounds *raw, uint64_t worker_count,
                                        uint64_t server_count, size_t part, struct ps_error *error)
{
    PS_ASSERT(worker_count <= PS_BENCH_TEAM_MAX && server_count <= PS_BENCH_RAW_SERVERS_MAX);
    *raw = (struct ps_bench_raw_rounds){
        .team = {.step = step, .self = raw, .worker_count = worker_count},
        .server_count = server_count,
        .part = part};
    /* No socket yet: 0 would be standard input. */
    memset(raw->sockets, -1, sizeof raw->sockets);
    raw->parts = ps_zeroed_array(ps_allocator_heap(), worker_count, part);
    if (raw->parts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of each worker", part);
    for (uint64_t i = 0; i < server_count; i++)
        PS_TRY(start_server(raw, i, error));
    return PS_OK;
}

/* Accepts one whose opening failed anywhere. Sockets first, so that no process sees its workers
 * vanish one by one. */
void ps_bench_raw_rounds_close(struct ps_bench_raw_rounds *raw)
{
    if (raw->parts == NULL)
        return;
    for (uint64_t worker = 0; worker < raw->team.worker_count; worker++)
        for (uint64_t i = 0; i < raw->server_count; i++)
            if (raw->sockets[worker][i] >= 0)
                (void)close(raw->sockets[worker][i]);
    for (uint64_t i = 0; i < raw->server_count; i++)
        ps_bench_process_end(&raw->processes[i]);
    ps_release(ps_allocator_heap(), raw->parts);
    *raw = (struct ps_bench_raw_rounds){0};
}

/* The child has the listener and takes its workers from there; the parent connects them before the
 * next process is forked, which so has copies of the sockets. They do no harm: a process that is
 * killed is not waited for by its sockets' ends. */
static enum ps_status start_server(struct ps_bench_raw_rounds *raw, uint64_t server,
                                   struct ps_error *error)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, PS_BENCH_TEAM_MAX) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        if (listener >= 0)
            (void)close(listener);
        return ps_fail(error, PS_ERR_IO, "no socket to compare with: %s", strerror(errno));
    }
    raw->processes[server] = fork();
    if (raw->processes[server] == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener, raw->team.worker_count, raw->part);
        _exit(0);
    }
    enum ps_status status = raw->processes[server] > 0
                                ? connect_all(raw, server, &address, error)
                                : ps_fail(error, PS_ERR_NO_MEMORY, "no process to compare with");
    (void)close(listener);
    return status;
}

/* Without a limit of time on its sockets: between two measurements nobody sends anything. */
static void serve(int listener, uint64_t worker_count, size_t part)
{
    struct seat seats[PS_BENCH_TEAM_MAX] = {0};
    struct hall hall = {.worker_count = worker_count, .part = part};
    /* A part may end in a small segment, which must not wait for the acknowledgement before it. */
    const int on = 1;
    ps_mutex_init(&hall.lock, PS_RANK_LEAF);
    ps_condition_init(&hall.full);
    for (uint64_t i = 0; i < worker_count; i++) {
        seats[i].hall = &hall;
        seats[i].bytes = ps_zeroed(ps_allocator_heap(), part);
        seats[i].connection = accept(listener, NULL, NULL);
        if (seats[i].connection < 0 || seats[i].bytes == NULL)
            return;
        (void)setsockopt(seats[i].connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (ps_thread_start(&seats[i].thread, "raw", seat_main, &seats[i], NULL) != PS_OK)
            return;
    }
    /* The threads do everything. Until the process is killed, or all workers have gone. */
    for (uint64_t i = 0; i < worker_count; i++)
        ps_thread_join(&seats[i].thread);
}

/* The same bytes go back that have come, from the memory that they came into: nothing is computed,
 * and nothing copied but by the kernel. The next round's bytes may come while other workers still
 * read those of this one. */
static void seat_main(void *argument)
{
    struct seat *seat = argument;
    struct hall *hall = seat->hall;
    while (ps_bench_peer_read(seat->connection, seat->bytes, hall->part)) {
        meet(hall);
        if (!ps_bench_peer_write(seat->connection, seat->bytes, hall->part))
            return;
    }
}

/* The last to come lets all go on. A worker comes again only when it has its answer, so two rounds
 * are never counted at once. */
static void meet(struct hall *hall)
{
    ps_mutex_lock(&hall->lock);
    uint64_t round = hall->round;
    if (++hall->here == hall->worker_count) {
        hall->here = 0;
        hall->round++;
        ps_condition_signal_all(&hall->full);
    }
    while (hall->round == round)
        (void)ps_condition_wait(&hall->full, &hall->lock, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&hall->lock);
}

/* Once for all repeats: what is measured are rounds, and not connections. The backlog has room for
 * all, so that this does not wait for the process to accept them. */
static enum ps_status connect_all(struct ps_bench_raw_rounds *raw, uint64_t server,
                                  const struct sockaddr_in *address, struct ps_error *error)
{
    for (uint64_t worker = 0; worker < raw->team.worker_count; worker++) {
        int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        raw->sockets[worker][server] = connection;
        if (connection < 0 ||
            connect(connection, (const struct sockaddr *)address, sizeof *address) != 0)
            return ps_fail(error, PS_ERR_IO, "cannot reach the process to compare with: %s",
                           strerror(errno));
        ps_bench_peer_tune(connection, true);
    }
    return PS_OK;
}

/* Each server reads all of a part before it writes, so that sending to all first never waits for
 * somebody who waits for us. */
static enum ps_status step(void *self, uint64_t worker, uint64_t round, struct ps_error *error)
{
    struct ps_bench_raw_rounds *raw = self;
    uint8_t *part = raw->parts + worker * raw->part;
    /* The servers count for themselves: all connections of a round are in the same one. */
    bool whole = true;
    (void)round;
    for (uint64_t i = 0; i < raw->server_count && whole; i++)
        whole = ps_bench_peer_write(raw->sockets[worker][i], part, raw->part);
    for (uint64_t i = 0; i < raw->server_count && whole; i++)
        whole = ps_bench_peer_read(raw->sockets[worker][i], part, raw->part);
    return whole ? PS_OK : ps_fail(error, PS_ERR_IO, "the raw sockets broke or stalled");
}
