/* SPDX-License-Identifier: Apache-2.0 */
/* A list of what is staged; each with its parts in the order of their ranges. It is short: a client
 * has a few requests in ranges under way, and the room is bounded. */
#include "server/core/requests/staging.h"

#include "base/assert.h"
#include "server/core/requests/staged.h"
#include "server/core/requests/staging_room.h"
#include "server/core/update/gradient_check.h"

#include <utlist.h>

static enum ps_status check_part(const struct ps_part *part, struct ps_error *error);
static enum ps_status add_locked(struct ps_staging *staging, const struct ps_part *part,
                                 uint64_t now_ms, struct ps_update **early, struct ps_added *added,
                                 struct ps_error *error);
static void drop_idle(struct ps_staging *staging, uint64_t now_ms);
static void expire(struct ps_staging *staging, struct ps_staged *staged);
static struct ps_staged *find(const struct ps_staging *staging, const struct ps_request_id *id);
static enum ps_status begin(struct ps_staging *staging, const struct ps_part *part, uint64_t now_ms,
                            struct ps_update **early, struct ps_added *added,
                            struct ps_staged **staged, struct ps_error *error);
static enum ps_status let_in(struct ps_staging *staging, const struct ps_part *part,
                             uint64_t now_ms, struct ps_update **early, struct ps_staged **staged,
                             struct ps_error *error);
static bool may_have(struct ps_staging *staging, const struct ps_part *part,
                     const struct ps_update *early, uint64_t bytes, uint64_t now_ms);
static enum ps_status enter(struct ps_staging *staging, const struct ps_part *part, uint64_t bytes,
                            uint64_t now_ms, struct ps_staged **staged, struct ps_error *error);
static enum ps_status add_to(struct ps_staging *staging, struct ps_staged *staged,
                             const struct ps_part *part, uint64_t now_ms, struct ps_added *added,
                             bool *whole, struct ps_error *error);
static void work_on(struct ps_staging *staging, struct ps_staged *staged,
                    struct ps_staged_part *part, const struct ps_part *from,
                    struct ps_added *added);
static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged);

/* Nothing is taken before the first range comes. */
void ps_staging_init(struct ps_staging *staging, const struct ps_allocator *memory,
                     uint64_t bytes_max)
{
    *staging = (struct ps_staging){.memory = memory, .bytes_max = bytes_max};
    PS_ASSERT(bytes_max > 0);
    ps_mutex_init(&staging->lock, PS_RANK_STAGING);
}

/* Whole ones that the journal or a reader still holds live on by their references. */
void ps_staging_fini(struct ps_staging *staging)
{
    PS_ASSERT(staging->memory != NULL);
    ps_staging_clear(staging);
    ps_mutex_fini(&staging->lock);
}

/* The shard's state is gone, and with it every version that an early update was made of. */
void ps_staging_clear(struct ps_staging *staging)
{
    ps_mutex_lock(&staging->lock);
    /* Parts that threads are at work on lose their request, and count no more when they are
     * done. */
    while (staging->first != NULL)
        unlink_staged(staging, staging->first);
    PS_ASSERT(staging->bytes == 0 && staging->count == 0);
    ps_mutex_unlock(&staging->lock);
}

/* A range of everything is a push in one piece, whoever cut it. */
bool ps_staging_is_part(struct ps_elements range, uint64_t total)
{
    return range.count != 0 && !(range.first == 0 && range.count == total);
}

/* Room of others is given back first: what is idle must not keep this one out. */
enum ps_status ps_staging_add(struct ps_staging *staging, const struct ps_part *part,
                              uint64_t now_ms, struct ps_added *added, struct ps_error *error)
{
    /* Ours from here on, until the request has it. */
    struct ps_update *early = part->early;
    PS_ASSERT(early == NULL || ps_update_early_spec(early) == part->spec);
    *added = (struct ps_added){0};
    enum ps_status status = check_part(part, error);
    if (status == PS_OK) {
        ps_mutex_lock(&staging->lock);
        drop_idle(staging, now_ms);
        status = add_locked(staging, part, now_ms, &early, added, error);
        ps_mutex_unlock(&staging->lock);
    }
    PS_ASSERT(status == PS_OK || added->staged == NULL);
    /* The early update that was not wanted goes without the lock: it may be the last that holds a
     * version of many blocks. */
    ps_update_destroy(early);
    return status;
}

/* All that can be said of a part before the others are there: its length first, since the scales
 * and indices are read by it. */
static enum ps_status check_part(const struct ps_part *part, struct ps_error *error)
{
    const struct ps_gradient gradient = {.content = part->content, .encoding = part->encoding};
    PS_TRY(ps_staged_part_check(part, error));
    return part->spec != NULL ? ps_gradient_check_range(part->spec, gradient, part->range, error)
                              : PS_OK;
}

/* The request keeps a reference of ours while its part is worked on: it may be forgotten meanwhile.
 * */
static enum ps_status add_locked(struct ps_staging *staging, const struct ps_part *part,
                                 uint64_t now_ms, struct ps_update **early, struct ps_added *added,
                                 struct ps_error *error)
{
    struct ps_staged *found = find(staging, part->id);
    /* Set by the part that was missing, whichever thread brings it. */
    bool whole = false;
    if (found != NULL)
        PS_TRY(ps_staged_check_same(found, part, error));
    else
        PS_TRY(begin(staging, part, now_ms, early, added, &found, error));
    /* The answer of a repeat is in `added`, and no entry was made. */
    if (added->is_repeat)
        return PS_OK;
    PS_ASSERT(found != NULL && found->is_listed);
    PS_ASSERT(!found->applying);
    /* The lock is let go of while the part is worked on, and the request may be forgotten then. */
    ps_staged_keep(found);
    enum ps_status status = add_to(staging, found, part, now_ms, added, &whole, error);
    if (whole)
        status = ps_staged_make_whole(found, &added->content, error);
    /* Two references: one for whoever applies it now, and one for each hold that the journal
     * takes. */
    if (status == PS_OK && whole) {
        found->applying = true;
        added->staged = ps_staged_keep(found); /* for the caller, who applies it */
        added->hold =
            (struct ps_hold){.keep = ps_staged_keep, .drop = ps_staged_release, .self = found};
    }
    /* The only part was refused: nothing of the request is left, and its room is free again. */
    if (found->parts == NULL && found->is_listed)
        unlink_staged(staging, found);
    ps_staged_release(found);
    return status;
}

/* An early update that has failed counts as none: the parts that follow are put together. */
enum ps_staging_way ps_staging_way(struct ps_staging *staging, const struct ps_request_id *id,
                                   uint64_t *present)
{
    enum ps_staging_way way = PS_STAGING_UNKNOWN;
    ps_mutex_lock(&staging->lock);
    const struct ps_staged *staged = find(staging, id);
    if (staged != NULL)
        way = ps_staged_early(staged) != NULL ? PS_STAGING_EARLY : PS_STAGING_PARTS;
    PS_ASSERT(staged == NULL || staged->present <= staged->total);
    if (present != NULL)
        *present = staged != NULL ? staged->present : 0;
    ps_mutex_unlock(&staging->lock);
    return way;
}

/* Without ranges of anybody, which is the usual state, a push costs one read here. A range that
 * comes at this very moment is compared with the whole by the session's fingerprint, later. */
enum ps_status ps_staging_check_whole(struct ps_staging *staging, const struct ps_request_id *id,
                                      enum ps_method method, struct ps_bytes name,
                                      struct ps_error *error)
{
    enum ps_status status = PS_OK;
    if (atomic_load(&staging->count) == 0)
        return PS_OK;
    ps_mutex_lock(&staging->lock);
    const struct ps_staged *staged = find(staging, id);
    PS_ASSERT(method == PS_METHOD_PUSH || method == PS_METHOD_INIT || method == PS_METHOD_DEFINE);
    /* Of the same name it is the same push in another way; its content is told apart by the
     * session. */
    if (staged != NULL && (staged->method != method || !ps_bytes_equal(staged->name, name)))
        status = ps_staged_refuse_other(staged, name, error);
    ps_mutex_unlock(&staging->lock);
    return status;
}

/* The status table says whether a repetition could mend it. One that could leaves all parts but the
 * last: so the client, which repeats the range that was refused, completes the push again without
 * sending the others. */
void ps_staging_end(struct ps_staging *staging, struct ps_staged *staged, enum ps_status status)
{
    /* Retry code reads the status table, and so does this, from the other side. */
    enum ps_remedy remedy = ps_status_remedy(status);
    bool is_over = remedy == PS_REMEDY_DONE || remedy == PS_REMEDY_REJECT ||
                   (status == PS_ERR_CONFLICT && !staged->keeps);
    ps_mutex_lock(&staging->lock);
    PS_ASSERT(staged->applying);
    staged->applying = false;
    PS_ASSERT(staged->present == staged->total);
    /* A shard that was reset meanwhile has forgotten it already. */
    if (is_over && staged->is_listed)
        unlink_staged(staging, staged);
    else if (!is_over)
        ps_staged_remove_newest(staged);
    ps_mutex_unlock(&staging->lock);
    ps_staged_release(staged);
}

/* Also a request that another thread is applying at this moment: it finds its session committed,
 * and answers what the whole push answered. */
void ps_staging_forget(struct ps_staging *staging, const struct ps_request_id *id)
{
    /* Nobody has ranges, and nobody asks to be let in at this moment. */
    if (atomic_load(&staging->count) == 0)
        return;
    ps_mutex_lock(&staging->lock);
    struct ps_staged *staged = find(staging, id);
    if (staged != NULL)
        unlink_staged(staging, staged);
    ps_mutex_unlock(&staging->lock);
}

/* The next range of such a push finds no parameter, and is refused before it gets here. With the
 * cut held alone nobody is at work on a push, so that none of them is busy. Definitions of the name
 * stay: they are of the parameter that comes next. */
void ps_staging_drop_pushes(struct ps_staging *staging, struct ps_bytes name)
{
    struct ps_staged *staged, *next;
    ps_mutex_lock(&staging->lock);
    LL_FOREACH_SAFE(staging->first, staged, next)
        if (staged->method == PS_METHOD_PUSH && ps_bytes_equal(staged->name, name))
            unlink_staged(staging, staged);
    ps_mutex_unlock(&staging->lock);
}

/* ---- Finding ---- */

/* Counted, since an operator should know that clients begin pushes and do not end them. */
static void expire(struct ps_staging *staging, struct ps_staged *staged)
{
    PS_ASSERT(!ps_staged_is_busy(staged));
    staging->expired_count++;
    unlink_staged(staging, staged);
}

/* Looked at when a range comes, and by whoever sweeps. */
static void drop_idle(struct ps_staging *staging, uint64_t now_ms)
{
    struct ps_staged *staged, *next;
    LL_FOREACH_SAFE(staging->first, staged, next)
        if (ps_staging_room_is_idle(staged, PS_STAGING_IDLE_MS, now_ms))
            expire(staging, staged);
}

/* By the id alone: what the request is of, the caller compares, and refuses with both names. */
static struct ps_staged *find(const struct ps_staging *staging, const struct ps_request_id *id)
{
    struct ps_staged *staged = staging->first;
    while (staged != NULL && !ps_staged_is_of(staged, id))
        staged = staged->next;
    PS_ASSERT(staged == NULL || staged->is_listed);
    return staged;
}

/* ---- Beginning ---- */

/* There is room as long as somebody gives way. */
static enum ps_status make_room(struct ps_staging *staging, const struct ps_request_id *id,
                                uint64_t bytes, uint64_t now_ms, struct ps_error *error)
{
    enum ps_status status = ps_staging_room_check(staging, id, bytes, error);
    /* Ends: each turn takes one request out of the list. */
    while (status != PS_OK) {
        struct ps_staged *yielding = ps_staging_room_find_yielding(staging, id, bytes, now_ms);
        if (yielding == NULL)
            return status;
        PS_ASSERT(yielding->is_listed);
        expire(staging, yielding);
        /* Room for one may still be too little for this one. */
        status = ps_staging_room_check(staging, id, bytes, error);
    }
    return PS_OK;
}

/* Asks whether the request was applied, and lets it in if not. The count is raised first: who
 * commits this request at this moment either did so before we ask, and is seen, or looks at the
 * count behind that, and waits for the lock to take our entry out. */
static enum ps_status begin(struct ps_staging *staging, const struct ps_part *part, uint64_t now_ms,
                            struct ps_update **early, struct ps_added *added,
                            struct ps_staged **staged, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    PS_ASSERT(*staged == NULL);
    PS_ASSERT(part->id->present);
    /* Raised before the question and not behind it: see above. */
    staging->count++;
    if (part->sessions != NULL)
        status = ps_sessions_look(part->sessions, part->id, part->fingerprint, part->unix_us,
                                  &added->is_repeat, &added->answer, error);
    if (status == PS_OK && !added->is_repeat)
        status = let_in(staging, part, now_ms, early, staged, error);
    /* Answered or refused: nobody is let in after all. */
    if (*staged == NULL)
        staging->count--;
    return status;
}

/* With the early update that is offered, where there is room for its blocks; else without. */
static enum ps_status let_in(struct ps_staging *staging, const struct ps_part *part,
                             uint64_t now_ms, struct ps_update **early, struct ps_staged **staged,
                             struct ps_error *error)
{
    uint64_t kept = ps_staged_part_whole_bytes(part);
    if (*early == NULL)
        return enter(staging, part, kept, now_ms, staged, error);
    uint64_t bytes = ps_update_early_bytes(*early) + (part->keeps ? kept : 0);
    if (!may_have(staging, part, *early, bytes, now_ms) ||
        enter(staging, part, bytes, now_ms, staged, NULL) != PS_OK)
        return enter(staging, part, kept, now_ms, staged, error);
    PS_ASSERT((*staged)->early == NULL && (*staged)->parts == NULL);
    (*staged)->early = *early;
    (*staged)->keeps = part->keeps;
    *early = NULL;
    return PS_OK;
}

/* One early update per parameter: of two, one would be in vain. */
static bool may_have(struct ps_staging *staging, const struct ps_part *part,
                     const struct ps_update *early, uint64_t bytes, uint64_t now_ms)
{
    PS_ASSERT(bytes >= ps_update_early_bytes(early));
    const struct ps_parameter_spec *spec = ps_update_early_spec(early);
    /* There is one rival at most, since this is asked before each is let in. */
    struct ps_staged *rival = staging->first;
    while (rival != NULL && (rival->early == NULL ||
                             !ps_parameter_spec_is_same(ps_update_early_spec(rival->early), spec)))
        rival = rival->next;
    /* A rival that is alive keeps its update: this request is put together instead, and loses
     * nothing but speed. */
    if (rival != NULL && ps_staging_room_yields(rival, part->id, now_ms)) {
        expire(staging, rival);
        rival = NULL;
    }
    return rival == NULL && bytes <= staging->bytes_max / 2;
}

/* The bytes are reserved for the whole and for as long as it is listed, whatever of it is there. */
static enum ps_status enter(struct ps_staging *staging, const struct ps_part *part, uint64_t bytes,
                            uint64_t now_ms, struct ps_staged **out, struct ps_error *error)
{
    PS_TRY(make_room(staging, part->id, bytes, now_ms, error));
    struct ps_staged *staged =
        ps_staged_create(staging->memory, part, ps_staging_room_reserved(staging, bytes));
    if (staged == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request in ranges");
    /* Young from the start: the next range of anybody looks for idle ones. */
    staged->began_ms = now_ms;
    staged->used_ms = now_ms;
    staged->is_listed = true;
    /* The newest first: its other ranges come next. */
    LL_PREPEND(staging->first, staged);
    PS_ASSERT(staging->count > 0); /* raised by begin */
    staging->bytes += staged->bytes;
    *out = staged;
    return PS_OK;
}

/* ---- Parts ---- */

/* What is there already makes nothing whole: it would be whole before. A part is linked before it
 * is worked on, so that the same one, coming again meanwhile, is recognised. */
static enum ps_status add_to(struct ps_staging *staging, struct ps_staged *staged,
                             const struct ps_part *from, uint64_t now_ms, struct ps_added *added,
                             bool *whole, struct ps_error *error)
{
    /* Where it goes among the others; nothing for a part that is there already. */
    struct ps_staged_part **place;
    PS_TRY(ps_staged_part_place(&staged->parts, from, &place, error));
    if (place == NULL)
        return PS_OK;
    /* A sign of life is a new part: the same one again would keep a request for nothing. */
    staged->used_ms = now_ms;
    struct ps_staged_part *part = ps_staged_part_create(staged->memory, from, staged->keeps);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a range");
    PS_ASSERT(!staged->applying);
    part->next = *place;
    *place = part;
    /* An initialisation has neither: nobody looks at the numbers in its parts, so there is no work
     * to do without the lock. */
    if (ps_staged_early(staged) != NULL || from->spec != NULL)
        work_on(staging, staged, part, from, added);
    else
        ps_staged_count(staged, part);
    *whole = staged->is_listed && staged->present == staged->total;
    return PS_OK;
}

/* Applies a part early, or looks at it; without the lock, which is held again at the end, since
 * other threads do the same with other parts. A request that is forgotten meanwhile counts no more.
 * */
static void work_on(struct ps_staging *staging, struct ps_staged *staged,
                    struct ps_staged_part *part, const struct ps_part *from, struct ps_added *added)
{
    const struct ps_gradient gradient = {.content = from->content, .encoding = staged->encoding};
    struct ps_update *early = ps_staged_early(staged);
    enum ps_status status = PS_OK;
    bool is_plain = true;
    PS_ASSERT(!part->is_there && !staged->applying);
    staged->working++;
    ps_mutex_unlock(&staging->lock);
    /* Each of the two reads the range for the first time, while it is cached. */
    if (early != NULL)
        status = ps_update_apply(early, part->range, gradient, NULL);
    else
        is_plain = ps_gradient_range_is_plain(from->spec, gradient, part->range.count);
    if (early != NULL && status == PS_OK)
        /* This thread keeps the request, and with it the update: neither can end while the lock is
         * let go. */
        added->early_values = ps_update_early_values(early, &added->version);
    ps_mutex_lock(&staging->lock);
    PS_ASSERT(staged->working > 0);
    staged->working--;
    part->is_plain = is_plain && status == PS_OK;
    /* Of several parts that fail together one tells why, so that each attempt is counted once. */
    added->early_failed = staged->has_failed ? PS_OK : status;
    staged->has_failed = staged->has_failed || status != PS_OK;
    /* Without the content of its parts nothing is left of a push whose early update has failed: it
     * goes, and its client, told that all its ranges wait for others, sends them again. */
    if (staged->keeps || !staged->has_failed)
        ps_staged_count(staged, part);
    else if (staged->is_listed)
        unlink_staged(staging, staged);
}

/* ---- Ends ---- */

/* Takes it out of the list, and gives its room to others. Threads that work on a part, and whoever
 * applies the whole, have references of their own, and find out by is_listed. */
static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged)
{
    PS_ASSERT(staged->is_listed);
    PS_ASSERT(staging->first != NULL);
    LL_DELETE(staging->first, staged);
    staged->is_listed = false;
    PS_ASSERT(staging->bytes >= staged->bytes && staging->count > 0);
    staging->bytes -= staged->bytes;
    staging->count--;
    ps_staged_release(staged);
}

/* For whoever comes by from time to time: memory that nobody completes is given back though nobody
 * needs it now. */
void ps_staging_sweep(struct ps_staging *staging, uint64_t now_ms)
{
    if (atomic_load(&staging->count) == 0)
        return;
    PS_ASSERT(staging->memory != NULL);
    ps_mutex_lock(&staging->lock);
    drop_idle(staging, now_ms);
    ps_mutex_unlock(&staging->lock);
}

/* Whoever asks takes the count of dropped requests with it, so that each is counted once. */
void ps_staging_look(struct ps_staging *staging, uint64_t *bytes, size_t *count,
                     uint64_t *newly_expired)
{
    ps_mutex_lock(&staging->lock);
    *bytes = staging->bytes;
    *count = staging->count;
    *newly_expired = staging->expired_count - staging->expired_told;
    PS_ASSERT(staging->expired_told <= staging->expired_count);
    /* Since the last look; the sum itself is never set back. */
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
