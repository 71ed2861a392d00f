/* The load as an asynchronous trainer makes it: one thread keeps every operation in flight. */
#include "base/clock.h"
#include "tools/psbench/psbench_load_state.h"

/* One operation of the load in flight: a push, a pull, or both in one call. */
struct slot {
    struct ps_bench_worker *worker;
    struct ps_bench_parameter *parameter;
    struct psclient_gradient gradient; /* borrowed by libpsclient, like the next */
    struct psclient_parameter wish;
    uint64_t start_ns;
};

struct thread {
    struct ps_bench_load *load;
    struct slot *slots; /* owned */
    uint64_t in_flight;
    bool failed;
};

static void begin(struct thread *thread, uint64_t number);
static void start(struct thread *thread, struct slot *slot);
static void step(struct thread *thread, struct slot *slot);

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
        begin(&thread, i);
    }
    while (thread.in_flight > 0) {
        struct psclient_operation *operation = psclient_next(load->client, PS_BENCH_ANSWER_MS);
        if (operation == NULL)
            continue;
        struct slot *slot = psclient_operation_user(operation);
        struct psclient_error reason = {0};
        int status = psclient_end(operation, NULL, &reason);
        thread.in_flight--;
        if (ps_bench_load_status(status, &reason, &slot->worker->error) == PS_OK)
            step(&thread, slot);
        else
            thread.failed = true;
    }
    ps_release(ps_allocator_heap(), thread.slots);
}

/* Starts the next operation of a slot, if there is to be one. */
static void begin(struct thread *thread, uint64_t number)
{
    struct ps_bench_load *load = thread->load;
    struct slot *slot = &thread->slots[number];
    if (thread->failed || !ps_bench_load_may_go_on(slot->worker))
        return;
    uint64_t turn = number + slot->worker->count * load->wish.outstanding;
    slot->parameter = &load->parameters[turn % load->wish.parameter_count];
    slot->start_ns = ps_clock_precise_ns();
    slot->gradient = (struct psclient_gradient){slot->parameter->name, PSCLIENT_FLOAT32,
                                                load->gradient, load->wish.size};
    slot->wish = (struct psclient_parameter){.name = slot->parameter->name,
                                             .type = PSCLIENT_FLOAT32,
                                             .content = slot->worker->destination,
                                             .content_size = load->wish.size};
    start(thread, slot);
}

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
        status = psclient_pull_begin(client, &slot->wish, 1, PS_BENCH_ANSWER_MS, slot, &operation,
                                     &reason);
    else
        status = psclient_push_pull_begin(client, &slot->gradient, &slot->wish, 1,
                                          PS_BENCH_ANSWER_MS, slot, &operation, &reason);
    if (ps_bench_load_status(status, &reason, &slot->worker->error) == PS_OK)
        thread->in_flight++;
    else
        thread->failed = true;
}

/* An operation has ended well: the next one begins. */
static void step(struct thread *thread, struct slot *slot)
{
    if (thread->load->operation != PS_BENCH_PULL)
        ps_bench_load_acknowledged(slot->parameter);
    ps_bench_times_note(&slot->worker->times, ps_clock_precise_ns() - slot->start_ns);
    slot->worker->count++;
    begin(thread, slot->worker->number);
}
