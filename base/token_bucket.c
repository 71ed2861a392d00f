/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody fills a bucket: whoever looks counts what has fallen in since it was last written. So a
 * table of thousands of buckets costs nothing while nobody looks. */
#include "base/token_bucket.h"

#include "base/assert.h"

static uint64_t missing_at(const struct ps_bucket *bucket, const struct ps_bucket_size *size,
                           uint64_t now_ms)
{
    PS_ASSERT(size->at_once > 0 && size->a_minute > 0);
    PS_ASSERT(bucket->missing <= (uint64_t)size->at_once * PS_BUCKET_WHOLE);
    uint64_t passed_ms = now_ms > bucket->at_ms ? now_ms - bucket->at_ms : 0;
    /* Divided and not multiplied: the clock may be far ahead. */
    if (passed_ms > bucket->missing / size->a_minute)
        return 0;
    return bucket->missing - passed_ms * size->a_minute;
}

struct ps_bucket ps_bucket_with(const struct ps_bucket_size *size, uint32_t count, uint64_t now_ms)
{
    PS_ASSERT(count <= size->at_once);
    /* Counted is what is missing and not what is there: zeros are a full bucket of any size. */
    return (struct ps_bucket){(uint64_t)(size->at_once - count) * PS_BUCKET_WHOLE, now_ms};
}

bool ps_bucket_take(struct ps_bucket *bucket, const struct ps_bucket_size *size, uint64_t now_ms)
{
    uint64_t missing = missing_at(bucket, size, now_ms);
    /* A bucket without a token is written too: what has fallen in since then is kept when the
     * clock goes back. */
    bool is_there = ps_bucket_wait_ms(bucket, size, now_ms) == 0;
    *bucket = (struct ps_bucket){is_there ? missing + PS_BUCKET_WHOLE : missing, now_ms};
    return is_there;
}

uint32_t ps_bucket_wait_ms(const struct ps_bucket *bucket, const struct ps_bucket_size *size,
                           uint64_t now_ms)
{
    /* The next token is there when no more is missing than the bucket holds less one. */
    uint64_t wanted = missing_at(bucket, size, now_ms) + PS_BUCKET_WHOLE;
    uint64_t full = (uint64_t)size->at_once * PS_BUCKET_WHOLE;
    if (wanted <= full)
        return 0;
    /* At most a minute, since no more than a token is waited for. */
    return (uint32_t)((wanted - full + size->a_minute - 1) / size->a_minute);
}

bool ps_bucket_is_full(const struct ps_bucket *bucket, const struct ps_bucket_size *size,
                       uint64_t now_ms)
{
    return missing_at(bucket, size, now_ms) == 0;
}
