/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: keys and values for server programs, as ps-lite's KVWorker has them. A request is
 * checked as a whole before anything is sent, sliced by server, and its values leave from where the
 * caller has them, or from one copy; what is pulled goes from the network to where the caller wants
 * it, once.
 *
 * The order of keys is what makes that possible: the values of one server are one run of the
 * caller's memory, both ways. ps-lite relies on that order and does not look: unsorted keys go to
 * wrong servers there, and the highest key to none, which ends the process. Here a request that is
 * wrong is refused with the key that is, and nothing was sent.
 *
 * What comes back is believed as little. A program that answers too many values, or lengths that
 * are not those of the keys, would have values written behind the caller's memory, or under the
 * wrong keys: such an answer fails the request, and says what was wrong with it. */
#include "client/psclient_program.h"

#include "base/assert.h"
#include "base/dtype.h"
#include "client/program_customer.h"
#include "client/programs/key_slicer.h"
#include "client/psclient.h"
#include "client/status_map.h"
#include "proto/program_codec.h"

#include <inttypes.h>
#include <string.h>

/* Of one server. */
struct kv_part {
    uint32_t server;
    struct ps_key_slice slice;
    struct ps_bytes content; /* the values that are pushed */
    struct ps_program_tensor pushed, wanted;
};

/* A request as long as it lasts. */
struct kv_request {
    const struct ps_allocator *memory;
    void *copy; /* owned: keys, lengths and values of the forms without a z; NULL: the caller's */
    struct ps_key_list list;
    size_t element_size;
    uint8_t *outs;       /* borrowed; NULL: nothing is pulled */
    uint32_t *lens_outs; /* borrowed; may be NULL */
    size_t part_count;
    struct kv_part parts[]; /* of the servers that have keys */
};

/* What a public function was called with. */
struct kv_wish {
    struct ps_customer *customer;
    const struct ps_kv_pairs *pairs;
    const void *values; /* NULL: nothing is pushed */
    void *outs;         /* NULL: nothing is pulled */
    bool is_in_place;
    enum ps_ask_kind kind;
};

static int begin(const struct kv_wish *wish, const struct ps_kv_call *call, int64_t *timestamp,
                 struct psclient_error *error);
static enum ps_status make(const struct kv_wish *wish, struct kv_request **out,
                           struct ps_error *error);
static enum ps_status copy_in(const struct kv_wish *wish, struct kv_request *request,
                              const uint8_t **values, struct ps_error *error);
static enum ps_status slice(const struct kv_wish *wish, struct kv_request *request,
                            const uint8_t *values, struct ps_error *error);
static enum ps_status send(struct ps_customer *customer, struct kv_request *request,
                           const struct ps_kv_call *call, enum ps_ask_kind kind, int64_t *timestamp,
                           struct ps_error *error);
static enum ps_status take(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error);
static void release(void *self);

/* Read by every request without a lock; the manual says when it may be set. */
PS_EXPORT void ps_kv_worker_set_slicer(struct ps_customer *customer, ps_kv_slicer slicer,
                                       void *user)
{
    customer->slicer = slicer;
    customer->slicer_user = user;
}

/* For slicers of the program's own, which may want to keep some keys where they are by default. */
PS_EXPORT uint64_t ps_kv_worker_range_begin(const struct ps_customer *customer, uint32_t server)
{
    return server < customer->server_count ? ps_key_range_begin(server, customer->server_count)
                                           : UINT64_MAX;
}

/* The six forms differ in three things, which a wish has as fields: what is pushed, where to what
 * is pulled goes, and whether the caller's memory is used in place. */
PS_EXPORT int ps_kv_worker_push(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                                const struct ps_kv_call *call, int64_t *timestamp,
                                struct psclient_error *error)
{
    const struct kv_wish wish = {customer, pushed, pushed->values, NULL, false, PS_ASK_PUSH};
    return begin(&wish, call, timestamp, error);
}

/* Nothing is copied but the keys, which travel in the message's head. */
PS_EXPORT int ps_kv_worker_zpush(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                                 const struct ps_kv_call *call, int64_t *timestamp,
                                 struct psclient_error *error)
{
    const struct kv_wish wish = {customer, pushed, pushed->values, NULL, true, PS_ASK_PUSH};
    return begin(&wish, call, timestamp, error);
}

/* Keys and lengths are copied, so that only the place of the values must last. */
PS_EXPORT int ps_kv_worker_pull(struct ps_customer *customer, const struct ps_kv_pairs *pulled,
                                const struct ps_kv_call *call, int64_t *timestamp,
                                struct psclient_error *error)
{
    const struct kv_wish wish = {customer, pulled, NULL, pulled->values, false, PS_ASK_PULL};
    return begin(&wish, call, timestamp, error);
}

/* Lengths are looked at again when answers come, so that they, too, must last here. */
PS_EXPORT int ps_kv_worker_zpull(struct ps_customer *customer, const struct ps_kv_pairs *pulled,
                                 const struct ps_kv_call *call, int64_t *timestamp,
                                 struct psclient_error *error)
{
    const struct kv_wish wish = {customer, pulled, NULL, pulled->values, true, PS_ASK_PULL};
    return begin(&wish, call, timestamp, error);
}

/* One message each way. The program answers what its handler makes of the push, so that two
 * workers which do this at the same time each get values in which their own push is counted. */
PS_EXPORT int ps_kv_worker_push_pull(struct ps_customer *customer, const struct ps_kv_pairs *pushed,
                                     void *outs, const struct ps_kv_call *call, int64_t *timestamp,
                                     struct psclient_error *error)
{
    const struct kv_wish wish = {customer, pushed, pushed->values, outs, false, PS_ASK_PUSH_PULL};
    return begin(&wish, call, timestamp, error);
}

/* Values may be answered into the memory that they were pushed from: a server answers only after
 * the whole request has arrived, and nothing of it is sent again once it was answered. */
PS_EXPORT int ps_kv_worker_zpush_pull(struct ps_customer *customer,
                                      const struct ps_kv_pairs *pushed, void *outs,
                                      const struct ps_kv_call *call, int64_t *timestamp,
                                      struct psclient_error *error)
{
    const struct kv_wish wish = {customer, pushed, pushed->values, outs, true, PS_ASK_PUSH_PULL};
    return begin(&wish, call, timestamp, error);
}

/* The same under the name that a port of ps-lite looks for. */
PS_EXPORT int ps_kv_worker_wait(struct ps_customer *customer, int64_t timestamp,
                                uint64_t timeout_ms, struct psclient_error *error)
{
    return ps_customer_wait(customer, timestamp, timeout_ms, error);
}

/* ---- A request ---- */

/* A failure gives out no number: ps-lite's callers that ignore the result wait for -1 here, and
 * are told that there is no such request. */
static int begin(const struct kv_wish *wish, const struct ps_kv_call *call, int64_t *timestamp,
                 struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct kv_request *request = NULL;
    *timestamp = -1;
    enum ps_status status = make(wish, &request, &why);
    if (status == PS_OK) {
        /* Written by answers, long after the struct that names it is gone. */
        request->lens_outs = call != NULL ? call->lens : NULL;
        status = send(wish->customer, request, call, wish->kind, timestamp, &why);
        if (status != PS_OK)
            release(request);
    }
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* A type that the library does not know travels, too: then nothing can be said of its size. */
static enum ps_status check(const struct kv_wish *wish, struct ps_error *error)
{
    const struct ps_kv_pairs *pairs = wish->pairs;
    const struct ps_key_list list = {pairs->keys, pairs->key_count, pairs->lens,
                                     pairs->value_count};
    if (pairs->type < 0 || pairs->type >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%d is not an element type", pairs->type);
    if (pairs->value_count > 0 && wish->values == NULL && wish->outs == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "there are no values");
    if (wish->kind == PS_ASK_PUSH_PULL && pairs->value_count > 0 &&
        (wish->values == NULL || wish->outs == NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT, "values are missing, or room for those pulled");
    /* So that no product with an element's size overflows below. */
    if (pairs->value_count > SIZE_MAX / 16)
        return ps_fail(error, PS_ERR_BAD_INPUT, "too many values");
    return ps_key_list_check(&list, error);
}

/* On failure there is none. */
static enum ps_status make(const struct kv_wish *wish, struct kv_request **out,
                           struct ps_error *error)
{
    const struct ps_allocator *memory = wish->customer->client->memory;
    const uint8_t *values = wish->values;
    PS_TRY(check(wish, error));
    /* Room for every server, of which mostly each has a key: one allocation, however many there
     * are. */
    struct kv_request *request =
        ps_zeroed(memory, sizeof *request + wish->customer->server_count * sizeof(struct kv_part));
    if (request == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    request->memory = memory;
    request->list = (struct ps_key_list){wish->pairs->keys, wish->pairs->key_count,
                                         wish->pairs->lens, wish->pairs->value_count};
    request->element_size = ps_dtype_size((enum ps_dtype)wish->pairs->type);
    request->outs = wish->outs;
    enum ps_status status = PS_OK;
    if (!wish->is_in_place)
        status = copy_in(wish, request, &values, error);
    if (status == PS_OK)
        status = slice(wish, request, values, error);
    if (status != PS_OK) {
        release(request);
        return status;
    }
    *out = request;
    return PS_OK;
}

/* One allocation: lengths of a pull and values of a push. The keys go into the messages, which are
 * made before the function returns, and are needed afterwards by nobody. */
static enum ps_status copy_in(const struct kv_wish *wish, struct kv_request *request,
                              const uint8_t **values, struct ps_error *error)
{
    struct ps_key_list *list = &request->list;
    /* Nothing is copied of a pull but its lengths. */
    size_t value_bytes = wish->values != NULL ? list->value_count * request->element_size : 0;
    size_t lens_bytes = list->lens != NULL ? list->key_count * sizeof *list->lens : 0;
    if (value_bytes + lens_bytes == 0)
        return PS_OK;
    uint8_t *copy = ps_plain(request->memory, value_bytes + lens_bytes);
    if (copy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a copy of the values");
    request->copy = copy;
    if (lens_bytes > 0) {
        memcpy(copy, list->lens, lens_bytes);
        list->lens = request->copy;
    }
    if (value_bytes > 0) {
        memcpy(copy + lens_bytes, wish->values, value_bytes);
        *values = copy + lens_bytes;
    }
    return PS_OK;
}

/* Asks the program's slicer, if it has one. */
static enum ps_status cut(const struct ps_customer *customer, const struct ps_key_list *list,
                          struct ps_key_slice *slices, size_t *counts, struct ps_error *error)
{
    if (customer->slicer == NULL) {
        /* By ranges, as every other worker of the job does it: they must agree who has a key. */
        ps_key_slice_evenly(list, customer->server_count, slices);
        return PS_OK;
    }
    customer->slicer(customer->slicer_user, list->keys, list->key_count, customer->server_count,
                     counts);
    return ps_key_slice_by_counts(list, counts, customer->server_count, slices, error);
}

/* What one server is told of its slice. */
static void describe(struct kv_request *request, struct kv_part *part, const struct kv_wish *wish,
                     const uint8_t *values)
{
    size_t bytes = part->slice.value_count * request->element_size;
    const struct ps_value_facts facts = {.dtype = (uint32_t)wish->pairs->type,
                                         .element_size = (uint32_t)request->element_size,
                                         .rank = 1,
                                         .extents = {part->slice.value_count}};
    const struct ps_program_tensor tensor = {.size = bytes, .facts = facts};
    part->pushed = tensor;
    /* Whether anything is wanted or pushed is decided where the request is written. */
    part->wanted = tensor;
    if (values != NULL)
        part->content =
            (struct ps_bytes){values + part->slice.value_begin * request->element_size, bytes};
}

/* Only servers with keys get a part. */
static enum ps_status slice(const struct kv_wish *wish, struct kv_request *request,
                            const uint8_t *values, struct ps_error *error)
{
    struct ps_customer *customer = wish->customer;
    uint32_t count = customer->server_count;
    struct ps_key_slice *slices = ps_zeroed_array(request->memory, count, sizeof *slices);
    size_t *counts = ps_zeroed_array(request->memory, count, sizeof *counts);
    enum ps_status status = PS_ERR_NO_MEMORY;
    if (slices != NULL && counts != NULL)
        status = cut(customer, &request->list, slices, counts, error);
    else
        (void)ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the slices of a request");
    for (uint32_t i = 0; status == PS_OK && i < count; i++) {
        /* ps-lite counts such a server as having answered; here it is not part of the request at
         * all. */
        if (slices[i].key_count == 0)
            continue;
        struct kv_part *part = &request->parts[request->part_count++];
        part->server = i;
        part->slice = slices[i];
        describe(request, part, wish, wish->values != NULL ? values : NULL);
    }
    ps_release(request->memory, counts);
    ps_release(request->memory, slices);
    return status;
}

/* The lists of the wishes are needed until the messages are written. */
static enum ps_status send(struct ps_customer *customer, struct kv_request *request,
                           const struct ps_kv_call *call, enum ps_ask_kind kind, int64_t *timestamp,
                           struct ps_error *error)
{
    const struct ps_key_list *list = &request->list;
    struct ps_ask_wish *wishes =
        ps_zeroed_array(request->memory, request->part_count + 1, sizeof *wishes);
    if (wishes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request");
    for (size_t i = 0; i < request->part_count; i++) {
        struct kv_part *part = &request->parts[i];
        const struct ps_key_slice *slice = &part->slice;
        struct ps_program_payload *payload = &wishes[i].payload;
        /* The parts are in the order of their servers. */
        wishes[i].node = (struct ps_program_node){.rank = part->server};
        payload->keys = (struct ps_bytes){(const uint8_t *)(list->keys + slice->key_begin),
                                          slice->key_count * sizeof *list->keys};
        if (list->lens != NULL)
            payload->lens = (struct ps_bytes){(const uint8_t *)(list->lens + slice->key_begin),
                                              slice->key_count * sizeof *list->lens};
        /* A piece is the part's own: the view points to it until the request is over. */
        if (kind != PS_ASK_PULL) {
            payload->tensors = &part->pushed;
            payload->tensor_count = 1;
            payload->content = ps_view_of(&part->content);
        }
        if (kind != PS_ASK_PUSH) {
            payload->outputs = &part->wanted;
            payload->output_count = 1;
        }
    }
    const struct ps_ask_call ask = {
        .kind = kind, .call = call, .take = take, .release = release, .self = request};
    enum ps_status status =
        ps_asking_begin(customer, wishes, request->part_count, &ask, timestamp, error);
    ps_release(request->memory, wishes);
    return status;
}

/* ---- Answers ---- */

/* The elements of a key of the whole request. */
static uint32_t len_of(const struct kv_request *request, size_t key)
{
    const struct ps_key_list *list = &request->list;
    return list->lens != NULL ? list->lens[key] : (uint32_t)(list->value_count / list->key_count);
}

/* The lengths that an answer says must be those that were asked for, since the place of each key's
 * values follows from them; an answer that says none has them. */
static enum ps_status take_lens(struct kv_request *request, const struct kv_part *part,
                                struct ps_bytes lens, struct ps_error *error)
{
    size_t count = lens.size / sizeof(uint32_t);
    if (count != 0 && count != part->slice.key_count)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the program answers %zu keys instead of %zu",
                       count, part->slice.key_count);
    for (size_t i = 0; i < part->slice.key_count; i++) {
        size_t key = part->slice.key_begin + i;
        uint32_t wanted = len_of(request, key);
        if (count != 0 && ps_program_len_at(lens, i) != wanted)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "the program answers %" PRIu32 " elements for a key instead of %" PRIu32,
                           ps_program_len_at(lens, i), wanted);
        if (request->lens_outs != NULL)
            request->lens_outs[key] = wanted;
    }
    return PS_OK;
}

/* Of a push the answer has nothing. */
static enum ps_status take(void *self, int64_t timestamp, size_t i,
                           const struct ps_ask_reply *reply, struct ps_error *error)
{
    struct kv_request *request = self;
    (void)timestamp;
    const struct kv_part *part = &request->parts[i];
    PS_ASSERT(i < request->part_count);
    if (request->outs == NULL)
        return PS_OK;
    size_t bytes = part->slice.value_count * request->element_size;
    if (reply->payload.content.size != bytes)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "the program answers %zu bytes of values instead of %zu",
                       reply->payload.content.size, bytes);
    /* Lengths before values: where they do not fit, nothing was written. */
    PS_TRY(take_lens(request, part, reply->payload.lens, error));
    ps_view_copy(reply->payload.content, 0,
                 request->outs + part->slice.value_begin * request->element_size, bytes);
    return PS_OK;
}

/* Of a request that was collected, or never begun. */
static void release(void *self)
{
    struct kv_request *request = self;
    ps_release(request->memory, request->copy);
    ps_release(request->memory, request);
}
