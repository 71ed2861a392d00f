/* SPDX-License-Identifier: Apache-2.0 */
/* A step from its first mention to its end: who begins it and in which mode, and what it was given
 * up for. What is sent and received in it is in rendezvous_match.c.
 *
 * The first abort wins: an error of one process makes others fail, and theirs come later. */
#include "server/core/rendezvous/rendezvous_step.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

/* A step begins in the mode of queues and with the life of all steps; who begins it may say
 * otherwise. */
struct ps_step *ps_step_create(const struct ps_allocator *memory,
                               const struct ps_rendezvous_bounds *bounds, uint64_t *bytes_of_all,
                               uint64_t id, uint64_t epoch)
{
    PS_ASSERT(bounds->step_entries_max > 0 && epoch != 0);
    struct ps_step *step = ps_zeroed(memory, sizeof *step);
    if (step == NULL)
        return NULL;
    step->memory = memory;
    step->bounds = bounds;
    step->bytes_of_all = bytes_of_all;
    step->id = id;
    step->epoch = epoch;
    step->lifetime_ms = bounds->lifetime_ms;
    step->references = 1;
    return step;
}

/* The table of steps has one reference and each waiting call another: the last of them may be a
 * call that was told of the end long after it. */
void ps_step_release(struct ps_step *step)
{
    PS_ASSERT(step->references > 0);
    if (--step->references > 0)
        return;
    ps_step_clear(step);
    PS_ASSERT(step->bytes == 0 && step->receives == NULL);
    ps_release(step->memory, step);
}

/* Beginning is idempotent, so that a client may repeat it when the answer was lost; what tells a
 * repeat from another job is the name of the session. The two refusals have different texts: one
 * is a mistake in the names of sessions, the other in the order of calls. */
enum ps_status ps_step_begin(struct ps_step *step, struct ps_bytes session, bool is_strict,
                             uint64_t lifetime_ms, bool *wakes, struct ps_error *error)
{
    PS_ASSERT(session.data != NULL || session.size == 0);
    if (session.size == 0 || session.size > PS_STEP_SESSION_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the name of a session has 1 to %d bytes",
                       PS_STEP_SESSION_BYTES_MAX);
    PS_TRY(ps_step_status(step, error));
    bool is_same = strlen(step->session) == session.size &&
                   memcmp(step->session, session.data, session.size) == 0;
    if (step->has_begun && (!is_same || step->is_strict != is_strict))
        return ps_fail(error, PS_ERR_MISMATCH,
                       "Double init! Step %" PRIu64 " was begun by session %s, %s", step->id,
                       step->session, step->is_strict ? "strict" : "as queues");
    if (step->has_begun)
        return PS_OK;
    /* A strict step promises that no key is sent twice, which cannot be said of keys that were
     * forgotten. */
    if (is_strict && step->was_sent_to)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "step %" PRIu64 " cannot become strict: something was sent already",
                       step->id);
    memcpy(step->session, session.data, session.size);
    step->has_begun = true;
    step->is_strict = is_strict;
    /* How long a step may be left alone only its users know: one that waits for a person is not
     * one that waits for a device. */
    if (lifetime_ms != 0)
        step->lifetime_ms = lifetime_ms;
    if (is_strict)
        ps_step_keep_first_receives(step, wakes);
    return PS_OK;
}

/* Whoever waits looks, and finds the status before it finds its receive. */
void ps_step_abort(struct ps_step *step, enum ps_status status, const char *text)
{
    PS_ASSERT(status != PS_OK && text != NULL);
    if (step->status != PS_OK)
        return;
    /* Before anything is dropped: what is dropped must not be given to anybody meanwhile. */
    step->status = status;
    (void)snprintf(step->text, sizeof step->text, "%s", text);
    ps_step_clear(step);
    PS_ASSERT(step->bytes == 0);
}

/* Asked first by every call, with the lock that it goes on with: an abort is never between the
 * look and the queue. */
enum ps_status ps_step_status(const struct ps_step *step, struct ps_error *error)
{
    PS_ASSERT(step->references > 0);
    return step->status == PS_OK ? PS_OK : ps_fail(error, step->status, "%s", step->text);
}

/* The bytes of the key and of the queued values; what receives have is counted by the caller. */
static uint64_t check_queue(const struct ps_step *step, const struct ps_step_queue *queue)
{
    uint64_t bytes = ps_step_key_bytes(queue->key_size);
    const struct ps_held_value *value;
    const struct ps_step_receive *receive;
    PS_ASSERT(queue->values == NULL || queue->waiting == NULL);
    PS_ASSERT(queue->key_size > 0);
    DL_FOREACH(queue->values, value)
    bytes += value->bytes;
    /* Nobody waits without a call, and nobody waits who has something. */
    DL_FOREACH(queue->waiting, receive)
    {
        PS_ASSERT(receive->queue == queue && receive->value == NULL);
        PS_ASSERT(receive->calls > 0 && receive->over == PS_OK);
    }
    PS_ASSERT(!step->is_strict || queue->waiting == NULL || queue->waiting->next == NULL);
    return bytes;
}

/* Sums are counted anew, and compared with those that are kept. */
void ps_step_check(const struct ps_step *step)
{
    uint64_t bytes = 0;
    const struct ps_step_queue *queue;
    const struct ps_step_receive *receive;
    const struct ps_step_staged *staged;
    for (queue = step->queues; queue != NULL; queue = queue->hh.next)
        bytes += check_queue(step, queue);
    /* A receive without a value waits in a call; without a call it has a value, which it keeps. */
    for (receive = step->receives; receive != NULL; receive = receive->hh.next) {
        PS_ASSERT(receive->over == PS_OK && receive->queue != NULL);
        PS_ASSERT(receive->value != NULL || receive->calls > 0);
        bytes += receive->value != NULL ? receive->value->bytes : 0;
    }
    for (staged = step->staged; staged != NULL; staged = staged->hh.next) {
        PS_ASSERT(staged->token != 0 && staged->value->arrived <= staged->value->content.size);
        bytes += ps_step_staged_bytes(staged);
    }
    PS_ASSERT(bytes == step->bytes && bytes <= *step->bytes_of_all);
    PS_ASSERT(step->status == PS_OK ||
              (step->queues == NULL && step->receives == NULL && step->staged == NULL));
    PS_ASSERT(step->has_begun || !step->is_strict);
}
