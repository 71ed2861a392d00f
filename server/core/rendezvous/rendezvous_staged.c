/* SPDX-License-Identifier: Apache-2.0 */
/* Values that come in parts: no message is as large as a value may be, and while one part of it
 * is on the network another is taken in. A value counts with all of its bytes from its first
 * part on, so that two senders never wait for each other's room with half of their values there.
 *
 * A value is sent when its last part is there: what one thread sends in order is queued in
 * order. Until then nobody can receive any of it. A receiver that had the beginning of a value
 * whose sender then dies would have to be told that it never was, after it may have used it.
 *
 * Parts are known by the token of their send, which is random and the same for all: two
 * processes that send under one key at the same time do not mix theirs. */
#include "server/core/rendezvous/rendezvous_step.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

static enum ps_status stage(struct ps_step *step, const struct ps_step_part *part,
                            struct ps_step_staged **staged, struct ps_error *error);
static void unstage(struct ps_step *step, struct ps_step_staged *staged);
static void count(struct ps_step *step, const struct ps_step_staged *staged);
static void uncount(struct ps_step *step, const struct ps_step_staged *staged);

/* Whoever mixes up its tokens hears it here, and not from a receiver of nonsense. */
static bool is_same(const struct ps_step_staged *staged, const struct ps_step_part *part)
{
    PS_ASSERT(staged->token == part->token);
    return staged->key_size == part->key.size &&
           memcmp(staged->key, part->key.data, part->key.size) == 0 &&
           staged->value->content.size == part->total;
}

/* Sent like a value that came as one. It counted until now, and counts again as soon as it is
 * queued; nobody looks in between. A refusal leaves the parts where they are. */
static enum ps_status send_whole(struct ps_step *step, struct ps_step_staged *staged, bool *wakes,
                                 struct ps_error *error)
{
    struct ps_held_value *value = staged->value;
    const struct ps_bytes key = {(const uint8_t *)staged->key, staged->key_size};
    PS_ASSERT(ps_held_value_is_whole(value));
    uncount(step, staged);
    enum ps_status status = ps_step_send(step, key, value, wakes, error);
    if (status != PS_OK) {
        count(step, staged);
        return status;
    }
    unstage(step, staged);
    return PS_OK;
}

/* A part that is here already is what a lost answer looks like: it may be the one that completes
 * the value, when the value itself was refused before. */
enum ps_status ps_step_send_part(struct ps_step *step, const struct ps_step_part *part,
                                 bool *is_taken, bool *is_whole, bool *wakes,
                                 struct ps_error *error)
{
    struct ps_step_staged *staged;
    bool is_repeat = false;
    PS_ASSERT(part->token != 0 && part->total > 0 && part->key.size > 0);
    *is_whole = false;
    *wakes = false;
    PS_TRY(ps_step_status(step, error));
    /* The first part to come makes the entry, whichever it is. */
    HASH_FIND(hh, step->staged, &part->token, sizeof part->token, staged);
    if (staged == NULL)
        PS_TRY(stage(step, part, &staged, error));
    if (!is_same(staged, part))
        return ps_fail(error, PS_ERR_BAD_INPUT, "parts of one send are of one key and one length");
    /* When the step was used last is when this part came. */
    staged->touched_ms = step->touched_ms;
    *is_taken = ps_held_value_add(staged->value, part->bytes, part->offset, &is_repeat);
    if (!*is_taken && !is_repeat)
        return ps_fail(error, PS_ERR_BAD_INPUT, "two parts of one send overlap");
    /* The sender is told that there is more to come, and knows it. */
    if (!ps_held_value_is_whole(staged->value))
        return PS_OK;
    PS_TRY(send_whole(step, staged, wakes, error));
    *is_whole = true;
    return PS_OK;
}

/* All that the whole value could be refused for is asked with its first part. */
static enum ps_status stage(struct ps_step *step, const struct ps_step_part *part,
                            struct ps_step_staged **out, struct ps_error *error)
{
    const struct ps_allocator *memory = step->memory;
    bool refused = false;
    PS_TRY(ps_step_check_first_send(step, part->key, error));
    uint64_t beside = sizeof(struct ps_held_value) + ps_step_key_bytes(part->key.size);
    /* By itself first: behind that the sum cannot wrap. */
    PS_TRY(ps_step_check_bytes(step, part->total, error));
    PS_TRY(ps_step_check_bytes(step, part->total + beside, error));
    PS_TRY(ps_step_check_entries(step, error));
    struct ps_step_staged *staged = ps_zeroed(memory, sizeof *staged + part->key.size);
    if (staged != NULL)
        staged->value = ps_held_value_create_parted(memory, part->facts, part->total);
    /* Two blocks: the value outlives the entry, which goes when it is whole. */
    if (staged == NULL || staged->value == NULL) {
        ps_release(memory, staged);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a value in parts");
    }
    staged->token = part->token;
    staged->key_size = part->key.size;
    memcpy(staged->key, part->key.data, part->key.size);
    HASH_ADD(hh, step->staged, token, sizeof staged->token, staged);
    /* HASH_ADD writes `refused` (rendezvous_step.h): the entry is in no table, and goes. */
    if (refused) {
        ps_held_value_release(staged->value);
        ps_release(memory, staged);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a value in parts");
    }
    count(step, staged);
    *out = staged;
    return PS_OK;
}

/* Its value is somebody else's by now, or was released. */
static void unstage(struct ps_step *step, struct ps_step_staged *staged)
{
    const struct ps_allocator *memory = step->memory;
    PS_ASSERT(staged->token != 0);
    /* From now on the token is in the list of those that were sent, or nowhere. */
    HASH_DEL(step->staged, staged);
    ps_release(memory, staged);
}

/* With the key under which it will be sent, so that there is room for both when it is whole. */
uint64_t ps_step_staged_bytes(const struct ps_step_staged *staged)
{
    PS_ASSERT(staged->value != NULL);
    return staged->value->bytes + ps_step_key_bytes(staged->key_size);
}

/* As a value that was sent counts: bounds are those of the step and of all steps together, and the
 * gauge that an operator sees has them, too. */
static void count(struct ps_step *step, const struct ps_step_staged *staged)
{
    uint64_t bytes = ps_step_staged_bytes(staged);
    step->bytes += bytes;
    *step->bytes_of_all += bytes;
    PS_ASSERT(step->bytes <= *step->bytes_of_all);
}

/* Right before it counts as sent, or when it is let go. */
static void uncount(struct ps_step *step, const struct ps_step_staged *staged)
{
    uint64_t bytes = ps_step_staged_bytes(staged);
    PS_ASSERT(step->bytes >= bytes && *step->bytes_of_all >= bytes);
    step->bytes -= bytes;
    *step->bytes_of_all -= bytes;
}

/* Replies never have any of it: nobody could ask. */
static void drop(struct ps_step *step, struct ps_step_staged *staged)
{
    struct ps_held_value *value = staged->value;
    PS_ASSERT(value != NULL);
    uncount(step, staged);
    unstage(step, staged);
    ps_held_value_release(value);
}

/* A sender that was killed would otherwise keep room until its step ends. One that is only slow
 * hears that its value is not whole, and sends all parts again. */
void ps_step_sweep_staged(struct ps_step *step, uint64_t now_ms)
{
    struct ps_step_staged *following;
    for (struct ps_step_staged *staged = step->staged; staged != NULL; staged = following) {
        /* The entry may go with this turn. */
        following = staged->hh.next;
        PS_ASSERT(staged->touched_ms <= step->touched_ms);
        if (now_ms > staged->touched_ms && now_ms - staged->touched_ms > PS_STEP_STAGED_MS)
            drop(step, staged);
    }
}

/* A sender that comes back with more parts finds the step's status. */
void ps_step_clear_staged(struct ps_step *step)
{
    PS_ASSERT(*step->bytes_of_all >= step->bytes);
    while (step->staged != NULL)
        drop(step, step->staged);
}
