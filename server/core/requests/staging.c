/* A list of what is staged; each with its parts in the order of their ranges. */
#include "server/core/requests/staging.h"

#include "base/assert.h"
#include "server/core/requests/staged.h"
#include "server/core/requests/staging_room.h"

#include <utlist.h>

static void drop_idle(struct ps_staging *staging, uint64_t now_ms);
static void expire(struct ps_staging *staging, struct ps_staged *staged);
static struct ps_staged *find_attempt(const struct ps_staging *staging,
                                      const struct ps_parameter_spec *spec);
static enum ps_status find_or_begin(struct ps_staging *staging, const struct ps_part *part,
                                    uint64_t now_ms, struct ps_staged **staged,
                                    struct ps_error *error);
static enum ps_status begin(struct ps_staging *staging, const struct ps_part *part, uint64_t bytes,
                            uint64_t now_ms, struct ps_staged **staged, struct ps_error *error);
static enum ps_status add_to(struct ps_staging *staging, struct ps_staged *staged,
                             const struct ps_part *part, struct ps_added *added, bool *whole,
                             struct ps_error *error);
static void apply_part(struct ps_staging *staging, struct ps_staged *staged,
                       struct ps_staged_part *part, struct ps_view content, struct ps_added *added);
static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged);

void ps_staging_init(struct ps_staging *staging, const struct ps_allocator *memory,
                     uint64_t bytes_max)
{
    *staging = (struct ps_staging){.memory = memory, .bytes_max = bytes_max};
    ps_mutex_init(&staging->lock, PS_RANK_QUEUE);
}

void ps_staging_fini(struct ps_staging *staging)
{
    ps_staging_clear(staging);
    ps_mutex_fini(&staging->lock);
}

void ps_staging_clear(struct ps_staging *staging)
{
    ps_mutex_lock(&staging->lock);
    while (staging->first != NULL)
        unlink_staged(staging, staging->first);
    ps_mutex_unlock(&staging->lock);
}

bool ps_staging_is_part(struct ps_elements range, uint64_t total)
{
    return range.count != 0 && !(range.first == 0 && range.count == total);
}

enum ps_status ps_staging_add(struct ps_staging *staging, const struct ps_part *part,
                              uint64_t now_ms, struct ps_added *added, struct ps_error *error)
{
    struct ps_staged *found = NULL;
    bool whole = false;
    *added = (struct ps_added){0};
    PS_TRY(ps_staged_part_check(part, error));
    ps_mutex_lock(&staging->lock);
    drop_idle(staging, now_ms);
    enum ps_status status = find_or_begin(staging, part, now_ms, &found, error);
    if (status == PS_OK) {
        found->used_ms = now_ms;
        ps_staged_keep(found); /* it may be forgotten meanwhile */
        status = add_to(staging, found, part, added, &whole, error);
        if (whole)
            status = ps_staged_make_whole(found, &added->content, error);
        if (status == PS_OK && whole) {
            found->applying = true;
            added->staged = ps_staged_keep(found); /* for the one who applies it */
            added->hold = (struct ps_hold){ps_staged_keep, ps_staged_release, found};
        }
        if (found->parts == NULL && found->is_listed)
            unlink_staged(staging, found);
        ps_staged_release(found);
    }
    ps_mutex_unlock(&staging->lock);
    return status;
}

enum ps_staging_way ps_staging_way(struct ps_staging *staging, const struct ps_request_id *id)
{
    enum ps_staging_way way = PS_STAGING_UNKNOWN;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (ps_staged_is_of(it, id))
            way = it->ahead != NULL && !it->has_failed ? PS_STAGING_AHEAD : PS_STAGING_PARTS;
    ps_mutex_unlock(&staging->lock);
    return way;
}

bool ps_staging_offer(struct ps_staging *staging, const struct ps_part *part,
                      struct ps_ahead *ahead, bool keeps, uint64_t now_ms)
{
    struct ps_staged *staged = NULL;
    if (ps_staged_part_check(part, NULL) != PS_OK)
        return false;
    uint64_t bytes = ps_ahead_bytes(ahead) + (keeps ? ps_staged_part_whole_bytes(part) : 0);
    ps_mutex_lock(&staging->lock);
    drop_idle(staging, now_ms);
    struct ps_staged *rival = find_attempt(staging, ps_ahead_spec(ahead));
    if (rival != NULL && ps_staging_room_yields(rival, part->id, now_ms)) {
        expire(staging, rival);
        rival = NULL;
    }
    bool is_wanted = bytes <= staging->bytes_max / 2 && rival == NULL;
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        is_wanted = is_wanted && !ps_staged_is_of(it, part->id);
    if (is_wanted && begin(staging, part, bytes, now_ms, &staged, NULL) == PS_OK) {
        staged->ahead = ahead;
        staged->keeps = keeps;
    }
    ps_mutex_unlock(&staging->lock);
    return staged != NULL;
}

enum ps_status ps_staging_check_whole(struct ps_staging *staging, const struct ps_request_id *id,
                                      enum ps_method method, struct ps_bytes name,
                                      struct ps_error *error)
{
    enum ps_status status = PS_OK;
    if (atomic_load(&staging->count) == 0)
        return PS_OK;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (ps_staged_is_of(it, id) && (it->method != method || !ps_bytes_equal(it->name, name)))
            status = ps_staged_refuse_other(it, name, error);
    ps_mutex_unlock(&staging->lock);
    return status;
}

uint64_t ps_staging_present(struct ps_staging *staging, const struct ps_request_id *id)
{
    uint64_t present = 0;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (ps_staged_is_of(it, id))
            present = it->present;
    ps_mutex_unlock(&staging->lock);
    return present;
}

void ps_staging_end(struct ps_staging *staging, struct ps_staged *staged, enum ps_status status)
{
    enum ps_remedy remedy = ps_status_remedy(status);
    bool is_over = remedy == PS_REMEDY_DONE || remedy == PS_REMEDY_REJECT ||
                   (status == PS_ERR_CONFLICT && !staged->keeps);
    ps_mutex_lock(&staging->lock);
    PS_ASSERT(staged->applying);
    staged->applying = false;
    if (is_over && staged->is_listed)
        unlink_staged(staging, staged);
    else if (!is_over)
        ps_staged_remove_newest(staged);
    ps_mutex_unlock(&staging->lock);
    ps_staged_release(staged);
}

void ps_staging_forget(struct ps_staging *staging, const struct ps_request_id *id)
{
    if (atomic_load(&staging->count) == 0)
        return;
    ps_mutex_lock(&staging->lock);
    struct ps_staged *staged = staging->first;
    while (staged != NULL && !ps_staged_is_of(staged, id))
        staged = staged->next;
    if (staged != NULL && !staged->applying)
        unlink_staged(staging, staged);
    ps_mutex_unlock(&staging->lock);
}

/* ---- Finding ---- */

static void expire(struct ps_staging *staging, struct ps_staged *staged)
{
    staging->expired_count++;
    unlink_staged(staging, staged);
}

static void drop_idle(struct ps_staging *staging, uint64_t now_ms)
{
    struct ps_staged *staged, *next;
    LL_FOREACH_SAFE(staging->first, staged, next)
        if (ps_staging_room_is_idle(staged, PS_STAGING_IDLE_MS, now_ms))
            expire(staging, staged);
}

/* There is one at most. */
static struct ps_staged *find_attempt(const struct ps_staging *staging,
                                      const struct ps_parameter_spec *spec)
{
    struct ps_staged *staged = staging->first;
    while (staged != NULL && (staged->ahead == NULL || ps_ahead_spec(staged->ahead) != spec))
        staged = staged->next;
    return staged;
}

/* As long as somebody gives way. */
static enum ps_status make_room(struct ps_staging *staging, const struct ps_request_id *id,
                                uint64_t bytes, uint64_t now_ms, struct ps_error *error)
{
    enum ps_status status = ps_staging_room_check(staging, id, bytes, error);
    while (status != PS_OK) {
        struct ps_staged *yielding = ps_staging_room_find_yielding(staging, id, bytes, now_ms);
        if (yielding == NULL)
            return status;
        expire(staging, yielding);
        status = ps_staging_room_check(staging, id, bytes, error);
    }
    return PS_OK;
}

static enum ps_status find_or_begin(struct ps_staging *staging, const struct ps_part *part,
                                    uint64_t now_ms, struct ps_staged **out, struct ps_error *error)
{
    for (struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        if (!ps_staged_is_of(it, part->id))
            continue;
        *out = it;
        return ps_staged_check_same(it, part, error);
    }
    return begin(staging, part, ps_staged_part_whole_bytes(part), now_ms, out, error);
}

static enum ps_status begin(struct ps_staging *staging, const struct ps_part *part, uint64_t bytes,
                            uint64_t now_ms, struct ps_staged **out, struct ps_error *error)
{
    PS_TRY(make_room(staging, part->id, bytes, now_ms, error));
    struct ps_staged *staged =
        ps_staged_create(staging->memory, part, ps_staging_room_reserved(staging, bytes));
    if (staged == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request in ranges");
    staged->used_ms = now_ms;
    staged->is_listed = true;
    LL_PREPEND(staging->first, staged);
    staging->bytes += staged->bytes;
    staging->count++;
    *out = staged;
    return PS_OK;
}

/* ---- Parts ---- */

/* What is there already makes nothing whole: it would be whole before. */
static enum ps_status add_to(struct ps_staging *staging, struct ps_staged *staged,
                             const struct ps_part *from, struct ps_added *added, bool *whole,
                             struct ps_error *error)
{
    struct ps_staged_part **place;
    PS_TRY(ps_staged_part_place(&staged->parts, from, &place, error));
    if (place == NULL)
        return PS_OK;
    struct ps_staged_part *part = ps_staged_part_create(staged->memory, from, staged->keeps);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a range");
    part->next = *place;
    *place = part;
    if (staged->ahead != NULL && !staged->has_failed)
        apply_part(staging, staged, part, from->content, added);
    else
        ps_staged_count(staged, part);
    *whole = staged->is_listed && staged->present == staged->total;
    return PS_OK;
}

/* The lock is not held meanwhile. What then was forgotten counts no more. */
static void apply_part(struct ps_staging *staging, struct ps_staged *staged,
                       struct ps_staged_part *part, struct ps_view content, struct ps_added *added)
{
    staged->working++;
    ps_mutex_unlock(&staging->lock);
    const struct ps_gradient gradient = {.content = content, .encoding = staged->encoding};
    enum ps_status status = ps_ahead_apply(staged->ahead, part->range, gradient);
    if (status == PS_OK)
        added->made = ps_ahead_made(staged->ahead, &added->version);
    ps_mutex_lock(&staging->lock);
    staged->working--;
    part->is_plain = status == PS_OK;
    added->ahead_failed = staged->has_failed ? PS_OK : status;
    staged->has_failed = staged->has_failed || status != PS_OK;
    if (staged->keeps || !staged->has_failed)
        ps_staged_count(staged, part);
    else if (staged->is_listed)
        unlink_staged(staging, staged);
}

/* ---- Ends ---- */

static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged)
{
    LL_DELETE(staging->first, staged);
    staged->is_listed = false;
    PS_ASSERT(staging->bytes >= staged->bytes && staging->count > 0);
    staging->bytes -= staged->bytes;
    staging->count--;
    ps_staged_release(staged);
}

void ps_staging_look(struct ps_staging *staging, uint64_t *bytes, size_t *count,
                     uint64_t *newly_expired)
{
    ps_mutex_lock(&staging->lock);
    *bytes = staging->bytes;
    *count = staging->count;
    *newly_expired = staging->expired_count - staging->expired_told;
    staging->expired_told = staging->expired_count;
    ps_mutex_unlock(&staging->lock);
}

void ps_staging_check(struct ps_staging *staging)
{
    uint64_t bytes = 0;
    size_t count = 0;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        PS_ASSERT(it->is_listed);
        ps_staged_check(it);
        bytes += it->bytes;
        count++;
    }
    PS_ASSERT(bytes == staging->bytes && count == staging->count);
    ps_mutex_unlock(&staging->lock);
}
