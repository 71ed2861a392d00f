/* SPDX-License-Identifier: Apache-2.0 */
/* Receives that are begun now and asked about later. A thread makes the call that waits: a wish
 * of any number of keys is one thread, and the calls of all of them go over one connection. So
 * there is one way to receive, and a program that polls has what one that waits has: rounds,
 * ranges, and what is done with an answer that was lost. */
#include "client/psclient_rendezvous.h"

#include "base/assert.h"
#include "client/status_map.h"
#include "client/tensor_receives.h"

#include <string.h>

struct psclient_receive {
    struct psclient_rendezvous *rendezvous; /* borrowed */
    struct ps_thread thread;
    const char *const *keys;         /* borrowed until the end */
    struct psclient_tensor *tensors; /* the same */
    size_t count;
    uint64_t deadline_ms;
    struct ps_mutex lock;          /* guards what follows */
    struct ps_condition is_ending; /* it is over */
    bool is_over;
    enum ps_status status;
    struct ps_error why;
};

/* Tensors are written by this thread alone; whoever polls reads them behind the lock. */
static void receive_main(void *argument)
{
    struct psclient_receive *receive = argument;
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = ps_tensor_receive(receive->rendezvous, receive->keys, receive->tensors,
                                              receive->count, receive->deadline_ms, receive, &why);
    ps_mutex_lock(&receive->lock);
    receive->status = status;
    receive->why = why;
    receive->is_over = true;
    ps_condition_signal_all(&receive->is_ending);
    ps_mutex_unlock(&receive->lock);
}

/* What was begun is ended by psclient_rendezvous_recv_end, whatever came of it. */
PS_EXPORT int psclient_rendezvous_recv_begin(struct psclient_rendezvous *rendezvous,
                                             const char *const *keys,
                                             struct psclient_tensor *tensors, size_t count,
                                             uint64_t timeout_ms, struct psclient_receive **out,
                                             struct psclient_error *error)
{
    struct psclient *client = rendezvous->client;
    struct ps_error why = {.status = PS_OK};
    /* No thread is begun in a child of the client's process. */
    enum ps_status status = ps_client_check_process(client, &why);
    struct psclient_receive *receive =
        status == PS_OK ? ps_zeroed(client->memory, sizeof *receive) : NULL;
    if (status == PS_OK && (receive == NULL || count == 0))
        status = receive == NULL ? ps_fail(&why, PS_ERR_NO_MEMORY, "no memory for a receive")
                                 : ps_fail(&why, PS_ERR_BAD_INPUT, "nothing to receive");
    if (status != PS_OK) {
        ps_release(client->memory, receive);
        return ps_client_fail(error, status, why.text);
    }
    /* The thread reads all of this; nothing but the end of it is shared. */
    receive->rendezvous = rendezvous;
    receive->keys = keys;
    receive->tensors = tensors;
    receive->count = count;
    receive->deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    ps_mutex_init(&receive->lock, PS_RANK_LEAF);
    ps_condition_init(&receive->is_ending);
    status = ps_thread_start(&receive->thread, "receive", receive_main, receive, &why);
    if (status != PS_OK) {
        ps_condition_fini(&receive->is_ending);
        ps_mutex_fini(&receive->lock);
        ps_release(client->memory, receive);
        return ps_client_fail(error, status, why.text);
    }
    *out = receive;
    return ps_client_succeed(error);
}

/* One look, or a wait for as long as the caller says. */
PS_EXPORT int psclient_rendezvous_recv_poll(struct psclient_receive *receive, uint64_t wait_ms,
                                            int *is_over, struct psclient_error *error)
{
    const struct ps_clock *clock = receive->rendezvous->client->clock;
    uint64_t end_ms = ps_deadline_after(clock, wait_ms);
    ps_mutex_lock(&receive->lock);
    while (!receive->is_over && ps_time_left_ms(clock, end_ms) > 0)
        (void)ps_condition_wait(&receive->is_ending, &receive->lock,
                                ps_time_left_ms(clock, end_ms));
    /* Before it is over there is no failure to tell. */
    bool is_done = receive->is_over;
    enum ps_status status = is_done ? receive->status : PS_OK;
    struct ps_error why = receive->why;
    ps_mutex_unlock(&receive->lock);
    /* A receive that is over says the same however often it is asked. */
    *is_over = is_done ? 1 : 0;
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* A receive that is not over is cancelled at its servers, again and again until its thread has
 * heard: between two rounds of it there is nothing to cancel, and the id is over from then on. */
PS_EXPORT void psclient_rendezvous_recv_end(struct psclient_receive *receive)
{
    enum { CANCEL_MS = 2000, LOOK_MS = 200 };
    int is_over = 0;
    if (receive == NULL)
        return;
    struct psclient_rendezvous *rendezvous = receive->rendezvous;
    const struct ps_allocator *memory = rendezvous->client->memory;
    (void)psclient_rendezvous_recv_poll(receive, 0, &is_over, NULL);
    /* Servers that are away are waited for as long as the receive itself would have waited. */
    while (is_over == 0) {
        enum ps_status ignored = ps_tensor_cancel(
            rendezvous, receive, ps_deadline_after(rendezvous->client->clock, CANCEL_MS), NULL);
        (void)ignored;
        (void)psclient_rendezvous_recv_poll(receive, LOOK_MS, &is_over, NULL);
    }
    ps_thread_join(&receive->thread);
    PS_ASSERT(receive->is_over);
    ps_condition_fini(&receive->is_ending);
    ps_mutex_fini(&receive->lock);
    ps_release(memory, receive);
}
