/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody fills a bucket: whoever looks counts what has fallen in since the last look. */
#include "server/front/token_bucket.h"

#include "base/assert.h"

bool ps_tokens_left(struct ps_tokens *tokens, uint64_t burst, uint64_t per_s, uint64_t now_ms)
{
    PS_ASSERT(burst > 0 && per_s > 0);
    /* A bucket begins full. A clock that seems to go back gives nothing. */
    uint64_t passed_ms = tokens->begun && now_ms > tokens->at_ms ? now_ms - tokens->at_ms : 0;
    uint64_t full = burst * 1000;
    if (!tokens->begun || passed_ms >= full / per_s)
        tokens->milli = full;
    else
        tokens->milli += passed_ms * per_s;
    if (tokens->milli > full)
        tokens->milli = full;
    tokens->begun = true;
    tokens->at_ms = now_ms;
    return tokens->milli >= 1000;
}

bool ps_tokens_spend(struct ps_tokens *tokens, uint64_t burst, uint64_t per_s, uint64_t now_ms)
{
    if (!ps_tokens_left(tokens, burst, per_s, now_ms))
        return false;
    tokens->milli -= 1000;
    return true;
}
