/* SPDX-License-Identifier: Apache-2.0 */
/* Whether small operations that a caller begins wait for the next ones, to leave together with
 * them.
 *
 * They do while finished operations are there to be fetched: the caller is about to ask for one of
 * these, and mostly begins another for each. What was held leaves when the last of them was
 * fetched, when the caller waits, when as many are held as make a good message, when another thread
 * does something with the client, or, should the caller have gone away, when the channel says so
 * (tell_idle of channel.h). The guess was wrong then, and of the next ones (32, then 64 and so on
 * up to 4,096 each time that happens again) none is held.
 *
 *     begun ──may hold──► held ──release──► sent
 *
 * Threads:  the client's lock.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_HOLDING_H
#define PS_CLIENT_HOLDING_H

#include "client/engine/engine.h"

struct ps_holding {
    uint32_t held;     /* operations */
    uint64_t since_ns; /* when the first of these was begun */
    uint32_t rest;     /* so many operations are not held */
    uint32_t misses;   /* in a row */
};

/* Most that are held at a time. */
#define PS_HOLDING_MAX 16

/* Is it small enough that going together pays, and may it be held now? */
bool ps_holding_takes(struct ps_holding *holding, const struct ps_batch_request *request);

/* It is held. `now_ns` only counts for the first one. */
void ps_holding_add(struct ps_holding *holding, uint64_t now_ns);

/* All of them leave. */
void ps_holding_release(struct ps_holding *holding, uint64_t now_ns);

#endif
