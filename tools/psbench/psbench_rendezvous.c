/* SPDX-License-Identifier: Apache-2.0 */
/* Values from one process to another through a server, beside the same bytes that go to another
 * process and back over raw TCP, and beside one raw stream one way. The way there and back is
 * what a value goes: written twice, read twice, with a process in between that has all of it
 * before it passes it on. One way is what two processes could do that know each other's
 * addresses.
 *
 * What a value costs beyond the raw bytes, over TCP: the copy out of the receiver's network buffers
 * into its memory. The server copies nothing: what it has received is what it sends. Through shared
 * memory a value is copied four times, by the sender, by the server twice and by the receiver, and
 * the kernel copies none of it.
 *
 * The sides are two clients with connections of their own, as in two processes; there are two
 * such pairs of clients, of which one may use the server's shared memory. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/psclient.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_load_state.h"
#include "tools/psbench/psbench_pairs.h"
#include "tools/psbench/psbench_peer.h"

#include <stdio.h>
#include <string.h>

enum { SIZES_MAX = 4 };

/* Raw messages are no longer: their rate is the same, and a buffer of each process less. */
#define RAW_BYTES_MAX ((uint64_t)64 << 20)

/* Values that wait at the server, of all steps. */
#define SERVER_BYTES ((uint64_t)8 << 30)

/* Two clients of one way to the server. */
struct side {
    struct psclient *clients[2];
    struct psclient_rendezvous *steps[2];
};

struct bench {
    struct ps_bench_server server;
    struct ps_bench_peer peer;
    struct side sides[2];        /* over TCP, and through shared memory */
    struct ps_bench_pairs pairs; /* too many for a stack */
    uint64_t sizes[SIZES_MAX];
    size_t size_count;
};

static enum ps_status measure_all(struct ps_bench *bench, struct bench *all,
                                  struct ps_error *error);
static enum ps_status measure_size(struct ps_bench *bench, struct bench *all, uint64_t size,
                                   struct ps_error *error);
static enum ps_status open_side(struct bench *all, const struct ps_bench_options *options,
                                size_t which, struct ps_error *error);

/* Small messages for their number, large ones for their bytes. */
static void choose_sizes(struct bench *all, const struct ps_bench_options *options)
{
    static const uint64_t usual[SIZES_MAX] = {1 << 10, 1 << 20, 64 << 20, 1 << 30};
    PS_ASSERT(all->size_count == 0);
    all->size_count = options->size != 0 ? 1 : SIZES_MAX;
    for (size_t i = 0; i < all->size_count; i++)
        all->sizes[i] = options->size != 0 ? options->size : usual[i];
}

/* What one size leaves behind is of use to the next: clients, server and raw sockets are opened
 * once, for the largest. */
enum ps_status ps_bench_rendezvous(struct ps_bench *bench, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    struct bench *all = ps_zeroed(ps_allocator_heap(), sizeof *all);
    if (all == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a benchmark");
    choose_sizes(all, options);
    bench->steps = options->repeat * all->size_count * 3 + 1;
    /* The other process is forked first, while this one has one thread. Sizes are in their
     * order. */
    uint64_t largest = all->sizes[all->size_count - 1];
    enum ps_status status = ps_bench_peer_open(
        &all->peer, (size_t)(largest < RAW_BYTES_MAX ? largest : RAW_BYTES_MAX), error);
    if (status == PS_OK)
        status = measure_all(bench, all, error);
    /* Clients before the server that they are of, which would otherwise be waited for. */
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 2; k++) {
            psclient_rendezvous_close(all->sides[i].steps[k]);
            psclient_close(all->sides[i].clients[k]);
        }
    }
    ps_bench_server_kill(&all->server);
    ps_bench_peer_close(&all->peer);
    ps_release(ps_allocator_heap(), all);
    return status;
}

/* A size is measured in each repeat, and not all repeats of one size before the next: what drifts
 * drifts for all of them. */
static enum ps_status measure_all(struct ps_bench *bench, struct bench *all, struct ps_error *error)
{
    /* In memory alone, as it is with every server: nothing of the rendezvous is journaled. */
    ps_bench_progress(bench, "starting");
    struct ps_bench_server_wish wish = ps_bench_server_wish_of(bench, "rendezvous", NULL);
    wish.rendezvous_bytes = SERVER_BYTES;
    PS_TRY(ps_bench_server_start(&all->server, &wish, error));
    for (size_t i = 0; i < 2; i++)
        PS_TRY(open_side(all, bench->options, i, error));
    for (uint64_t repeat = 0; repeat < bench->options->repeat; repeat++)
        for (size_t i = 0; i < all->size_count; i++)
            PS_TRY(measure_size(bench, all, all->sizes[i], error));
    return PS_OK;
}

/* Both sides of a way see the same step, each by itself. */
static enum ps_status open_side(struct bench *all, const struct ps_bench_options *options,
                                size_t which, struct ps_error *error)
{
    struct side *side = &all->sides[which];
    struct psclient_error reason = {0};
    const struct psclient_options wish = {.servers = all->server.address,
                                          .busy_poll = options->busy_poll_text,
                                          .shared_memory = which == 1 ? PSCLIENT_SHARED_MEMORY_AUTO
                                                                      : PSCLIENT_SHARED_MEMORY_OFF};
    /* The first sends and the second receives. */
    for (size_t i = 0; i < 2; i++) {
        PS_TRY(
            ps_bench_load_status(psclient_open(&wish, &side->clients[i], &reason), &reason, error));
        PS_TRY(ps_bench_load_status(psclient_rendezvous_open(side->clients[i], 1 + which, NULL,
                                                             PS_BENCH_ANSWER_MS, &side->steps[i],
                                                             &reason),
                                    &reason, error));
    }
    return PS_OK;
}

/* As many pairs as are said to be in flight; of values that fill a machine's memory one. */
static uint64_t pairs_of(const struct ps_bench_options *options, uint64_t size)
{
    uint64_t most = size > RAW_BYTES_MAX ? 1 : size > (1 << 20) ? 2 : 8;
    PS_ASSERT(options->outstanding > 0);
    if (options->outstanding > 1)
        most = options->outstanding;
    return most < PS_BENCH_PAIRS_MAX ? most : PS_BENCH_PAIRS_MAX;
}

/* Raw sockets, TCP and shared memory follow each other within a repeat, since a machine's speed
 * drifts. */
static enum ps_status measure_size(struct ps_bench *bench, struct bench *all, uint64_t size,
                                   struct ps_error *error)
{
    static const char *const names[] = {"rendezvous_tcp", "rendezvous_shared"};
    const struct ps_bench_options *options = bench->options;
    uint64_t pair_count = pairs_of(options, size);
    uint64_t raw_bytes = size < RAW_BYTES_MAX ? size : RAW_BYTES_MAX;
    double scale = (double)raw_bytes / (double)size;
    struct ps_bench_figures there_and_back = {0};
    struct ps_bench_figures one_way = {0};
    /* Single raw messages of more than a megabyte fill the connection by themselves. */
    ps_bench_progress(bench, "raw sockets");
    PS_TRY(ps_bench_peer_echo(&all->peer, PS_BENCH_TCP, (size_t)raw_bytes, (size_t)raw_bytes,
                              size > (1 << 20) ? 1 : pair_count, ps_bench_reference_ms(bench),
                              &there_and_back, error));
    PS_TRY(ps_bench_peer_stream(&all->peer, PS_BENCH_TCP, (size_t)raw_bytes,
                                ps_bench_reference_ms(bench), &one_way, error));
    /* Messages that are shorter than the value are counted as parts of it. */
    there_and_back = (struct ps_bench_figures){.per_second = there_and_back.per_second * scale};
    one_way = (struct ps_bench_figures){.per_second = one_way.per_second * scale};
    for (size_t i = 0; i < 2; i++) {
        struct ps_bench_figures figures = {0};
        ps_bench_progress(bench, names[i]);
        PS_TRY(ps_bench_pairs_run(&all->pairs, all->sides[i].steps, size, pair_count,
                                  size > RAW_BYTES_MAX ? 1 : 2, options->time_ms, &figures, error));
        struct ps_bench_row *row = ps_bench_report_row(&bench->report, names[i], size, pair_count);
        ps_bench_row_add(row, &figures);
        if (i == 0) {
            ps_bench_report_beside(&bench->report, row, "raw_tcp_there_and_back",
                                   "raw_tcp_there_and_back", 1, &there_and_back);
            ps_bench_report_beside(&bench->report, row, "raw_tcp_one_way", "raw_tcp_one_way", 1,
                                   &one_way);
        } else {
            /* The same figures of this repeat, which are in the report already. */
            ps_bench_row_ratio(row, "raw_tcp_there_and_back",
                               figures.per_second / there_and_back.per_second);
            ps_bench_row_ratio(row, "raw_tcp_one_way", figures.per_second / one_way.per_second);
        }
    }
    return PS_OK;
}
