/* SPDX-License-Identifier: Apache-2.0 */
/* From items to calls: cutting, naming, queueing.
 *
 * A batch is built in two passes over its items. The first counts calls and the bytes of names; the
 * second fills memory of exactly that bound. So nothing moves while the batch lives: requests point
 * to their names and contents, and the channel reads both until the last outcome was taken. */
#include "client/engine/batch.h"

#include "base/assert.h"
#include "client/calls/method_table.h"
#include "client/calls/pull_decoder.h"
#include "client/engine/placement.h"

#include <string.h>

#define BATCH_MAGIC 0x62617463u

static void count_calls(const struct ps_batch_request *request, const struct ps_layout *layout,
                        uint64_t *calls, uint64_t *name_bytes);
static struct ps_placement item_placement(const struct ps_item *item,
                                          const struct ps_layout *layout);
static void add_item(struct ps_batch *batch, uint32_t i, char **names);
static void add_call(struct ps_batch *batch, uint32_t item, uint32_t shard, struct ps_bytes name,
                     size_t offset, size_t size);
static void send_encoded(struct ps_engine_call *call, const struct ps_encoded_push *encoded,
                         uint32_t range);
static void fill_request(struct ps_batch *batch, struct ps_engine_call *call, struct ps_bytes name);

static bool add_ranges(struct ps_batch *batch, size_t above_bytes);

/* Everything is allocated here, so that no event behind it can fail. */
enum ps_status ps_batch_create(const struct ps_batch_request *request,
                               const struct ps_engine_options *options, struct ps_batch **out,
                               struct ps_error *error)
{
    const struct ps_allocator *memory = options->memory;
    /* Copied: a number that is told later is for later batches. */
    const struct ps_layout layout = {options->split_bytes, options->placement,
                                     options->shard_count};
    uint32_t shard_count = options->shard_count;
    uint64_t call_count, name_bytes;
    count_calls(request, &layout, &call_count, &name_bytes);
    /* Both are limited, since everything behind this line counts items and calls in 32 bits. */
    if (call_count > PS_BATCH_CALLS_MAX || request->item_count > PS_BATCH_CALLS_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "a batch of %zu items: at most %u calls go",
                       request->item_count, PS_BATCH_CALLS_MAX);

    struct ps_batch *batch = ps_zeroed(memory, sizeof *batch);
    if (batch == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    batch->magic = BATCH_MAGIC;
    batch->memory = memory;
    batch->request = *request;
    /* Nothing is paused yet. */
    batch->wake_ms = request->deadline_ms;
    batch->outbox = (struct ps_call_queue){PS_NO_CALL, PS_NO_CALL, 0};
    batch->lane_count = shard_count;
    batch->layout = layout;

    /* The content of each request is a view of its call's own piece, so this array is allocated at
     * its full size at once: after a move the views would point to memory that was given back. */
    batch->calls = ps_zeroed_array(memory, (size_t)call_count, sizeof *batch->calls);
    batch->lanes = ps_zeroed_array(memory, shard_count, sizeof *batch->lanes);
    batch->names = ps_plain(memory, (size_t)name_bytes);
    if (batch->calls == NULL || batch->lanes == NULL || batch->names == NULL) {
        ps_batch_destroy(batch);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch of %zu items",
                       request->item_count);
    }

    for (uint32_t i = 0; i < shard_count; i++)
        ps_lane_clear(&batch->lanes[i]);
    char *names = batch->names;
    for (uint32_t i = 0; i < request->item_count; i++)
        add_item(batch, i, &names);
    PS_ASSERT(batch->call_count <= call_count);
    PS_ASSERT(names <= batch->names + name_bytes);
    /* Last, since only requests that are filled in say how large their contents are. */
    if (!add_ranges(batch, options->ranges.above_bytes)) {
        ps_batch_destroy(batch);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the ranges of a batch");
    }
    *out = batch;
    return PS_OK;
}

/* Accepts a batch of which only a part was allocated: creation ends here when memory is refused. */
void ps_batch_destroy(struct ps_batch *batch)
{
    if (batch == NULL)
        return;
    PS_ASSERT(batch->magic == BATCH_MAGIC);
    for (uint32_t i = 0; batch->calls != NULL && i < batch->call_count; i++)
        ps_release(batch->memory, batch->calls[i].fetched);
    ps_release(batch->memory, batch->names);
    ps_release(batch->memory, batch->lanes);
    ps_release(batch->memory, batch->ranges);
    ps_release(batch->memory, batch->calls);
    ps_release(batch->memory, batch);
}

/* Whether a call goes in ranges is decided at each attempt; the room for them is there. The
 * state of ranges is large and few calls need any, so it lies beside the calls, not in each. */
static bool add_ranges(struct ps_batch *batch, size_t above_bytes)
{
    size_t count = 0;
    for (uint32_t i = 0; i < batch->call_count; i++)
        count += ps_ranges_bytes(&batch->calls[i].request) > above_bytes ? 1 : 0;
    if (count == 0)
        return true;
    batch->ranges = ps_zeroed_array(batch->memory, count, sizeof *batch->ranges);
    if (batch->ranges == NULL)
        return false;
    struct ps_ranges_call *next = batch->ranges;
    for (uint32_t i = 0; i < batch->call_count; i++)
        if (ps_ranges_bytes(&batch->calls[i].request) > above_bytes)
            batch->calls[i].ranges = next++;
    return true;
}

/* Whoever was told another number meanwhile asks again for what was not found. */
uint64_t ps_batch_placed_by(const struct ps_batch *batch)
{
    return batch->layout.placement;
}

/* Items that were wrong made no call, so a batch of such items is finished from the start. */
bool ps_batch_is_finished(const struct ps_batch *batch)
{
    return batch->done_count == batch->call_count;
}

/* An upper bound: items that are wrong count, but make no call. The sums have 64 bits, so that no
 * caller's number of items can wrap them to something that looks small enough. */
static void count_calls(const struct ps_batch_request *request, const struct ps_layout *layout,
                        uint64_t *calls, uint64_t *name_bytes)
{
    *calls = 0;
    *name_bytes = 0;
    for (size_t i = 0; i < request->item_count; i++) {
        const struct ps_item *item = &request->items[i];
        uint64_t ranges = 1;
        if (ps_method_row(request->method)->names_parameter)
            ranges = item_placement(item, layout).range_count;
        /* One call for each range. */
        *calls += ranges;
        if (ranges > 1)
            *name_bytes += ranges * (item->name.size + PS_RANGE_SUFFIX_BYTES_MAX);
    }
}

/* Rounds a wrong size down; such an item is refused before its calls are made. */
static struct ps_placement item_placement(const struct ps_item *item,
                                          const struct ps_layout *layout)
{
    size_t element_size = 1;
    if (!item->any_dtype && (unsigned)item->dtype < PS_DTYPE_COUNT)
        element_size = ps_dtype_size(item->dtype);
    /* Without a type there is no element to cut at; rows are cut by their keys already. */
    struct ps_layout own = *layout;
    if (item->any_dtype || item->of_table)
        own.split_bytes = UINT64_MAX;
    return ps_placement_of(item->size - item->size % element_size, element_size, &own);
}

/* Everything that an earlier use of the caller's item left in it is cleared first. An item that is
 * wrong in itself fails alone: the others of its batch go. Names of ranges lie in one block that
 * was sized before, since calls borrow them until the batch is ended. */
static void add_item(struct ps_batch *batch, uint32_t i, char **names)
{
    struct ps_item *item = &batch->request.items[i];
    item->status = PS_OK;
    item->before = false;
    item->existed = batch->request.method == PS_METHOD_DEFINE;
    /* Above every version, so that the first reply is the lowest so far. */
    item->version = PS_NO_VERSION;
    item->pulled_version = PS_NO_VERSION;
    item->position = 0;
    item->duplicate = false;
    item->held = false;
    item->late = false;
    item->retries = 0;
    item->no_such_call = false;
    item->may_be_applied = false;
    item->text[0] = '\0';

    struct ps_error error = {.status = PS_OK};
    enum ps_status status = ps_item_check(batch->request.method, item, batch->lane_count, &error);
    if (status != PS_OK) {
        ps_item_fail(item, status, error.text);
        return;
    }
    if (!ps_method_row(batch->request.method)->names_parameter) {
        add_call(batch, i, item->shard, item->name, 0, 0);
        return;
    }

    struct ps_placement placement = item_placement(item, &batch->layout);
    status = ps_placement_check_name(item->name, placement.range_count > 1, &error);
    if (status != PS_OK) {
        ps_item_fail(item, status, error.text);
        return;
    }
    /* Of a table there is one: whoever made the item has cut its keys by server already. */
    for (uint32_t k = 0; k < placement.range_count; k++) {
        struct ps_range range = ps_placement_range(&placement, item->name, k);
        /* Every server has a part of a table, under the same name. */
        if (item->of_table)
            range.shard = item->shard;
        struct ps_bytes name = item->name;
        /* The name of a whole parameter stays where the caller has it: items are borrowed for as
         * long as the batch lives. */
        if (placement.range_count > 1) {
            char text[PS_NAME_BYTES_MAX];
            name.size = ps_placement_name(&placement, item->name, k, text);
            name.data = memcpy(*names, text, name.size);
            *names += name.size;
        }
        add_call(batch, i, range.shard, name, range.offset, range.size);
        if (item->encoded != NULL)
            send_encoded(&batch->calls[batch->call_count - 1], item->encoded, k);
    }
}

/* The bytes are made already: what is sent again is what was sent before. */
static void send_encoded(struct ps_engine_call *call, const struct ps_encoded_push *encoded,
                         uint32_t range)
{
    struct ps_call_request *request = &call->request;
    PS_ASSERT(ps_method_row(request->method)->pushes);
    struct ps_push_request *push =
        request->method == PS_METHOD_PUSH ? &request->push : &request->push_pull.push;
    /* The encoder cut by the same placement, so its ranges and the calls of the item correspond
     * one to one. */
    call->content = encoded->ranges[range];
    push->content = ps_view_of(&call->content);
    push->encoding = encoded->encoding;
}

/* Every call waits in its lane from the start; whether it leaves depends on room and numbers. */
static void add_call(struct ps_batch *batch, uint32_t item, uint32_t shard, struct ps_bytes name,
                     size_t offset, size_t size)
{
    uint32_t index = batch->call_count++;
    struct ps_engine_call *call = &batch->calls[index];
    /* It has no number yet: that comes when it leaves. */
    call->state = PS_CALL_READY;
    call->item = item;
    call->shard = shard;
    call->offset = offset;
    call->size = size;
    fill_request(batch, call, name);
    ps_call_queue_push(batch, &batch->lanes[shard].ready, index);
}

/* Of a parameter of any type nobody knows the length of an element, so no destination is told: the
 * reply is taken as a whole when its type is known. */
static struct ps_pull_request pull_of(const struct ps_item *item, const struct ps_engine_call *call,
                                      struct ps_bytes name)
{
    struct ps_pull_request pull = {.name = name,
                                   .encoding = item->encoding,
                                   .size_wish = call->size,
                                   .dtype = item->dtype,
                                   .at_least_version = item->at_least_version,
                                   .keys = ps_view_of(&item->keys),
                                   .place = item->place,
                                   .as_is = item->as_is};
    size_t offset = call->offset;
    if (item->as_is)
        offset = offset / ps_dtype_size(item->dtype) * ps_pull_element_bytes(&pull);
    if (item->place != NULL)
        pull.room = item->destination + offset; /* nobody writes there but the device */
    else if (!item->any_dtype)
        pull.destination = item->destination + offset;
    /* The worker of a push and pull in one is who contributes; it reads at no clock. */
    if (item->clocks.size == 0)
        return pull;
    PS_ASSERT(item->worker != 0 && item->clocks.size <= PS_CLOCKS_NAME_BYTES_MAX);
    pull.worker = item->worker;
    pull.clock = item->clock;
    pull.clocks = item->clocks;
    return pull;
}

/* `total` is the number of elements whatever the encoding, since encoded bytes do not say it. */
static struct ps_push_request push_of(const struct ps_batch *batch, const struct ps_item *item,
                                      struct ps_engine_call *call, struct ps_bytes name)
{
    return (struct ps_push_request){.name = name,
                                    .dtype = item->dtype,
                                    .content = ps_view_of(&call->content),
                                    .total = call->size / ps_dtype_size(item->dtype),
                                    .worker = item->worker,
                                    .round = item->round,
                                    .weight = item->weight,
                                    .row_width = item->row_width,
                                    .place = item->place,
                                    .ack = batch->request.ack};
}

/* Every range of a cut parameter says the shape of the whole, which was judged before. */
static struct ps_init_request init_of(const struct ps_item *item, struct ps_engine_call *call,
                                      struct ps_bytes name)
{
    struct ps_init_request init = {.name = name,
                                   .dtype = item->dtype,
                                   .content = ps_view_of(&call->content),
                                   .config = item->config};
    enum ps_status status = ps_item_shape(item, &init.shape, NULL);
    PS_ASSERT(status == PS_OK);
    return init;
}

/* A page of rows: what the item asks, and where the page begins. The name of the item is a place in
 * the list here, and no parameter need have it. */
static struct ps_list_request list_of(const struct ps_item *item)
{
    return (struct ps_list_request){.after = item->name,
                                    .limit = item->rows_max,
                                    .prefix = item->prefix,
                                    .with_config = item->with_config};
}

/* The number is for the shard's checkpoints: by it the parameters of this batch were placed. */
static struct ps_finish_request finish_of(const struct ps_batch *batch,
                                          const struct ps_engine_call *call)
{
    struct ps_finish_request finish = {.placement = batch->layout.placement};
    if (batch->request.init_epochs != NULL)
        finish.epoch = batch->request.init_epochs[call->shard];
    return finish;
}

/* The content follows its message from where the caller has it, as that of a push does. */
static void ask_of(const struct ps_item *item, struct ps_engine_call *call)
{
    struct ps_call_request *request = &call->request;
    PS_ASSERT(ps_method_row(request->method)->is_asked);
    request->ask = item->ask;
    request->ask_content = item->ask_content;
    request->ask_room = item->ask_room;
    request->ask_shared = (struct ps_shared_range){0};
    request->ask_room_shared = (struct ps_shared_range){0};
    /* Written into the request with each attempt (engine_life.c). */
    call->life = item->ask_epoch;
}

/* What stands in the item, in the words of the method's request. A request that needs nothing but
 * its id, or nothing at all, is filled in already. */
static void fill_request(struct ps_batch *batch, struct ps_engine_call *call, struct ps_bytes name)
{
    const struct ps_item *item = &batch->request.items[call->item];
    struct ps_call_request *request = &call->request;
    enum ps_method method = batch->request.method;
    if (item->content != NULL)
        call->content = (struct ps_bytes){item->content + call->offset, call->size};

    request->method = method;
    if (method == PS_METHOD_INIT || method == PS_METHOD_DEFINE)
        request->init = init_of(item, call, name);
    else if (method == PS_METHOD_DROP || method == PS_METHOD_CONFIGURE)
        request->change = (struct ps_change_request){.name = name, .change = item->config};
    else if (method == PS_METHOD_PUSH)
        request->push = push_of(batch, item, call, name);
    else if (method == PS_METHOD_PULL)
        request->pull = pull_of(item, call, name);
    else if (method == PS_METHOD_LIST)
        request->list = list_of(item);
    else if (method == PS_METHOD_SINCE)
        request->since = *item->since;
    else if (method == PS_METHOD_SET_CLOCKS)
        request->set_clocks = *item->set_clocks;
    else if (method == PS_METHOD_CLOCK)
        request->clock = *item->told_clock;
    else if (method == PS_METHOD_FINISH)
        request->finish = finish_of(batch, call);
    else if (ps_method_row(method)->is_asked)
        ask_of(item, call);
    else if (method == PS_METHOD_SAVE)
        request->save.once = true; /* a reason is worth more than a longer wait */
    if (method != PS_METHOD_PUSH_PULL)
        return;
    /* Both halves name one range: the pull brings back the values that the push has changed. */
    request->push_pull.push = push_of(batch, item, call, name);
    request->push_pull.pull = pull_of(item, call, name);
}

/* Calls that were queued keep their states; whoever clears a lane looks at each of them. */
void ps_lane_clear(struct ps_lane *lane)
{
    lane->again = (struct ps_call_queue){PS_NO_CALL, PS_NO_CALL, 0};
    lane->ready = (struct ps_call_queue){PS_NO_CALL, PS_NO_CALL, 0};
}

/* A call is in one queue at a time: lane or outbox. So one link in the call is enough. */
void ps_call_queue_push(struct ps_batch *batch, struct ps_call_queue *queue, uint32_t call)
{
    batch->calls[call].next = PS_NO_CALL;
    if (queue->last == PS_NO_CALL)
        queue->first = call;
    else
        batch->calls[queue->last].next = call;
    queue->last = call;
    queue->count++;
}

/* The link of the call that leaves is left as it is: it is written again when the call is
 * queued. */
uint32_t ps_call_queue_pop(struct ps_batch *batch, struct ps_call_queue *queue)
{
    uint32_t call = queue->first;
    if (call == PS_NO_CALL)
        return call;
    queue->first = batch->calls[call].next;
    queue->count--;
    if (queue->first == PS_NO_CALL)
        queue->last = PS_NO_CALL;
    return call;
}

/* Queues are linked one way, so the call before is looked for. Only outboxes are asked for this,
 * which are nearly empty whenever an outcome comes. */
void ps_call_queue_remove(struct ps_batch *batch, struct ps_call_queue *queue, uint32_t call)
{
    uint32_t before = PS_NO_CALL;
    for (uint32_t i = queue->first; i != call; i = batch->calls[i].next) {
        /* Looking for a call of another queue would lead past the end of the calls. */
        PS_ASSERT(i != PS_NO_CALL);
        before = i;
    }
    uint32_t behind = batch->calls[call].next;
    if (before == PS_NO_CALL)
        queue->first = behind;
    else
        batch->calls[before].next = behind;
    if (queue->last == call)
        queue->last = before;
    queue->count--;
}
