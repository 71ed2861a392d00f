/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, and the steps by their numbers. One lock for all of them, and whether a step was
 * aborted is looked at under it together with the queue: the reference looks first and queues
 * later, and a receive that comes in between waits for nobody.
 *
 * A step that ended is out of the table at once; calls that wait in it have references, and find
 * its status when they look. So a number can be used again by the next run of a job while calls of
 * the run before are still being told.
 *
 * Nothing here is written to the journal. A value is worth something to its receiver for as long as
 * a step of training lasts; a job that has lost a server begins the step again, and what was sent
 * in it is made again. */
#include "server/core/rendezvous/rendezvous.h"

#include "base/assert.h"
#include "server/core/rendezvous/rendezvous_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum ps_status make_step(struct ps_rendezvous *rendezvous, uint64_t id,
                                struct ps_step **step, struct ps_error *error);
static void end_step(struct ps_rendezvous *rendezvous, struct ps_step *step, const char *text);

/* A server makes its rendezvous whether or not anybody will ask for one: all that takes memory
 * comes with the first send, or the first receive that is over. */
void ps_rendezvous_init(struct ps_rendezvous *rendezvous, const struct ps_allocator *memory,
                        const struct ps_rendezvous_bounds *bounds, uint32_t life)
{
    PS_ASSERT(bounds->steps_max > 0 && bounds->step_bytes_max > 0);
    *rendezvous =
        (struct ps_rendezvous){.memory = memory, .bounds = *bounds, .life = life != 0 ? life : 1};
    ps_mutex_init(&rendezvous->lock, PS_RANK_QUEUE);
    /* A ring for each: with one, a flood of sends would make the receives forgotten, whose ids must
     * be known for as long as a call of theirs may be on its way. */
    ps_recent_ids_init(&rendezvous->sent, memory, PS_RENDEZVOUS_RECENT_MAX);
    ps_recent_ids_init(&rendezvous->over, memory, PS_RENDEZVOUS_RECENT_MAX);
    ps_recent_ids_init(&rendezvous->unfenced, memory, PS_RENDEZVOUS_RECENT_MAX);
}

/* As at the end of a service: what nobody has received is dropped, since nothing of it was ever
 * promised beyond the life of the shard. */
void ps_rendezvous_fini(struct ps_rendezvous *rendezvous)
{
    ps_rendezvous_cleanup_all(rendezvous);
    PS_ASSERT(rendezvous->steps == NULL && rendezvous->bytes == 0);
    ps_recent_ids_fini(&rendezvous->sent);
    ps_recent_ids_fini(&rendezvous->over);
    ps_recent_ids_fini(&rendezvous->unfenced);
    ps_mutex_fini(&rendezvous->lock);
}

/* The number is for people: whoever reads that the server of a shard is another one looks for that
 * shard. */
void ps_rendezvous_own(struct ps_rendezvous *rendezvous, uint32_t shard)
{
    ps_mutex_lock(&rendezvous->lock);
    PS_ASSERT(rendezvous->life != 0);
    rendezvous->shard = shard;
    ps_mutex_unlock(&rendezvous->lock);
}

/* ---- Steps ---- */

/* In the words that a program of TensorFlow knows: "worker restarted" is what this is called
 * there, and the answer to it is to begin the step again. */
static enum ps_status fail_moved(const struct ps_rendezvous *rendezvous, uint64_t step,
                                 struct ps_error *error)
{
    PS_ASSERT(rendezvous->life != 0);
    return ps_fail(error, PS_ERR_ABORTED,
                   "step %" PRIu64 ": the server of shard %" PRIu32 " is another one", step,
                   rendezvous->shard);
}

/* The caller's epoch says whether the step that it means is this one. */
enum ps_status ps_rendezvous_find_step(struct ps_rendezvous *rendezvous,
                                       const struct ps_rendezvous_of *of, struct ps_step **out,
                                       struct ps_error *error)
{
    /* A number alone would not do: a job may use the same numbers in each of its runs, and a
     * process of the run before must not take the values of this one. */
    struct ps_step *step;
    HASH_FIND(hh, rendezvous->steps, &of->step, sizeof of->step, step);
    PS_ASSERT(step == NULL || step->id == of->step);
    if (of->epoch != 0 && (step == NULL || step->epoch != of->epoch))
        return of->epoch >> 32 == rendezvous->life
                   ? ps_fail(error, PS_ERR_ABORTED, "Cleanup %" PRIu64, of->step)
                   : fail_moved(rendezvous, of->step, error);
    if (step == NULL)
        PS_TRY(make_step(rendezvous, of->step, &step, error));
    /* Calls on different threads have read the clock before they came here, in any order. */
    if (of->now_ms > step->touched_ms)
        step->touched_ms = of->now_ms;
    *out = step;
    return PS_OK;
}

/* Epochs are counted, so that two steps of one life never have the same, and the upper half is the
 * life: the step of another server, or of this one before it lost the shard, has another. */
static enum ps_status make_step(struct ps_rendezvous *rendezvous, uint64_t id, struct ps_step **out,
                                struct ps_error *error)
{
    const struct ps_allocator *memory = rendezvous->memory;
    bool refused = false;
    PS_ASSERT(HASH_COUNT(rendezvous->steps) <= rendezvous->bounds.steps_max);
    /* Nothing is thrown out to make room: a step that is in use and one that was forgotten look
     * alike until the lifetime of the latter is over. */
    if (HASH_COUNT(rendezvous->steps) == rendezvous->bounds.steps_max)
        return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_RENDEZVOUS, 0,
                         "step %" PRIu64 ": there are %" PRIu32
                         " others, and no more may there be (--rendezvous-steps)",
                         id, rendezvous->bounds.steps_max);
    uint64_t epoch = (uint64_t)rendezvous->life << 32 | ++rendezvous->steps_made;
    struct ps_step *step =
        ps_step_create(memory, &rendezvous->bounds, &rendezvous->bytes, id, epoch);
    if (step == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a step");
    HASH_ADD(hh, rendezvous->steps, id, sizeof step->id, step);
    if (refused) {
        ps_step_release(step);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a step");
    }
    *out = step;
    return PS_OK;
}

/* Whoever waits in it keeps it, without its values. */
static void end_step(struct ps_rendezvous *rendezvous, struct ps_step *step, const char *text)
{
    const struct ps_allocator *memory = rendezvous->memory;
    PS_ASSERT(step->references > 0);
    /* Out of the table first: a request that names the number from now on is for a new step. */
    HASH_DEL(rendezvous->steps, step);
    ps_step_abort(step, PS_ERR_ABORTED, text);
    ps_step_release(step);
}

/* The clients count their tokens and ids: two steps of one client have the same. */
uint64_t ps_rendezvous_number_of(uint64_t step, uint64_t number)
{
    uint64_t mixed = number + step * UINT64_C(0x9e3779b97f4a7c15);
    if (number == 0)
        return 0;
    PS_ASSERT(number != 0);
    return mixed != 0 ? mixed : 1;
}

/* Any bytes are a key. The bound is the longest that the help for clients makes
 * (proto/rendezvous_key.h), and keeps what a step of many keys takes in proportion. */
enum ps_status ps_rendezvous_check_key(struct ps_bytes key, struct ps_error *error)
{
    PS_ASSERT(key.data != NULL || key.size == 0);
    if (key.size > 0 && key.size <= PS_RENDEZVOUS_KEY_BYTES_MAX)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT, "a key has 1 to %d bytes, not %zu",
                   PS_RENDEZVOUS_KEY_BYTES_MAX, key.size);
}

/* ---- Sending ---- */

/* A value, or a part of one, which may be the last. */
static enum ps_status put(struct ps_step *step, const struct ps_rendezvous_sent *sent,
                          bool *is_taken, bool *is_whole, bool *wakes, struct ps_error *error)
{
    PS_ASSERT(!*is_taken && !*wakes);
    const struct ps_step_part part = {.key = sent->key,
                                      .token = sent->token,
                                      .facts = &sent->value->facts,
                                      .total = sent->total,
                                      .offset = sent->offset,
                                      .bytes = sent->value};
    if (sent->total != 0)
        return ps_step_send_part(step, &part, is_taken, is_whole, wakes, error);
    /* Sent with the first message, which is the last. */
    PS_TRY(ps_step_send(step, sent->key, sent->value, wakes, error));
    *is_taken = true;
    *is_whole = true;
    return PS_OK;
}

/* A repeat is known before anything else is asked: what it brought may have been received, and its
 * step be over. With the lock; `*is_taken` says that the value is the step's now. */
static enum ps_status send(struct ps_rendezvous *rendezvous, const struct ps_rendezvous_of *of,
                           const struct ps_rendezvous_sent *sent, uint64_t *epoch, bool *is_taken,
                           bool *is_whole, bool *wakes, struct ps_error *error)
{
    struct ps_step *step;
    uint64_t number = ps_rendezvous_number_of(of->step, sent->token);
    PS_ASSERT(!*is_taken && !*wakes);
    if (ps_recent_ids_has(&rendezvous->sent, number)) {
        *epoch = of->epoch;
        *is_whole = true;
        return PS_OK;
    }
    PS_TRY(ps_recent_ids_reserve(&rendezvous->sent, error));
    PS_TRY(ps_rendezvous_find_step(rendezvous, of, &step, error));
    /* The token is remembered behind this only: a send that is refused for want of room comes
     * again under its token, and must not be taken for done. */
    PS_TRY(put(step, sent, is_taken, is_whole, wakes, error));
    /* A value that still lacks parts has the token in its own entry meanwhile. */
    if (*is_whole)
        ps_recent_ids_add(&rendezvous->sent, number);
    *epoch = step->epoch;
    return PS_OK;
}

/* The value was made without the lock, since it may be large, and so it is released without it
 * when it was not taken: what it keeps goes back to the network library. */
enum ps_status ps_rendezvous_send(struct ps_rendezvous *rendezvous,
                                  const struct ps_rendezvous_of *of,
                                  const struct ps_rendezvous_sent *sent, uint64_t *epoch,
                                  bool *is_whole, bool *wakes, struct ps_error *error)
{
    bool is_taken = false;
    PS_ASSERT(sent->value != NULL);
    *wakes = false;
    *is_whole = false;
    enum ps_status status = ps_rendezvous_check_key(sent->key, error);
    /* Without one, parts of two sends under one key could not be told apart. */
    if (status == PS_OK && sent->total != 0 && sent->token == 0)
        status = ps_fail(error, PS_ERR_BAD_INPUT, "the parts of a value need a token");
    if (status == PS_OK) {
        ps_mutex_lock(&rendezvous->lock);
        status = send(rendezvous, of, sent, epoch, &is_taken, is_whole, wakes, error);
        ps_mutex_unlock(&rendezvous->lock);
    }
    /* A repeat brought its value once more, and a refused one is the client's to send again. */
    if (!is_taken)
        ps_held_value_release(sent->value);
    return status;
}

/* ---- Control ---- */

/* A step may be begun behind its first receives and sends: those processes of a job that are
 * faster do not wait for the one that begins it. */
enum ps_status ps_rendezvous_begin(struct ps_rendezvous *rendezvous,
                                   const struct ps_rendezvous_of *of, struct ps_bytes session,
                                   bool is_strict, uint64_t lifetime_ms, uint64_t *epoch,
                                   bool *wakes, struct ps_error *error)
{
    struct ps_step *step;
    *wakes = false;
    ps_mutex_lock(&rendezvous->lock);
    enum ps_status status = ps_rendezvous_find_step(rendezvous, of, &step, error);
    if (status == PS_OK)
        status = ps_step_begin(step, session, is_strict, lifetime_ms, wakes, error);
    if (status == PS_OK)
        *epoch = step->epoch;
    PS_ASSERT(status != PS_OK || *epoch != 0);
    ps_mutex_unlock(&rendezvous->lock);
    return status;
}

/* A step that nobody has used yet is made and aborted at once: the process that fails first may be
 * faster than all others, and they are to hear of it when they come. */
enum ps_status ps_rendezvous_abort(struct ps_rendezvous *rendezvous,
                                   const struct ps_rendezvous_of *of, enum ps_status status,
                                   const char *text, uint64_t *epoch, struct ps_error *error)
{
    struct ps_step *step;
    PS_ASSERT(status == PS_ERR_ABORTED || status == PS_ERR_INTERNAL);
    ps_mutex_lock(&rendezvous->lock);
    enum ps_status found = ps_rendezvous_find_step(rendezvous, of, &step, error);
    if (found == PS_OK) {
        ps_step_abort(step, status, text);
        *epoch = step->epoch;
    }
    ps_mutex_unlock(&rendezvous->lock);
    return found;
}

/* Without an epoch: whoever cleans up means the number, and a repeat of a cleanup whose answer was
 * lost finds nothing. A client says so only at the end of a step. */
void ps_rendezvous_cleanup(struct ps_rendezvous *rendezvous, uint64_t id)
{
    char text[64];
    struct ps_step *step;
    (void)snprintf(text, sizeof text, "Cleanup %" PRIu64, id);
    ps_mutex_lock(&rendezvous->lock);
    HASH_FIND(hh, rendezvous->steps, &id, sizeof id, step);
    PS_ASSERT(step == NULL || step->id == id);
    if (step != NULL)
        end_step(rendezvous, step, text);
    ps_mutex_unlock(&rendezvous->lock);
}

/* The legacy call of a worker that begins anew: whatever its peers still wait for will not
 * come. */
void ps_rendezvous_cleanup_all(struct ps_rendezvous *rendezvous)
{
    ps_mutex_lock(&rendezvous->lock);
    while (rendezvous->steps != NULL)
        end_step(rendezvous, rendezvous->steps, "Shutdown");
    PS_ASSERT(rendezvous->bytes == 0);
    ps_mutex_unlock(&rendezvous->lock);
}

/* Called when the shard goes to another server. Calls that wait here would otherwise wait for
 * sends that go there. */
void ps_rendezvous_lose(struct ps_rendezvous *rendezvous, uint32_t life)
{
    struct ps_error why;
    ps_mutex_lock(&rendezvous->lock);
    while (rendezvous->steps != NULL) {
        enum ps_status status = fail_moved(rendezvous, rendezvous->steps->id, &why);
        PS_ASSERT(status == PS_ERR_ABORTED);
        end_step(rendezvous, rendezvous->steps, why.text);
    }
    /* Another one than before, also if chance says the same. */
    rendezvous->life = life != rendezvous->life && life != 0 ? life : rendezvous->life + 1;
    /* Tokens and ids that are remembered stay: a repeat of before is a repeat, whoever owns the
     * shard. */
    rendezvous->steps_made = 0;
    ps_mutex_unlock(&rendezvous->lock);
}

/* A peer that asks for a step that nobody begins would leave an entry for ever: the reference
 * wishes for such a sweep, and has none. A step is used by every request that names it, so that
 * one with a receiver that asks again and again stays. */
bool ps_rendezvous_sweep(struct ps_rendezvous *rendezvous, uint64_t now_ms)
{
    char text[96];
    bool found = false;
    struct ps_step *following;
    ps_mutex_lock(&rendezvous->lock);
    for (struct ps_step *step = rendezvous->steps; step != NULL; step = following) {
        /* The step may go with this turn. */
        following = step->hh.next;
        PS_ASSERT(step->lifetime_ms > 0);
        ps_step_sweep_staged(step, now_ms);
        if (now_ms <= step->touched_ms || now_ms - step->touched_ms <= step->lifetime_ms)
            continue;
        (void)snprintf(text, sizeof text, "step %" PRIu64 ": nobody has used it for %" PRIu64 " s",
                       step->id, (now_ms - step->touched_ms) / 1000);
        end_step(rendezvous, step, text);
        found = true;
    }
    ps_mutex_unlock(&rendezvous->lock);
    return found;
}

/* Two numbers of one moment, for the metrics. */
void ps_rendezvous_look(struct ps_rendezvous *rendezvous, uint64_t *steps, uint64_t *bytes)
{
    ps_mutex_lock(&rendezvous->lock);
    PS_ASSERT(HASH_COUNT(rendezvous->steps) <= rendezvous->bounds.steps_max);
    *steps = HASH_COUNT(rendezvous->steps);
    *bytes = rendezvous->bytes;
    ps_mutex_unlock(&rendezvous->lock);
}

/* Steps that ended have no bytes, so that those of the table have all of them. */
void ps_rendezvous_check(struct ps_rendezvous *rendezvous)
{
    uint64_t bytes = 0;
    ps_mutex_lock(&rendezvous->lock);
    for (struct ps_step *step = rendezvous->steps; step != NULL; step = step->hh.next) {
        ps_step_check(step);
        PS_ASSERT(step->references > 0 && step->epoch >> 32 == rendezvous->life);
        bytes += step->bytes;
    }
    PS_ASSERT(bytes == rendezvous->bytes);
    ps_recent_ids_check(&rendezvous->sent);
    ps_recent_ids_check(&rendezvous->over);
    ps_recent_ids_check(&rendezvous->unfenced);
    ps_mutex_unlock(&rendezvous->lock);
}
