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
 * A value that is longer than one range comes with its beginning; its other ranges are a batch of
 * their own, several of them on their way while one is copied.
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
    FLUSH_MS = 2000,      /* most for telling what ended */
    SMALL_BYTES = 1 << 20 /* that a server may keep until the next call */
};

/* One call of a round: one of up to a thousand receives, that waits for all of them. */
struct asking {
    struct receiving *of;
    uint32_t shard;
    struct ps_rendezvous_wish *wishes; /* a part of the round's; borrowed */
    size_t count;
    struct ps_tensor_told told;
    const uint64_t *cancel; /* borrowed */
    size_t cancel_count;
    struct ps_buffer message;
};

/* One wish for many keys. */
struct receiving {
    struct psclient_rendezvous *rendezvous;
    struct psclient_tensor *tensors;
    struct ps_tensor_wishes wishes;
};

static enum ps_status ask_round(struct receiving *receiving, uint64_t deadline_ms,
                                struct ps_error *error);
static enum ps_status run_asking(struct receiving *receiving, struct asking *asking, size_t count,
                                 uint64_t deadline_ms, struct ps_error *error);
static enum ps_status take_reply(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error);
static void end_receiving(struct receiving *receiving, bool is_delivered);

/* ---- One wish ---- */

/* Ranges of what has begun come before more is waited for: their values are there already. */
static enum ps_status ask_all(struct receiving *receiving, uint64_t deadline_ms,
                              struct ps_error *error)
{
    struct ps_tensor_wishes *wishes = &receiving->wishes;
    while (wishes->missing > 0) {
        PS_TRY(wishes->begun > 0
                   ? ps_tensor_ask_ranges(receiving->rendezvous, wishes, deadline_ms, error)
                   : ask_round(receiving, deadline_ms, error));
        /* A receive that failed by itself, in a strict step or by a cancellation, ends the whole
         * wish: its caller gets all values or none. */
        if (wishes->why.status != PS_OK) {
            if (error != NULL)
                *error = wishes->why;
            return wishes->why.status;
        }
    }
    PS_ASSERT(wishes->begun == 0);
    return PS_OK;
}

/* While it waits it is in the list of those that a cancellation ends. */
enum ps_status ps_tensor_receive(struct psclient_rendezvous *rendezvous, const char *const *keys,
                                 struct psclient_tensor *tensors, size_t count,
                                 uint64_t deadline_ms, const void *owner, struct ps_error *error)
{
    struct receiving receiving = {.rendezvous = rendezvous, .tensors = tensors};
    const struct ps_tensor_place place = {ps_tensor_open, tensors};
    enum ps_status status =
        ps_tensor_wishes_init(&receiving.wishes, rendezvous->client->memory, &place, keys, count,
                              ps_tensor_new_ids(rendezvous, count), rendezvous->shard_count, error);
    /* On the stack of the caller, who takes it off the list before it returns. */
    struct ps_tensor_waiting waiting = {.wishes = &receiving.wishes, .owner = owner};
    if (status == PS_OK) {
        ps_mutex_lock(&rendezvous->lock);
        DL_APPEND(rendezvous->waiting, &waiting);
        ps_mutex_unlock(&rendezvous->lock);
        status = ask_all(&receiving, deadline_ms, error);
        ps_mutex_lock(&rendezvous->lock);
        DL_DELETE(rendezvous->waiting, &waiting);
        ps_mutex_unlock(&rendezvous->lock);
        end_receiving(&receiving, status == PS_OK);
    }
    ps_tensor_wishes_fini(&receiving.wishes);
    return status;
}

/* Notes one id for its server, and tells that at once when there is no room for more. The step's
 * own end is the last resort, while a server is away. */
static void note_ended(struct psclient_rendezvous *rendezvous, uint32_t shard, uint64_t id,
                       bool is_delivered)
{
    if (ps_tensor_ended_note(rendezvous, shard, id, is_delivered))
        return;
    ps_tensor_flush(rendezvous, ps_deadline_after(rendezvous->client->clock, FLUSH_MS));
    bool ignored = ps_tensor_ended_note(rendezvous, shard, id, is_delivered);
    (void)ignored;
}

/* What was received is the caller's, or goes back to the front of its queue. A receive that got no
 * answer at all may have a value at its server: it is given back, too. The servers hear of a single
 * small value with the next call that goes there; of more at once, for it is in their memory. */
static void end_receiving(struct receiving *receiving, bool is_delivered)
{
    struct psclient_rendezvous *rendezvous = receiving->rendezvous;
    const struct ps_tensor_wishes *wishes = &receiving->wishes;
    uint64_t bytes = 0;
    for (size_t i = 0; i < wishes->count; i++) {
        const struct ps_tensor_wished *value = &wishes->values[i];
        /* Each by itself: they may be of different servers. */
        note_ended(rendezvous, value->shard, wishes->first_id + i, is_delivered);
        bytes += value->arrived;
        if (!is_delivered && value->has_begun)
            psclient_tensor_release(&receiving->tensors[i]);
    }
    if (bytes > SMALL_BYTES || wishes->count > 1 || !is_delivered)
        ps_tensor_flush(rendezvous, ps_deadline_after(rendezvous->client->clock, FLUSH_MS));
}

/* ---- One round ---- */

/* Field by field, and what is told not at all: it is some kilobytes, of which mostly a few words
 * are used, and a small value is received in less time than it would take to clear them. */
static void open_asking(struct asking *asking, struct receiving *receiving, uint32_t shard)
{
    asking->of = receiving;
    asking->shard = shard;
    asking->wishes = NULL;
    asking->count = 0;
    asking->cancel = NULL;
    asking->cancel_count = 0;
    asking->told.done_count = 0;
    asking->told.give_back_count = 0;
}

/* Each call is full, or has the rest of its server. */
static size_t cut_round(struct receiving *receiving, struct asking *asking,
                        struct ps_rendezvous_wish *wishes)
{
    size_t used = 0;
    for (uint32_t shard = 0; shard < receiving->rendezvous->shard_count; shard++) {
        ps_tensor_wishes_rewind(&receiving->wishes);
        for (;;) {
            size_t count = ps_tensor_wishes_next(&receiving->wishes, shard, wishes, RECEIVES_EACH);
            if (count == 0)
                break;
            open_asking(&asking[used++], receiving, shard);
            asking[used - 1].wishes = wishes;
            asking[used - 1].count = count;
            wishes += count;
        }
    }
    return used;
}

static enum ps_status ask_round(struct receiving *receiving, uint64_t deadline_ms,
                                struct ps_error *error)
{
    struct psclient_rendezvous *rendezvous = receiving->rendezvous;
    const struct ps_allocator *memory = rendezvous->client->memory;
    struct ps_tensor_wishes *wishes = &receiving->wishes;
    size_t missing = wishes->missing;
    bool was_late = ps_time_left_ms(rendezvous->client->clock, deadline_ms) == 0;
    /* Each server has at most one call that is not full; and the last look has a place, too. */
    size_t most = missing / RECEIVES_EACH + rendezvous->shard_count + 1;
    struct asking *asking = ps_plain(memory, most * sizeof *asking);
    /* One list for all calls of the round: each has the part that it was cut. */
    struct ps_rendezvous_wish *asked = ps_zeroed_array(memory, missing, sizeof *asked);
    enum ps_status status = PS_ERR_NO_MEMORY;
    if (asking == NULL || asked == NULL) {
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu receives", missing);
    } else {
        /* Something is missing, and has not begun: somebody is asked. */
        size_t count = cut_round(receiving, asking, asked);
        PS_ASSERT(count > 0 && count < most + 1);
        status = run_asking(receiving, asking, count, deadline_ms, error);
    }
    ps_release(memory, asked);
    ps_release(memory, asking);
    if (status != PS_OK)
        return status;
    /* A round that brought something may have left the rest for the next. */
    if (was_late && wishes->missing == missing && wishes->begun == 0 && wishes->why.status == PS_OK)
        return ps_fail(error, PS_ERR_TIMEOUT,
                       "step %" PRIu64 ": nothing was sent in time for %zu of %zu keys",
                       rendezvous->step, missing, wishes->count);
    return PS_OK;
}

/* In one message: what ended, and what is wanted. The server looks at them in this order, so that
 * a value which is given back may answer the same call. */
static void write_asking(struct asking *asking, uint64_t wait_ms)
{
    struct psclient_rendezvous *rendezvous = asking->of->rendezvous;
    ps_tensor_ended_take(rendezvous, asking->shard, &asking->told);
    const struct ps_recv_tensors_request request = {
        .step = rendezvous->step,
        .epoch = ps_tensor_epoch(rendezvous, asking->shard),
        .wait_ms = wait_ms,
        .wishes = asking->wishes,
        .wish_count = asking->count,
        .done_with = asking->told.ended,
        .done_count = asking->told.done_count,
        .give_back = asking->told.ended + asking->told.done_count,
        .give_back_count = asking->told.give_back_count,
        .cancel = asking->cancel,
        .cancel_count = asking->cancel_count,
        .range_bytes = PS_TENSOR_RANGE_BYTES,
        .shard = ps_tensor_named_shard(rendezvous->client, asking->shard)};
    ps_encode_recv_tensors(&request, &asking->message);
}

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
            /* Of many values most are small, and room for all would be room that others want. */
            .ask_room = asking[i].count == 1 ? PS_TENSOR_RANGE_BYTES : 0,
            .answer = {take_reply, &asking[i]}};
    }
    if (status == PS_OK)
        status = ps_tensor_run_items(client, items, count, left_ms, error);
    for (size_t i = 0; i < count; i++)
        ps_buffer_fini(&asking[i].message);
    ps_release(client->memory, items);
    return status;
}

/* ---- One answer ---- */

/* Answers are taken one at a time, with the client's lock; the rendezvous's is within it. */
static enum ps_status take_reply(void *self, const struct ps_call_reply *reply,
                                 struct ps_error *error)
{
    struct asking *asking = self;
    struct receiving *receiving = asking->of;
    uint64_t epoch = 0;
    PS_TRY(ps_tensor_take_values(receiving->rendezvous, &receiving->wishes, reply, &epoch, error));
    ps_tensor_note_epoch(receiving->rendezvous, asking->shard, epoch);
    ps_tensor_ended_forget(receiving->rendezvous, asking->shard, &asking->told);
    return PS_OK;
}

/* ---- Ends ---- */

/* One call without receives, which is answered at once. */
static enum ps_status tell_ended(struct psclient_rendezvous *rendezvous, uint32_t shard,
                                 const uint64_t *cancel, size_t cancel_count, uint64_t deadline_ms,
                                 struct ps_error *error)
{
    struct psclient *client = rendezvous->client;
    struct receiving none = {.rendezvous = rendezvous};
    struct asking *asking = ps_plain(client->memory, sizeof *asking);
    if (asking == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a call");
    open_asking(asking, &none, shard);
    asking->cancel = cancel;
    asking->cancel_count = cancel_count;
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
        enum ps_status ignored = tell_ended(rendezvous, shard, NULL, 0, deadline_ms, NULL);
        (void)ignored;
    }
}

/* The ids of all receives of this handle that wait at one server. Returns how many. */
static size_t list_waiting(struct psclient_rendezvous *rendezvous, const void *owner,
                           uint32_t shard, uint64_t *ids, size_t most)
{
    size_t count = 0;
    struct ps_tensor_waiting *waiting;
    ps_mutex_lock(&rendezvous->lock);
    DL_FOREACH(rendezvous->waiting, waiting)
    for (size_t i = 0; i < waiting->wishes->count; i++) {
        /* Shards are known from the start of a wish, and stay. */
        if (waiting->wishes->values[i].shard != shard || (owner != NULL && owner != waiting->owner))
            continue;
        if (count < most)
            ids[count] = waiting->wishes->first_id + i;
        count++;
    }
    ps_mutex_unlock(&rendezvous->lock);
    return count;
}

/* In as many calls as they need. */
static enum ps_status cancel_at(struct psclient_rendezvous *rendezvous, const void *owner,
                                uint32_t shard, uint64_t deadline_ms, struct ps_error *error)
{
    const struct ps_allocator *memory = rendezvous->client->memory;
    size_t most = list_waiting(rendezvous, owner, shard, NULL, 0);
    if (most == 0)
        return PS_OK;
    uint64_t *ids = ps_zeroed_array(memory, most, sizeof *ids);
    if (ids == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu receives", most);
    /* Those that begin meanwhile are not cancelled. */
    size_t count = list_waiting(rendezvous, owner, shard, ids, most);
    enum ps_status status = PS_OK;
    count = count < most ? count : most;
    for (size_t i = 0; i < count && status == PS_OK; i += RECEIVES_EACH) {
        size_t each = count - i < RECEIVES_EACH ? count - i : RECEIVES_EACH;
        status = tell_ended(rendezvous, shard, ids + i, each, deadline_ms, error);
    }
    ps_release(memory, ids);
    return status;
}

/* The servers end the receives that have nothing, and their calls hear of it there. To give them
 * back would not do: a value that is on its way to this process would be given to another, too. */
enum ps_status ps_tensor_cancel(struct psclient_rendezvous *rendezvous, const void *owner,
                                uint64_t deadline_ms, struct ps_error *error)
{
    for (uint32_t shard = 0; shard < rendezvous->shard_count; shard++)
        PS_TRY(cancel_at(rendezvous, owner, shard, deadline_ms, error));
    return PS_OK;
}
