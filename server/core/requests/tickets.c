/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: numbers that only rise, and a lock. The generation stands in the upper half of a number,
 * so that one comparison tells both which ticket is newer and which is of a state that is gone. */
#include "server/core/requests/tickets.h"

#include "base/assert.h"

/* The generation stands above these bits. */
#define GENERATION_BITS 32

static uint64_t generation_of(uint64_t number)
{
    return number >> GENERATION_BITS;
}

/* The first generation is 1: ticket 0 stays free to mean "nothing to wait for". */
void ps_tickets_init(struct ps_tickets *tickets)
{
    *tickets = (struct ps_tickets){.given = (uint64_t)1 << GENERATION_BITS};
    PS_ASSERT(generation_of(tickets->given) == 1);
    /* The first ticket will have the next number: everything before it counts as saved. */
    tickets->saved = tickets->given;
    ps_mutex_init(&tickets->lock, PS_RANK_QUEUE);
}

void ps_tickets_fini(struct ps_tickets *tickets)
{
    ps_mutex_fini(&tickets->lock);
}

/* Given before the work begins that is to satisfy the ticket: a snapshot that is taken from now on
 * has whatever the caller did before. */
struct ps_ticket ps_tickets_give(struct ps_tickets *tickets)
{
    ps_mutex_lock(&tickets->lock);
    tickets->given++;
    PS_ASSERT(generation_of(tickets->given) == generation_of(tickets->saved));
    struct ps_ticket ticket = {tickets->given};
    ps_mutex_unlock(&tickets->lock);
    return ticket;
}

/* The caller takes its snapshot after this: what it saves then covers every ticket up to this
 * one. */
struct ps_ticket ps_tickets_newest(struct ps_tickets *tickets)
{
    ps_mutex_lock(&tickets->lock);
    struct ps_ticket ticket = {tickets->given};
    PS_ASSERT(tickets->saved <= ticket.number);
    ps_mutex_unlock(&tickets->lock);
    return ticket;
}

/* A checkpoint of a former generation satisfies nothing and is no place of this one: a save may end
 * after the shard was lost and won back. Any save puts an end to what was unclear before it. */
void ps_tickets_save(struct ps_tickets *tickets, struct ps_ticket ticket,
                     const struct ps_checkpoint_place *place)
{
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(ticket.number <= tickets->given);
    bool of_this_generation =
        ticket.number == 0 || generation_of(ticket.number) == generation_of(tickets->given);
    if (of_this_generation) {
        /* Savers may finish out of order: the newest place stays. */
        if (!tickets->has_place || place->position >= tickets->place.position) {
            tickets->place = *place;
            tickets->place_is_own = ticket.number != 0;
        }
        tickets->has_place = true;
        /* A later publication has superseded the unclear one, so that nobody has to keep its
         * file. */
        tickets->is_unclear = false;
        if (ticket.number > tickets->saved)
            tickets->saved = ticket.number;
        PS_ASSERT(tickets->saved <= tickets->given);
    }
    ps_mutex_unlock(&tickets->lock);
}

/* Kept until an attempt succeeds: a caller that comes later is told of the last failure, too. */
void ps_tickets_fail(struct ps_tickets *tickets, struct ps_ticket ticket,
                     const struct ps_error *why)
{
    PS_ASSERT(why->status != PS_OK);
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(ticket.number <= tickets->given);
    if (generation_of(ticket.number) == generation_of(tickets->given)) {
        /* The newest attempt counts: its reason is what stands in the way now. */
        tickets->failed = ticket.number;
        tickets->why = *why;
    }
    ps_mutex_unlock(&tickets->lock);
}

/* A failure counts for the tickets that it covered and that nothing has satisfied since. */
bool ps_tickets_failed(struct ps_tickets *tickets, struct ps_ticket ticket, struct ps_error *why)
{
    ps_mutex_lock(&tickets->lock);
    bool failed = generation_of(ticket.number) == generation_of(tickets->failed) &&
                  ticket.number <= tickets->failed && ticket.number > tickets->saved;
    PS_ASSERT(!failed || tickets->why.status != PS_OK);
    if (failed)
        *why = tickets->why;
    ps_mutex_unlock(&tickets->lock);
    return failed;
}

/* A ticket of a former generation is never satisfied: its numbers are all below those of this one,
 * and the state that they stood for is gone. */
bool ps_tickets_satisfied(struct ps_tickets *tickets, struct ps_ticket ticket)
{
    if (ticket.number == 0)
        return true;
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(ticket.number <= tickets->given);
    bool satisfied = generation_of(ticket.number) == generation_of(tickets->given) &&
                     ticket.number <= tickets->saved;
    ps_mutex_unlock(&tickets->lock);
    return satisfied;
}

/* Ticket 0 stands for nothing that could be gone. */
bool ps_tickets_abandoned(struct ps_tickets *tickets, struct ps_ticket ticket)
{
    if (ticket.number == 0)
        return false;
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(ticket.number <= tickets->given);
    bool abandoned = generation_of(ticket.number) != generation_of(tickets->given);
    ps_mutex_unlock(&tickets->lock);
    return abandoned;
}

uint64_t ps_ticket_generation(struct ps_ticket ticket)
{
    return generation_of(ticket.number);
}

/* What was loaded counts, too: recovery could begin there. */
bool ps_tickets_place(struct ps_tickets *tickets, struct ps_checkpoint_place *place)
{
    ps_mutex_lock(&tickets->lock);
    bool has_place = tickets->has_place;
    if (has_place)
        *place = tickets->place;
    ps_mutex_unlock(&tickets->lock);
    return has_place;
}

/* What was loaded is of a former epoch: nobody may call it a checkpoint of this one. */
bool ps_tickets_own_place(struct ps_tickets *tickets, struct ps_checkpoint_place *place)
{
    ps_mutex_lock(&tickets->lock);
    bool is_own = tickets->has_place && tickets->place_is_own;
    if (is_own)
        *place = tickets->place;
    ps_mutex_unlock(&tickets->lock);
    return is_own;
}

/* Whether the publication was made decides which files may go: until that is known, the file in
 * question stays. */
void ps_tickets_note_unclear(struct ps_tickets *tickets, struct ps_ticket ticket,
                             const struct ps_checkpoint_place *place)
{
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(ticket.number <= tickets->given);
    if (generation_of(ticket.number) == generation_of(tickets->given)) {
        tickets->is_unclear = true;
        tickets->unclear_ticket = ticket;
        tickets->unclear = *place;
    }
    ps_mutex_unlock(&tickets->lock);
}

/* Whether it was published is known now: its file is one like others. */
void ps_tickets_clarify(struct ps_tickets *tickets)
{
    ps_mutex_lock(&tickets->lock);
    tickets->is_unclear = false;
    ps_mutex_unlock(&tickets->lock);
}

bool ps_tickets_unclear(struct ps_tickets *tickets, struct ps_ticket *ticket,
                        struct ps_checkpoint_place *place)
{
    ps_mutex_lock(&tickets->lock);
    bool is_unclear = tickets->is_unclear;
    PS_ASSERT(!is_unclear ||
              generation_of(tickets->unclear_ticket.number) == generation_of(tickets->given));
    *ticket = tickets->unclear_ticket;
    *place = tickets->unclear;
    ps_mutex_unlock(&tickets->lock);
    return is_unclear;
}

/* Every ticket that was given is abandoned by this alone: its number is of a former generation. */
void ps_tickets_reset(struct ps_tickets *tickets)
{
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(generation_of(tickets->given) < UINT32_MAX);
    tickets->given = (generation_of(tickets->given) + 1) << GENERATION_BITS;
    /* The place is forgotten, but not the file: recovery finds the file through the store, should
     * the shard be won again. */
    tickets->saved = tickets->given;
    tickets->has_place = false;
    tickets->is_unclear = false;
    ps_mutex_unlock(&tickets->lock);
}

void ps_tickets_check(struct ps_tickets *tickets)
{
    ps_mutex_lock(&tickets->lock);
    PS_ASSERT(tickets->saved <= tickets->given);
    PS_ASSERT(generation_of(tickets->saved) == generation_of(tickets->given));
    PS_ASSERT(tickets->failed <= tickets->given);
    PS_ASSERT(!tickets->is_unclear ||
              generation_of(tickets->unclear_ticket.number) == generation_of(tickets->given));
    ps_mutex_unlock(&tickets->lock);
}
