/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of tokens, filled with time: so many at once, then so many a second.
 *
 * Threads:  a bucket belongs to whoever calls.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_FRONT_TOKEN_BUCKET_H
#define PS_SERVER_FRONT_TOKEN_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: full, whatever its size. */
struct ps_tokens {
    uint64_t milli; /* thousandths of a token */
    uint64_t at_ms;
    bool begun;
};

/* Is there a token in a bucket of `burst`, into which `per_s` fall every second? */
bool ps_tokens_left(struct ps_tokens *tokens, uint64_t burst, uint64_t per_s, uint64_t now_ms);

/* Takes a token; false when there is none. */
bool ps_tokens_spend(struct ps_tokens *tokens, uint64_t burst, uint64_t per_s, uint64_t now_ms);

#endif
