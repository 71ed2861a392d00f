/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the coordinator: the changes of state that its two halves share. Nobody else includes
 * this.
 *
 * Threads:  as the coordinator.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_COORDINATOR_TRANSITIONS_H
#define PS_SERVER_CORE_COORDINATOR_TRANSITIONS_H

#include "server/core/ownership/coordinator.h"

/* Longest pause between attempts. */
#define PS_BACKOFF_MS_MAX 5000

/* now + span, below PS_DEADLINE_NEVER. */
uint64_t ps_coordinator_later(uint64_t now_ms, uint64_t span_ms);

/* When the store has dropped a lease that was last touched by a call that ends now. */
uint64_t ps_coordinator_lease_gone_ms(const struct ps_coordinator *c);

/* Doubles with every failure in a row, up to `most_ms`; the upper half is random. */
uint64_t ps_coordinator_backoff_ms(struct ps_coordinator *c, uint32_t failures, uint64_t most_ms);

/* Enters a state, its first attempt due at once. */
void ps_coordinator_enter(struct ps_coordinator *c, enum ps_coordinator_state state);

/* The state's next attempt comes after a back-off. */
void ps_coordinator_pause(struct ps_coordinator *c);

/* After an attempt of the state: goes on, pauses, or ends the run if waiting cures nothing. */
void ps_coordinator_attempted(struct ps_coordinator *c, enum ps_status status);

/* The claim is gone: nothing is acknowledged from here on (B8). */
void ps_coordinator_lose(struct ps_coordinator *c, bool lease_is_gone, struct ps_actions *actions);

/* Ends the run with `status` as its outcome. */
void ps_coordinator_fail(struct ps_coordinator *c, enum ps_status status);

/* The lease is given back, or given up: the next term begins, or none does. */
void ps_coordinator_released(struct ps_coordinator *c, struct ps_actions *actions);

void ps_actions_add(struct ps_actions *actions, enum ps_action_type type, uint64_t until_ms);

/* Puts the one question. */
void ps_coordinator_ask(struct ps_coordinator *c, enum ps_action_type type,
                        struct ps_actions *actions);

/* Adds what is due now, and says when to look again: coordinator_plan.c. */
void ps_coordinator_pursue(struct ps_coordinator *c, struct ps_actions *actions);
uint64_t ps_coordinator_wake_ms(const struct ps_coordinator *c);

#endif
