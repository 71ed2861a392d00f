/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: a number and some bytes for a node or a group, as ps-lite's SimpleApp has them.
 *
 * Commands such as "stop" or "use this rule from now on" go this way: to a server, to all of them,
 * or to workers, which BytePS has given up. A worker that wants to be asked takes from a mailbox
 * of its own (worker_node of psclient_serving.h); one that does not is waited for until the
 * request's time is over, and is named then.
 *
 * Answers are handed to the program one by one, as they come: a request to a hundred nodes needs
 * no memory for a hundred bodies.
 */
#include "client/psclient_program.h"

#include "base/assert.h"
#include "client/program_customer.h"
#include "client/psclient.h"
#include "client/status_map.h"
#include "proto/program_messages.h"

#include <inttypes.h>

/* A request as long as it lasts. */
struct simple_request {
    const struct ps_allocator *memory;
    ps_simple_app_response response; /* NULL: nobody wants answers */
    void *user;
    uint32_t to, server_count;
};

static enum ps_status begin(struct ps_customer *customer, struct ps_bytes body, uint32_t to,
                            const struct ps_ask_call *ask, int64_t *timestamp,
                            struct ps_error *error);
static enum ps_status take(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error);
static void release(void *self);

/* The head is the command: one number for the program, whichever way it is asked. */
PS_EXPORT int ps_simple_app_request(struct ps_customer *customer, int32_t head, const void *body,
                                    size_t size, uint32_t to, ps_simple_app_response response,
                                    const struct ps_kv_call *call, int64_t *timestamp,
                                    struct psclient_error *error)
{
    const struct ps_allocator *memory = customer->client->memory;
    struct ps_error why = {.status = PS_OK};
    struct ps_kv_call how = call != NULL ? *call : (struct ps_kv_call){0};
    enum ps_status status = PS_OK;
    *timestamp = -1;
    /* A copy, since the caller's is constant, and may be none at all. */
    how.command = head;
    struct simple_request *request = ps_zeroed(memory, sizeof *request);
    if (request == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    /* Kept apart from the customer's record: the function and its argument are this kind's own,
     * and the number of servers tells which node an answer is of. */
    *request = (struct simple_request){.memory = memory,
                                       .response = response,
                                       .user = how.user,
                                       .to = to,
                                       .server_count = customer->server_count};
    const struct ps_ask_call ask = {
        .kind = PS_ASK_SIMPLE, .call = &how, .take = take, .release = release, .self = request};
    if (size > PS_PROGRAM_BODY_BYTES_MAX)
        status = ps_fail(&why, PS_ERR_BAD_INPUT, "a body has at most %d bytes, not %zu",
                         PS_PROGRAM_BODY_BYTES_MAX, size);
    if (status == PS_OK)
        status = begin(customer, (struct ps_bytes){body, size}, to, &ask, timestamp, &why);
    if (status == PS_OK)
        return ps_client_succeed(error);
    release(request);
    return ps_client_fail(error, status, why.text);
}

/* A simple request is one like all others once it is on its way. */
PS_EXPORT int ps_simple_app_wait(struct ps_customer *customer, int64_t timestamp,
                                 uint64_t timeout_ms, struct psclient_error *error)
{
    return ps_customer_wait(customer, timestamp, timeout_ms, error);
}

/* A group is what the job has now: shards never change, and workers are as many as were said when
 * the customer was opened. */
static enum ps_status begin(struct ps_customer *customer, struct ps_bytes body, uint32_t to,
                            const struct ps_ask_call *ask, int64_t *timestamp,
                            struct ps_error *error)
{
    size_t count = 0;
    PS_TRY(
        ps_program_group_size(to, customer->server_count, customer->worker_count, &count, error));
    struct ps_ask_wish *wishes = ps_zeroed_array(customer->client->memory, count, sizeof *wishes);
    if (wishes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    for (size_t i = 0; i < count; i++) {
        /* All members are told the same. A worker has its requests in a mailbox at one of the
         * servers. */
        wishes[i].node = ps_program_group_member(to, customer->server_count, i);
        wishes[i].payload.body = body;
    }
    enum ps_status status = ps_asking_begin(customer, wishes, count, ask, timestamp, error);
    ps_release(customer->client->memory, wishes);
    return status;
}

/* The first answers may come while the request is still being begun, on another thread: the number
 * is told here, and not by what the caller was given. */
static enum ps_status take(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error)
{
    const struct simple_request *request = self;
    (void)error;
    if (request->response != NULL)
        request->response(
            request->user, timestamp,
            ps_program_node_id(ps_program_group_member(request->to, request->server_count, i)),
            reply->payload.body.data, reply->payload.body.size);
    return PS_OK;
}

/* The body went into the messages when they were made: there is nothing else. */
static void release(void *self)
{
    struct simple_request *request = self;
    ps_release(request->memory, request);
}
