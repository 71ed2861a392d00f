/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes and pulls of memory that is a device's. A push is one batch whatever becomes of it: the
 * engine takes what a server cannot reach to the host, under the same number. A pull changes
 * nothing, so that what did not come to the device is simply pulled once more, by way of the host.
 * */
#include "client/psclient_device.h"

#include "base/assert.h"
#include "client/caller_structs.h"
#include "client/client_device.h"
#include "client/client_state.h"
#include "client/half_types.h"
#include "client/status_map.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

/* How long a failed call waits, beyond its timeout, for servers to let go; how often it looks. */
enum { LET_GO_MS = 2000, LOOK_MS = 2 };

/* What a batch needs beside its items. */
struct device_batch {
    struct psclient *client;
    struct psclient_device *device;
    struct ps_item *items;
    struct ps_device_place *places; /* one for each item */
    uint8_t **copies;               /* of contents that have no name; NULL entries: none */
    size_t count;
    uint64_t deadline_ms;
};

/* Accepts a batch of which only a part was allocated. Places and copies are borrowed by the engine
 * until the batch has run, and not beyond. */
static void end(struct device_batch *batch)
{
    for (size_t i = 0; batch->copies != NULL && i < batch->count; i++)
        ps_release(batch->client->memory, batch->copies[i]);
    ps_release(batch->client->memory, batch->copies);
    ps_release(batch->client->memory, batch->places);
    ps_release(batch->client->memory, batch->items);
}

/* Empty batches are fine here, too: arrays of nothing are not NULL. The deadline is made before
 * places are asked for, since a copy of what has no name may take long. False: there is no memory
 * for it, and nothing is left to end. */
static bool begin(struct device_batch *batch, struct psclient *client,
                  struct psclient_device *device, size_t count, uint64_t timeout_ms)
{
    *batch = (struct device_batch){.client = client, .device = device, .count = count};
    batch->deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    batch->items = ps_zeroed_array(client->memory, count, sizeof *batch->items);
    batch->places = ps_zeroed_array(client->memory, count, sizeof *batch->places);
    batch->copies = ps_zeroed_array(client->memory, count, sizeof *batch->copies);
    if (batch->items != NULL && batch->places != NULL && batch->copies != NULL)
        return true;
    end(batch);
    return false;
}

/* Until every server has let go, or the time is over. */
static bool await_let_go(struct psclient *client, const struct ps_device_share *share,
                         uint64_t deadline_ms)
{
    while (!ps_channel_grpc_let_go(&client->channel, share)) {
        if (ps_time_left_ms(client->clock, deadline_ms) == 0)
            return false;
        (void)poll(NULL, 0, LOOK_MS);
    }
    return true;
}

/* Ends the batch; what its call returns. A caller that was told of a failure will use its memory
 * for something else. After a success there is nothing to wait for: every server that took part has
 * answered, and by that it has said that it is done with the memory. */
static int settle(struct device_batch *batch, int status, struct psclient_error *error)
{
    static const char warning[] = "; the server may still use the memory";
    struct psclient *client = batch->client;
    end(batch);
    if (status == PSCLIENT_OK || ps_process_mark_is_child(&client->mark))
        return status;
    uint64_t last_ms = ps_deadline_after(client->clock, LET_GO_MS);
    bool let_go =
        await_let_go(client, NULL, batch->deadline_ms > last_ms ? batch->deadline_ms : last_ms);
    if (let_go || error == NULL)
        return status;
    /* Said in words and not by a status: what became of the push is the status's to say.
     * Cut at the front of the warning, if the text has no room for both. */
    size_t length = strnlen(error->text, sizeof error->text - 1);
    if (length > sizeof error->text - sizeof warning)
        length = sizeof error->text - sizeof warning;
    memcpy(error->text + length, warning, sizeof warning);
    return status;
}

/* ---- Pushes ---- */

/* A content that leaves its piece would be refused by every server, or read what is another's. */
static enum ps_status check_inside(struct ps_item *item, const struct ps_device_place *place,
                                   struct ps_error *error)
{
    /* By numbers: the addresses are of no object of this process. */
    size_t offset = (size_t)((uintptr_t)item->content - (uintptr_t)place->base);
    if (offset > place->share.bytes || item->size > place->share.bytes - offset)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter %.*s: %zu bytes leave the device's memory that they begin in",
                       (int)(item->name.size < 64 ? item->name.size : 64),
                       (const char *)item->name.data, item->size);
    item->place = place;
    return PS_OK;
}

/* Memory without a name (torch's expandable segments, say) goes to the host here: no server could
 * reach it. */
static enum ps_status find_content(struct device_batch *batch, size_t i, struct ps_error *error)
{
    struct ps_item *item = &batch->items[i];
    /* Judged by the engine, with all that is wrong in an item: names of pieces are asked of
     * addresses only. */
    if (item->content == NULL || item->size == 0)
        return PS_OK;
    enum ps_status status =
        ps_client_device_place(batch->device, item->content, &batch->places[i], error);
    if (status == PS_OK)
        return check_inside(item, &batch->places[i], error);
    if (status != PS_ERR_UNSUPPORTED)
        return status;
    batch->copies[i] = ps_plain(batch->client->memory, item->size);
    if (batch->copies[i] == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of a device", item->size);
    PS_TRY(batch->device->sharing->copy(batch->copies[i], item->content, item->size,
                                        PS_DEVICE_COPY_TO_HOST, error));
    item->content = batch->copies[i];
    return PS_OK;
}

/* Nothing is encoded here, unlike in psclient_push: what an encoder leaves out of one push it adds
 * to the next, and it would have to keep that on the device. */
static enum ps_status take_gradients(struct device_batch *batch,
                                     const struct psclient_gradient *gradients,
                                     struct ps_error *error)
{
    const struct psclient_sizes *sizes = &batch->client->sizes;
    for (size_t i = 0; i < batch->count; i++) {
        const struct psclient_gradient gradient = ps_caller_gradient(sizes, gradients, i);
        struct ps_item *item = &batch->items[i];
        *item = ps_client_item(gradient.name, gradient.type);
        item->content = gradient.content;
        item->size = gradient.content_size;
        item->worker = gradient.worker;
        item->round = gradient.round;
        item->weight = gradient.weight;
        PS_TRY(find_content(batch, i, error));
    }
    return PS_OK;
}

/* One batch, whatever its contents turn out to be. */
PS_EXPORT int psclient_push_device(struct psclient *client, struct psclient_device *device,
                                   const struct psclient_gradient *gradients, size_t count,
                                   uint64_t timeout_ms, struct psclient_result *results,
                                   struct psclient_error *error)
{
    struct device_batch batch;
    struct ps_error why = {0};
    if (!begin(&batch, client, device, count, timeout_ms))
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    int status;
    if (take_gradients(&batch, gradients, &why) == PS_OK)
        status = ps_client_run_items(client, PS_METHOD_PUSH, batch.items, count, timeout_ms,
                                     results, error);
    else
        status = ps_client_refuse_items(client, batch.items, count, &why, results, error);
    return settle(&batch, status, error);
}

/* ---- Pulls ---- */

/* What has no name keeps an address that only the device may write to, and is not pulled before it
 * was given another (pull_by_host). */
static void take_parameters(struct device_batch *batch, const struct psclient_parameter *parameters)
{
    const struct psclient_sizes *sizes = &batch->client->sizes;
    for (size_t i = 0; i < batch->count; i++) {
        const struct psclient_parameter parameter = ps_caller_parameter(sizes, parameters, i);
        struct ps_item *item = &batch->items[i];
        *item = ps_client_item(parameter.name, parameter.type);
        item->destination = parameter.content;
        item->size = parameter.content_size;
        item->at_least_version = parameter.at_least_version;
        item->worker = parameter.worker;
        item->clock = parameter.clock;
        item->clocks = ps_bytes_of_text(parameter.clocks);
        if (item->destination != NULL && item->size > 0 &&
            ps_client_device_place(batch->device, item->destination, &batch->places[i], NULL) ==
                PS_OK)
            item->place = &batch->places[i];
    }
}

/* Has the server said that it cannot write there, or is there no name? */
static bool is_for_host(const struct ps_item *item)
{
    return item->destination != NULL && item->size > 0 &&
           (item->place == NULL || item->status == PS_ERR_UNSUPPORTED);
}

/* One of them, to the host and from there to the device. */
static void pull_by_host(struct device_batch *batch, size_t i)
{
    struct ps_item *item = &batch->items[i];
    struct psclient *client = batch->client;
    uint8_t *there = item->destination;
    struct ps_error why = {0};
    /* An item without memory for it is judged by the engine, and this is not written to. */
    uint8_t *here = ps_plain(client->memory, item->size > 0 ? item->size : 1);
    if (here == NULL) {
        item->status = PS_ERR_NO_MEMORY;
        (void)snprintf(item->text, sizeof item->text, "no memory to pull to the host first");
        return;
    }
    /* An ordinary pull from here on, with the same wishes: versions and clocks are waited for
     * again, and what was waited for before is there at once. */
    item->place = NULL;
    item->destination = there != NULL ? here : NULL;
    (void)ps_client_run_items(client, PS_METHOD_PULL, item, 1,
                              ps_time_left_ms(client->clock, batch->deadline_ms), NULL, NULL);
    item->destination = there;
    if (item->status == PS_OK)
        item->status =
            batch->device->sharing->copy(there, here, item->size, PS_DEVICE_COPY_FROM_HOST, &why);
    if (item->status != PS_OK && why.text[0] != '\0')
        (void)snprintf(item->text, sizeof item->text, "%s", why.text);
    ps_release(client->memory, here);
}

/* Two rounds at most: straight to the device, all in one batch; then what did not come there, one
 * after the other, so that the host needs memory for one parameter at a time. */
PS_EXPORT int psclient_pull_device(struct psclient *client, struct psclient_device *device,
                                   struct psclient_parameter *parameters, size_t count,
                                   uint64_t timeout_ms, struct psclient_result *results,
                                   struct psclient_error *error)
{
    struct device_batch batch;
    if (!begin(&batch, client, device, count, timeout_ms))
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    take_parameters(&batch, parameters);
    /* What has no name would be pulled as if its address were the host's: then none goes there. */
    /* A batch of torch's tensors is of one allocator: all have names, or none has. */
    bool go_there = true;
    struct ps_item *items = batch.items;
    for (size_t i = 0; i < count; i++)
        go_there = go_there && items[i].place != NULL;
    if (go_there)
        (void)ps_client_run_items(client, PS_METHOD_PULL, items, count, timeout_ms, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        if (!go_there || is_for_host(&items[i]))
            pull_by_host(&batch, i);
    ps_client_note_pulled(client, items, parameters, count);
    int status = ps_client_verdict(client, items, count, results, error);
    return settle(&batch, status, error);
}

/* ---- The end of a piece ---- */

/* By the name and not by the address: all that was told of the piece, from whatever address in it.
 * */
PS_EXPORT int psclient_device_forget(struct psclient *client, struct psclient_device *device,
                                     const void *memory, uint64_t timeout_ms,
                                     struct psclient_error *error)
{
    /* Of a child that was forked nothing is asked: servers know its parent. */
    struct ps_device_place place;
    struct ps_error why = {0};
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    if (ps_client_check_process(client, &why) != PS_OK)
        return ps_client_fail(error, why.status, why.text);
    enum ps_status status = ps_client_device_place(device, memory, &place, &why);
    /* What has no name was told to nobody; what is left from before is waited for all the same. */
    if (status != PS_OK && status != PS_ERR_UNSUPPORTED)
        return ps_client_fail(error, status, why.text);
    if (await_let_go(client, status == PS_OK ? &place.share : NULL, deadline_ms))
        return ps_client_succeed(error);
    return ps_client_fail(error, PS_ERR_UNAVAILABLE, "a server has not let go of the memory");
}

PS_EXPORT uint64_t psclient_device_bytes(const struct psclient *client)
{
    return ps_channel_grpc_shared(&client->channel).device_bytes;
}
