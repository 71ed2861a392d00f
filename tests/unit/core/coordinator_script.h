/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a coordinator by hand and shows what it wants as one line of words, for tests that read as
 * tables.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a failed comparison ends the test.
 * Memory:   in place.
 */
#ifndef PS_TESTS_UNIT_CORE_COORDINATOR_SCRIPT_H
#define PS_TESTS_UNIT_CORE_COORDINATOR_SCRIPT_H

#include "server/core/ownership/coordinator.h"

#define SCRIPT_TTL_MS 10000
#define SCRIPT_SPAN_MS 8000 /* of a proof */
#define SCRIPT_KEEP_MS 3333
#define SCRIPT_CALL_MS 3333
#define SCRIPT_SAVE_MS 60000
#define SCRIPT_DRAIN_MS 5000

struct script {
    struct ps_coordinator coordinator;
    struct ps_actions actions; /* of the last step */
    uint64_t now_ms;
    char line[256];
};

/* A server that takes any index and saves. */
struct ps_coordinator_options script_options(void);
void script_init(struct script *script, const struct ps_coordinator_options *options);

/* Steps at `now_ms`; the actions are in `line`: words with a blank between, "prove=8000",
 * "save" with its pointer and "save-local" without. */
void script_step(struct script *script, struct ps_event event);
void script_expect(struct script *script, struct ps_event event, const char *line);

/* Moves the time to when the coordinator wants to be woken, and ticks. */
void script_sleep(struct script *script);
/* The same while nothing is new. */
void script_sleep_idle(struct script *script);

/* An event that carries nothing but its status. */
struct ps_event script_event(enum ps_event_type type, enum ps_status status);
struct ps_event script_granted(const struct script *script, int64_t lease);
struct ps_event script_claimed(const struct script *script, uint32_t index, uint64_t epoch);
struct ps_event script_kept(const struct script *script);

/* From the first tick to `state`, all at `now_ms`: lease 7, index 1, epoch 40, of 2 shards. */
void script_reach(struct script *script, enum ps_coordinator_state state);

#endif
