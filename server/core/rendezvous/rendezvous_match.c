/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are compared whole: the reference's table knows them by a hash of 64 bits, and would mix two
 * that have the same. A queue goes when nothing refers to it any more; that of a strict step stays
 * until the step ends, since it is what remembers that the key was used.
 *
 * Whatever a send or a receive needs is allocated before anything changes, so that a refusal of
 * memory is a refusal of the whole call.
 *
 * Who waits is told by whoever called: here nobody is woken, and nothing is sent. A receive that
 * has got its value is in no queue any more, and its call finds it when it looks, however late. */
#include "server/core/rendezvous/rendezvous_step.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

/* So much of a key a text prints. */
enum { KEY_TEXT_BYTES = 180 };

static enum ps_status fail_second_send(struct ps_bytes key, struct ps_error *error);
static enum ps_status find_or_add_queue(struct ps_step *step, struct ps_bytes key,
                                        struct ps_step_queue **queue, struct ps_error *error);
static enum ps_status add_receive(struct ps_step *step, uint64_t id, struct ps_step_queue *queue,
                                  struct ps_step_receive **receive, struct ps_error *error);
static void give(struct ps_step_queue *queue, struct ps_step_receive *receive,
                 struct ps_held_value *value);
static void end_receive(struct ps_step *step, struct ps_step_receive *receive, enum ps_status how);
static void drop_queue_if_idle(struct ps_step *step, struct ps_step_queue *queue);
static void drop_queue(struct ps_step *step, struct ps_step_queue *queue);
static void uncount(struct ps_step *step, struct ps_held_value *value);

/* A key counts with the bytes that it is remembered by: a thousand of it may be all there is of a
 * value, and a strict step keeps them when their values are gone. */
uint64_t ps_step_key_bytes(size_t key_size)
{
    PS_ASSERT(key_size > 0);
    return sizeof(struct ps_step_queue) + key_size;
}

static void count(struct ps_step *step, uint64_t bytes)
{
    step->bytes += bytes;
    *step->bytes_of_all += bytes;
}

/* ---- Sending ---- */

/* The value goes to the receive that waits for longest, or to the end of the queue. Whoever waits
 * is a call that was parked: it is told by the caller, without the lock. The bytes count in both
 * cases until the receiver is done with them, since the value is in memory as long. */
enum ps_status ps_step_send(struct ps_step *step, struct ps_bytes key, struct ps_held_value *value,
                            bool *wakes, struct ps_error *error)
{
    struct ps_step_queue *queue;
    PS_ASSERT(value != NULL && key.size > 0);
    *wakes = false;
    PS_TRY(ps_step_status(step, error));
    /* Bytes before the key: a queue is made for what is taken, and not for what is refused. A
     * receive that comes first makes one whatever there is: it is what makes room. */
    HASH_FIND(hh, step->queues, key.data, key.size, queue);
    uint64_t beside = queue == NULL ? ps_step_key_bytes(key.size) : 0;
    PS_TRY(ps_step_check_bytes(step, value->bytes + beside, error));
    PS_TRY(find_or_add_queue(step, key, &queue, error));
    if (step->is_strict && queue->was_sent)
        return fail_second_send(key, error);
    /* From here on nothing can fail. */
    queue->was_sent = true;
    step->was_sent_to = true;
    count(step, value->bytes);
    /* Either there are values or there are waiting receives: the second to come completes the
     * pair. */
    *wakes = queue->waiting != NULL;
    if (*wakes)
        give(queue, queue->waiting, value);
    else
        DL_APPEND(queue->values, value);
    PS_ASSERT(queue->values == NULL || queue->waiting == NULL);
    return PS_OK;
}

/* The words are TensorFlow's. A key may be longer than a text. */
static enum ps_status fail_second_send(struct ps_bytes key, struct ps_error *error)
{
    PS_ASSERT(key.size > 0);
    return ps_fail(error, PS_ERR_ABORTED, "Duplicated send: %.*s",
                   (int)(key.size < KEY_TEXT_BYTES ? key.size : KEY_TEXT_BYTES),
                   (const char *)key.data);
}

/* Asked before the first of many parts takes any memory. */
enum ps_status ps_step_check_first_send(const struct ps_step *step, struct ps_bytes key,
                                        struct ps_error *error)
{
    struct ps_step_queue *queue = NULL;
    PS_ASSERT(key.size > 0);
    HASH_FIND(hh, step->queues, key.data, key.size, queue);
    return step->is_strict && queue != NULL && queue->was_sent ? fail_second_send(key, error)
                                                               : PS_OK;
}

/* Without a sum that could wrap: what a part says of its value is any number. Keys of receives may
 * have taken a little more than there is. */
static bool is_beyond(uint64_t used, uint64_t bytes, uint64_t bytes_max)
{
    return used > bytes_max || bytes > bytes_max - used;
}

/* Whoever sends faster than others receive hears it here, and comes again. */
enum ps_status ps_step_check_bytes(const struct ps_step *step, uint64_t bytes,
                                   struct ps_error *error)
{
    const struct ps_rendezvous_bounds *bounds = step->bounds;
    PS_ASSERT(*step->bytes_of_all >= step->bytes);
    if (is_beyond(step->bytes, bytes, bounds->step_bytes_max))
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_RENDEZVOUS, 0,
                         "step %" PRIu64 ": %" PRIu64 " bytes wait to be received, and %" PRIu64
                         " more would be beyond %" PRIu64 " (--rendezvous-step-bytes)",
                         step->id, step->bytes, bytes, bounds->step_bytes_max);
    if (is_beyond(*step->bytes_of_all, bytes, bounds->bytes_max))
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_RENDEZVOUS, 0,
                         "step %" PRIu64 ": %" PRIu64
                         " bytes of all steps wait to be received, and %" PRIu64
                         " more would be beyond %" PRIu64 " (--rendezvous-bytes)",
                         step->id, *step->bytes_of_all, bytes, bounds->bytes_max);
    return PS_OK;
}

/* One number for keys and receives: both are small, and each receive that waits has a key that
 * waits. */
enum ps_status ps_step_check_entries(const struct ps_step *step, struct ps_error *error)
{
    uint32_t count =
        HASH_COUNT(step->queues) + HASH_COUNT(step->receives) + HASH_COUNT(step->staged);
    PS_ASSERT(count <= step->bounds->step_entries_max);
    if (count < step->bounds->step_entries_max)
        return PS_OK;
    return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_RENDEZVOUS, 0,
                     "step %" PRIu64 " has %" PRIu32
                     " keys and receives, and no more may it have (--rendezvous-keys)",
                     step->id, count);
}

/* A queue that was added for what is then refused goes again with its caller's failure, or stays
 * empty until the step ends: it counts as a key all the while. */
static enum ps_status find_or_add_queue(struct ps_step *step, struct ps_bytes key,
                                        struct ps_step_queue **out, struct ps_error *error)
{
    const struct ps_allocator *memory = step->memory;
    bool refused = false;
    struct ps_step_queue *queue;
    PS_ASSERT(key.size > 0);
    HASH_FIND(hh, step->queues, key.data, key.size, queue);
    *out = queue;
    if (queue != NULL)
        return PS_OK;
    PS_TRY(ps_step_check_entries(step, error));
    queue = ps_zeroed(memory, sizeof *queue + key.size);
    if (queue == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a key");
    /* The key is the queue's own: that of the request goes with its call. */
    queue->key_size = key.size;
    memcpy(queue->key, key.data, key.size);
    HASH_ADD_KEYPTR(hh, step->queues, queue->key, queue->key_size, queue);
    if (refused) {
        ps_release(memory, queue);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a key");
    }
    count(step, ps_step_key_bytes(key.size));
    *out = queue;
    return PS_OK;
}

/* ---- Receiving ---- */

/* Receives that are over are not found: their ids are remembered elsewhere (recent_ids.h), since
 * the step forgets them with their memory. */
static struct ps_step_receive *find_receive(const struct ps_step *step, uint64_t id)
{
    struct ps_step_receive *receive;
    PS_ASSERT(step != NULL);
    HASH_FIND(hh, step->receives, &id, sizeof id, receive);
    return receive;
}

/* A range beyond the first is of a value that was told: without one there is nothing to go on
 * with. */
bool ps_step_has_value(const struct ps_step *step, uint64_t id)
{
    const struct ps_step_receive *receive = find_receive(step, id);
    PS_ASSERT(receive == NULL || receive->id == id);
    return receive != NULL && receive->value != NULL;
}

/* A receive that is there already has passed all checks but that for its key. */
static enum ps_status join_receive(struct ps_step_receive *receive, struct ps_bytes key,
                                   struct ps_error *error)
{
    const struct ps_step_queue *queue = receive->queue;
    PS_ASSERT(queue != NULL && receive->over == PS_OK);
    if (queue->key_size != key.size || memcmp(queue->key, key.data, key.size) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "receive %" PRIu64 " is of another key",
                       receive->id);
    receive->calls++;
    return PS_OK;
}

/* A receive is looked for by its id first: it may have got its value in a call whose answer was
 * lost, and then takes no other. In a strict step the second receive of a key is refused whether
 * or not the first has got its value, as the legacy table does. */
enum ps_status ps_step_receive(struct ps_step *step, uint64_t id, struct ps_bytes key,
                               struct ps_step_receive **out, struct ps_error *error)
{
    PS_ASSERT(key.size > 0);
    PS_TRY(ps_step_status(step, error));
    struct ps_step_queue *queue;
    struct ps_step_receive *receive = find_receive(step, id);
    if (receive != NULL) {
        PS_TRY(join_receive(receive, key, error));
        *out = receive;
        return PS_OK;
    }
    PS_TRY(find_or_add_queue(step, key, &queue, error));
    if (step->is_strict && queue->was_received)
        return ps_fail(error, PS_ERR_ABORTED, "Duplicated recv: %.*s",
                       (int)(key.size < KEY_TEXT_BYTES ? key.size : KEY_TEXT_BYTES),
                       (const char *)key.data);
    /* The queue may be new: when the receive cannot be made, nobody refers to it. */
    enum ps_status status = add_receive(step, id, queue, &receive, error);
    if (status != PS_OK) {
        drop_queue_if_idle(step, queue);
        return status;
    }
    queue->was_received = true;
    DL_APPEND(queue->waiting, receive);
    struct ps_held_value *value = queue->values;
    if (value != NULL) {
        DL_DELETE(queue->values, value);
        give(queue, receive, value);
    }
    PS_ASSERT(queue->values == NULL || queue->waiting == NULL);
    *out = receive;
    return PS_OK;
}

/* Everything that can be refused is before the receive is in a list. */
static enum ps_status add_receive(struct ps_step *step, uint64_t id, struct ps_step_queue *queue,
                                  struct ps_step_receive **out, struct ps_error *error)
{
    const struct ps_allocator *memory = step->memory;
    bool refused = false;
    PS_TRY(ps_step_check_entries(step, error));
    struct ps_step_receive *receive = ps_zeroed(memory, sizeof *receive);
    if (receive == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a receive");
    receive->id = id;
    receive->queue = queue;
    receive->calls = 1;
    HASH_ADD(hh, step->receives, id, sizeof receive->id, receive);
    if (refused) {
        ps_release(memory, receive);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a receive");
    }
    PS_ASSERT(find_receive(step, id) == receive);
    *out = receive;
    return PS_OK;
}

/* The receive waits, and waits no longer. */
static void give(struct ps_step_queue *queue, struct ps_step_receive *receive,
                 struct ps_held_value *value)
{
    PS_ASSERT(receive->queue == queue && receive->value == NULL);
    DL_DELETE(queue->waiting, receive);
    receive->value = value;
    queue->held++;
}

/* What a receive has got is not lost with the call: the client may not have heard of it. */
void ps_step_leave(struct ps_step *step, struct ps_step_receive *receive)
{
    PS_ASSERT(receive->calls > 0);
    receive->calls--;
    /* Two calls may wait with one receive while the end of the first is not noticed yet. */
    if (receive->calls > 0 || receive->value != NULL)
        return;
    /* A strict step forgets a receive that has got nothing: whoever gave up may come again. */
    if (receive->over == PS_OK) {
        receive->queue->was_received = false;
        DL_DELETE(receive->queue->waiting, receive);
        end_receive(step, receive, PS_ERR_CANCELLED);
        return;
    }
    ps_release(step->memory, receive);
}

/* Out of every list. Its value is the caller's by now. A call that still has the receive finds how
 * it ended, and releases it. */
static void end_receive(struct ps_step *step, struct ps_step_receive *receive, enum ps_status how)
{
    const struct ps_allocator *memory = step->memory;
    struct ps_step_queue *queue = receive->queue;
    PS_ASSERT(receive->over == PS_OK && how != PS_OK);
    PS_ASSERT(queue != NULL && receive->value == NULL);
    HASH_DEL(step->receives, receive);
    receive->queue = NULL;
    receive->over = how;
    if (receive->calls == 0)
        ps_release(memory, receive);
    drop_queue_if_idle(step, queue);
}

/* Takes what the receive has, or has it wait no more: either way it is in no list of its queue. */
static struct ps_held_value *take_value(struct ps_step_receive *receive)
{
    struct ps_step_queue *queue = receive->queue;
    struct ps_held_value *value = receive->value;
    PS_ASSERT(queue != NULL);
    if (value == NULL) {
        DL_DELETE(queue->waiting, receive);
        return NULL;
    }
    /* A queue stays while a receive has a value of it: that may come back. */
    PS_ASSERT(queue->held > 0);
    queue->held--;
    receive->value = NULL;
    return value;
}

/* The usual end of a receive. One that still waits, in a call of the same client that was
 * overtaken, ends, too: whoever says that it is done wants nothing more. */
void ps_step_done(struct ps_step *step, uint64_t id)
{
    struct ps_step_receive *receive = find_receive(step, id);
    PS_ASSERT(receive == NULL || receive->id == id);
    if (receive == NULL)
        return;
    struct ps_held_value *value = take_value(receive);
    if (value != NULL)
        uncount(step, value);
    end_receive(step, receive, PS_ERR_CANCELLED);
}

/* Before the values behind it: it was the first of them when it was taken. */
void ps_step_give_back(struct ps_step *step, uint64_t id, bool *wakes)
{
    struct ps_step_receive *receive = find_receive(step, id);
    PS_ASSERT(receive == NULL || receive->over == PS_OK);
    if (receive == NULL)
        return;
    struct ps_step_queue *queue = receive->queue;
    struct ps_held_value *value = take_value(receive);
    /* Somebody else may receive the key, in a strict step, too. */
    queue->was_received = false;
    /* Others may wait although the queue was empty when they came. */
    if (value != NULL && queue->waiting != NULL) {
        *wakes = true;
        give(queue, queue->waiting, value);
    } else if (value != NULL) {
        DL_PREPEND(queue->values, value);
    }
    end_receive(step, receive, PS_ERR_CANCELLED);
}

/* Unlike a receive that is given back, whose caller has said that it takes nothing any more: here
 * it may be about to. */
bool ps_step_cancel(struct ps_step *step, uint64_t id, bool *wakes)
{
    struct ps_step_receive *receive = find_receive(step, id);
    PS_ASSERT(receive == NULL || receive->over == PS_OK);
    if (receive == NULL)
        return true;
    if (receive->value != NULL)
        return false;
    struct ps_held_value *none = take_value(receive);
    PS_ASSERT(none == NULL);
    receive->queue->was_received = false;
    *wakes = true;
    end_receive(step, receive, PS_ERR_CANCELLED);
    return true;
}

/* A strict step's key is remembered once it was used. */
static void drop_queue_if_idle(struct ps_step *step, struct ps_step_queue *queue)
{
    PS_ASSERT(queue->values == NULL || queue->waiting == NULL);
    if (queue->values != NULL || queue->waiting != NULL || queue->held > 0)
        return;
    if (step->is_strict && (queue->was_sent || queue->was_received))
        return;
    drop_queue(step, queue);
}

/* With the bytes that it counted for. */
static void drop_queue(struct ps_step *step, struct ps_step_queue *queue)
{
    const struct ps_allocator *memory = step->memory;
    uint64_t bytes = ps_step_key_bytes(queue->key_size);
    PS_ASSERT(step->bytes >= bytes && *step->bytes_of_all >= step->bytes);
    step->bytes -= bytes;
    *step->bytes_of_all -= bytes;
    HASH_DEL(step->queues, queue);
    ps_release(memory, queue);
}

/* Takes the step's reference to a value that nobody can receive any more. */
static void uncount(struct ps_step *step, struct ps_held_value *value)
{
    PS_ASSERT(step->bytes >= value->bytes);
    PS_ASSERT(*step->bytes_of_all >= value->bytes);
    step->bytes -= value->bytes;
    *step->bytes_of_all -= value->bytes;
    ps_held_value_release(value);
}

/* Of receives that wait for one key the first is kept: a strict step would have refused the
 * others. */
void ps_step_keep_first_receives(struct ps_step *step, bool *wakes)
{
    struct ps_step_queue *queue;
    struct ps_step_queue *following;
    PS_ASSERT(step->is_strict);
    /* Ending a receive may end its queue, though never that of the first, which waits on. */
    for (queue = step->queues; queue != NULL; queue = following) {
        following = queue->hh.next;
        queue->was_received = queue->waiting != NULL;
        while (queue->waiting != NULL && queue->waiting->next != NULL) {
            struct ps_step_receive *second = queue->waiting->next;
            DL_DELETE(queue->waiting, second);
            end_receive(step, second, PS_ERR_ABORTED);
            *wakes = true;
        }
    }
}

/* Receives that calls have stay theirs, and are over. */
void ps_step_clear(struct ps_step *step)
{
    PS_ASSERT(*step->bytes_of_all >= step->bytes);
    ps_step_clear_staged(step);
    /* One by one, as if each of them had said so: there is one way for a receive to end. */
    while (step->receives != NULL)
        ps_step_done(step, step->receives->id);
    while (step->queues != NULL) {
        struct ps_step_queue *queue = step->queues;
        PS_ASSERT(queue->waiting == NULL && queue->held == 0);
        while (queue->values != NULL) {
            struct ps_held_value *value = queue->values;
            DL_DELETE(queue->values, value);
            uncount(step, value);
        }
        drop_queue(step, queue);
    }
}
