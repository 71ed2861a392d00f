/* SPDX-License-Identifier: Apache-2.0 */
/* Invitations are renewed when a request has come and was served for one step, and not when its
 * reply was sent: a client that leaves replies unread, or whose calls wait, would otherwise use up
 * the invitations of everybody. The memory of calls is bounded here, and far above what the limits
 * on connections and on waiting calls let in. */
#include "server/rpc/slots.h"

#include "base/assert.h"
#include "server/rpc/rpc_context.h"

enum {
    /* About 3 KiB each. Whoever has more calls open than that waits at gRPC. */
    CALLS_MAX = 16 * 1024,
    /* Free memory that a method keeps beyond its invitations: a burst is not allocated anew each
     * time, and a flood does not stay. */
    FREE_KEPT = 128
};

static void slot_step(void *owner, bool ok);
static struct ps_slot_call *make_call(struct ps_slots *slots);
static struct ps_slot_call *take_free(struct ps_slots *slots);
static void put_free(struct ps_slots *slots, struct ps_slot_call *call);
static void release_call(struct ps_slots *slots, struct ps_slot_call *call);

/* The first calls are made before the lane starts: so many stay for good, and an invitation that
 * found no memory is made up for with that of a call that ends. */
enum ps_status ps_slots_add(struct ps_lane *lane, const struct ps_call_kind *kind,
                            const void *method, void *registered, uint32_t count,
                            struct ps_error *error)
{
    struct ps_slots *slots = ps_zeroed(lane->context->memory, sizeof *slots);
    if (slots == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no call slots");
    *slots = (struct ps_slots){
        .lane = lane, .kind = kind, .method = method, .registered = registered, .wanted = count};
    ps_lane_adopt(lane, slots);
    while (slots->calls < count) {
        struct ps_slot_call *call = make_call(slots);
        if (call == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no call slot");
        put_free(slots, call);
    }
    return PS_OK;
}

/* An invitation that is out would come back to memory that is gone: the lane has seen all of them
 * come back before it ended. */
void ps_slots_destroy(struct ps_slots *slots)
{
    PS_ASSERT(slots->invited == 0 && slots->free_count == slots->calls);
    while (slots->free != NULL)
        release_call(slots, take_free(slots));
    ps_release(slots->lane->context->memory, slots);
}

/* An invitation that finds neither free memory nor new is owed: some call of this method is open
 * then, and its end sends the invitation. */
void ps_slots_invite(struct ps_slots *slots)
{
    while (slots->invited < slots->wanted) {
        struct ps_slot_call *call = slots->free != NULL ? take_free(slots) : make_call(slots);
        if (call == NULL)
            return;
        /* Counted before it is out: the answer may be on its way at once. */
        slots->invited++;
        slots->lane->live++;
        call->state = PS_SLOT_INVITED;
        slots->kind->ask(call);
    }
}

/* The lane counts a call as live from the invitation to its end: it may not end before either. The
 * next invitation goes out after the first step, when the reply has been sent or the call has been
 * put by: the next request is no hurry of this client's. Of a server that stops the invitations
 * come back, and no other is sent, since that one would come back, too. */
static void slot_step(void *owner, bool ok)
{
    struct ps_slot_call *call = owner;
    struct ps_slots *slots = call->slots;
    PS_ASSERT(call->state != PS_SLOT_FREE && "a tag came back that was not out");
    if (call->state == PS_SLOT_OPEN) {
        slots->kind->step(call, ok);
        return;
    }
    PS_ASSERT(slots->invited > 0);
    slots->invited--;
    if (ok) {
        call->state = PS_SLOT_OPEN;
        slots->kind->start(call);
        ps_slots_invite(slots);
    } else {
        ps_lane_call_ended(slots->lane);
        put_free(slots, call);
    }
}

/* The memory goes back first, so that an invitation that is owed can have it. */
void ps_slots_done(struct ps_slot_call *call)
{
    struct ps_slots *slots = call->slots;
    PS_ASSERT(call->state == PS_SLOT_OPEN);
    ps_lane_call_ended(slots->lane);
    if (slots->free_count < slots->wanted + FREE_KEPT)
        put_free(slots, call);
    else
        release_call(slots, call);
    ps_slots_invite(slots);
}

/* NULL at the bound, as without memory: both end when a call of this method does. */
static struct ps_slot_call *make_call(struct ps_slots *slots)
{
    if (slots->calls >= CALLS_MAX)
        return NULL;
    struct ps_slot_call *call = ps_zeroed(slots->lane->context->memory, slots->kind->bytes);
    if (call == NULL)
        return NULL;
    slots->calls++;
    call->slots = slots;
    ps_tag_init(&call->tag, slot_step, call);
    slots->kind->init(call);
    return call;
}

/* From the end that was put there last: with few calls in flight the same few are used again and
 * again, and stay in the processor's cache. */
static struct ps_slot_call *take_free(struct ps_slots *slots)
{
    struct ps_slot_call *call = slots->free;
    PS_ASSERT(call != NULL && slots->free_count > 0);
    slots->free = call->next;
    slots->free_count--;
    return call;
}

/* A free call owns nothing of its last request, but may keep a small buffer for its next reply. */
static void put_free(struct ps_slots *slots, struct ps_slot_call *call)
{
    call->state = PS_SLOT_FREE;
    call->next = slots->free;
    slots->free = call;
    slots->free_count++;
    PS_ASSERT(slots->free_count <= slots->calls);
}

/* After a flood, or at the end. */
static void release_call(struct ps_slots *slots, struct ps_slot_call *call)
{
    PS_ASSERT(slots->calls > 0);
    if (slots->kind->fini != NULL)
        slots->kind->fini(call);
    slots->calls--;
    ps_release(slots->lane->context->memory, call);
}
