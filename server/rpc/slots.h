/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of one method on one lane. A slot is an invitation for one request and nothing more:
 * the call that comes in takes its memory along, for as long as it waits, works, or is left unread
 * by its client, and the slot invites the next request with other memory. So no call, whatever its
 * client does, keeps a slot from others.
 *
 * Threads:  the lane's, but for add and destroy, which come before it starts and after it ended.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, from add only: later the invitation is sent when a call ends.
 * Memory:   slots own the memory of their calls, and keep some of it for the next ones.
 */
#ifndef PS_SERVER_RPC_SLOTS_H
#define PS_SERVER_RPC_SLOTS_H

#include "base/status.h"
#include "server/rpc/lane.h"

#include <stddef.h>
#include <stdint.h>

struct ps_slots;

enum ps_slot_state { PS_SLOT_FREE, PS_SLOT_INVITED, PS_SLOT_OPEN };

/* The first member of every kind of call. */
struct ps_slot_call {
    struct ps_slots *slots;    /* borrowed; outlives the call */
    struct ps_slot_call *next; /* while it is free */
    enum ps_slot_state state;
    struct ps_tag tag; /* of the request, and of what the open call starts with it */
};

/* What the slots have to know of a kind of call. */
struct ps_call_kind {
    size_t bytes;                             /* of its struct */
    void (*init)(struct ps_slot_call *call);  /* of zeroed memory, once; `slots` is set */
    void (*ask)(struct ps_slot_call *call);   /* asks gRPC for a request, with the call's tag */
    void (*start)(struct ps_slot_call *call); /* a request has come: the call is open */
    void (*step)(struct ps_slot_call *call, bool ok); /* the tag of the open call has come back */
    void (*fini)(struct ps_slot_call *call); /* of a free call, before its memory goes. NULL: it
                                              * owns nothing */
};

struct ps_slots {
    struct ps_lane *lane;            /* borrowed; outlives this */
    const struct ps_call_kind *kind; /* static */
    const void *method;              /* what the kind knows the method by; static; NULL: nothing */
    void *registered;                /* gRPC's handle of it; NULL: of no method */
    uint32_t wanted;                 /* invitations that are to be out */
    uint32_t invited;                /* that are */
    uint32_t calls;                  /* that have memory: invited, open and free ones */
    uint32_t free_count;
    struct ps_slot_call *free; /* the last to come is the first to go: its memory is warm */
};

/* Slots for the lane, which takes them: `count` invitations, to be sent when the lane begins. */
PS_MUST_USE enum ps_status ps_slots_add(struct ps_lane *lane, const struct ps_call_kind *kind,
                                        const void *method, void *registered, uint32_t count,
                                        struct ps_error *error);

/* Takes the slots, all of whose calls have ended. */
void ps_slots_destroy(struct ps_slots *slots);

/* Sends the first invitations. Each request that comes sends another, into other memory. */
void ps_slots_invite(struct ps_slots *slots);

/* Takes the call, which is over: nothing is in flight for it any more. */
void ps_slots_done(struct ps_slot_call *call);

#endif
