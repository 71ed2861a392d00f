/* A list of what is staged; each with its parts in the order of their ranges. */
#include "server/core/staging.h"

#include "base/assert.h"
#include "base/bounds.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* For texts: about as long as a few parts take. */
#define RETRY_HINT_MS 50

/* One range, held. Beside it the list of its pieces, and the bytes themselves if copied. */
struct part {
    struct part *next; /* the next range */
    struct ps_elements range;
    bool is_plain;
    void *kept;
    void (*drop)(void *kept);
    struct ps_view content;
    struct ps_bytes pieces[];
};

struct ps_staged {
    struct ps_staged *next;
    _Atomic uint32_t references;       /* of the list or the one who applies it, and of holds */
    const struct ps_allocator *memory; /* borrowed */
    enum ps_method method;
    enum ps_dtype dtype;
    uint64_t session;
    uint64_t sequence;
    uint64_t total;
    uint64_t bytes; /* reserved: all of it */
    uint64_t used_ms;
    bool applying;
    bool is_listed;          /* false: forgotten while it was being applied, or over */
    uint64_t present;        /* elements that are there */
    struct part *parts;      /* owned; by rising range */
    struct part *newest;     /* the one added last */
    struct ps_bytes *pieces; /* owned; of the whole, while it is one */
    struct ps_bytes client_id;
    struct ps_bytes name;
    struct ps_bytes config;
    uint8_t text[]; /* the three above */
};

static enum ps_status check_part(const struct ps_part *part, struct ps_error *error);
static void drop_idle(struct ps_staging *staging, uint64_t now_ms);
static enum ps_status find_or_begin(struct ps_staging *staging, const struct ps_part *part,
                                    struct ps_staged **staged, struct ps_error *error);
static enum ps_status add_part(struct ps_staged *staged, const struct ps_part *part,
                               struct ps_error *error);
static enum ps_status make_whole(struct ps_staged *staged, struct ps_view *content,
                                 struct ps_error *error);
static void remove_newest(struct ps_staged *staged);
static void unlink_staged(struct ps_staging *staging, struct ps_staged *staged);
static void release_part(const struct ps_allocator *memory, struct part *part);
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
                              uint64_t now_ms, struct ps_staged **staged, struct ps_view *content,
                              struct ps_hold *hold, struct ps_error *error)
{
    struct ps_staged *found = NULL;
    bool whole = false;
    *staged = NULL;
    PS_TRY(check_part(part, error));
    ps_mutex_lock(&staging->lock);
    drop_idle(staging, now_ms);
    enum ps_status status = find_or_begin(staging, part, &found, error);
    if (status == PS_OK) {
        found->used_ms = now_ms;
        status = add_part(found, part, error);
        whole = status == PS_OK && found->present == found->total;
        if (whole)
            status = make_whole(found, content, error);
        if (found->parts == NULL)
            unlink_staged(staging, found);
    }
    if (status == PS_OK && whole) {
        found->applying = true;
        *staged = keep_staged(found); /* for the one who applies it */
        *hold = (struct ps_hold){keep_staged, release_staged, found};
    }
    ps_mutex_unlock(&staging->lock);
    return status;
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
    for (const struct part *part = staged->parts; part != NULL; part = part->next)
        is_plain = is_plain && part->is_plain;
    return is_plain;
}

void ps_staging_end(struct ps_staging *staging, struct ps_staged *staged, enum ps_status status)
{
    enum ps_remedy remedy = ps_status_remedy(status);
    bool is_over = remedy == PS_REMEDY_DONE || remedy == PS_REMEDY_REJECT;
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

/* ---- Finding ---- */

static enum ps_status check_part(const struct ps_part *part, struct ps_error *error)
{
    uint64_t element_size = ps_dtype_size(part->dtype);
    struct ps_elements range = part->range;
    int name_size =
        (int)(part->name.size < PS_NAME_BYTES_MAX ? part->name.size : PS_NAME_BYTES_MAX);
    const char *name = (const char *)part->name.data;
    if (!part->id->present)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a range needs a request id: the same for all ranges", name_size,
                       name);
    if (range.first > part->total || range.count > part->total - range.first)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, %" PRIu64 " elements from %" PRIu64 " on: there are %" PRIu64,
                       name_size, name, range.count, range.first, part->total);
    if (part->total > UINT64_MAX / element_size ||
        part->content.size / element_size != range.count || part->content.size % element_size != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a range of %" PRIu64 " elements with %zu bytes of content",
                       name_size, name, range.count, part->content.size);
    if (part->content.size < PS_STAGING_PART_BYTES && range.first + range.count != part->total)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a range of %zu bytes: all but the last have at least %d",
                       name_size, name, part->content.size, PS_STAGING_PART_BYTES);
    return PS_OK;
}

static void drop_idle(struct ps_staging *staging, uint64_t now_ms)
{
    struct ps_staged *next;
    for (struct ps_staged *staged = staging->first; staged != NULL; staged = next) {
        next = staged->next;
        if (staged->applying || now_ms < staged->used_ms + PS_STAGING_IDLE_MS)
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
    uint64_t bytes = part->total * ps_dtype_size(part->dtype);
    for (struct ps_staged *it = staging->first; it != NULL; it = it->next) {
        if (!is_of(it, part->id))
            continue;
        *out = it;
        return check_same(it, part, error);
    }
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
    staged->session = part->id->session;
    staged->sequence = part->id->sequence;
    staged->total = part->total;
    staged->bytes = bytes;
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

static struct part *make_part(const struct ps_allocator *memory, const struct ps_part *from)
{
    void *kept = from->hold.keep != NULL ? from->hold.keep(from->hold.self) : NULL;
    size_t piece_count = kept != NULL ? from->content.piece_count : 1;
    size_t copied = kept != NULL ? 0 : from->content.size;
    struct part *part =
        ps_plain(memory, sizeof *part + piece_count * sizeof(struct ps_bytes) + copied);
    if (part == NULL) {
        if (kept != NULL)
            from->hold.drop(kept);
        return NULL;
    }
    *part = (struct part){
        .range = from->range, .is_plain = from->is_plain, .kept = kept, .drop = from->hold.drop};
    if (kept != NULL) {
        memcpy(part->pieces, from->content.pieces, piece_count * sizeof(struct ps_bytes));
    } else {
        uint8_t *copy = (uint8_t *)(part->pieces + 1);
        ps_view_copy(from->content, 0, copy, copied);
        part->pieces[0] = (struct ps_bytes){copy, copied};
    }
    part->content = (struct ps_view){part->pieces, piece_count, from->content.size};
    return part;
}

/* Where the part goes; NULL when it is there already, with the same range. */
static enum ps_status find_place(struct ps_staged *staged, struct ps_elements range,
                                 struct part ***place, struct ps_error *error)
{
    struct part **link = &staged->parts;
    uint64_t end = 0; /* of the range before */
    while (*link != NULL && (*link)->range.first < range.first) {
        end = (*link)->range.first + (*link)->range.count;
        link = &(*link)->next;
    }
    const struct part *after = *link;
    *place = link;
    if (after != NULL && after->range.first == range.first && after->range.count == range.count) {
        *place = NULL;
        return PS_OK;
    }
    if (end <= range.first && (after == NULL || range.first + range.count <= after->range.first))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %.*s, %" PRIu64 " elements from %" PRIu64
                   " on: they overlap with another range of this request",
                   (int)staged->name.size, (const char *)staged->name.data, range.count,
                   range.first);
}

static enum ps_status add_part(struct ps_staged *staged, const struct ps_part *from,
                               struct ps_error *error)
{
    struct part **place;
    PS_TRY(find_place(staged, from->range, &place, error));
    if (place == NULL)
        return PS_OK;
    struct part *part = make_part(staged->memory, from);
    if (part == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a range");
    part->next = *place;
    *place = part;
    staged->newest = part;
    staged->present += part->range.count;
    return PS_OK;
}

static void remove_newest(struct ps_staged *staged)
{
    struct part **link = &staged->parts;
    while (*link != staged->newest)
        link = &(*link)->next;
    *link = staged->newest->next;
    staged->present -= staged->newest->range.count;
    release_part(staged->memory, staged->newest);
    ps_release(staged->memory, staged->pieces);
    staged->pieces = NULL;
    staged->newest = NULL;
}

static enum ps_status make_whole(struct ps_staged *staged, struct ps_view *content,
                                 struct ps_error *error)
{
    size_t count = 0;
    for (const struct part *part = staged->parts; part != NULL; part = part->next)
        count += part->content.piece_count;
    PS_ASSERT(staged->pieces == NULL && staged->newest != NULL);
    staged->pieces = ps_zeroed_array(staged->memory, count, sizeof *staged->pieces);
    if (staged->pieces == NULL) {
        remove_newest(staged);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu pieces", count);
    }
    *content = (struct ps_view){staged->pieces, 0, 0};
    for (const struct part *part = staged->parts; part != NULL; part = part->next) {
        memcpy(staged->pieces + content->piece_count, part->pieces,
               part->content.piece_count * sizeof *staged->pieces);
        content->piece_count += part->content.piece_count;
        content->size += part->content.size;
    }
    PS_ASSERT(content->size == staged->bytes);
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

static void release_part(const struct ps_allocator *memory, struct part *part)
{
    if (part->kept != NULL)
        part->drop(part->kept);
    ps_release(memory, part);
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
        struct part *part = staged->parts;
        staged->parts = part->next;
        release_part(staged->memory, part);
    }
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
        for (const struct part *part = it->parts; part != NULL; part = part->next) {
            PS_ASSERT(part->range.first >= end);
            end = part->range.first + part->range.count;
            present += part->range.count;
        }
        PS_ASSERT(end <= it->total && present == it->present);
        PS_ASSERT(it->applying == (present == it->total));
        bytes += it->bytes;
        count++;
    }
    PS_ASSERT(bytes == staging->bytes && count == staging->count);
    ps_mutex_unlock(&staging->lock);
}
