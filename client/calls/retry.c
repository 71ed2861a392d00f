/* SPDX-License-Identifier: Apache-2.0 */
/* Which failures are repeated, and when. Two facts decide: whether the server may have applied the
 * request, and whether it knows a repeat by its number. A push that may have been applied is
 * repeated under its number until the server says what became of it; under a new number it would be
 * another push, and could be applied twice. */
#include "client/calls/retry.h"

#include "base/assert.h"
#include "client/calls/method_table.h"

/* "Certainly not applied" must never be said too often: the caller may then push the same gradient
 * under a new number. */
bool ps_retry_is_refusal(enum ps_method method, enum ps_status status)
{
    if (ps_method_row(method)->once && (status == PS_ERR_UNAVAILABLE || status == PS_ERR_NO_MEMORY))
        return false;
    enum ps_remedy remedy = ps_status_remedy(status);
    return remedy != PS_REMEDY_DONE && remedy != PS_REMEDY_UNKNOWN;
}

/* Without the id's memory a server cannot tell a repeat from another trainer's initialisation: both
 * are done. */
static bool is_done_before(enum ps_method method, enum ps_status status)
{
    return status == PS_ERR_EXISTS && (method == PS_METHOD_INIT || method == PS_METHOD_FINISH);
}

/* The exceptions of the contract come first, each with the reason that stands in the header;
 * whatever is left follows the remedy of its status. */
enum ps_verdict ps_retry_verdict(enum ps_method method, enum ps_status status, bool ambiguous)
{
    if (status == PS_OK || is_done_before(method, status))
        return PS_VERDICT_DONE;
    bool once = ps_method_row(method)->once;
    if ((ps_method_row(method)->pushes || method == PS_METHOD_SAVE) && status == PS_ERR_NOT_READY)
        return PS_VERDICT_FAILED;
    if (status == PS_ERR_STALE_SESSION && ps_method_row(method)->numbered)
        /* A new number for a push that may have been applied is the one thing that is never
         * done. */
        return once && ambiguous ? PS_VERDICT_FAILED : PS_VERDICT_RENUMBER;
    bool ends_something = method == PS_METHOD_FINISH || method == PS_METHOD_DRAIN ||
                          method == PS_METHOD_BEGIN_INIT || method == PS_METHOD_END_INIT ||
                          method == PS_METHOD_JOIN;
    if (ends_something && (status == PS_ERR_STALE_EPOCH || status == PS_ERR_CONFLICT))
        return PS_VERDICT_FAILED;
    /* The server has waited for as long as the caller wished, and says who is missing. */
    if ((method == PS_METHOD_BARRIER || method == PS_METHOD_ASK) && status == PS_ERR_TIMEOUT)
        return PS_VERDICT_FAILED;

    switch (ps_status_remedy(status)) {
    case PS_REMEDY_RETRY:
    case PS_REMEDY_REROUTE:
    case PS_REMEDY_UNKNOWN:
        return PS_VERDICT_AGAIN;
    /* A server with a fault may have applied the push before it failed: only a repeat, answered by
     * whoever recovers the shard, can tell. */
    case PS_REMEDY_STOP:
        return once && ambiguous ? PS_VERDICT_AGAIN : PS_VERDICT_FAILED;
    case PS_REMEDY_DONE:
    case PS_REMEDY_REJECT:
        break;
    }
    return PS_VERDICT_FAILED;
}

/* The doubling stops at max_ms before it can wrap around. Half of the pause is by chance: after a
 * server's restart all of its clients would otherwise come back at the same moments, again and
 * again. */
uint64_t ps_retry_pause_ms(struct ps_random *random, uint32_t attempt, uint64_t min_ms,
                           uint64_t max_ms)
{
    PS_ASSERT(attempt > 0);
    PS_ASSERT(min_ms > 0 && min_ms <= max_ms);

    uint64_t pause_ms = min_ms;
    for (uint32_t i = 1; i < attempt && pause_ms < max_ms; i++)
        pause_ms *= 2;
    if (pause_ms > max_ms)
        pause_ms = max_ms;
    uint64_t half_ms = pause_ms / 2;
    return pause_ms - half_ms + ps_random_below(random, half_ms + 1);
}
