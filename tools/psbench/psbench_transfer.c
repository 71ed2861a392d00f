/* SPDX-License-Identifier: Apache-2.0 */
/* push, pull, pushpull and latency, each repeat beside sockets, memcpy and the update alone. Each
 * repeat measures a server for each promise, one after the other, and right after it everything
 * that it is held against: bare gRPC and raw sockets with the same bytes in the same directions and
 * as many in flight, one way without answers, a memcpy, the update alone, and what is LOGGED
 * against the disk. The reference that a row comes near to is its limit. */
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_alone.h"
#include "tools/psbench/psbench_disk_best.h"
#include "tools/psbench/psbench_echo.h"
#include "tools/psbench/psbench_peer.h"
#include "tools/psbench/psbench_promise.h"
#include "tools/psbench/psbench_tls.h"

#include <stdio.h>
#include <string.h>

/* Bytes of the short one of request and reply, about as in the protocol. */
#define SMALL_BYTES 32

/* One thing to measure. */
struct transfer {
    const char *row;
    enum ps_bench_operation operation;
    bool latency;
};

/* A server that keeps one promise, and a load on it. */
struct side {
    enum ps_bench_promise promise;
    struct ps_bench_server server;  /* not running: it was there already */
    struct ps_bench_load *load;     /* owned */
    struct ps_bench_figures last;   /* of the present repeat */
    const struct ps_bench_tls *tls; /* NULL: plaintext */
};

/* Everything is opened once and used in all repeats. */
struct transfer_run {
    struct ps_bench *bench;
    struct ps_bench_peer peer;   /* raw sockets */
    struct ps_bench_echo echo;   /* bare gRPC */
    struct ps_bench_alone alone; /* memory and the update */
    struct side sides[2];        /* MEMORY before LOGGED */
    size_t side_count;           /* of those that are open */
    struct ps_bench_tls tls;     /* with --tls only, as the next two */
    struct ps_bench_echo secure_echo;
    struct side secure; /* MEMORY over TLS; without it there is no load */
};

static size_t choose(const char *name, struct transfer transfers[2]);
static enum ps_status open_run(struct transfer_run *run, struct ps_error *error);
static enum ps_status open_side(struct transfer_run *run, struct side *side,
                                struct ps_error *error);
static void close_run(struct transfer_run *run);
static enum ps_status warm_up(struct transfer_run *run, const struct transfer *transfer,
                              struct ps_error *error);
static enum ps_status measure(struct transfer_run *run, const struct transfer *transfer,
                              struct ps_error *error);
static size_t sides_of(const struct transfer_run *run, const struct transfer *transfer);
static enum ps_status measure_side(struct transfer_run *run, struct side *side,
                                   const struct transfer *transfer, struct ps_error *error);
static struct ps_bench_row *row_of(struct transfer_run *run, const struct side *side,
                                   const struct transfer *transfer);
static enum ps_status check_side(const struct transfer_run *run, const struct side *side,
                                 struct ps_error *error);
static enum ps_status compare_logged(struct transfer_run *run, const struct transfer *transfer,
                                     struct ps_error *error);
static enum ps_status compare(struct transfer_run *run, const struct transfer *transfer,
                              struct ps_bench_row *row, struct ps_error *error);
static enum ps_status compare_grpc(struct transfer_run *run, const struct transfer *transfer,
                                   const struct side *side, struct ps_error *error);
static enum ps_status compare_echo(struct transfer_run *run, const struct transfer *transfer,
                                   enum ps_bench_socket kind, struct ps_bench_row *row,
                                   struct ps_error *error);
static enum ps_status compare_stream(struct transfer_run *run, const struct transfer *transfer,
                                     struct ps_bench_row *row, struct ps_error *error);

/* Pulls are the same whatever pushes were promised, so of them there is one row. */
enum ps_status ps_bench_transfer(struct ps_bench *bench, struct ps_error *error)
{
    struct transfer transfers[2];
    size_t count = choose(bench->options->name, transfers);
    struct transfer_run run = {.bench = bench};
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(&run, error);
    /* One step more for the start. */
    bench->steps = 1;
    for (size_t i = 0; i < count && status == PS_OK; i++) {
        bench->steps += bench->options->repeat * sides_of(&run, &transfers[i]);
        status = warm_up(&run, &transfers[i], error);
    }
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++) {
        for (size_t i = 0; i < count && status == PS_OK; i++)
            status = measure(&run, &transfers[i], error);
    }
    for (size_t i = 0; i < run.side_count && status == PS_OK; i++)
        status = check_side(&run, &run.sides[i], error);
    if (status == PS_OK && run.secure.load != NULL)
        status = ps_bench_load_check(run.secure.load, error);
    close_run(&run);
    return status;
}

/* latency is two rows, since pushes and pulls take different ways; the others are one. The row of a
 * throughput is called like the benchmark. */
static size_t choose(const char *name, struct transfer transfers[2])
{
    if (strcmp(name, "latency") == 0) {
        transfers[0] = (struct transfer){"latency_push", PS_BENCH_PUSH, true};
        transfers[1] = (struct transfer){"latency_pull", PS_BENCH_PULL, true};
        return 2;
    }
    enum ps_bench_operation operation = PS_BENCH_PUSH_PULL;
    if (strcmp(name, "push") == 0)
        operation = PS_BENCH_PUSH;
    if (strcmp(name, "pull") == 0)
        operation = PS_BENCH_PULL;
    transfers[0] = (struct transfer){name, operation, false};
    return 1;
}

/* Forking comes before starting threads: raw sockets and bare gRPC first, then the servers, whose
 * wardens are threads, then the clients. A benchmark of pulls alone opens one server. */
static enum ps_status open_run(struct transfer_run *run, struct ps_error *error)
{
    const struct ps_bench_options *options = run->bench->options;
    size_t size = options->size > SMALL_BYTES ? options->size : SMALL_BYTES;
    PS_TRY(ps_bench_peer_open(&run->peer, size, error));
    PS_TRY(ps_bench_echo_open(&run->echo, size, options->busy_poll, NULL, error));
    if (options->tls) {
        PS_TRY(ps_bench_tls_open(&run->tls, run->bench->folder, error));
        PS_TRY(ps_bench_echo_open(&run->secure_echo, size, options->busy_poll, &run->tls, error));
    }
    PS_TRY(ps_bench_alone_open(&run->alone, options->size, error));
    /* A pull of a server that keeps a journal is measured only when asked for by --ack. */
    struct ps_bench_promises promises = ps_bench_promises_of(options);
    size_t count = strcmp(options->name, "pull") == 0 ? 1 : promises.count;
    for (; run->side_count < count; run->side_count++) {
        struct side *side = &run->sides[run->side_count];
        side->promise = promises.list[run->side_count];
        PS_TRY(open_side(run, side, error));
    }
    if (!options->tls)
        return PS_OK;
    /* Without a disk: what LOGGED costs more does not depend on the way that pushes take, and the
     * ciphers would drown in it. */
    run->secure = (struct side){.promise = PS_BENCH_MEMORY, .tls = &run->tls};
    return open_side(run, &run->secure, error);
}

/* Servers that run already are measured as they are; what they were started with is theirs to
 * report. Without a journal a server needs no data folder, and no disk can slow it down. */
static enum ps_status open_side(struct transfer_run *run, struct side *side, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    const struct ps_bench_options *options = bench->options;
    if (side->promise != PS_BENCH_AS_GIVEN) {
        char name[PS_BENCH_ROW_NAME_BYTES];
        ps_bench_promised_name(side->tls != NULL ? "secure" : "server", side->promise, name);
        struct ps_bench_server_wish wish =
            ps_bench_server_wish_of(bench, name, ps_bench_promise_ack(side->promise));
        wish.certificate = side->tls != NULL ? side->tls->certificate_path : NULL;
        wish.key = side->tls != NULL ? side->tls->key_path : NULL;
        PS_TRY(ps_bench_server_start(&side->server, &wish, error));
    }
    struct ps_bench_load_wish wish = ps_bench_load_wish_of(
        bench, side->promise == PS_BENCH_AS_GIVEN ? options->servers : side->server.address);
    /* The certificate vouches for itself. */
    wish.tls_ca = side->tls != NULL ? side->tls->certificate_path : NULL;
    wish.etcd = options->etcd;
    wish.job = options->job;
    return ps_bench_load_open(&wish, &side->load, error);
}

/* In the opposite order; each accepts what was never opened. Processes that were forked are killed
 * and collected here, so that none outlives the benchmark. */
static void close_run(struct transfer_run *run)
{
    for (size_t i = 0; i < PS_ARRAY_COUNT(run->sides); i++) {
        ps_bench_load_close(run->sides[i].load);
        ps_bench_server_kill(&run->sides[i].server);
    }
    ps_bench_load_close(run->secure.load);
    ps_bench_server_kill(&run->secure.server);
    ps_bench_alone_close(&run->alone);
    ps_bench_echo_close(&run->secure_echo);
    ps_bench_echo_close(&run->echo);
    ps_bench_tls_close(&run->tls);
    ps_bench_peer_close(&run->peer);
}

/* Every operation once through, so that buffers, blocks, connections and the journal's first
 * segment are there. */
static enum ps_status warm_up(struct transfer_run *run, const struct transfer *transfer,
                              struct ps_error *error)
{
    struct ps_bench_figures unused;
    for (size_t i = 0; i < sides_of(run, transfer); i++)
        PS_TRY(ps_bench_load_run(run->sides[i].load, transfer->operation,
                                 ps_bench_reference_ms(run->bench), &unused, error));
    if (run->secure.load == NULL)
        return PS_OK;
    return ps_bench_load_run(run->secure.load, transfer->operation,
                             ps_bench_reference_ms(run->bench), &unused, error);
}

/* Nothing is promised about a pull that a second server could show. */
static size_t sides_of(const struct transfer_run *run, const struct transfer *transfer)
{
    return transfer->operation == PS_BENCH_PULL ? 1 : run->side_count;
}

/* The results, and the way. A way that was asked for and not taken is not a measurement of it:
 * --transport shared must not silently report what TCP does. */
static enum ps_status check_side(const struct transfer_run *run, const struct side *side,
                                 struct ps_error *error)
{
    const struct ps_bench_options *options = run->bench->options;
    PS_TRY(ps_bench_load_check(side->load, error));
    struct ps_bench_ways ways = ps_bench_load_ways(side->load);
    if (strcmp(options->transport, "shared") == 0 && ways.shared_bytes == 0)
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "nothing went through shared memory: %llu bytes are too few, or the server "
                       "takes none here",
                       (unsigned long long)options->size);
    return PS_OK;
}

/* Each promise right beside what it is held against, since a machine drifts within seconds: the
 * first beside the machine's limits, which are the same for both, and LOGGED beside the disk. */
static enum ps_status measure(struct transfer_run *run, const struct transfer *transfer,
                              struct ps_error *error)
{
    for (size_t i = 0; i < sides_of(run, transfer); i++) {
        struct side *side = &run->sides[i];
        bool pushes = transfer->operation != PS_BENCH_PULL;
        PS_TRY(measure_side(run, side, transfer, error));
        if (pushes && side->promise == PS_BENCH_LOGGED)
            PS_TRY(compare_logged(run, transfer, error));
        if (i == 0)
            PS_TRY(compare(run, transfer, row_of(run, side, transfer), error));
    }
    if (run->secure.load == NULL)
        return PS_OK;
    /* TLS right beside bare gRPC with TLS: the ratio of the two is what our own part costs there,
     * to be held against the ratio of the plaintext row. What the ciphers cost stands between the
     * two rows. */
    PS_TRY(measure_side(run, &run->secure, transfer, error));
    return compare_grpc(run, transfer, &run->secure, error);
}

/* How many bytes went through shared memory is noted for each row, whatever was asked for. The
 * longest single operation is kept exactly: a stall of a second is invisible in a median, and the
 * first thing that a trainer would complain about. */
static enum ps_status measure_side(struct transfer_run *run, struct side *side,
                                   const struct transfer *transfer, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    struct ps_bench_row *row = row_of(run, side, transfer);
    ps_bench_progress(bench, row->name);
    struct ps_bench_ways before = ps_bench_load_ways(side->load);
    PS_TRY(ps_bench_load_run(side->load, transfer->operation, bench->options->time_ms, &side->last,
                             error));
    struct ps_bench_ways ways = ps_bench_load_ways(side->load);
    ps_bench_row_add(row, &side->last);
    ps_bench_row_detail(row, "longest_us", side->last.longest_us);
    ps_bench_row_detail(row, "shared_bytes", (double)(ways.shared_bytes - before.shared_bytes));
    return PS_OK;
}

/* Rows are found again in each repeat by name, size and number in flight. */
static struct ps_bench_row *row_of(struct transfer_run *run, const struct side *side,
                                   const struct transfer *transfer)
{
    const struct ps_bench_options *options = run->bench->options;
    enum ps_bench_promise promise =
        transfer->operation == PS_BENCH_PULL ? PS_BENCH_AS_GIVEN : side->promise; /* no suffix */
    /* The suffix stands where a promise would. */
    if (side->tls != NULL) {
        char name[PS_BENCH_ROW_NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s_tls", transfer->row);
        return ps_bench_report_row(&run->bench->report, name, options->size, options->outstanding);
    }
    return ps_bench_promised_row(run->bench, transfer->row, promise, options->size,
                                 options->outstanding);
}

/* What is LOGGED stands beside the disk, and beside MEMORY where that was measured as well. A
 * single operation is held against a single write: what counts is what a trainer waits for. */
static enum ps_status compare_logged(struct transfer_run *run, const struct transfer *transfer,
                                     struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    /* The same one where only LOGGED was asked for. */
    struct side *memory = &run->sides[0], *logged = &run->sides[run->side_count - 1];
    struct ps_bench_disk_best best;
    PS_TRY(ps_bench_disk_measure(bench, &best, error));
    struct ps_bench_row *row = row_of(run, logged, transfer);
    ps_bench_logged_compare(bench, row, logged != memory ? &memory->last : NULL, &best,
                            bench->options->size);
    bool single = bench->options->outstanding == 1 && bench->options->size <= PS_BENCH_SMALL_BYTES;
    if (single && logged != memory)
        ps_bench_logged_cost(row, memory->last.p50_us, logged->last.p50_us, &best);
    return PS_OK;
}

/* The far copy is measured only where content does not travel over a socket: then each byte crosses
 * memory once more, and no cache helps. Each reference is measured with the size and the number in
 * flight of the row, so that the quotient is of like and like. */
static enum ps_status compare(struct transfer_run *run, const struct transfer *transfer,
                              struct ps_bench_row *row, struct ps_error *error)
{
    uint64_t reference_ms = ps_bench_reference_ms(run->bench);
    PS_TRY(compare_grpc(run, transfer, &run->sides[0], error));
    PS_TRY(compare_echo(run, transfer, PS_BENCH_TCP, row, error));
    PS_TRY(compare_echo(run, transfer, PS_BENCH_UNIX, row, error));
    PS_TRY(compare_stream(run, transfer, row, error));
    struct ps_bench_figures figures;
    PS_TRY(ps_bench_alone_copy(&run->alone, reference_ms, &figures, error));
    ps_bench_report_beside(&run->bench->report, row, "memcpy", "memcpy", 1, &figures);
    if (strcmp(run->bench->options->transport, "shared") == 0 ||
        strcmp(run->bench->options->transport, "auto") == 0) {
        PS_TRY(ps_bench_alone_copy_far(&run->alone, reference_ms, &figures, error));
        ps_bench_report_beside(&run->bench->report, row, "memcpy_far", "memcpy_far", 1, &figures);
    }
    /* A pull updates nothing. */
    if (transfer->operation == PS_BENCH_PULL)
        return PS_OK;
    PS_TRY(ps_bench_alone_update(&run->alone, reference_ms, &figures, error));
    ps_bench_report_beside(&run->bench->report, row, "update_loop", "update_loop", 1, &figures);
    return PS_OK;
}

/* A pull's request is a name and some numbers. Sizes of the short messages are about those of the
 * protocol; their exact value does not matter beside a system call. */
static size_t request_bytes(const struct transfer_run *run, const struct transfer *transfer)
{
    return transfer->operation == PS_BENCH_PULL ? SMALL_BYTES : run->bench->options->size;
}

/* A push's answer is a version and a position. */
static size_t reply_bytes(const struct transfer_run *run, const struct transfer *transfer)
{
    return transfer->operation == PS_BENCH_PUSH ? SMALL_BYTES : run->bench->options->size;
}

/* The same bytes in the same directions with as many in flight, through gRPC alone: what remains
 * between the two is protocol, copies and update. The names of the rows differ by operation, the
 * ratio has one name: scripts look for that. */
static enum ps_status compare_grpc(struct transfer_run *run, const struct transfer *transfer,
                                   const struct side *side, struct ps_error *error)
{
    static const char *const names[2][3] = {
        {"bare_grpc_push", "bare_grpc_pull", "bare_grpc"},
        {"bare_grpc_push_tls", "bare_grpc_pull_tls", "bare_grpc_tls"}};
    /* Each row beside the echo that goes the same way. */
    bool secure = side->tls != NULL;
    struct ps_bench_echo *echo = secure ? &run->secure_echo : &run->echo;
    uint64_t outstanding = run->bench->options->outstanding;
    struct ps_bench_figures figures;
    PS_TRY(ps_bench_echo_run(echo, request_bytes(run, transfer), reply_bytes(run, transfer),
                             outstanding, ps_bench_reference_ms(run->bench), &figures, error));
    ps_bench_report_beside(&run->bench->report, row_of(run, side, transfer),
                           names[secure][transfer->operation], "bare_grpc", outstanding, &figures);
    return PS_OK;
}

/* The same over a socket. Rows of pushes and pulls have names of their own, since they move other
 * bytes; the ratio has one name. Over a unix socket as well, because that is the other way to a
 * server on this host. */
static enum ps_status compare_echo(struct transfer_run *run, const struct transfer *transfer,
                                   enum ps_bench_socket kind, struct ps_bench_row *row,
                                   struct ps_error *error)
{
    static const char *const names[PS_BENCH_SOCKET_COUNT][3] = {
        [PS_BENCH_TCP] = {"raw_tcp_push", "raw_tcp_pull", "raw_tcp"},
        [PS_BENCH_UNIX] = {"raw_unix_push", "raw_unix_pull", "raw_unix"},
    };
    const struct ps_bench_options *options = run->bench->options;
    enum ps_bench_operation operation = transfer->operation;
    struct ps_bench_figures figures;
    PS_TRY(ps_bench_peer_echo(&run->peer, kind, request_bytes(run, transfer),
                              reply_bytes(run, transfer), options->outstanding,
                              ps_bench_reference_ms(run->bench), &figures, error));
    ps_bench_report_beside(&run->bench->report, row, names[kind][operation],
                           names[kind][PS_BENCH_PUSH_PULL], options->outstanding, &figures);
    return PS_OK;
}

/* One way without any answer: what a single push or pull can never be, and many in flight can. The
 * socket at its best: never waiting for an answer. For latency the question makes no sense, and a
 * push with its pull has no single direction. */
static enum ps_status compare_stream(struct transfer_run *run, const struct transfer *transfer,
                                     struct ps_bench_row *row, struct ps_error *error)
{
    if (transfer->latency || transfer->operation == PS_BENCH_PUSH_PULL)
        return PS_OK;
    struct ps_bench_figures figures;
    PS_TRY(ps_bench_peer_stream(&run->peer, PS_BENCH_TCP, run->bench->options->size,
                                ps_bench_reference_ms(run->bench), &figures, error));
    ps_bench_report_beside(&run->bench->report, row, "raw_tcp_one_way", "raw_tcp_one_way", 1,
                           &figures);
    return PS_OK;
}
