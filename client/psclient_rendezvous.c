/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: a step of the rendezvous. Its beginning and its end go to every server, each value
 * to the one of its key. What receives is in tensor_receives.c.
 *
 * A step is the servers'. This handle has what one process knows of it: the epoch that each server
 * told it first, and the numbers that it gives to its sends and receives. Two handles of one step,
 * in one process or in two, have different numbers, since each begins at a random one.
 *
 * A send is one call, repeated under its token until some server has answered it: the token is
 * what makes a repeat harmless, so that no session and no order is needed. A send to a step that
 * has ended meanwhile fails, and says what it has ended by. */
#include "client/psclient_rendezvous.h"

#include "base/assert.h"
#include "base/random.h"
#include "client/answers.h"
#include "client/status_map.h"
#include "client/tensor_receives.h"
#include "proto/fields.h"
#include "proto/rendezvous_codec.h"
#include "proto/rendezvous_key.h"
#include "proto/wire.h"

#include <string.h>

/* Most for telling servers what is done with, at the end. */
enum { CLOSE_MS = 2000 };

_Static_assert(PSCLIENT_TENSOR_RANK_MAX == PS_VALUE_RANK_MAX, "both are the wire's");

static enum ps_status make(struct psclient *client, uint64_t step,
                           struct psclient_rendezvous **rendezvous, struct ps_error *error);
static int control(struct psclient *client, struct psclient_rendezvous *rendezvous,
                   const struct ps_buffer *message, uint64_t timeout_ms,
                   struct psclient_error *error);

/* Every server is told, so that each of them has said its epoch before anything is sent: a server
 * that is lost afterwards is missed by whoever receives first. */
PS_EXPORT int psclient_rendezvous_open(struct psclient *client, uint64_t step,
                                       const struct psclient_rendezvous_options *options,
                                       uint64_t timeout_ms, struct psclient_rendezvous **out,
                                       struct psclient_error *error)
{
    const struct psclient_rendezvous_options none = {0};
    struct ps_error why = {.status = PS_OK};
    struct psclient_rendezvous *rendezvous = NULL;
    struct ps_buffer message;
    const struct psclient_rendezvous_options *wish = options != NULL ? options : &none;
    enum ps_status status = ps_client_check_process(client, &why);
    if (status == PS_OK)
        status = make(client, step, &rendezvous, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    ps_buffer_init(&message, client->memory, 1024);
    ps_wire_put_uint(&message, PS_STEP_FIELD_STEP, step);
    ps_wire_put_uint(&message, PS_STEP_FIELD_ACT, PS_STEP_BEGIN);
    ps_wire_put_text(&message, PS_STEP_FIELD_SESSION,
                     wish->session != NULL ? wish->session : "step");
    ps_wire_put_uint(&message, PS_STEP_FIELD_STRICT, wish->strict != 0);
    ps_wire_put_uint(&message, PS_STEP_FIELD_LIFETIME_MS, wish->lifetime_ms);
    /* A deferred step is begun by somebody else, before or behind this: its servers tell their
     * epochs with the first answers. */
    int result = wish->deferred != 0 ? ps_client_succeed(error)
                                     : control(client, rendezvous, &message, timeout_ms, error);
    ps_buffer_fini(&message);
    if (result == PSCLIENT_OK)
        *out = rendezvous;
    else
        psclient_rendezvous_close(rendezvous);
    return result;
}

/* Also of a handle that was made in part. */
static void release(struct psclient_rendezvous *rendezvous)
{
    const struct ps_allocator *memory = rendezvous->client->memory;
    for (uint32_t i = 0; rendezvous->ended != NULL && i < rendezvous->shard_count; i++) {
        ps_release(memory, rendezvous->ended[i].done_with);
        ps_release(memory, rendezvous->ended[i].give_back);
    }
    ps_mutex_fini(&rendezvous->lock);
    ps_release(memory, rendezvous->ended);
    ps_release(memory, rendezvous->epochs);
    ps_release(memory, rendezvous);
}

/* Nothing is asked of a server here. What one process knows of a step is small: a few numbers for
 * each server, and two lists.
 *
 * The lists of ended receives have their room from the start: noting one must not fail. */
static enum ps_status make(struct psclient *client, uint64_t step, struct psclient_rendezvous **out,
                           struct ps_error *error)
{
    const struct ps_allocator *memory = client->memory;
    struct psclient_rendezvous *made = ps_zeroed(memory, sizeof *made);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a step");
    made->client = client;
    made->step = step;
    made->shard_count = client->shard_count;
    ps_mutex_init(&made->lock, PS_RANK_QUEUE);
    /* Below half of all numbers, so that counting up never comes to 0. */
    while (made->next_id == 0 || made->next_id > UINT64_MAX / 2)
        ps_random_system(&made->next_id, sizeof made->next_id);
    made->epochs = ps_zeroed_array(memory, made->shard_count, sizeof *made->epochs);
    made->ended = ps_zeroed_array(memory, made->shard_count, sizeof *made->ended);
    bool is_refused = made->epochs == NULL || made->ended == NULL;
    for (uint32_t i = 0; !is_refused && i < made->shard_count; i++) {
        struct ps_tensor_ended *ended = &made->ended[i];
        ended->done_with = ps_zeroed_array(memory, PS_TENSOR_ENDED_MAX, sizeof(uint64_t));
        ended->give_back = ps_zeroed_array(memory, PS_TENSOR_ENDED_MAX, sizeof(uint64_t));
        is_refused = ended->done_with == NULL || ended->give_back == NULL;
    }
    if (is_refused) {
        release(made);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a step");
    }
    *out = made;
    return PS_OK;
}

/* Receives that are done with are told to their servers, which have had their values in memory
 * until now. In a forked child nothing is sent: the receives are the parent's. */
PS_EXPORT void psclient_rendezvous_close(struct psclient_rendezvous *rendezvous)
{
    if (rendezvous == NULL)
        return;
    if (!ps_process_mark_is_child(&rendezvous->client->mark))
        ps_tensor_flush(rendezvous, ps_deadline_after(rendezvous->client->clock, CLOSE_MS));
    release(rendezvous);
}

/* ---- What the handle knows ---- */

/* By the hash that barriers have, too: all processes of a job agree on it, and on the number of
 * shards, without a word. */
uint32_t ps_tensor_shard(const struct psclient_rendezvous *rendezvous, const char *key)
{
    /* Where the simulator finds it, too. */
    PS_ASSERT(rendezvous->shard_count > 0);
    return ps_tensor_shard_of(ps_bytes_of_text(key), rendezvous->shard_count);
}

/* A server that owns another shard by now refuses the call, and the client learns where the shard
 * went. */
uint32_t ps_tensor_named_shard(const struct psclient *client, uint32_t shard)
{
    PS_ASSERT(shard < client->shard_count);
    return client->is_list ? 0 : shard + 1;
}

/* Read anew for each call: the first answer of a server sets it, and all calls behind that one
 * name it, so that a server that has lost the step says so. */
uint64_t ps_tensor_epoch(struct psclient_rendezvous *rendezvous, uint32_t shard)
{
    ps_mutex_lock(&rendezvous->lock);
    uint64_t epoch = rendezvous->epochs[shard];
    ps_mutex_unlock(&rendezvous->lock);
    return epoch;
}

/* The first one stays. A later one would be of a step that somebody else has begun under the same
 * number, and following it would hide that this one has ended. */
void ps_tensor_note_epoch(struct psclient_rendezvous *rendezvous, uint32_t shard, uint64_t epoch)
{
    ps_mutex_lock(&rendezvous->lock);
    if (rendezvous->epochs[shard] == 0)
        rendezvous->epochs[shard] = epoch;
    ps_mutex_unlock(&rendezvous->lock);
}

/* The first is random: other processes of the step count from elsewhere. */
uint64_t ps_tensor_new_ids(struct psclient_rendezvous *rendezvous, size_t count)
{
    ps_mutex_lock(&rendezvous->lock);
    /* Several threads send and receive at the same time. */
    uint64_t first = rendezvous->next_id;
    rendezvous->next_id += count;
    ps_mutex_unlock(&rendezvous->lock);
    PS_ASSERT(first != 0);
    return first;
}

/* ---- Every server ---- */

/* Where an answer's epoch goes. */
struct told {
    struct psclient_rendezvous *rendezvous; /* NULL: nowhere */
    uint32_t shard;
};

/* The answers to all three calls have the epoch in one place. */
static enum ps_status take_epoch(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    const struct told *told = self;
    /* The message ends with this call. */
    struct ps_fields fields;
    PS_TRY(ps_fields_read(reply->ask, &fields, error));
    if (told->rendezvous != NULL)
        ps_tensor_note_epoch(told->rendezvous, told->shard,
                             fields.number[PS_RENDEZVOUS_EPOCH_FIELD]);
    return PS_OK;
}

/* The same to every server, but for the epoch: that stands at the end of each message. */
static int control(struct psclient *client, struct psclient_rendezvous *rendezvous,
                   const struct ps_buffer *message, uint64_t timeout_ms,
                   struct psclient_error *error)
{
    uint32_t count = client->shard_count;
    /* A message of a control is bounded: its texts are short. */
    enum { ROOM = 640 };
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    struct told *told = ps_zeroed_array(client->memory, count, sizeof *told);
    char *rooms = ps_zeroed_array(client->memory, count, ROOM);
    int result = ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    if (items != NULL && told != NULL && rooms != NULL && !message->failed) {
        for (uint32_t i = 0; i < count; i++) {
            struct ps_buffer own;
            ps_buffer_init_fixed(&own, rooms + (size_t)i * ROOM, ROOM);
            ps_buffer_append(&own,
                             (struct ps_bytes){(const uint8_t *)message->text, message->size});
            if (rendezvous != NULL)
                ps_wire_put_uint(&own, PS_STEP_FIELD_EPOCH, ps_tensor_epoch(rendezvous, i));
            ps_wire_put_uint(&own, PS_STEP_FIELD_SHARD, ps_tensor_named_shard(client, i));
            /* Each server's answer finds its own place. */
            told[i] = (struct told){rendezvous, i};
            items[i] = (struct ps_item){.shard = i,
                                        .ask = {(const uint8_t *)own.text, own.size},
                                        .answer = {take_epoch, &told[i]}};
        }
        result = ps_client_run_items(client, PS_METHOD_STEP, items, count, timeout_ms, NULL, error);
    }
    ps_release(client->memory, rooms);
    ps_release(client->memory, told);
    ps_release(client->memory, items);
    return result;
}

/* Acts without more than a reason. A reason that is too long is cut, as the servers would. */
static int act(struct psclient *client, struct psclient_rendezvous *rendezvous,
               enum ps_step_act which, const char *reason, uint64_t timeout_ms,
               struct psclient_error *error)
{
    struct ps_buffer message;
    /* The text of a status has so much room. */
    size_t size = reason != NULL ? strnlen(reason, 199) : 0;
    ps_buffer_init(&message, client->memory, 1024);
    if (rendezvous != NULL)
        ps_wire_put_uint(&message, PS_STEP_FIELD_STEP, rendezvous->step);
    ps_wire_put_uint(&message, PS_STEP_FIELD_ACT, which);
    ps_wire_put_bytes(&message, PS_STEP_FIELD_REASON,
                      (struct ps_bytes){(const uint8_t *)reason, size});
    int result =
        control(client, which == PS_STEP_ABORT ? rendezvous : NULL, &message, timeout_ms, error);
    ps_buffer_fini(&message);
    return result;
}

/* With the epoch, unlike a cleanup: an abort that arrives late must not hit the step that somebody
 * has begun under this number since. */
PS_EXPORT int psclient_rendezvous_abort(struct psclient_rendezvous *rendezvous, const char *reason,
                                        uint64_t timeout_ms, struct psclient_error *error)
{
    return act(rendezvous->client, rendezvous, PS_STEP_ABORT, reason, timeout_ms, error);
}

/* Whoever cleans up means the number, whatever this handle knows of it: a process that was
 * restarted cleans up behind the one before it. */
PS_EXPORT int psclient_rendezvous_cleanup(struct psclient_rendezvous *rendezvous,
                                          uint64_t timeout_ms, struct psclient_error *error)
{
    return act(rendezvous->client, rendezvous, PS_STEP_CLEANUP, NULL, timeout_ms, error);
}

/* Of all jobs' steps at these servers, which are those of one job. */
PS_EXPORT int psclient_rendezvous_cleanup_all(struct psclient *client, uint64_t timeout_ms,
                                              struct psclient_error *error)
{
    return act(client, NULL, PS_STEP_CLEANUP_ALL, NULL, timeout_ms, error);
}

/* ---- Values ---- */

/* The content goes from the caller's memory to the network: messages have it by reference. */
PS_EXPORT int psclient_rendezvous_send(struct psclient_rendezvous *rendezvous, const char *key,
                                       const struct psclient_tensor *tensor, uint64_t timeout_ms,
                                       struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    /* Nothing of the client may be touched in a child of its process. */
    struct psclient *client = rendezvous->client;
    enum ps_status status = ps_client_check_process(client, &why);
    if (status == PS_OK)
        status = ps_tensor_send(rendezvous, key, tensor,
                                ps_deadline_after(client->clock, timeout_ms), &why);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* The tensors are written while answers come, and are as they were when the call fails, but for
 * the bytes of memory that the caller has lent. */
PS_EXPORT int psclient_rendezvous_recv_many(struct psclient_rendezvous *rendezvous,
                                            const char *const *keys,
                                            struct psclient_tensor *tensors, size_t count,
                                            uint64_t timeout_ms, struct psclient_error *error)
{
    struct psclient *client = rendezvous->client;
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = ps_client_check_process(client, &why);
    if (status == PS_OK && count > 0)
        status = ps_tensor_receive(rendezvous, keys, tensors, count,
                                   ps_deadline_after(client->clock, timeout_ms), NULL, &why);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* One of many, alone. */
PS_EXPORT int psclient_rendezvous_recv(struct psclient_rendezvous *rendezvous, const char *key,
                                       struct psclient_tensor *tensor, uint64_t timeout_ms,
                                       struct psclient_error *error)
{
    return psclient_rendezvous_recv_many(rendezvous, &key, tensor, 1, timeout_ms, error);
}

/* Nothing is told to the threads that wait: their calls are answered by the servers, and in the
 * order in which things happen there. So a value that came first is received, and one that comes
 * later is not lost. */
PS_EXPORT int psclient_rendezvous_cancel(struct psclient_rendezvous *rendezvous,
                                         uint64_t timeout_ms, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct psclient *client = rendezvous->client;
    enum ps_status status = ps_client_check_process(client, &why);
    if (status == PS_OK)
        status =
            ps_tensor_cancel(rendezvous, NULL, ps_deadline_after(client->clock, timeout_ms), &why);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* ---- Keys ---- */

/* No server is asked: a key is a text that two programs agree on. */
PS_EXPORT int psclient_rendezvous_create_key(const char *source, uint64_t source_incarnation,
                                             const char *destination, const char *edge,
                                             uint64_t frame, uint64_t iteration, char *key,
                                             size_t size, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = size == 0
                                ? ps_fail(&why, PS_ERR_BAD_INPUT, "no room for a key")
                                : ps_rendezvous_key_create(source, source_incarnation, destination,
                                                           edge, frame, iteration, key, size, &why);
    return status == PS_OK ? ps_client_succeed(error) : ps_client_fail(error, status, why.text);
}

/* The public header knows no type of the library's. */
static struct psclient_key_part part_of(struct ps_bytes bytes)
{
    return (struct psclient_key_part){(const char *)bytes.data, bytes.size};
}

PS_EXPORT int psclient_rendezvous_parse_key(const char *key, struct psclient_parsed_key *parsed,
                                            struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct ps_rendezvous_key read;
    enum ps_status status = ps_rendezvous_key_parse(ps_bytes_of_text(key), &read, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    /* Places in the caller's own text. */
    *parsed = (struct psclient_parsed_key){.source = part_of(read.source.text),
                                           .destination = part_of(read.destination.text),
                                           .source_type = part_of(read.source.type),
                                           .destination_type = part_of(read.destination.type),
                                           .edge = part_of(read.edge),
                                           .frame = part_of(read.frame),
                                           .source_incarnation = read.source_incarnation};
    return ps_client_succeed(error);
}
