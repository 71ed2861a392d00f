/* SPDX-License-Identifier: Apache-2.0 */
/* A message is a value under a key of its receiver and its round. A worker that syncs sends every
 * other one an end behind its messages: values of one key come in their order, so whoever has got
 * the ends of all workers has got all that they pushed, and knows that all of them have come. It is
 * the barrier and the count in one, and nothing is taken for the end because a server was slow.
 *
 * Rounds have keys of their own, since a fast worker pushes for the next one while a slow one still
 * reads. */
#include "client/flexps_channel.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/attributes.h"
#include "client/status_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 600000, KEY_BYTES = 128, NAME_BYTES = 64, SOME = 16, END_TYPE = 1 };

struct ps_local_channel {
    struct psclient *client; /* borrowed */
    struct psclient_rendezvous *step;
    char name[NAME_BYTES + 1];
    uint32_t worker, workers;
    uint64_t timeout_ms;
    uint64_t round;    /* that is pushed for */
    uint64_t meetings; /* that this worker has been to */
};

/* All workers begin the step under the channel's name, so that two channels of one step are
 * told. */
PS_EXPORT int ps_local_channel_open(struct psclient *client,
                                    const struct ps_local_channel_options *options,
                                    struct ps_local_channel **out, struct psclient_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    if (options->name == NULL || strlen(options->name) > NAME_BYTES ||
        options->worker >= options->workers)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "a channel has a name of 64 bytes at most, and its workers");
    struct ps_local_channel *channel = ps_zeroed(memory, sizeof *channel);
    if (channel == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a channel");
    channel->client = client;
    channel->worker = options->worker;
    channel->workers = options->workers;
    channel->timeout_ms = options->timeout_ms == 0 ? TIMEOUT_MS : options->timeout_ms;
    memcpy(channel->name, options->name, strlen(options->name));
    /* Zeroed memory: the name has its NUL. */
    const struct psclient_rendezvous_options step = {.session = channel->name};
    int status = psclient_rendezvous_open(client, options->step, &step, channel->timeout_ms,
                                          &channel->step, error);
    if (status != PSCLIENT_OK) {
        ps_release(memory, channel);
        return status;
    }
    *out = channel;
    return PSCLIENT_OK;
}

/* The step goes on: another worker may still read what this one has pushed. */
PS_EXPORT void ps_local_channel_close(struct ps_local_channel *channel)
{
    if (channel == NULL)
        return;
    psclient_rendezvous_close(channel->step);
    ps_release(ps_allocator_heap(), channel);
}

/* The same for all who push to a worker in a round. */
static void write_key(const struct ps_local_channel *channel, uint32_t to, char key[KEY_BYTES])
{
    int length =
        snprintf(key, KEY_BYTES, "%s/%" PRIu64 "/%" PRIu32, channel->name, channel->round, to);
    PS_ASSERT(length > 0 && length < KEY_BYTES);
}

/* Of elements without a size, as any bytes are. */
PS_EXPORT int ps_local_channel_push_to(struct ps_local_channel *channel, uint32_t to,
                                       const void *bytes, size_t size, struct psclient_error *error)
{
    char key[KEY_BYTES];
    /* Nobody would ever get it. */
    if (to >= channel->workers)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "no such worker");
    write_key(channel, to, key);
    const struct psclient_tensor tensor = {.content = (void *)(uintptr_t)bytes, .size = size};
    return psclient_rendezvous_send(channel->step, key, &tensor, channel->timeout_ms, error);
}

/* Meetings are counted by each worker, and all of them count alike. One whose time was over is
 * tried again under its number. */
PS_EXPORT int ps_local_channel_wait(struct ps_local_channel *channel, struct psclient_error *error)
{
    int status = psclient_barrier(channel->client, channel->name, channel->meetings,
                                  channel->worker, channel->workers, channel->timeout_ms, error);
    channel->meetings += status == PSCLIENT_OK ? 1 : 0;
    return status;
}

/* One more place; the list doubles. */
static struct psclient_tensor *add_message(struct ps_local_channel_messages *messages)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    /* Full at each power of two from the first size on. */
    size_t count = messages->count;
    if (count < SOME ? count == 0 : (count & (count - 1)) == 0) {
        size_t most = count < SOME ? SOME : 2 * count;
        struct psclient_tensor *list = ps_zeroed_array(memory, most, sizeof *list);
        if (list == NULL)
            return NULL;
        if (count > 0)
            memcpy(list, messages->list, count * sizeof *list);
        ps_release(memory, messages->list);
        messages->list = list;
    }
    return &messages->list[messages->count];
}

/* Behind everything that this worker has pushed. */
static int send_ends(struct ps_local_channel *channel, struct psclient_error *error)
{
    /* A type that no message has, whatever its bytes are. */
    const struct psclient_tensor end = {.dtype = END_TYPE};
    int status = PSCLIENT_OK;
    for (uint32_t to = 0; to < channel->workers && status == PSCLIENT_OK; to++) {
        char key[KEY_BYTES];
        write_key(channel, to, key);
        status = psclient_rendezvous_send(channel->step, key, &end, channel->timeout_ms, error);
    }
    return status;
}

/* Everything of this round: there is as much as lies before the end of the last worker. */
static int get_all(struct ps_local_channel *channel, struct ps_local_channel_messages *messages,
                   struct psclient_error *error)
{
    char key[KEY_BYTES];
    write_key(channel, channel->worker, key);
    for (uint32_t ends = 0; ends < channel->workers;) {
        struct psclient_tensor *place = add_message(messages);
        if (place == NULL)
            return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for messages");
        *place = (struct psclient_tensor){0};
        int status =
            psclient_rendezvous_recv(channel->step, key, place, channel->timeout_ms, error);
        if (status != PSCLIENT_OK)
            return status;
        /* The place of an end is the next message's. */
        if (place->dtype == END_TYPE) {
            psclient_tensor_release(place);
            ends++;
        } else {
            messages->count++;
        }
    }
    return ps_client_succeed(error);
}

/* The round is over for this worker when it has everything: what it pushes from then on is for the
 * next, whether or not the others have come as far. */
PS_EXPORT int ps_local_channel_sync_and_get(struct ps_local_channel *channel,
                                            struct ps_local_channel_messages *messages,
                                            struct psclient_error *error)
{
    struct ps_local_channel_messages got = {0};
    int status = send_ends(channel, error);
    if (status == PSCLIENT_OK)
        status = get_all(channel, &got, error);
    if (status != PSCLIENT_OK) {
        ps_local_channel_messages_release(&got);
        return status;
    }
    channel->round++;
    *messages = got;
    return PSCLIENT_OK;
}

/* Also of messages that were never got. */
PS_EXPORT void ps_local_channel_messages_release(struct ps_local_channel_messages *messages)
{
    for (size_t i = 0; i < messages->count; i++)
        psclient_tensor_release(&messages->list[i]);
    ps_release(ps_allocator_heap(), messages->list);
    *messages = (struct ps_local_channel_messages){0};
}
