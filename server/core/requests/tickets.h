/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets for checkpoints that somebody waits for, and where the newest one is.
 *
 * A ticket is a number that rises. Its upper half counts the generations of the shard in this
 * process (every reset begins another), so that a checkpoint of a later generation never satisfies
 * a ticket of an earlier one, whose state is gone.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_SERVER_CORE_TICKETS_H
#define PS_SERVER_CORE_TICKETS_H

#include "base/thread.h"
#include "server/core/requests/service.h"

struct ps_tickets {
    struct ps_mutex lock; /* PS_RANK_QUEUE; guards all that follows */
    uint64_t given;       /* number of the newest ticket */
    uint64_t saved;       /* every ticket of this generation up to here is satisfied */
    uint64_t failed;      /* the last attempt at those up to here came to nothing, ... */
    struct ps_error why;  /* ... for this reason */
    bool has_place;
    bool place_is_own;                /* saved in this generation, not what was loaded */
    struct ps_checkpoint_place place; /* of the newest checkpoint */
    bool is_unclear;                  /* a publication has timed out: ... */
    struct ps_ticket unclear_ticket;
    struct ps_checkpoint_place unclear; /* ... of this checkpoint */
};

void ps_tickets_init(struct ps_tickets *tickets);
void ps_tickets_fini(struct ps_tickets *tickets);

/* A new ticket. */
struct ps_ticket ps_tickets_give(struct ps_tickets *tickets);

/* The newest ticket given: a snapshot taken now covers it. */
struct ps_ticket ps_tickets_newest(struct ps_tickets *tickets);

/* A checkpoint that covers `ticket` was saved at `place`. Ticket 0 stands for no ticket, of the
 * present generation: the checkpoint that was loaded. */
void ps_tickets_save(struct ps_tickets *tickets, struct ps_ticket ticket,
                     const struct ps_checkpoint_place *place);

/* An attempt that would have satisfied every ticket up to `ticket` failed. Others may follow. */
void ps_tickets_fail(struct ps_tickets *tickets, struct ps_ticket ticket,
                     const struct ps_error *why);

/* Has an attempt that covered it failed, and none succeeded since? Then `*why` says what at. */
bool ps_tickets_failed(struct ps_tickets *tickets, struct ps_ticket ticket, struct ps_error *why);

bool ps_tickets_satisfied(struct ps_tickets *tickets, struct ps_ticket ticket);

/* The state that the ticket was given for is gone: it will never be satisfied. */
bool ps_tickets_abandoned(struct ps_tickets *tickets, struct ps_ticket ticket);

/* Which generation of the shard in this process it was given in, from 1; 0 for ticket 0. */
uint64_t ps_ticket_generation(struct ps_ticket ticket);

/* False when there is no checkpoint yet. */
bool ps_tickets_place(struct ps_tickets *tickets, struct ps_checkpoint_place *place);

/* The same, but for what was loaded: that is of a former epoch. */
bool ps_tickets_own_place(struct ps_tickets *tickets, struct ps_checkpoint_place *place);

/* Whether this checkpoint was published, or will be, is not known: its file has to stay until that
 * is. Ended by the next save, by ps_tickets_clarify, and with the generation. */
void ps_tickets_note_unclear(struct ps_tickets *tickets, struct ps_ticket ticket,
                             const struct ps_checkpoint_place *place);
void ps_tickets_clarify(struct ps_tickets *tickets);

/* False: there is no such checkpoint. */
bool ps_tickets_unclear(struct ps_tickets *tickets, struct ps_ticket *ticket,
                        struct ps_checkpoint_place *place);

/* Begins another generation: gives up every ticket and forgets the place. */
void ps_tickets_reset(struct ps_tickets *tickets);

/* Asserts every invariant. */
void ps_tickets_check(struct ps_tickets *tickets);

#endif
