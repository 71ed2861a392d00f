/* SPDX-License-Identifier: Apache-2.0 */
/* Short ways to set, say and read by clocks of a shard in a test. The clocks are called "c", and
 * everybody is the client "client" in session 1; sequence 0: without an id.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the calls return the status and leave the text in world->error.
 * Memory:   none.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_CLOCKS_H
#define PS_TESTS_UNIT_CORE_CORE_CLOCKS_H

#include "core_world.h"
#include "server/core/requests/clock_calls.h"
#include "server/core/requests/clock_view.h"
#include "server/core/requests/service_state.h"

extern struct ps_clocks_reply clocks_reply;
extern struct ps_pull_wait clocks_wait;

/* SSP of that staleness; with a ttl stragglers are evicted. */
enum ps_status clocks_set(struct core_world *world, uint32_t workers, uint32_t staleness,
                          uint64_t ttl_ms, uint64_t sequence);
enum ps_status clocks_say(struct core_world *world, uint32_t rank, uint64_t clock,
                          uint64_t sequence);
/* The clocks "c" go. */
enum ps_status clocks_remove(struct core_world *world, uint64_t sequence);
/* The task begins at that clock, of 3 workers under SSP(1); a bit for each that takes part, 0 for
 * all. */
enum ps_status clocks_begin(struct core_world *world, uint64_t task, uint64_t clock, char ranks,
                            uint64_t sequence);
enum ps_status clocks_say_in(struct core_world *world, uint64_t task, uint32_t rank,
                             uint64_t clock);
/* A pull of "w" by that worker; what it gets is released. */
enum ps_status clocks_read(struct core_world *world, uint32_t rank, uint64_t clock);

uint64_t clocks_of(struct core_world *world, uint32_t rank);
bool clocks_evicted(struct core_world *world, uint32_t rank);

#endif
