/* What follows the outcome of one attempt, and how long to pause before the next one.
 *
 * Threads:  pure functions.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CLIENT_RETRY_H
#define PS_CLIENT_RETRY_H

#include "base/random.h"
#include "base/status.h"
#include "proto/messages.h"

#include <stdbool.h>
#include <stdint.h>

enum ps_verdict {
    PS_VERDICT_DONE,   /* it is done; for an initialisation also when it had been done before */
    PS_VERDICT_AGAIN,  /* repeat it after a pause: nothing happened, or repeating is harmless */
    PS_VERDICT_FAILED, /* repeating is useless */
    PS_VERDICT_UNKNOWN /* it may have happened, and repeating could do it twice */
};

/* True when doing the call twice has the effect of doing it once. Only a push has not. */
bool ps_method_is_repeatable(enum ps_method method);

/* True when the call changes nothing on the server. */
bool ps_method_is_reading(enum ps_method method);

/* `refused`: the server certainly did not apply the request, because it said so or because the
 * request never left. Follows the remedies of base/status.h, with three exceptions that the
 * contract makes: an initialisation that meets "pserver already initialized" is done, a push before
 * initialisation fails at once instead of waiting for it, and so does a finish whose parameters are
 * lost. */
enum ps_verdict ps_retry_verdict(enum ps_method method, enum ps_status status, bool refused);

/* The pause before attempt `attempt` (1 is the first repetition): doubles from `min_ms` up to
 * `max_ms`, of which the upper half is random, so that clients do not come back in step. */
uint64_t ps_retry_pause_ms(struct ps_random *random, uint32_t attempt, uint64_t min_ms,
                           uint64_t max_ms);

#endif
