/* SPDX-License-Identifier: Apache-2.0 */
/* The load as an asynchronous trainer makes it: one thread keeps every operation in flight. This is
 * how libpsclient is meant to be used by a program that overlaps communication and computing: begin
 * several operations, take whichever ends first, go on with it. */
#include "base/clock.h"
#include "tools/psbench/psbench_load_state.h"

/* One operation of the load in flight: a push, a pull, or both in one call. */
struct slot {
    struct ps_bench_worker *worker;
    struct psclient_gradient gradient; /* borrowed by libpsclient, like the next */
    struct psclient_parameter pulled;
};

/* One for the whole load; it begins operations and takes their ends, like the main loop of a
 * trainer. */
struct thread {
    struct ps_bench_load *load;
    struct slot *slots; /* owned */
    uint64_t in_flight;
    bool failed;
};

static void begin(struct thread *thread, struct slot *slot);
static void start(struct thread *thread, struct slot *slot);

/* After a failure nothing new begins, and what is in flight is still taken: the library owns the
 * slots until then. The first worker's error takes a failure that belongs to none of them. */
void ps_bench_operations_main(void *argument)
{
    struct ps_bench_worker *first = argument;
    struct ps_bench_load *load = first->load;
    struct thread thread = {.load = load};
    thread.slots =
        ps_zeroed_array(ps_allocator_heap(), load->wish.outstanding, sizeof(struct slot));
    if (thread.slots == NULL) {
        (void)ps_fail(&first->error, PS_ERR_NO_MEMORY, "no memory for operations");
        return;
    }
    for (uint64_t i = 0; i < load->wish.outstanding; i++) {
        thread.slots[i].worker = &load->workers[i];
        begin(&thread, &thread.slots[i]);
    }
    while (thread.in_flight > 0) {
        struct psclient_operation *operation = psclient_next(load->client, PS_BENCH_ANSWER_MS);
        /* Nothing ended within the time; each operation has its own deadline, so one will. */
        if (operation == NULL)
            continue;
        struct slot *slot = psclient_operation_user(operation);
        struct psclient_error reason = {0};
        int status = psclient_end(operation, NULL, &reason);
        thread.in_flight--;
        if (ps_bench_load_status(status, &reason, &slot->worker->error) != PS_OK) {
            thread.failed = true;
            continue;
        }
        ps_bench_load_end(slot->worker);
        begin(&thread, slot);
    }
    ps_release(ps_allocator_heap(), thread.slots);
}

/* Starts the next operation of a slot, if there is to be one. Gradient and destination must stay
 * where they are until the operation has ended, which the slot does. Called once for each slot at
 * the start, and then by each end, so the number in flight stays the same until the time is
 * over. */
static void begin(struct thread *thread, struct slot *slot)
{
    struct ps_bench_worker *worker = slot->worker;
    if (thread->failed || !ps_bench_load_begin(worker))
        return;
    slot->gradient = ps_bench_load_gradient(worker->load, worker->parameter);
    slot->pulled = ps_bench_load_pulled(worker->load, worker->parameter, worker->destination);
    start(thread, slot);
}

/* The slot itself is the tag that comes back with the operation. A refusal is told by the worker's
 * error and ends the load. */
static void start(struct thread *thread, struct slot *slot)
{
    struct psclient *client = thread->load->client;
    struct psclient_operation *operation;
    struct psclient_error reason = {0};
    int status;
    if (thread->load->operation == PS_BENCH_PUSH)
        status = psclient_push_begin(client, &slot->gradient, 1, PS_BENCH_ANSWER_MS, slot,
                                     &operation, &reason);
    else if (thread->load->operation == PS_BENCH_PULL)
        status = psclient_pull_begin(client, &slot->pulled, 1, PS_BENCH_ANSWER_MS, slot, &operation,
                                     &reason);
    else
        status = psclient_push_pull_begin(client, &slot->gradient, &slot->pulled, 1,
                                          PS_BENCH_ANSWER_MS, slot, &operation, &reason);
    if (ps_bench_load_status(status, &reason, &slot->worker->error) == PS_OK)
        thread->in_flight++;
    else
        thread->failed = true;
}
