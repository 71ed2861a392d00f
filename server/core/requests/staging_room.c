/* SPDX-License-Identifier: Apache-2.0 */
/* Who has how much, and who has got nothing for how long. The rules are told in staging.h. What
 * they must never do is let two requests that are both alive drive each other out in turn, each
 * losing what it had: so a request gives way for age alone, and never because another one is larger
 * or newer. */
#include "server/core/requests/staging_room.h"

#include "base/assert.h"

#include <inttypes.h>

/* A thread at work on a part is a sign of life, however long it takes. */
bool ps_staging_room_is_idle(const struct ps_staged *staged, uint64_t idle_ms, uint64_t now_ms)
{
    PS_ASSERT(idle_ms > 0);
    return !ps_staged_is_busy(staged) && now_ms >= staged->used_ms + idle_ms;
}

/* Has it got nothing new for a while, or too little since it began? Then its client has died, is
 * very slow, or means to keep the room. */
static bool is_stalled(const struct ps_staged *staged, uint64_t now_ms)
{
    uint64_t bytes = staged->total > 0 ? staged->present * ps_dtype_size(staged->dtype) : 0;
    PS_ASSERT(staged->present <= staged->total);
    uint64_t allowed_ms = PS_STAGING_STALLED_MS + bytes / (PS_STAGING_PACE_BYTES / 1000);
    return ps_staging_room_is_idle(staged, PS_STAGING_STALLED_MS, now_ms) ||
           (!ps_staged_is_busy(staged) && now_ms >= staged->began_ms + allowed_ms);
}

/* Would it not fit even alone? Of an early update never: one that has no room is not begun. */
static bool is_outsized(const struct ps_staging *staging, uint64_t bytes)
{
    return bytes > staging->bytes_max;
}

/* Half for what is larger than everything: its length may be a lie, and it must not shut out
 * others. */
uint64_t ps_staging_room_reserved(const struct ps_staging *staging, uint64_t bytes)
{
    PS_ASSERT(staging->bytes_max > 0);
    return is_outsized(staging, bytes) ? staging->bytes_max / 2 : bytes;
}

/* The one that is larger than all room; NULL: there is none. */
static struct ps_staged *find_outsized(const struct ps_staging *staging)
{
    struct ps_staged *it = staging->first;
    while (it != NULL && (it->early != NULL || !is_outsized(staging, it->content_bytes)))
        it = it->next;
    PS_ASSERT(it == NULL || it->is_listed);
    return it;
}

/* What one caller has. A list of a few: summing it up is cheaper than keeping a sum for each. */
static uint64_t bytes_of(const struct ps_staging *staging, struct ps_bytes share, size_t *count)
{
    uint64_t own = 0;
    *count = 0;
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        if (!ps_bytes_equal(it->share, share))
            continue;
        own += it->bytes;
        (*count)++;
    }
    PS_ASSERT(own <= staging->bytes);
    return own;
}

/* Is it less than the half that a caller may have? One request always is, so that every size can be
 * staged by somebody who waits for it. */
static bool own_fits(const struct ps_staging *staging, const struct ps_request_id *id,
                     uint64_t reserved)
{
    size_t count;
    uint64_t max = staging->bytes_max / 2;
    uint64_t own = bytes_of(staging, ps_staged_share_of(id), &count);
    PS_ASSERT(count <= staging->count);
    return own == 0 || (own <= max && reserved <= max - own && count < PS_STAGING_REQUESTS_MAX / 4);
}

/* The text has the numbers and says for which of the limits it is, since an operator who reads it
 * has two things to change: --staging-bytes, or how much one client has under way. */
enum ps_status ps_staging_room_check(const struct ps_staging *staging,
                                     const struct ps_request_id *id, uint64_t bytes,
                                     struct ps_error *error)
{
    uint64_t max = staging->bytes_max;
    uint64_t reserved = ps_staging_room_reserved(staging, bytes);
    if (is_outsized(staging, bytes) && find_outsized(staging) != NULL)
        return ps_refuse(
            error, PS_ERR_BUSY, PS_REFUSED_STAGING, PS_STAGED_RETRY_HINT_MS,
            "a request of more than %" PRIu64
            " bytes (--staging-bytes) in ranges waits for the rest, and there is one at a time; "
            "try again in %d ms",
            max, PS_STAGED_RETRY_HINT_MS);
    PS_ASSERT(reserved <= max);
    /* Subtracted and not added: lengths come from outside. */
    bool fits = staging->bytes <= max && reserved <= max - staging->bytes &&
                staging->count <= PS_STAGING_REQUESTS_MAX;
    if (fits && own_fits(staging, id, reserved))
        return PS_OK;
    return ps_refuse(
        error, PS_ERR_BUSY, fits ? PS_REFUSED_STAGING_SHARE : PS_REFUSED_STAGING,
        PS_STAGED_RETRY_HINT_MS,
        "%" PRIu64 " bytes of %zu requests in ranges wait for the rest, limit %" PRIu64
        " (--staging-bytes) and %d%s; try again in %d ms",
        staging->bytes, staging->count - 1, max, PS_STAGING_REQUESTS_MAX,
        fits ? ", of which a client may have half the bytes and a quarter of the requests" : "",
        PS_STAGED_RETRY_HINT_MS);
}

/* Is `id` a newer request of the same client, and has nothing come for this one for a while? A
 * client that works on several at once sends for each of them more often than that. */
static bool is_given_up(const struct ps_staged *staged, const struct ps_request_id *id,
                        uint64_t now_ms)
{
    PS_ASSERT(staged->is_listed);
    return ps_staged_is_before(staged, id) &&
           ps_staging_room_is_idle(staged, PS_STAGING_YIELD_MS, now_ms);
}

/* Of those the oldest: each that is found narrows the search to what is older still. */
static struct ps_staged *find_given_up(const struct ps_staging *staging,
                                       const struct ps_request_id *id, uint64_t now_ms)
{
    struct ps_staged *oldest = NULL;
    /* Narrowed with each that is found, so the last one found is the oldest. */
    struct ps_request_id before = *id;
    for (struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        if (!is_given_up(it, &before, now_ms))
            continue;
        oldest = it;
        /* Only session and sequence move: the client stays, since numbers of others are not
         * compared. */
        before.session = it->session;
        before.sequence = it->sequence;
    }
    return oldest;
}

/* Whose client has died, or is very slow: of those that stand in the way of `bytes` the one that
 * got nothing for longest. NULL: it is not for want of anybody else's room. A client that has used
 * up its own half is not helped by driving out another. */
static struct ps_staged *find_stalled(const struct ps_staging *staging,
                                      const struct ps_request_id *id, uint64_t bytes,
                                      uint64_t now_ms)
{
    /* For the largest kind there is one place, and only its holder is in the way. */
    struct ps_staged *outsized = is_outsized(staging, bytes) ? find_outsized(staging) : NULL;
    if (outsized != NULL)
        return is_stalled(outsized, now_ms) ? outsized : NULL;
    PS_ASSERT(id->present);
    struct ps_staged *oldest = NULL;
    PS_ASSERT(outsized == NULL);
    if (!own_fits(staging, id, ps_staging_room_reserved(staging, bytes)))
        return NULL;
    for (struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (is_stalled(it, now_ms) && (oldest == NULL || it->used_ms < oldest->used_ms))
            oldest = it;
    return oldest;
}

/* Callers whose sums are formed in one search: four of them cannot all be beyond a quarter. */
enum { SHARES_LOOKED_AT = 8 };

/* Has this caller more than a quarter? Each caller is summed up once, and a few callers only, since
 * each sum is a walk over all requests. */
static bool is_beyond_share(const struct ps_staging *staging, struct ps_bytes share,
                            struct ps_bytes *within, size_t *within_count)
{
    size_t count;
    PS_ASSERT(*within_count <= SHARES_LOOKED_AT);
    for (size_t i = 0; i < *within_count; i++)
        if (ps_bytes_equal(within[i], share))
            return false;
    if (*within_count == SHARES_LOOKED_AT)
        return false;
    if (bytes_of(staging, share, &count) > staging->bytes_max / 4)
        return true;
    within[(*within_count)++] = share;
    return false;
}

/* Of a caller that has more than its quarter, for one who would have less: the one that got nothing
 * new for longest, and for a moment at least. So a few callers who hold everything cannot keep
 * others out, and a caller that is alone may have half. */
static struct ps_staged *find_beyond_share(const struct ps_staging *staging,
                                           const struct ps_request_id *id, uint64_t bytes,
                                           uint64_t now_ms)
{
    size_t count;
    uint64_t quarter = staging->bytes_max / 4;
    struct ps_staged *oldest = NULL;
    struct ps_bytes within[SHARES_LOOKED_AT] = {ps_staged_share_of(id)};
    size_t within_count = 1;
    uint64_t own = bytes_of(staging, within[0], &count);
    PS_ASSERT(within[0].size == 0 || within[0].data != NULL);
    if (own > quarter || bytes > quarter - own)
        return NULL;
    for (struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (ps_staging_room_is_idle(it, PS_STAGING_YIELD_MS, now_ms) &&
            (oldest == NULL || it->used_ms < oldest->used_ms) &&
            is_beyond_share(staging, it->share, within, &within_count))
            oldest = it;
    return oldest;
}

struct ps_staged *ps_staging_room_find_yielding(const struct ps_staging *staging,
                                                const struct ps_request_id *id, uint64_t bytes,
                                                uint64_t now_ms)
{
    struct ps_staged *given_up = find_given_up(staging, id, now_ms);
    PS_ASSERT(given_up == NULL || !ps_staged_is_busy(given_up));
    /* A client's own leavings go before anybody else's work: nobody waits for them any more. */
    if (given_up != NULL)
        return given_up;
    struct ps_staged *stalled = find_stalled(staging, id, bytes, now_ms);
    return stalled != NULL ? stalled : find_beyond_share(staging, id, bytes, now_ms);
}

/* For whatever reason: an early update of the same parameter is in the way without taking room. */
bool ps_staging_room_yields(const struct ps_staged *staged, const struct ps_request_id *id,
                            uint64_t now_ms)
{
    PS_ASSERT(id->present);
    return is_given_up(staged, id, now_ms) || is_stalled(staged, now_ms);
}
