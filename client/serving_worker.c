/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: batched serving, the workers' side. A push_pull is one request to each server, with
 * all tensors in one message; StepMesh sends a message for each tensor and puts them together by
 * their numbers, which is where interleaved requests of one worker get mixed up there.
 *
 * Handlers are numbers of tensors, as in StepMesh: each request has as many as it has tensors of
 * one server, and is found by any of them. A record of each stays for its trace when the request is
 * over: two owners, the list and the request, of which the last to let go gives it back. */
#include "client/serving_state.h"

#include "base/assert.h"
#include "client/psclient.h"
#include "client/status_map.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

/* Traces that are kept of requests that are over. */
enum { RECORDS_MAX = 1024 };

/* A request as long as it lasts. The tensors' structs are copied: only their memory must last. */
struct serving_request {
    struct ps_serving *serving;
    struct ps_serving_record *record;
    struct ps_serving_pieces pushed;
    struct ps_program_tensor *wanted; /* owned: of all servers, server 0 first */
    void **contents;                  /* owned: where each goes to */
    size_t wanted_each;               /* of one server */
};

static enum ps_status make(struct ps_serving *serving, const struct psclient_tensor *pushed,
                           size_t pushed_count, const struct psclient_tensor *pulled,
                           const uint64_t *pulled_keys, size_t pulled_count,
                           struct serving_request **out, struct ps_error *error);
static enum ps_status send(struct serving_request *request, const struct psclient_tensor *pushed,
                           const uint64_t *pushed_keys, size_t pushed_count, uint64_t timeout_ms,
                           struct ps_error *error);
static enum ps_status take(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error);
static void release(void *self);

/* ---- Records ---- */

/* The newest are looked at first: who waits does so soon after asking. With the lock. */
static struct ps_serving_record *find(struct ps_serving *serving, uint64_t handler)
{
    struct ps_serving_record *record = serving->records != NULL ? serving->records->prev : NULL;
    for (size_t i = 0; record != NULL && i < serving->record_count; i++, record = record->prev)
        if (handler >= record->first && handler - record->first < record->count)
            return record;
    return NULL;
}

/* A record that a request still writes to lives on, and is forgotten with that. With the lock. */
static void forget(struct ps_serving *serving, struct ps_serving_record *record)
{
    DL_DELETE(serving->records, record);
    serving->record_count--;
    record->is_forgotten = true;
    if (record->is_released)
        ps_release(serving->client->memory, record);
}

/* Requests that are open are kept, however many there are: the bound is for those that are over. */
static void add_record(struct ps_serving *serving, struct ps_serving_record *record)
{
    ps_mutex_lock(&serving->lock);
    record->first = serving->next_handler;
    serving->next_handler += record->count;
    DL_APPEND(serving->records, record);
    serving->record_count++;
    /* From the front, where the oldest are; one that is open ends this, and is taken with a
     * later request. */
    while (serving->record_count > RECORDS_MAX && serving->records->is_released)
        forget(serving, serving->records);
    ps_mutex_unlock(&serving->lock);
}

/* All requests have been collected by now. */
void ps_serving_forget_records(struct ps_serving *serving)
{
    ps_mutex_lock(&serving->lock);
    while (serving->records != NULL)
        forget(serving, serving->records);
    ps_mutex_unlock(&serving->lock);
}

/* ---- push_pull ---- */

/* The record comes first, so that answers find it: they may come while the request is still
 * being begun. On failure its handlers are gone, which nobody has been told. */
PS_EXPORT int ps_serving_push_pull(struct ps_serving *serving, const struct psclient_tensor *pushed,
                                   const uint64_t *pushed_keys, size_t pushed_count,
                                   const struct psclient_tensor *pulled,
                                   const uint64_t *pulled_keys, size_t pulled_count,
                                   uint64_t timeout_ms, uint64_t *handler,
                                   struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct serving_request *request = NULL;
    /* Said here and not by a server, which would not know whom it hears. */
    if (serving->role != PS_SERVING_WORKER)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "a server program pushes nothing");
    enum ps_status status =
        make(serving, pushed, pushed_count, pulled, pulled_keys, pulled_count, &request, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    add_record(serving, request->record);
    uint64_t first = request->record->first;
    status = send(request, pushed, pushed_keys, pushed_count, timeout_ms, &why);
    if (status != PS_OK) {
        ps_mutex_lock(&serving->lock);
        DL_DELETE(serving->records, request->record);
        serving->record_count--;
        request->record->is_forgotten = true;
        ps_mutex_unlock(&serving->lock);
        release(request);
        return ps_client_fail(error, status, why.text);
    }
    *handler = first;
    return ps_client_succeed(error);
}

/* What a server is asked for must be the same number of tensors for each. */
static enum ps_status check_counts(const struct ps_serving *serving, size_t pushed_count,
                                   size_t pulled_count, struct ps_error *error)
{
    if (pushed_count > PS_PROGRAM_TENSORS_MAX ||
        pulled_count / serving->server_count > PS_PROGRAM_TENSORS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "more than %d tensors", PS_PROGRAM_TENSORS_MAX);
    if (pulled_count % serving->server_count != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%zu tensors to pull are not as many for each of %" PRIu32 " servers",
                       pulled_count, serving->server_count);
    if (pushed_count + pulled_count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "there is nothing to push or to pull");
    return PS_OK;
}

/* Every struct is checked before anything is sent. On failure nothing is left. */
static enum ps_status make(struct ps_serving *serving, const struct psclient_tensor *pushed,
                           size_t pushed_count, const struct psclient_tensor *pulled,
                           const uint64_t *pulled_keys, size_t pulled_count,
                           struct serving_request **out, struct ps_error *error)
{
    const struct ps_allocator *memory = serving->client->memory;
    uint32_t servers = serving->server_count;
    PS_TRY(check_counts(serving, pushed_count, pulled_count, error));
    struct serving_request *request = ps_zeroed(memory, sizeof *request);
    if (request == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    request->serving = serving;
    request->wanted_each = pulled_count / servers;
    request->record =
        ps_zeroed(memory, sizeof *request->record + servers * sizeof request->record->rows[0]);
    request->wanted = ps_zeroed_array(memory, pulled_count + 1, sizeof *request->wanted);
    request->contents = ps_zeroed_array(memory, pulled_count + 1, sizeof *request->contents);
    enum ps_status status = PS_OK;
    /* One look at all three: release takes what is there. */
    if (request->record == NULL || request->wanted == NULL || request->contents == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    for (size_t i = 0; status == PS_OK && i < pulled_count; i++) {
        /* The caller's array of structs may go when this returns; the memory that they name may
         * not. */
        request->contents[i] = pulled[i].content;
        status = ps_serving_tensor_in(&pulled[i], pulled_keys != NULL ? pulled_keys[i] : i,
                                      "tensor to pull", i, &request->wanted[i], error);
    }
    if (status == PS_OK)
        status = ps_serving_gather(memory, pushed, pushed_count, &request->pushed, error);
    if (status != PS_OK) {
        if (request->record != NULL)
            request->record->is_forgotten = true;
        release(request);
        return status;
    }
    /* As many numbers as StepMesh would give out: one for each tensor that is pushed, and one
     * for each that is pulled of a server. */
    request->record->row_count = servers;
    request->record->count = pushed_count + request->wanted_each;
    request->record->timestamp = -1;
    *out = request;
    return PS_OK;
}

/* All servers are told the same, but for what is wanted of them. The record is noted to be of its
 * timestamp under the lock under which a wait looks. */
static enum ps_status send(struct serving_request *request, const struct psclient_tensor *pushed,
                           const uint64_t *pushed_keys, size_t pushed_count, uint64_t timeout_ms,
                           struct ps_error *error)
{
    struct ps_serving *serving = request->serving;
    struct ps_serving_record *record = request->record;
    const struct ps_allocator *memory = serving->client->memory;
    struct ps_program_tensor *tensors = ps_zeroed_array(memory, pushed_count + 1, sizeof *tensors);
    struct ps_ask_wish *wishes = ps_zeroed_array(memory, serving->server_count, sizeof *wishes);
    /* 0 stands for the time of the serving. */
    const struct ps_kv_call how = {.timeout_ms = timeout_ms};
    const struct ps_ask_call call = {
        .kind = PS_ASK_BATCH, .call = &how, .take = take, .release = release, .self = request};
    enum ps_status status = PS_OK;
    int64_t timestamp = -1;
    if (tensors == NULL || wishes == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    for (size_t i = 0; status == PS_OK && i < pushed_count; i++)
        status = ps_serving_tensor_in(&pushed[i], pushed_keys != NULL ? pushed_keys[i] : i,
                                      "tensor to push", i, &tensors[i], error);
    for (uint32_t i = 0; status == PS_OK && i < serving->server_count; i++) {
        wishes[i].node.rank = i;
        wishes[i].payload =
            (struct ps_program_payload){.tensors = tensors,
                                        .tensor_count = pushed_count,
                                        /* Each server's own part of what is pulled. */
                                        .outputs = request->wanted + i * request->wanted_each,
                                        .output_count = request->wanted_each,
                                        .content = request->pushed.view};
    }
    if (status == PS_OK)
        status = ps_asking_begin(serving->customer, wishes, serving->server_count, &call,
                                 &timestamp, error);
    if (status == PS_OK) {
        ps_mutex_lock(&serving->lock);
        record->timestamp = timestamp;
        ps_mutex_unlock(&serving->lock);
    }
    ps_release(memory, wishes);
    ps_release(memory, tensors);
    return status;
}

/* ---- Answers ---- */

/* In order, as the reply has them. */
static enum ps_status take_tensors(struct serving_request *request, size_t server,
                                   const struct ps_program_payload *payload, struct ps_error *error)
{
    size_t first = server * request->wanted_each, offset = 0;
    if (payload->tensor_count != request->wanted_each)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the program answers %zu tensors instead of %zu",
                       payload->tensor_count, request->wanted_each);
    /* All sizes are looked at before the first byte is written: a wrong answer leaves the
     * tensors as they were. */
    for (size_t i = 0; i < request->wanted_each; i++)
        if (payload->tensors[i].size != request->wanted[first + i].size)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "the program answers %" PRIu64
                           " bytes for tensor %zu instead of %" PRIu64,
                           payload->tensors[i].size, i, request->wanted[first + i].size);
    for (size_t i = 0; i < request->wanted_each; i++) {
        size_t size = (size_t)payload->tensors[i].size;
        ps_view_copy(payload->content, offset, request->contents[first + i], size);
        /* Contents follow each other in the reply as their tensors do. */
        offset += size;
    }
    return PS_OK;
}

/* Under the client's lock. The row is filled in before the request can be over. */
static enum ps_status take(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error)
{
    struct serving_request *request = self;
    struct ps_serving *serving = request->serving;
    const uint64_t *begun = ps_asking_stamps(serving->customer, timestamp);
    PS_TRY(take_tensors(request, i, &reply->payload, error));
    ps_mutex_lock(&serving->lock);
    request->record->rows[i] =
        (struct ps_serving_trace){.handler = request->record->first,
                                  .server = (uint32_t)i,
                                  .worker = ps_customer_rank(serving->customer),
                                  .worker_host = serving->host,
                                  .server_host = reply->stamps.host,
                                  .begun = begun != NULL ? begun[0] : 0,
                                  .sent = begun != NULL ? begun[1] : 0,
                                  .arrived = reply->stamps.ns[0],
                                  .taken = reply->stamps.ns[1],
                                  .answered = reply->stamps.ns[2],
                                  .replied = reply->stamps.ns[3],
                                  .received = ps_unix_ns(serving->client->clock)};
    ps_mutex_unlock(&serving->lock);
    return PS_OK;
}

/* Of a request that was collected, or never begun. */
static void release(void *self)
{
    struct serving_request *request = self;
    struct ps_serving *serving = request->serving;
    const struct ps_allocator *memory = serving->client->memory;
    ps_mutex_lock(&serving->lock);
    struct ps_serving_record *record = request->record;
    bool is_last = record != NULL && record->is_forgotten;
    if (record != NULL)
        record->is_released = true;
    ps_mutex_unlock(&serving->lock);
    if (is_last)
        ps_release(memory, record);
    ps_release(memory, request->pushed.copy);
    ps_release(memory, request->wanted);
    ps_release(memory, request->contents);
    ps_release(memory, request);
}

/* ---- wait, get_all_handlers, fetch_trace ---- */

/* In StepMesh a handler that was waited for is unknown, and so it is here after a while. */
static int no_such(uint64_t handler, struct psclient_error *error)
{
    struct ps_error why;
    enum ps_status status =
        ps_fail(&why, PS_ERR_NOT_FOUND, "there is no request of handler %" PRIu64, handler);
    return ps_client_fail(error, status, why.text);
}

/* The time of the first wait that has returned is the last stamp of all rows. */
static void note_waited(struct ps_serving *serving, uint64_t handler)
{
    uint64_t now_ns = ps_unix_ns(serving->client->clock);
    ps_mutex_lock(&serving->lock);
    struct ps_serving_record *record = find(serving, handler);
    for (size_t i = 0; record != NULL && i < record->row_count; i++)
        if (record->rows[i].waited == 0)
            record->rows[i].waited = now_ns;
    ps_mutex_unlock(&serving->lock);
}

/* By its number among the customer's requests: the record may go while this waits, when others
 * have asked for it and a thousand requests came since. */
PS_EXPORT int ps_serving_wait(struct ps_serving *serving, uint64_t handler, uint64_t timeout_ms,
                              struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    ps_mutex_lock(&serving->lock);
    const struct ps_serving_record *record = find(serving, handler);
    int64_t timestamp = record != NULL ? record->timestamp : -1;
    ps_mutex_unlock(&serving->lock);
    if (timestamp < 0)
        return no_such(handler, error);
    enum ps_status status = ps_asking_await(
        serving->customer, timestamp, ps_deadline_after(serving->client->clock, timeout_ms), &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    note_waited(serving, handler);
    return ps_client_succeed(error);
}

/* For whoever owns the tensors' memory. */
PS_EXPORT int ps_serving_is_open(struct ps_serving *serving, uint64_t handler)
{
    ps_mutex_lock(&serving->lock);
    const struct ps_serving_record *record = find(serving, handler);
    int64_t timestamp = record != NULL ? record->timestamp : -1;
    ps_mutex_unlock(&serving->lock);
    return timestamp >= 0 ? ps_customer_is_open(serving->customer, timestamp) : 0;
}

/* They are numbers in a row. Any of them stands for all the request. */
PS_EXPORT int ps_serving_get_all_handlers(struct ps_serving *serving, uint64_t handler,
                                          uint64_t *handlers, size_t room, size_t *count,
                                          struct psclient_error *error)
{
    ps_mutex_lock(&serving->lock);
    const struct ps_serving_record *record = find(serving, handler);
    uint64_t first = record != NULL ? record->first : 0;
    size_t found = record != NULL ? (size_t)record->count : 0;
    ps_mutex_unlock(&serving->lock);
    if (found == 0)
        return no_such(handler, error);
    for (size_t i = 0; i < found && i < room; i++)
        handlers[i] = first + i;
    *count = found;
    return ps_client_succeed(error);
}

/* Also before the request is over: servers that have answered have their row. */
PS_EXPORT int ps_serving_fetch_trace(struct ps_serving *serving, uint64_t handler,
                                     struct ps_serving_trace *rows, size_t room, size_t *count,
                                     struct psclient_error *error)
{
    size_t found = 0;
    ps_mutex_lock(&serving->lock);
    const struct ps_serving_record *record = find(serving, handler);
    if (record != NULL)
        found = record->row_count;
    for (size_t i = 0; i < found && i < room; i++)
        rows[i] = record->rows[i];
    ps_mutex_unlock(&serving->lock);
    if (found == 0)
        return no_such(handler, error);
    *count = found;
    return ps_client_succeed(error);
}
