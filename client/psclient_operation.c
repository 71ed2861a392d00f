/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: pushes and pulls that do not wait. An operation is a batch that somebody may ask for
 * later; it has no thread. Its messages leave when it is begun, and its answers are taken by
 * whichever thread of the program waits for anything of this client.
 *
 * All that the caller gave is borrowed until psclient_end: the channel sends contents, and fills
 * them, where they lie, and items point to the caller's names. */
#include "client/psclient.h"

#include "client/client_state.h"
#include "client/round_step.h"
#include "client/status_map.h"

#include <stdio.h>

struct psclient_operation {
    struct ps_client_job job; /* first: a job that is announced is an operation */
    struct psclient *client;  /* borrowed */
    void *user;
    struct ps_item *items; /* owned */
    size_t count;
    struct psclient_parameter *parameters; /* borrowed; NULL: a push */
    bool is_step; /* contributions whose numbers wait for their rounds: round_step.h */
};

static int begin(struct psclient *client, enum ps_method method,
                 const struct psclient_operation *wish, uint64_t timeout_ms,
                 struct psclient_operation **out, struct psclient_error *error);

/* The gradients are encoded here, on the caller's thread, before they get numbers: a push that is
 * sent again is the same bytes again. */
PS_EXPORT int psclient_push_begin(struct psclient *client,
                                  const struct psclient_gradient *gradients, size_t count,
                                  uint64_t timeout_ms, void *user,
                                  struct psclient_operation **operation,
                                  struct psclient_error *error)
{
    const struct psclient_operation wish = {
        .user = user, .items = ps_client_push_items(client, gradients, count), .count = count};
    return begin(client, PS_METHOD_PUSH, &wish, timeout_ms, operation, error);
}

/* The parameters are kept to note type and version in them at the end. */
PS_EXPORT int psclient_pull_begin(struct psclient *client, struct psclient_parameter *parameters,
                                  size_t count, uint64_t timeout_ms, void *user,
                                  struct psclient_operation **operation,
                                  struct psclient_error *error)
{
    const struct psclient_operation wish = {.user = user,
                                            .items =
                                                ps_client_pull_items(client, parameters, count),
                                            .count = count,
                                            .parameters = parameters};
    return begin(client, PS_METHOD_PULL, &wish, timeout_ms, operation, error);
}

/* Nothing falls back to a push and a pull here, as psclient_push_pull does: the second would have
 * to be begun by whoever takes the first one's answer, in the middle of its own work. */
PS_EXPORT int psclient_push_pull_begin(struct psclient *client,
                                       const struct psclient_gradient *gradients,
                                       struct psclient_parameter *parameters, size_t count,
                                       uint64_t timeout_ms, void *user,
                                       struct psclient_operation **operation,
                                       struct psclient_error *error)
{
    const struct psclient_operation wish = {
        .user = user,
        .items = ps_client_push_pull_items(client, gradients, parameters, count),
        .count = count,
        .parameters = parameters,
        .is_step = ps_client_contributes(client, gradients, count)};
    return begin(client, PS_METHOD_PUSH_PULL, &wish, timeout_ms, operation, error);
}

/* Takes the items of the wish, in any case: an operation that could not be begun leaves nothing for
 * the caller to end. Items that are NULL stand for memory that was refused. */
static int begin(struct psclient *client, enum ps_method method,
                 const struct psclient_operation *wish, uint64_t timeout_ms,
                 struct psclient_operation **out, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_ERR_NO_MEMORY, .text = "no memory for a batch"};
    struct psclient_operation *operation = ps_zeroed(client->memory, sizeof *operation);
    enum ps_status status = PS_ERR_NO_MEMORY;
    /* Room is taken before anything is sent, and given back with the operation: numbers that wait
     * for other workers must not be all that the client has. */
    bool has_room = wish->items != NULL && operation != NULL;
    if (has_room && wish->is_step) {
        status = ps_client_enter_step(client, wish->items, wish->count, &why);
        has_room = status == PS_OK;
    }
    if (has_room) {
        *operation = *wish;
        operation->client = client;
        operation->job.announced = true;
        const struct ps_batch_request request =
            ps_client_request(client, method, wish->items, wish->count, timeout_ms);
        status = ps_client_begin(client, &request, &operation->job, &why);
        if (status != PS_OK && wish->is_step)
            ps_client_leave_step(client, wish->items, wish->count);
    }
    /* The statuses tell the encoder that no push was sent: what it had left out before is kept as
     * it was. */
    if (status != PS_OK) {
        ps_release(client->memory, operation);
        for (size_t i = 0; wish->items != NULL && i < wish->count; i++)
            wish->items[i].status = status; /* none was sent */
        ps_client_release_items(client, wish->items, wish->count);
        return ps_client_fail(error, status, why.text);
    }
    *out = operation;
    return ps_client_succeed(error);
}

/* The job is the operation's first member, so that one pointer is both. */
PS_EXPORT struct psclient_operation *psclient_next(struct psclient *client, uint64_t timeout_ms)
{
    if (ps_process_mark_is_child(&client->mark))
        return NULL;
    return (struct psclient_operation *)ps_client_next(
        client, ps_deadline_after(client->clock, timeout_ms));
}

/* A wait of no time only looks, so that it may be asked beside psclient_next. */
PS_EXPORT int psclient_wait(struct psclient_operation *operation, uint64_t timeout_ms)
{
    struct psclient *client = operation->client;
    if (ps_process_mark_is_child(&client->mark))
        return 1; /* to be ended, which says why */
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    return ps_client_await(client, &operation->job, timeout_ms > 0, deadline_ms) ? 1 : 0;
}

/* The memory of the operation is in use until the channel has let go of it, so that the end of the
 * operation is still to be waited for. */
PS_EXPORT void psclient_cancel(struct psclient_operation *operation)
{
    if (!ps_process_mark_is_child(&operation->client->mark))
        ps_client_cancel(operation->client, &operation->job);
}

/* A child of a fork has a copy of the descriptor, but not of the thread that would write to it. */
PS_EXPORT int psclient_event_fd(struct psclient *client)
{
    return ps_process_mark_is_child(&client->mark) ? -1 : ps_client_event_fd(client);
}

/* Under the lock all the same: a thread of the library's own may wait already. */
PS_EXPORT void psclient_set_interrupted(struct psclient *client, int (*interrupted)(void *user),
                                        void *user)
{
    if (ps_process_mark_is_child(&client->mark))
        return;
    ps_mutex_lock(&client->mutex);
    client->interrupted = interrupted;
    client->interrupted_user = user;
    ps_mutex_unlock(&client->mutex);
}

/* Constant from the beginning on: no lock is needed to read it. */
PS_EXPORT void *psclient_operation_user(const struct psclient_operation *operation)
{
    return operation->user;
}

/* In a child only the words are the operation's: what it consists of is the parent's to end. */
static int fail_in_child(struct psclient_operation *operation, const struct ps_error *why,
                         struct psclient_result *results, struct psclient_error *error)
{
    for (size_t i = 0; i < operation->count; i++) {
        operation->items[i].status = why->status;
        snprintf(operation->items[i].text, sizeof operation->items[i].text, "%s", why->text);
    }
    (void)ps_client_verdict(operation->client, operation->items, operation->count, results, NULL);
    return ps_client_fail(error, why->status, why->text);
}

/* Results are read after the batch is over and before its items go. The operation need not have
 * been told by psclient_next: waiting for one by itself takes it off the list of finished ones. */
PS_EXPORT int psclient_end(struct psclient_operation *operation, struct psclient_result *results,
                           struct psclient_error *error)
{
    struct psclient *client = operation->client;
    struct ps_error foreign;
    if (ps_client_check_process(client, &foreign) != PS_OK)
        return fail_in_child(operation, &foreign, results, error);
    ps_client_end(client, &operation->job);
    if (operation->is_step)
        ps_client_leave_step(client, operation->items, operation->count);
    if (operation->parameters != NULL)
        ps_client_note_pulled(client, operation->items, operation->parameters, operation->count);
    int status = ps_client_verdict(client, operation->items, operation->count, results, error);
    ps_client_release_items(client, operation->items, operation->count);
    ps_release(client->memory, operation);
    return status;
}
