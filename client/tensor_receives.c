/* SPDX-License-Identifier: Apache-2.0 */
/* A receive is asked for until it has its value, in rounds: each round is one batch, with an item
 * for each server and each thousand receives, and a server keeps it until all of its receives are
 * there, or its time is over. An answer that was lost is asked for again under the same ids, and
 * is the same.
 *
 * Why ids, and why they are told when they are over: an answer that has left the server may never
 * arrive. If the server forgot a value with the answer, the value would be lost; if it gave the
 * value to whoever asks next, the same value could be received twice. So a value belongs to an id
 * from the moment on in which the two met, and the client says when it is done with it.
 *
 * What was received is done with by the next call that goes to its server; a few more bytes there
 * cost less than a call of their own. What was not delivered in the end, since another key of the
 * same wish failed, is given back in the same way: it returns to the front of its queue, as if it
 * had never been taken.
 *
 * A receive that gives up needs no call of its own in most cases. Where the server has answered
 * that nothing came, nothing waits there any more. Where no answer came at all, the id is given
 * back: then it is over at the server whether or not a value had met it, and a call with it that
 * is still on its way takes nothing.
 *
 * A wait is a few long calls and no poll: a server answers when the last of the receives of a call
 * is there. Twenty seconds are the longest such call, so that a connection that broke without a
 * word is noticed by then.
 *
 * Locks: answers are taken with the client's own lock held, and within it the lock of the
 * rendezvous is taken for a moment, to note an epoch and what ended. No call is made with either
 * of them. */
#include "client/tensor_receives.h"

#include "base/assert.h"
#include "client/ask.h"
#include "proto/rendezvous_codec.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

enum {
    RECEIVES_EACH = 1024, /* of one call */
    ROUND_MS = 20000,     /* a server is asked anew after so long */
    MARGIN_MS = 2000,     /* the server gives up first */
    FLUSH_MS = 2000,      /* most for telling what ended */
    SMALL_BYTES = 1 << 20 /* that a server may keep until the next call */
};

/* One call of a round. */
struct asking {
    struct receiving *of;
    uint32_t shard;
    struct ps_rendezvous_wish wishes[RECEIVES_EACH];
    size_t count;
    uint64_t ended[2 * PS_TENSOR_ENDED_MAX]; /* done with, then given back */
    size_t done_count, give_back_count;
    struct ps_buffer message;
};

/* One wish for many keys. */
struct receiving {
    struct psclient_rendezvous *rendezvous;
    const char *const *keys;
    struct psclient_tensor *tensors;
    size_t count;
    uint64_t first_id; /* of key 0; the others follow */
    uint32_t *shards;  /* owned */
    uint64_t *ids;     /* owned */
    bool *is_there;    /* owned */
    size_t missing;
    struct ps_error why; /* of the first receive that failed by itself */
};

static enum ps_status make_receiving(struct receiving *receiving, struct ps_error *error);
static enum ps_status ask_round(struct receiving *receiving, uint64_t deadline_ms,
                                struct ps_error *error);
static enum ps_status run_asking(struct receiving *receiving, struct asking *asking, size_t count,
                                 uint64_t deadline_ms, struct ps_error *error);
static enum ps_status take_reply(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error);
static void end_receiving(struct receiving *receiving, bool is_delivered);

/* ---- One wish ---- */

/* While it waits it is in the list of those that a cancellation ends. */
enum ps_status ps_tensor_receive(struct psclient_rendezvous *rendezvous, const char *const *keys,
                                 struct psclient_tensor *tensors, size_t count,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct receiving receiving = {.rendezvous = rendezvous,
                                  .keys = keys,
                                  .tensors = tensors,
                                  .count = count,
                                  .missing = count};
    enum ps_status status = make_receiving(&receiving, error);
    /* On the stack of the caller, who takes it off the list before it returns. */
    struct ps_tensor_waiting waiting = {
        .ids = receiving.ids, .shards = receiving.shards, .count = count};
    if (status == PS_OK) {
        ps_mutex_lock(&rendezvous->lock);
        DL_APPEND(rendezvous->waiting, &waiting);
        ps_mutex_unlock(&rendezvous->lock);
        while (status == PS_OK && receiving.missing > 0)
            status = ask_round(&receiving, deadline_ms, error);
        ps_mutex_lock(&rendezvous->lock);
        DL_DELETE(rendezvous->waiting, &waiting);
        ps_mutex_unlock(&rendezvous->lock);
    }
    end_receiving(&receiving, status == PS_OK);
    return status;
}

static enum ps_status make_receiving(struct receiving *receiving, struct ps_error *error)
{
    struct psclient_rendezvous *rendezvous = receiving->rendezvous;
    const struct ps_allocator *memory = rendezvous->client->memory;
    size_t count = receiving->count;
    receiving->shards = ps_zeroed_array(memory, count, sizeof *receiving->shards);
    receiving->ids = ps_zeroed_array(memory, count, sizeof *receiving->ids);
    receiving->is_there = ps_zeroed_array(memory, count, sizeof *receiving->is_there);
    if (receiving->shards == NULL || receiving->ids == NULL || receiving->is_there == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu receives", count);
    /* From here on there are receives to be ended, whatever becomes of them. */
    receiving->first_id = ps_tensor_new_ids(rendezvous, count);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(receiving->keys[i]);
        if (size == 0 || size > PS_RENDEZVOUS_KEY_BYTES_MAX)
            return ps_fail(error, PS_ERR_BAD_INPUT, "a key has 1 to %d bytes, not %zu",
                           PS_RENDEZVOUS_KEY_BYTES_MAX, size);
        receiving->shards[i] = ps_tensor_shard(rendezvous, receiving->keys[i]);
        receiving->ids[i] = receiving->first_id + i;
    }
    return PS_OK;
}

/* Notes one id for its server, and tells that at once when there is no room for more. */
static void note_ended(struct psclient_rendezvous *rendezvous, uint32_t shard, uint64_t id,
                       bool is_delivered)
{
    struct ps_tensor_ended *ended = &rendezvous->ended[shard];
    for (int attempt = 0; attempt < 2; attempt++) {
        ps_mutex_lock(&rendezvous->lock);
        size_t *count = is_delivered ? &ended->done_count : &ended->give_back_count;
        bool has_room = *count < PS_TENSOR_ENDED_MAX;
        if (has_room)
            (is_delivered ? ended->done_with : ended->give_back)[(*count)++] = id;
        ps_mutex_unlock(&rendezvous->lock);
        if (has_room)
            return;
        /* The step's own end is the last resort, while a server is away. */
        ps_tensor_flush(rendezvous, ps_deadline_after(rendezvous->client->clock, FLUSH_MS));
    }
}

/* What was received is the caller's, or goes back to the front of its queue. A receive that got no
 * answer at all may have a value at its server: it is given back, too. The servers hear of a single
 * small value with the next call that goes there; of more at once, for it is in their memory. */
static void end_receiving(struct receiving *receiving, bool is_delivered)
{
    struct psclient_rendezvous *rendezvous = receiving->rendezvous;
    const struct ps_allocator *memory = rendezvous->client->memory;
    bool is_made = receiving->first_id != 0;
    uint64_t bytes = 0;
    for (size_t i = 0; is_made && i < receiving->count; i++) {
        note_ended(rendezvous, receiving->shards[i], receiving->ids[i], is_delivered);
        bytes += receiving->is_there[i] ? receiving->tensors[i].size : 0;
        if (!is_delivered && receiving->is_there[i])
            psclient_tensor_release(&receiving->tensors[i]);
    }
    if (bytes > SMALL_BYTES || receiving->count > 1 || !is_delivered)
        ps_tensor_flush(rendezvous, ps_deadline_after(rendezvous->client->clock, FLUSH_MS));
    ps_release(memory, receiving->shards);
    ps_release(memory, receiving->ids);
    ps_release(memory, receiving->is_there);
}

/* ---- One round ---- */

/* What this server is to hear besides. It stays noted until the call went well. */
static void take_ended(struct psclient_rendezvous *rendezvous, struct asking *asking)
{
    struct ps_tensor_ended *ended = &rendezvous->ended[asking->shard];
    ps_mutex_lock(&rendezvous->lock);
    asking->done_count = ended->done_count;
    asking->give_back_count = ended->give_back_count;
    for (size_t i = 0; i < ended->done_count; i++)
        asking->ended[i] = ended->done_with[i];
    for (size_t i = 0; i < ended->give_back_count; i++)
        asking->ended[ended->done_count + i] = ended->give_back[i];
    ps_mutex_unlock(&rendezvous->lock);
}

/* By value and not by place: another thread may have noted more meanwhile, or told the same. */
static void forget(uint64_t *ids, size_t *count, const uint64_t *told, size_t told_count)
{
    /* In place: the list is short, and its order does not matter. */
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        bool was_told = false;
        for (size_t k = 0; k < told_count; k++)
            was_told = was_told || told[k] == ids[i];
        if (!was_told)
            ids[kept++] = ids[i];
    }
    *count = kept;
}

/* Two threads may have told the same: the second forgets nothing. */
static void forget_ended(struct psclient_rendezvous *rendezvous, const struct asking *asking)
{
    struct ps_tensor_ended *ended = &rendezvous->ended[asking->shard];
    ps_mutex_lock(&rendezvous->lock);
    forget(ended->done_with, &ended->done_count, asking->ended, asking->done_count);
    forget(ended->give_back, &ended->give_back_count, asking->ended + asking->done_count,
           asking->give_back_count);
    ps_mutex_unlock(&rendezvous->lock);
}

/* Each call is full, or has the rest of its server. */
static size_t cut_round(struct receiving *receiving, struct asking *asking)
{
    size_t used = 0;
    for (uint32_t shard = 0; shard < receiving->rendezvous->shard_count; shard++) {
        struct asking *open = NULL;
        for (size_t i = 0; i < receiving->count; i++) {
            if (receiving->shards[i] != shard || receiving->is_there[i])
                continue;
            if (open == NULL || open->count == RECEIVES_EACH) {
                open = &asking[used++];
                open->of = receiving;
                open->shard = shard;
            }
            open->wishes[open->count++] = (struct ps_rendezvous_wish){
                receiving->ids[i], ps_bytes_of_text(receiving->keys[i])};
        }
    }
    return used;
}

static enum ps_status ask_round(struct receiving *receiving, uint64_t deadline_ms,
                                struct ps_error *error)
{
    struct psclient_rendezvous *rendezvous = receiving->rendezvous;
    const struct ps_allocator *memory = rendezvous->client->memory;
    size_t missing = receiving->missing;
    bool was_late = ps_time_left_ms(rendezvous->client->clock, deadline_ms) == 0;
    /* Each server has at most one call that is not full. */
    size_t most = receiving->missing / RECEIVES_EACH + rendezvous->shard_count + 1;
    struct asking *asking = ps_zeroed_array(memory, most, sizeof *asking);
    if (asking == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu receives", missing);
    size_t count = cut_round(receiving, asking);
    PS_ASSERT(count > 0 && count <= most);
    enum ps_status status = run_asking(receiving, asking, count, deadline_ms, error);
    ps_release(memory, asking);
    if (status != PS_OK)
        return status;
    /* A receive that failed by itself, in a strict step or by a cancellation, ends the whole wish:
     * its caller gets all values or none. */
    if (receiving->why.status != PS_OK) {
        if (error != NULL)
            *error = receiving->why;
        return receiving->why.status;
    }
    /* A round that brought something may have left the rest for the next. */
    if (was_late && receiving->missing == missing)
        return ps_fail(error, PS_ERR_TIMEOUT,
                       "step %" PRIu64 ": nothing was sent in time for %zu of %zu keys",
                       rendezvous->step, missing, receiving->count);
    return PS_OK;
}

/* In one message: what ended, and what is wanted. The server looks at them in this order, so that
 * a value which is given back may answer the same call. */
static void write_asking(struct asking *asking, uint64_t wait_ms)
{
    struct psclient_rendezvous *rendezvous = asking->of->rendezvous;
    take_ended(rendezvous, asking);
    const struct ps_recv_tensors_request request = {
        .step = rendezvous->step,
        .epoch = ps_tensor_epoch(rendezvous, asking->shard),
        .wait_ms = wait_ms,
        .wishes = asking->wishes,
        .wish_count = asking->count,
        .done_with = asking->ended,
        .done_count = asking->done_count,
        .give_back = asking->ended + asking->done_count,
        .give_back_count = asking->give_back_count,
        .shard = ps_tensor_named_shard(rendezvous->client, asking->shard)};
    ps_encode_recv_tensors(&request, &asking->message);
}

/* The batch has a deadline behind the servers' own: what they answer at the end of their time is
 * still heard. */
static enum ps_status run_asking(struct receiving *receiving, struct asking *asking, size_t count,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct psclient *client = receiving->rendezvous->client;
    uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
    /* A time that is over still asks once, for what is there at this moment. */
    uint64_t wait_ms = left_ms == 0 ? 1 : left_ms < ROUND_MS ? left_ms : ROUND_MS;
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    if (items == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < count; i++) {
        ps_buffer_init(&asking[i].message, client->memory, 4 << 20);
        /* The message is the item's until the batch is over. */
        write_asking(&asking[i], wait_ms);
        if (ps_buffer_status(&asking[i].message, error) != PS_OK)
            status = PS_ERR_NO_MEMORY;
        items[i] = (struct ps_item){
            .shard = asking[i].shard,
            .ask = {(const uint8_t *)asking[i].message.text, asking[i].message.size},
            .answer = {take_reply, &asking[i]}};
    }
    const struct ps_batch_request request =
        ps_client_request(client, PS_METHOD_RECV_TENSORS, items, count, left_ms + MARGIN_MS);
    if (status == PS_OK)
        status = ps_client_run(client, &request, error);
    for (size_t i = 0; i < count; i++) {
        if (status == PS_OK && items[i].status != PS_OK)
            status = ps_fail(error, items[i].status, "%s", items[i].text);
        ps_buffer_fini(&asking[i].message);
    }
    ps_release(client->memory, items);
    return status;
}

/* ---- One answer ---- */

/* Into the caller's memory, or memory of its own. */
static enum ps_status take_value(struct psclient_tensor *tensor,
                                 const struct ps_received_tensor *received, struct ps_error *error)
{
    size_t size = received->content.size;
    if (tensor->content == NULL) {
        tensor->content = ps_plain(ps_allocator_heap(), size);
        tensor->is_owned = tensor->content != NULL;
    } else if (tensor->size < size) {
        return ps_fail(error, PS_ERR_BAD_INPUT, "a value of %zu bytes does not fit %zu", size,
                       tensor->size);
    }
    if (tensor->content == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a value of %zu bytes", size);
    ps_view_copy(received->content, 0, tensor->content, size);
    tensor->size = size;
    tensor->dtype = received->facts.dtype;
    tensor->element_size = received->facts.element_size;
    tensor->rank = received->facts.rank;
    tensor->dead = received->facts.dead ? 1 : 0;
    memcpy(tensor->shape, received->facts.extents, sizeof tensor->shape);
    return PS_OK;
}

/* The words are TensorFlow's. */
static void note_failure(struct receiving *receiving, size_t i, enum ps_status status)
{
    /* The first failure is the one that is told: those behind it are mostly its consequences. */
    enum ps_status ignored = PS_OK;
    if (receiving->why.status != PS_OK)
        return;
    if (status == PS_ERR_CANCELLED)
        ignored = ps_fail(&receiving->why, PS_ERR_ABORTED, "[_Derived_]RecvAsync is cancelled.");
    else if (status == PS_ERR_ABORTED)
        ignored =
            ps_fail(&receiving->why, PS_ERR_ABORTED, "Duplicated recv: %.180s", receiving->keys[i]);
    else
        ignored = ps_fail(&receiving->why, status, "%s", ps_status_sentence(status));
    (void)ignored;
}

/* Ids are counted from the first, so that an answer is found without a search, whatever the order
 * in which a server lists them. */
static enum ps_status take_received(void *self, const struct ps_received_tensor *received,
                                    struct ps_error *error)
{
    struct receiving *receiving = self;
    /* An id from before the first wraps to a number beyond all of them. */
    uint64_t i = received->id - receiving->first_id;
    /* Of an answer that came twice the first counts. */
    if (i >= receiving->count || receiving->is_there[i])
        return PS_OK;
    if (received->status != PS_OK) {
        note_failure(receiving, i, received->status);
        return PS_OK;
    }
    PS_TRY(take_value(&receiving->tensors[i], received, error));
    receiving->is_there[i] = true;
    receiving->missing--;
    return PS_OK;
}

/* Answers are taken one at a time, with the client's lock; the rendezvous's is within it. */
static enum ps_status take_reply(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    struct asking *asking = self;
    struct receiving *receiving = asking->of;
    const struct ps_received_taker taker = {take_received, receiving};
    uint64_t epoch = 0;
    PS_TRY(ps_decode_recv_tensors_reply(reply->ask, receiving->rendezvous->client->memory, &taker,
                                        &epoch, error));
    ps_tensor_note_epoch(receiving->rendezvous, asking->shard, epoch);
    forget_ended(receiving->rendezvous, asking);
    return PS_OK;
}

/* ---- Ends ---- */

/* One call without receives, which is answered at once. */
static enum ps_status tell_ended(struct psclient_rendezvous *rendezvous, uint32_t shard,
                                 uint64_t deadline_ms, struct ps_error *error)
{
    struct psclient *client = rendezvous->client;
    struct receiving none = {.rendezvous = rendezvous};
    struct asking *asking = ps_zeroed(client->memory, sizeof *asking);
    if (asking == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a call");
    asking->of = &none;
    asking->shard = shard;
    enum ps_status status = run_asking(&none, asking, 1, deadline_ms, error);
    ps_release(client->memory, asking);
    return status;
}

/* At the end of a step, or when much was received at once. A server that does not answer keeps
 * what it has until the step ends, or nobody has used it for its lifetime. */
void ps_tensor_flush(struct psclient_rendezvous *rendezvous, uint64_t deadline_ms)
{
    for (uint32_t shard = 0; shard < rendezvous->shard_count; shard++) {
        const struct ps_tensor_ended *ended = &rendezvous->ended[shard];
        ps_mutex_lock(&rendezvous->lock);
        /* Looked at with the lock, since other threads receive at the same time. */
        bool is_needed = ended->done_count + ended->give_back_count > 0;
        ps_mutex_unlock(&rendezvous->lock);
        if (!is_needed)
            continue;
        enum ps_status ignored = tell_ended(rendezvous, shard, deadline_ms, NULL);
        (void)ignored;
    }
}

/* The ids are noted as given back; the server ends the receives that wait under them, and their
 * calls hear of it there. */
enum ps_status ps_tensor_cancel(struct psclient_rendezvous *rendezvous, uint64_t deadline_ms,
                                struct ps_error *error)
{
    enum ps_status status = PS_OK;
    for (uint32_t shard = 0; shard < rendezvous->shard_count && status == PS_OK; shard++) {
        struct ps_tensor_ended *ended = &rendezvous->ended[shard];
        struct ps_tensor_waiting *waiting;
        ps_mutex_lock(&rendezvous->lock);
        DL_FOREACH(rendezvous->waiting, waiting)
        for (size_t i = 0; i < waiting->count; i++)
            if (waiting->shards[i] == shard && ended->give_back_count < PS_TENSOR_ENDED_MAX)
                ended->give_back[ended->give_back_count++] = waiting->ids[i];
        bool is_needed = ended->give_back_count > 0;
        ps_mutex_unlock(&rendezvous->lock);
        if (is_needed)
            status = tell_ended(rendezvous, shard, deadline_ms, error);
    }
    return status;
}
