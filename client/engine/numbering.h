/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers under which the requests to one shard are remembered there: {session, sequence}.
 *
 * A server remembers PS_NUMBERING_REMEMBERED requests of a client. So that it can always tell
 * whether it has applied a request that is repeated, the numbers in use never span more than
 * PS_NUMBERING_SPAN_MAX: the span counts from the oldest that is not given back to the newest. What
 * is left between the two is for requests that were given up and may still arrive.
 *
 *     1 ... given back ... | oldest in use ... next - 1 | next ...
 *                            at most PS_NUMBERING_SPAN_MAX
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   none; who finds no room waits until a number is given back.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_NUMBERING_H
#define PS_CLIENT_NUMBERING_H

#include <stdbool.h>
#include <stdint.h>

#define PS_NUMBERING_REMEMBERED 256
#define PS_NUMBERING_SPAN_MAX (PS_NUMBERING_REMEMBERED - 64)

struct ps_numbering {
    uint64_t session;
    uint64_t oldest; /* every sequence below was given back */
    uint64_t next;   /* the first that was never taken in this session; begins with 1 */
    bool is_over;    /* the server does not remember this session: begin another */
    uint64_t later;  /* the one that the server named; 0: it named none */
    uint64_t given_back[PS_NUMBERING_REMEMBERED / 64]; /* bits, by sequence modulo the size */
};

void ps_numbering_init(struct ps_numbering *numbering, uint64_t session);

/* May a number be taken now? */
bool ps_numbering_has_room(const struct ps_numbering *numbering);

/* So many. */
uint32_t ps_numbering_room(const struct ps_numbering *numbering);

/* The next sequence. There must be room. */
uint64_t ps_numbering_take(struct ps_numbering *numbering);

/* Gives a sequence back that was taken; it will never be used again in this session. True when this
 * made room where there was none. */
bool ps_numbering_give_back(struct ps_numbering *numbering, uint64_t sequence);

/* The server says that it does not take the session, and that `later` may begin (0: it does not
 * say), which is a lower one when the session is too far ahead of its clock. No number is taken
 * until all that are in use were given back: under a new session nobody could say any more what
 * became of them. Then the next session begins, from 1; of several that were named the highest. */
void ps_numbering_end_session(struct ps_numbering *numbering, uint64_t later);

/* Is this number in use? */
bool ps_numbering_in_use(const struct ps_numbering *numbering, uint64_t session, uint64_t sequence);

/* Asserts every invariant. */
void ps_numbering_check(const struct ps_numbering *numbering);

#endif
