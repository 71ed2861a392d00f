/* SPDX-License-Identifier: Apache-2.0 */
/* The process is made first and told later where its server is: forked while psbench has one
 * thread, and long before gRPC, which does not survive a fork.
 *
 * It answers from the memory that it adds to. An answer has left that memory when the call returns,
 * so that the next sum may change it. */
#include "tools/psbench/psbench_adder.h"

#include "base/alloc.h"
#include "client/psclient.h"
#include "tools/psbench/psbench_peer_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 30000 };

/* Sums of one program: of as many floats as the first request has. */
struct sums {
    float *values;
    size_t count;
};

/* Nobody is there to be told but whoever reads the terminal. */
static void must(int status, const struct psclient_error *error)
{
    if (status == PSCLIENT_OK)
        return;
    (void)fprintf(stderr, "psbench: the program that adds: %s\n", error->text);
    _exit(1);
}

/* The one request's part of the work. */
static void add(struct sums *sums, const struct ps_serving_request *request)
{
    const float *pushed = request->tensors[0].content;
    size_t count = request->tensors[0].size / sizeof *pushed;
    if (sums->values == NULL) {
        sums->values = ps_zeroed_array(ps_allocator_heap(), count, sizeof *sums->values);
        sums->count = sums->values != NULL ? count : 0;
    }
    if (count > sums->count)
        _exit(2);
    for (size_t i = 0; i < count; i++)
        sums->values[i] += pushed[i];
}

/* All of the gang are added before any is answered: everybody sees the same sum, as in a step of
 * data-parallel training. */
static void serve_batch(struct ps_serving *serving, struct sums *sums,
                        const struct ps_serving_batch *batch)
{
    struct psclient_error error;
    for (size_t i = 0; i < batch->count; i++)
        add(sums, &batch->requests[i]);
    for (size_t i = 0; i < batch->count; i++) {
        struct psclient_tensor tensor = batch->requests[i].tensors[0];
        tensor.content = sums->values;
        const struct ps_serving_reply reply = {.tensors = &tensor, .tensor_count = 1};
        must(ps_serving_reply(serving, batch->requests[i].handler, &reply, WAIT_MS, &error),
             &error);
    }
}

/* Until the process is killed. */
static void serve(const struct ps_bench_adder_order *order)
{
    const struct psclient_options options = {.servers = order->addresses,
                                             .busy_poll = order->busy_poll,
                                             .shared_memory = order->is_tcp != 0
                                                                  ? PSCLIENT_SHARED_MEMORY_OFF
                                                                  : PSCLIENT_SHARED_MEMORY_AUTO};
    const struct ps_serving_options place = {.role = PS_SERVING_SERVER,
                                             .rank = order->rank,
                                             .workers = order->workers,
                                             .name = "psbench"};
    const struct ps_serving_wish wish = {.worker_mask = (UINT64_C(1) << order->workers) - 1};
    struct sums sums = {0};
    struct psclient_error error;
    struct psclient *client = NULL;
    struct ps_serving *serving = NULL;
    must(psclient_open(&options, &client, &error), &error);
    must(ps_serving_init(client, &place, &serving, &error), &error);
    for (;;) {
        struct ps_serving_batch *batch = NULL;
        int status = ps_serving_get_batch(serving, &wish, WAIT_MS, &batch, &error);
        if (status == PSCLIENT_UNKNOWN)
            continue;
        must(status, &error);
        serve_batch(serving, &sums, batch);
        ps_serving_batch_release(batch);
    }
}

/* The child waits for its order without a limit: servers may take long to start. */
enum ps_status ps_bench_adder_start(struct ps_bench_adder *adder, struct ps_error *error)
{
    int ends[2];
    *adder = (struct ps_bench_adder){.orders = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return ps_fail(error, PS_ERR_IO, "no socket for a program: %s", strerror(errno));
    adder->pid = fork();
    if (adder->pid == 0) {
        struct ps_bench_adder_order order;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[0]);
        if (ps_bench_peer_read(ends[1], &order, sizeof order))
            serve(&order);
        _exit(0);
    }
    (void)close(ends[1]);
    adder->orders = ends[0];
    return adder->pid > 0
               ? PS_OK
               : ps_fail(error, PS_ERR_NO_MEMORY, "no process for a program: %s", strerror(errno));
}

/* It is there when its first answer is: a request waits for its program. */
enum ps_status ps_bench_adder_serve(struct ps_bench_adder *adder,
                                    const struct ps_bench_adder_order *order,
                                    struct ps_error *error)
{
    if (ps_bench_peer_write(adder->orders, order, sizeof *order))
        return PS_OK;
    return ps_fail(error, PS_ERR_IO, "the program that adds has ended");
}

/* Its server notices by the lease; nobody asks any more. */
void ps_bench_adder_end(struct ps_bench_adder *adder)
{
    if (adder->pid == 0)
        return;
    ps_bench_process_end(&adder->pid);
    if (adder->orders >= 0)
        (void)close(adder->orders);
    adder->orders = -1;
}
