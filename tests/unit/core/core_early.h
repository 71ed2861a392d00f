/* SPDX-License-Identifier: Apache-2.0 */
/* Two shards in a test, each with a parameter "w" of the same content: one gets pushes in ranges,
 * the other the same in one piece.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what may fail returns its status, and leaves the text in the world; else the test ends.
 * Memory:   begin and end.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_EARLY_H
#define PS_TESTS_UNIT_CORE_CORE_EARLY_H

#include "core_world.h"
#include "server/core/requests/service_state.h"

/* Two blocks and a bit of 4 byte elements, four and a bit of 8. */
enum { COUNT = 2 * PS_BLOCK_BYTES / 4 + 12345, RANGES = 5 };

/* Cut at no block's end. */
extern const struct ps_elements ranges[RANGES];

extern struct core_world world; /* gets ranges */
extern struct core_world twin;  /* gets the same in one piece */
extern uint8_t *content;        /* of the next gradient: COUNT elements, of any type */
extern uint8_t *got[2];         /* room for as many */

/* Makes `content` elements of that type. */
void early_fill(enum ps_dtype dtype, uint64_t seed);

void early_begin_with(bool journals, uint64_t staging_bytes, enum ps_dtype dtype,
                      struct ps_bytes config);
/* The same with float32 under Adam. */
void early_begin(bool journals);
/* Nothing is staged any more, and nothing is left on either heap. */
void early_end(void);

/* Pushes `range` of the content; count 0: all of it, in one piece. Checks the service. */
enum ps_status early_push(struct core_world *to, const char *client, uint64_t sequence,
                          enum ps_dtype dtype, struct ps_elements range);
/* Range `i`, as client "a", to the world of ranges. */
enum ps_status early_push_range(uint64_t sequence, size_t i);
/* Those from `first` on, below `end`; each is accepted. */
void early_push_ranges(uint64_t sequence, size_t first, size_t end);
void early_push_whole(struct core_world *to, const char *client, uint64_t sequence);
/* Range `i`, asking for what it makes. */
void early_push_asking(uint64_t sequence, size_t i, struct ps_pull *made);

enum ps_staging_way early_way_of(const char *client, uint64_t sequence);

/* Both worlds have the same values, states and steps, at `version`. */
void early_expect_same(uint64_t version);

#endif
