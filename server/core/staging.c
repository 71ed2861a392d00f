/* A list of what is staged; each with its parts in the order of their ranges. */
#include "server/core/staging.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "server/core/staged_part.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* For texts: about as long as a few parts take. */
#define RETRY_HINT_MS 50

struct ps_staged {
    struct ps_staged *next;
    _Atomic uint32_t references;       /* of the list or the one who applies it, and of holds */
    const struct ps_allocator *memory; /* borrowed */
    enum ps_method method;
    enum ps_dtype dtype;
    enum ps_encoding encoding;
    uint64_t session;
    uint64_t sequence;
    uint64_t total;
    uint64_t content_bytes; /* of all of it; of TOP_K the most */
    uint64_t bytes;         /* reserved: all of it */
    uint64_t used_ms;
    bool applying;
    bool is_listed;                /* false: forgotten while it was being applied, or over */
    bool keeps;                    /* the content of its parts */
    bool has_failed;               /* the attempt */
    struct ps_ahead *ahead;        /* owned; NULL: there is no attempt */
    size_t working;                /* parts that are being applied ahead */
    uint64_t present;              /* elements that are there */
    struct ps_staged_part *parts;  /* owned; by rising range */
    struct ps_staged_part *newest; /* the one added last */
    struct ps_bytes *pieces;       /* owned; of the whole, while it is one */
    struct ps_bytes client_id;
    struct ps_bytes name;
    struct ps_bytes config;
    uint8_t text[]; /* the three above */
};

static void drop_idle(struct ps_staging *staging, uint64_t now_ms);
static enum ps_status find_or_begin(struct ps_staging *staging, const struct ps_part *part,
                                    struct ps_staged **staged, struct ps_error *error);
static enum ps_status begin(struct ps_staging *staging, const struct ps_part *part, uint64_t bytes,
                            struct ps_staged **staged, struct ps_error *error);
static enum ps_status add_to(struct ps_staging *staging, struct ps_staged *staged,
                             const struct ps_part *part, struct ps_added *added, bool *whole,
                             struct ps_error *error);
static void apply_part(struct ps_staging *staging, struct ps_staged *staged,
                       struct ps_staged_part *part, struct ps_view content, struct ps_added *added);
static void count_part(struct ps_staged *staged, struct ps_staged_part *part);
static enum ps_status make_whole(struct ps_staged *staged, struct ps_view *content,
                                 struct ps_error *error);
static void remove_newest(struct ps_staged *staged);
static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged);
static void *keep_staged(void *self);
static void release_staged(void *argument);

static bool is_of(const struct ps_staged *staged, const struct ps_request_id *id)
{
    return staged->sequence == id->sequence && staged->session == id->session &&
           ps_bytes_equal(staged->client_id, id->client_id);
}

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
    enum ps_status status = find_or_begin(staging, part, &found, error);
    if (status == PS_OK) {
        found->used_ms = now_ms;
        keep_staged(found); /* it may be forgotten meanwhile */
        status = add_to(staging, found, part, added, &whole, error);
        if (whole)
            status = make_whole(found, &added->content, error);
        if (status == PS_OK && whole) {
            found->applying = true;
            added->staged = keep_staged(found); /* for the one who applies it */
            added->hold = (struct ps_hold){keep_staged, release_staged, found};
        }
        if (found->parts == NULL && found->is_listed)
            unlink_staged(staging, found);
        release_staged(found);
    }
    ps_mutex_unlock(&staging->lock);
    return status;
}

enum ps_staging_way ps_staging_way(struct ps_staging *staging, const struct ps_request_id *id)
{
    enum ps_staging_way way = PS_STAGING_UNKNOWN;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (is_of(it, id))
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
    bool is_wanted = bytes <= staging->bytes_max / 2;
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        is_wanted = is_wanted && !is_of(it, part->id) &&
                    (it->ahead == NULL || ps_ahead_spec(it->ahead) != ps_ahead_spec(ahead));
    if (is_wanted && begin(staging, part, bytes, &staged, NULL) == PS_OK) {
        staged->used_ms = now_ms;
        staged->ahead = ahead;
        staged->keeps = keeps;
    }
    ps_mutex_unlock(&staging->lock);
    return staged != NULL;
}

uint64_t ps_staging_present(struct ps_staging *staging, const struct ps_request_id *id)
{
    uint64_t present = 0;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        if (is_of(it, id))
            present = it->present;
    ps_mutex_unlock(&staging->lock);
    return present;
}

bool ps_staged_is_plain(const struct ps_staged *staged)
{
    bool is_plain = true;
    for (const struct ps_staged_part *part = staged->parts; part != NULL; part = part->next)
        is_plain = is_plain && part->is_plain;
    return is_plain;
}

struct ps_ahead *ps_staged_ahead(const struct ps_staged *staged)
{
    return staged->has_failed ? NULL : staged->ahead;
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
        remove_newest(staged);
    ps_mutex_unlock(&staging->lock);
    release_staged(staged);
}

void ps_staging_forget(struct ps_staging *staging, const struct ps_request_id *id)
{
    ps_mutex_lock(&staging->lock);
    struct ps_staged *staged = staging->first;
    while (staged != NULL && !is_of(staged, id))
        staged = staged->next;
    if (staged != NULL && !staged->applying)
        unlink_staged(staging, staged);
    ps_mutex_unlock(&staging->lock);
}

/* ---- Finding ---- */

static void drop_idle(struct ps_staging *staging, uint64_t now_ms)
{
    struct ps_staged *next;
    for (struct ps_staged *staged = staging->first; staged != NULL; staged = next) {
        next = staged->next;
        if (staged->applying || staged->working > 0 ||
            now_ms < staged->used_ms + PS_STAGING_IDLE_MS)
            continue;
        staging->expired_count++;
        unlink_staged(staging, staged);
    }
}

static enum ps_status check_same(const struct ps_staged *staged, const struct ps_part *part,
                                 struct ps_error *error)
{
    if (staged->applying)
        return ps_fail(error, PS_ERR_BUSY, "the same request is being applied; try again in %d ms",
                       RETRY_HINT_MS);
    if (staged->method != part->method || !ps_bytes_equal(staged->name, part->name) ||
        !ps_bytes_equal(staged->config, part->config) || staged->dtype != part->dtype ||
        staged->total != part->total)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "this request id is that of ranges of something else: Name: %.*s, %" PRIu64
                       " elements",
                       (int)staged->name.size, (const char *)staged->name.data, staged->total);
    if (staged->encoding != part->encoding)
        return ps_fail(
            error, PS_ERR_BAD_INPUT,
            "Name: %.*s, a range in %s among ranges in %s: all ranges of a request are in "
            "one encoding",
            (int)staged->name.size, (const char *)staged->name.data,
            ps_encoding_name(part->encoding), ps_encoding_name(staged->encoding));
    return PS_OK;
}

static enum ps_status check_room(const struct ps_staging *staging, const struct ps_request_id *id,
                                 uint64_t bytes, struct ps_error *error)
{
    uint64_t own = 0;
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next)
        own += ps_bytes_equal(it->client_id, id->client_id) ? it->bytes : 0;
    uint64_t max = staging->bytes_max;
    bool fits = staging->bytes == 0 || (staging->bytes <= max && bytes <= max - staging->bytes);
    bool own_fits = own == 0 || (own <= max / 2 && bytes <= max / 2 - own);
    if (fits && own_fits)
        return PS_OK;
    return ps_fail(error, PS_ERR_BUSY,
                   "%" PRIu64 " bytes in ranges wait for the rest, limit %" PRIu64
                   "; try again in %d ms",
                   fits ? own : staging->bytes, fits ? max / 2 : max, RETRY_HINT_MS);
}

static struct ps_bytes put_text(uint8_t **at, struct ps_bytes from)
{
    struct ps_bytes copy = {*at, from.size};
    if (from.size > 0)
        memcpy(*at, from.data, from.size);
    *at += from.size;
    return copy;
}

static enum ps_status find_or_begin(struct ps_staging *staging, const struct ps_part *part,
                                    struct ps_staged **out, struct ps_error *error)
{
    for (struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        if (!is_of(it, part->id))
            continue;
        *out = it;
        return check_same(it, part, error);
    }
    return begin(staging, part, ps_staged_part_whole_bytes(part), out, error);
}

static enum ps_status begin(struct ps_staging *staging, const struct ps_part *part, uint64_t bytes,
                            struct ps_staged **out, struct ps_error *error)
{
    PS_TRY(check_room(staging, part->id, bytes, error));
    size_t text_size = part->id->client_id.size + part->name.size + part->config.size;
    struct ps_staged *staged = ps_zeroed(staging->memory, sizeof *staged + text_size);
    if (staged == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a request in ranges");
    uint8_t *at = staged->text;
    atomic_init(&staged->references, 1);
    staged->memory = staging->memory;
    staged->method = part->method;
    staged->dtype = part->dtype;
    staged->encoding = part->encoding;
    staged->session = part->id->session;
    staged->sequence = part->id->sequence;
    staged->total = part->total;
    staged->content_bytes = ps_staged_part_whole_bytes(part);
    staged->bytes = bytes;
    staged->keeps = true;
    staged->client_id = put_text(&at, part->id->client_id);
    staged->name = put_text(&at, part->name);
    staged->config = put_text(&at, part->config);
    staged->is_listed = true;
    staged->next = staging->first;
    staging->first = staged;
    staging->bytes += bytes;
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
        count_part(staged, part);
    *whole = staged->is_listed && staged->present == staged->total;
    return PS_OK;
}

static void count_part(struct ps_staged *staged, struct ps_staged_part *part)
{
    part->is_there = true;
    staged->newest = part;
    staged->present += part->range.count;
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
    staged->has_failed = staged->has_failed || status != PS_OK;
    if (staged->keeps || !staged->has_failed)
        count_part(staged, part);
    else if (staged->is_listed)
        unlink_staged(staging, staged);
}

static void remove_newest(struct ps_staged *staged)
{
    struct ps_staged_part **link = &staged->parts;
    while (*link != staged->newest)
        link = &(*link)->next;
    *link = staged->newest->next;
    staged->present -= staged->newest->range.count;
    ps_staged_part_release(staged->memory, staged->newest);
    ps_release(staged->memory, staged->pieces);
    staged->pieces = NULL;
    staged->newest = NULL;
}

static enum ps_status make_whole(struct ps_staged *staged, struct ps_view *content,
                                 struct ps_error *error)
{
    PS_ASSERT(staged->pieces == NULL && staged->newest != NULL && staged->working == 0);
    *content = (struct ps_view){.size = (size_t)staged->content_bytes};
    if (!staged->keeps)
        return PS_OK;
    staged->pieces = ps_staged_part_join(staged->memory, staged->parts, staged->encoding, content);
    if (staged->pieces == NULL) {
        remove_newest(staged);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the pieces of a whole");
    }
    PS_ASSERT(content->size == staged->content_bytes || staged->encoding == PS_ENCODING_TOP_K);
    return PS_OK;
}

/* ---- Ends ---- */

static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged)
{
    struct ps_staged **link = &staging->first;
    while (*link != staged)
        link = &(*link)->next;
    *link = staged->next;
    staged->is_listed = false;
    PS_ASSERT(staging->bytes >= staged->bytes && staging->count > 0);
    staging->bytes -= staged->bytes;
    staging->count--;
    release_staged(staged);
}

static void *keep_staged(void *self)
{
    struct ps_staged *staged = self;
    atomic_fetch_add(&staged->references, 1);
    return staged;
}

/* Whoever keeps the whole reads its pieces; the last one ends it. */
static void release_staged(void *argument)
{
    struct ps_staged *staged = argument;
    if (atomic_fetch_sub(&staged->references, 1) > 1)
        return;
    while (staged->parts != NULL) {
        struct ps_staged_part *part = staged->parts;
        staged->parts = part->next;
        ps_staged_part_release(staged->memory, part);
    }
    ps_ahead_release(staged->ahead);
    ps_release(staged->memory, staged->pieces);
    ps_release(staged->memory, staged);
}

void ps_staging_look(struct ps_staging *staging, uint64_t *bytes, size_t *count,
                     uint64_t *expired_count)
{
    ps_mutex_lock(&staging->lock);
    *bytes = staging->bytes;
    *count = staging->count;
    *expired_count = staging->expired_count;
    ps_mutex_unlock(&staging->lock);
}

void ps_staging_check(struct ps_staging *staging)
{
    uint64_t bytes = 0;
    size_t count = 0;
    ps_mutex_lock(&staging->lock);
    for (const struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        uint64_t present = 0;
        uint64_t end = 0;
        for (const struct ps_staged_part *part = it->parts; part != NULL; part = part->next) {
            PS_ASSERT(part->range.first >= end);
            end = part->range.first + part->range.count;
            present += part->is_there ? part->range.count : 0;
        }
        PS_ASSERT(end <= it->total && present == it->present);
        PS_ASSERT(it->applying == (present == it->total));
        bytes += it->bytes;
        count++;
    }
    PS_ASSERT(bytes == staging->bytes && count == staging->count);
    ps_mutex_unlock(&staging->lock);
}
