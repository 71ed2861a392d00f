/* SPDX-License-Identifier: Apache-2.0 */
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
    PS_VERDICT_DONE,     /* it is done; for an initialisation also when it had been done before */
    PS_VERDICT_AGAIN,    /* repeat it after a pause, under the same number if it has one */
    PS_VERDICT_RENUMBER, /* the same under a new number, in a new session: it was not applied, or
                            applying it once more does no harm */
    PS_VERDICT_FAILED    /* repeating is useless */
};

/* Does this status, when a server says it, mean that it certainly did not apply the request? Not
 * so for "unavailable" to a push, or to whatever else is done once (method_table.h): a push that
 * has been applied and waits for the disk is told that when the journal fails or the shard is lost,
 * and may survive all the same. Nor for "no memory" to a push: older servers said that, too, when
 * there was none for the reply. */
bool ps_retry_is_refusal(enum ps_method method, enum ps_status status);

/* `ambiguous`: this attempt or an earlier one may have been applied. Follows the remedies of
 * base/status.h, with exceptions that the contract makes:
 *
 * - an initialisation that meets "pserver already initialized" is done;
 * - a push before initialisation fails at once: the parameters are not there or were lost, and who
 *   pushes may be the one who has to initialise them;
 * - a save before initialisation fails at once: there is nothing to save;
 * - a finish whose parameters are lost fails at once: they have to be given again;
 * - what is done once and may have been applied is also repeated when the server has a fault: a
 *   repeat is the only way to learn what became of it;
 * - a session that the server does not remember is final for such a request, too;
 *   everything else goes on in a new one. */
enum ps_verdict ps_retry_verdict(enum ps_method method, enum ps_status status, bool ambiguous);

/* The pause before attempt `attempt` (1 is the first repetition): doubles from `min_ms` up to
 * `max_ms`, of which the upper half is random, so that clients do not come back in step. */
uint64_t ps_retry_pause_ms(struct ps_random *random, uint32_t attempt, uint64_t min_ms,
                           uint64_t max_ms);

#endif
