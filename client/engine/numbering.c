/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences that are handed out in order and given back in any. A server remembers the newest
 * request of each residue of sequences. So a slow request at the bottom of the span holds up all
 * that come after its top: otherwise a newer request could take the slow one's place in the
 * server's memory, and the caller would never learn whether the slow one was applied. */
#include "client/engine/numbering.h"

#include "base/assert.h"

static void begin_next_session(struct ps_numbering *numbering);

/* One bit for each sequence that can be in use: the span is shorter than the bits, so no two
 * sequences in use share one. */
static bool was_given_back(const struct ps_numbering *numbering, uint64_t sequence)
{
    uint64_t bit = sequence % PS_NUMBERING_REMEMBERED;
    return (numbering->given_back[bit / 64] >> bit % 64 & 1) != 0;
}

/* A sequence that is taken clears the bit of one that left the span long ago. */
static void mark(struct ps_numbering *numbering, uint64_t sequence, bool given_back)
{
    uint64_t bit = sequence % PS_NUMBERING_REMEMBERED;
    uint64_t mask = (uint64_t)1 << bit % 64;
    if (given_back)
        numbering->given_back[bit / 64] |= mask;
    else
        numbering->given_back[bit / 64] &= ~mask;
}

/* Sequences begin with 1: a request without an id says 0. */
void ps_numbering_init(struct ps_numbering *numbering, uint64_t session)
{
    PS_ASSERT(session > 0);
    *numbering = (struct ps_numbering){.session = session, .oldest = 1, .next = 1};
}

bool ps_numbering_has_room(const struct ps_numbering *numbering)
{
    return ps_numbering_room(numbering) > 0;
}

/* None in a session that the server does not remember: numbers of the next one would be mixed with
 * those that are still in use. */
uint32_t ps_numbering_room(const struct ps_numbering *numbering)
{
    uint64_t span = numbering->next - numbering->oldest;
    return numbering->is_over ? 0 : (uint32_t)(PS_NUMBERING_SPAN_MAX - span);
}

/* Never one that was in use before, even if it came back without having been sent. */
uint64_t ps_numbering_take(struct ps_numbering *numbering)
{
    PS_ASSERT(ps_numbering_has_room(numbering));
    mark(numbering, numbering->next, false);
    return numbering->next++;
}

/* The oldest in use moves past everything that came back before it. True when that made room where
 * there was none: somebody may be waiting. */
bool ps_numbering_give_back(struct ps_numbering *numbering, uint64_t sequence)
{
    PS_ASSERT(sequence >= numbering->oldest && sequence < numbering->next);
    PS_ASSERT(!was_given_back(numbering, sequence));
    /* Asked before anything changes, since the next session may begin below and brings room. */
    bool had_room = ps_numbering_has_room(numbering);
    mark(numbering, sequence, true);
    while (numbering->oldest < numbering->next && was_given_back(numbering, numbering->oldest))
        numbering->oldest++;
    if (numbering->is_over && numbering->oldest == numbering->next)
        begin_next_session(numbering);
    return !had_room && ps_numbering_has_room(numbering);
}

/* The next session begins when the last number of this one is back: a server that has forgotten
 * the session would take a repeat for something new. */
void ps_numbering_end_session(struct ps_numbering *numbering, uint64_t later)
{
    PS_ASSERT(numbering->oldest < numbering->next);
    /* Each request of the session may be told this, and answers come in any order. */
    if (later > numbering->later)
        numbering->later = later;
    numbering->is_over = true;
}

/* The one that the server named, whose clock may be ahead of this one, or far behind it: a session
 * from beyond its clock is refused whatever was sent under it, and one still higher would be, too,
 * until that clock has come so far. A lower one is above all that the server remembers of this
 * client. */
static void begin_next_session(struct ps_numbering *numbering)
{
    bool is_named = numbering->later != 0 && numbering->later != numbering->session;
    ps_numbering_init(numbering, is_named ? numbering->later : numbering->session + 1);
}

/* For checks: it is taken, in this session, and not back. */
bool ps_numbering_in_use(const struct ps_numbering *numbering, uint64_t session, uint64_t sequence)
{
    return session == numbering->session && sequence >= numbering->oldest &&
           sequence < numbering->next && !was_given_back(numbering, sequence);
}

/* The oldest is in use by definition, unless nothing is. */
void ps_numbering_check(const struct ps_numbering *numbering)
{
    PS_ASSERT(numbering->session > 0);
    PS_ASSERT(numbering->oldest >= 1 && numbering->oldest <= numbering->next);
    PS_ASSERT(numbering->next - numbering->oldest <= PS_NUMBERING_SPAN_MAX);
    bool empty = numbering->oldest == numbering->next;
    PS_ASSERT(empty || !was_given_back(numbering, numbering->oldest));
    PS_ASSERT(!empty || !numbering->is_over);
}
