/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of tokens, filled with time: so many at once, then so many a minute.
 *
 * Threads:  a bucket belongs to whoever calls.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_TOKEN_BUCKET_H
#define PS_BASE_TOKEN_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* Both above 0. */
struct ps_bucket_size {
    uint32_t at_once;
    uint32_t a_minute;
};

/* Zeroed: full, whatever its size. */
struct ps_bucket {
    uint64_t missing; /* of a full bucket, in PS_BUCKET_WHOLE parts of a token */
    uint64_t at_ms;   /* when that was so */
};

/* So many parts that so many tokens a minute are as many parts a millisecond. */
#define PS_BUCKET_WHOLE (60 * 1000)

/* A bucket that has `count` tokens, at most as many as it holds. */
struct ps_bucket ps_bucket_with(const struct ps_bucket_size *size, uint32_t count, uint64_t now_ms);

/* Takes a token; false when there is none. A clock that goes back adds nothing. */
bool ps_bucket_take(struct ps_bucket *bucket, const struct ps_bucket_size *size, uint64_t now_ms);

/* Milliseconds until there is a token; 0: there is one. */
uint32_t ps_bucket_wait_ms(const struct ps_bucket *bucket, const struct ps_bucket_size *size,
                           uint64_t now_ms);

bool ps_bucket_is_full(const struct ps_bucket *bucket, const struct ps_bucket_size *size,
                       uint64_t now_ms);

#endif
