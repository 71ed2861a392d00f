/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of receivers. A call comes with some receives, looks whenever something was sent to one
 * that waits, and leaves with what there is. Coming is one critical section and leaving another:
 * nothing is ever half queued, and a value that comes while a call leaves is either in its rows or
 * in the queue. */
#include "server/core/rendezvous/rendezvous.h"

#include "base/assert.h"
#include "server/core/rendezvous/rendezvous_parts.h"

#include <inttypes.h>

/* Numbers of a receive and of its step come and go together, so that the ring never has one of them
 * alone. */
_Static_assert(PS_RENDEZVOUS_RECENT_MAX % 2 == 0, "pairs fill the ring");

static void leave(struct ps_receiving *receiving);

/* Before the wishes: a value that was given back may be one of those. Each of these ids is
 * remembered, so that a call with it that was overtaken takes no value for nobody. */
static enum ps_status end_receives(struct ps_rendezvous *rendezvous, struct ps_step *step,
                                   const struct ps_rendezvous_asked *asked, bool *wakes,
                                   struct ps_error *error)
{
    PS_ASSERT(asked->done_with != NULL || asked->done_count == 0);
    if (asked->done_count + asked->give_back_count + asked->cancel_count == 0)
        return PS_OK;
    PS_TRY(ps_recent_ids_reserve(&rendezvous->over, error));
    for (size_t i = 0; i < asked->done_count; i++) {
        ps_step_done(step, asked->done_with[i]);
        ps_recent_ids_add(&rendezvous->over,
                          ps_rendezvous_number_of(step->id, asked->done_with[i]));
    }
    /* Given back in the order of the message: of two values of one key the one that is named last
     * is received next. */
    for (size_t i = 0; i < asked->give_back_count; i++) {
        ps_step_give_back(step, asked->give_back[i], wakes);
        ps_recent_ids_add(&rendezvous->over,
                          ps_rendezvous_number_of(step->id, asked->give_back[i]));
    }
    /* A value that came first is received, whatever its reader hears first: its answer may be on
     * its way. One that has nothing gets nothing any more, in whichever call it comes again. */
    for (size_t i = 0; i < asked->cancel_count; i++)
        if (ps_step_cancel(step, asked->cancel[i], wakes))
            ps_recent_ids_add(&rendezvous->over,
                              ps_rendezvous_number_of(step->id, asked->cancel[i]));
    return PS_OK;
}

/* With the lock. On failure the receives that were there already leave again. */
static enum ps_status wish_all(struct ps_rendezvous *rendezvous, struct ps_step *step,
                               const struct ps_rendezvous_asked *asked,
                               struct ps_receiving *receiving, struct ps_error *error)
{
    PS_ASSERT(receiving->step == NULL && receiving->count == 0);
    receiving->step = step;
    receiving->epoch = step->epoch;
    receiving->range_bytes = asked->range_bytes;
    step->references++;
    for (size_t i = 0; i < asked->wish_count; i++) {
        const struct ps_rendezvous_wish *wish = &asked->wishes[i];
        struct ps_received *row = &receiving->rows[i];
        *row = (struct ps_received){.id = wish->id,
                                    .status = PS_ERR_NOT_READY,
                                    .offset = wish->offset,
                                    .count = wish->count};
        /* Counted before it is asked for, so that a failure leaves with all rows that there
         * are. */
        receiving->count++;
        enum ps_status status = PS_ERR_CANCELLED;
        /* The rest of a value is asked for by whoever has its beginning. */
        bool is_rest = wish->offset != 0 && !ps_step_has_value(step, wish->id);
        if (!is_rest &&
            !ps_recent_ids_has(&rendezvous->over, ps_rendezvous_number_of(step->id, wish->id)))
            status = ps_step_receive(step, wish->id, wish->key, &row->receive, error);
        /* A step that was aborted is so for all; a second receive of a key is one wish's fault. */
        if (status == PS_ERR_BUSY || status == PS_ERR_NO_MEMORY || step->status != PS_OK) {
            leave(receiving);
            return status;
        }
        /* The others of the call go on: a receiver of many keys hears which of them was at
         * fault. */
        if (status != PS_OK)
            row->status = status;
    }
    return PS_OK;
}

/* ---- Receives that name no epoch ---- */

/* The receive in this life of its step, and in no other of the same number. */
static uint64_t number_here(const struct ps_step *step, uint64_t number)
{
    PS_ASSERT(step->epoch != 0);
    return ps_rendezvous_number_of(step->epoch, number);
}

/* A receive that names no epoch is of the step in which it came first. A copy of it that the
 * network brings when that step has ended would wait in the next one of the number, for a client
 * that has its answer or is dead, and take a value along. It hears what its epoch would have told
 * it. Of sends the tokens are remembered, which does as much for them. */
static enum ps_status check_first_steps(const struct ps_rendezvous *rendezvous,
                                        const struct ps_step *step,
                                        const struct ps_rendezvous_asked *asked,
                                        struct ps_error *error)
{
    PS_ASSERT(asked->wishes != NULL || asked->wish_count == 0);
    for (size_t i = 0; i < asked->wish_count; i++) {
        uint64_t number = ps_rendezvous_number_of(step->id, asked->wishes[i].id);
        if (ps_recent_ids_has(&rendezvous->unfenced, number) &&
            !ps_recent_ids_has(&rendezvous->unfenced, number_here(step, number)))
            return ps_fail(error, PS_ERR_ABORTED, "Cleanup %" PRIu64, step->id);
    }
    return PS_OK;
}

/* Behind all that can be refused: a receive that found no room has come to no step yet. */
static void note_first_steps(struct ps_rendezvous *rendezvous, const struct ps_step *step,
                             const struct ps_rendezvous_asked *asked)
{
    PS_ASSERT(asked->wishes != NULL || asked->wish_count == 0);
    for (size_t i = 0; i < asked->wish_count; i++) {
        uint64_t number = ps_rendezvous_number_of(step->id, asked->wishes[i].id);
        ps_recent_ids_add(&rendezvous->unfenced, number);
        ps_recent_ids_add(&rendezvous->unfenced, number_here(step, number));
    }
}

/* With the lock. What names the epoch of its step is told from others by that. */
static enum ps_status wish_in_step(struct ps_rendezvous *rendezvous,
                                   const struct ps_rendezvous_of *of, struct ps_step *step,
                                   const struct ps_rendezvous_asked *asked,
                                   struct ps_receiving *receiving, struct ps_error *error)
{
    PS_ASSERT(of->epoch == 0 || of->epoch == step->epoch);
    if (of->epoch != 0 || asked->wish_count == 0)
        return wish_all(rendezvous, step, asked, receiving, error);
    PS_TRY(ps_recent_ids_reserve(&rendezvous->unfenced, error));
    PS_TRY(check_first_steps(rendezvous, step, asked, error));
    PS_TRY(wish_all(rendezvous, step, asked, receiving, error));
    note_first_steps(rendezvous, step, asked);
    return PS_OK;
}

/* ---- Calls ---- */

/* All wishes are checked before the first is queued: a message that is malformed changes
 * nothing. */
static enum ps_status check_wishes(const struct ps_rendezvous_asked *asked, struct ps_error *error)
{
    PS_ASSERT(asked->wishes != NULL || asked->wish_count == 0);
    if (asked->wish_count > PS_RENDEZVOUS_WISHES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "one call has at most %d receives",
                       PS_RENDEZVOUS_WISHES_MAX);
    for (size_t i = 0; i < asked->wish_count; i++) {
        if (asked->wishes[i].id == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "a receive needs an id that is not 0");
        PS_TRY(ps_rendezvous_check_key(asked->wishes[i].key, error));
    }
    return PS_OK;
}

/* The order is that of a client which has received something and wants more: first what it is done
 * with makes room, then it comes with its wishes. What was ended stays ended when the wishes are
 * refused, as a repeat of the call would find it. */
enum ps_status ps_rendezvous_receive(struct ps_rendezvous *rendezvous,
                                     const struct ps_rendezvous_of *of,
                                     const struct ps_rendezvous_asked *asked,
                                     struct ps_receiving *receiving, bool *wakes,
                                     struct ps_error *error)
{
    struct ps_step *step = NULL;
    PS_ASSERT(receiving->step == NULL && receiving->rows == NULL);
    *wakes = false;
    PS_TRY(check_wishes(asked, error));
    receiving->rows =
        ps_zeroed_array(rendezvous->memory, asked->wish_count, sizeof *receiving->rows);
    if (receiving->rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu receives", asked->wish_count);
    /* The rows were made before the lock is taken, which all calls of the shard want. */
    ps_mutex_lock(&rendezvous->lock);
    enum ps_status status = ps_rendezvous_find_step(rendezvous, of, &step, error);
    if (status == PS_OK)
        status = ps_step_status(step, error);
    if (status == PS_OK)
        status = end_receives(rendezvous, step, asked, wakes, error);
    if (status == PS_OK)
        status = wish_in_step(rendezvous, of, step, asked, receiving, error);
    ps_mutex_unlock(&rendezvous->lock);
    if (status != PS_OK)
        ps_rendezvous_release(rendezvous, receiving);
    return status;
}

/* With the lock. A receive that has got nothing waits no more. */
static void leave(struct ps_receiving *receiving)
{
    struct ps_step *step = receiving->step;
    PS_ASSERT(step != NULL);
    for (size_t i = 0; i < receiving->count; i++) {
        if (receiving->rows[i].receive != NULL)
            ps_step_leave(step, receiving->rows[i].receive);
        receiving->rows[i].receive = NULL;
    }
    /* The row keeps what was collected; the step may end with this reference. */
    receiving->step = NULL;
    ps_step_release(step);
}

/* How many rows have something to say. A receive that another call has ended says so. */
static size_t count_there(struct ps_receiving *receiving)
{
    size_t there = 0;
    PS_ASSERT(receiving->step != NULL);
    for (size_t i = 0; i < receiving->count; i++) {
        struct ps_received *row = &receiving->rows[i];
        if (row->receive != NULL && row->receive->over != PS_OK)
            row->status = row->receive->over;
        there += row->status != PS_ERR_NOT_READY ||
                 (row->receive != NULL && row->receive->value != NULL);
    }
    return there;
}

/* How much of the value the row gets; false: it wishes for what is beyond its end. */
static bool cut_range(struct ps_received *row, uint64_t size, uint64_t range_bytes)
{
    /* Exactly at the end there are no bytes, which is an answer. */
    if (row->offset > size)
        return false;
    uint64_t left = size - row->offset;
    if (row->count == 0 || row->count > left)
        row->count = left;
    if (range_bytes != 0 && row->count > range_bytes)
        row->count = range_bytes;
    PS_ASSERT(row->count <= size);
    return true;
}

/* A value that is too much for this reply stays its receive's. */
static void take_values(struct ps_receiving *receiving, uint64_t bytes_max)
{
    uint64_t bytes = 0;
    PS_ASSERT(receiving->step != NULL);
    for (size_t i = 0; i < receiving->count; i++) {
        struct ps_received *row = &receiving->rows[i];
        struct ps_held_value *value = row->receive != NULL ? row->receive->value : NULL;
        if (value == NULL)
            continue;
        /* A range is a part of this reply only: the value stays the receive's in any case. */
        if (!cut_range(row, value->content.size, receiving->range_bytes)) {
            row->status = PS_ERR_BAD_INPUT;
            continue;
        }
        if (bytes > 0 && bytes + row->count > bytes_max)
            continue;
        /* An empty value counts as one byte: the first is in whatever its size. */
        bytes += row->count + 1;
        row->value = ps_held_value_acquire(value);
        row->status = PS_OK;
    }
}

/* Looking, taking and leaving are one step: a value that comes in between would be nobody's. */
enum ps_status ps_rendezvous_collect(struct ps_rendezvous *rendezvous,
                                     struct ps_receiving *receiving, size_t wanted,
                                     uint64_t bytes_max, bool is_last, struct ps_error *error)
{
    PS_ASSERT(receiving->step != NULL);
    ps_mutex_lock(&rendezvous->lock);
    enum ps_status status = ps_step_status(receiving->step, error);
    /* No call waits for more than it has wished for. */
    size_t enough = wanted < receiving->count ? wanted : receiving->count;
    /* Fewer than were wished for is enough for a call that asks for the first of many. */
    if (status == PS_OK && count_there(receiving) < enough && !is_last)
        status = PS_ERR_NOT_READY;
    if (status == PS_OK)
        take_values(receiving, bytes_max);
    if (status != PS_ERR_NOT_READY)
        leave(receiving);
    ps_mutex_unlock(&rendezvous->lock);
    return status;
}

/* A call whose client has gone comes here without a last look: values that its receives have got
 * stay theirs, and can be asked for again; the others wait no more, so that nothing is given to a
 * call that nobody reads. */
void ps_rendezvous_release(struct ps_rendezvous *rendezvous, struct ps_receiving *receiving)
{
    PS_ASSERT(receiving->rows != NULL || receiving->step == NULL);
    if (receiving->step != NULL) {
        ps_mutex_lock(&rendezvous->lock);
        leave(receiving);
        ps_mutex_unlock(&rendezvous->lock);
    }
    /* Of a reply that was made: its message has references of its own. */
    for (size_t i = 0; i < receiving->count; i++)
        ps_held_value_release(receiving->rows[i].value);
    ps_release(rendezvous->memory, receiving->rows);
    *receiving = (struct ps_receiving){.step = NULL};
}
