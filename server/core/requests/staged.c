/* SPDX-License-Identifier: Apache-2.0 */
/* One request that comes in ranges: counted references, a list of parts by rising range, and the
 * texts behind the struct. Whoever applies the whole reads the parts without a lock: while
 * `applying` is set nobody adds to them. */
#include "server/core/requests/staged.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

/* The message that the texts came in goes with its call. */
static struct ps_bytes put_text(uint8_t **at, struct ps_bytes from)
{
    struct ps_bytes copy = {*at, from.size};
    PS_ASSERT(from.size == 0 || from.data != NULL);
    /* An empty text has no address that may be read. */
    if (from.size > 0)
        memcpy(*at, from.data, from.size);
    *at += from.size;
    return copy;
}

/* What all parts share is taken from the first that comes, and the others are compared with it. */
struct ps_staged *ps_staged_create(const struct ps_allocator *memory, const struct ps_part *part,
                                   uint64_t bytes)
{
    /* One allocation: a request in ranges that is refused for memory has taken none. */
    struct ps_bytes share = ps_staged_share_of(part->id);
    size_t text_size = part->id->client_id.size + share.size + part->name.size + part->config.size;
    struct ps_staged *staged = ps_zeroed(memory, sizeof *staged + text_size);
    if (staged == NULL)
        return NULL;
    PS_ASSERT(part->id->present && part->total > 0);
    uint8_t *at = staged->text;
    atomic_init(&staged->references, 1);
    staged->memory = memory;
    staged->method = part->method;
    staged->dtype = part->dtype;
    staged->encoding = part->encoding;
    staged->session = part->id->session;
    staged->sequence = part->id->sequence;
    staged->total = part->total;
    staged->shape = part->shape;
    staged->content_bytes = ps_staged_part_whole_bytes(part);
    staged->bytes = bytes;
    /* The parts are kept unless an early update takes them in, which only `let_in` knows. */
    staged->keeps = true;
    /* The texts are copied behind the struct: they lie in a message that goes with its call. */
    staged->client_id = put_text(&at, part->id->client_id);
    staged->share = put_text(&at, share);
    staged->owner = part->id->owner;
    staged->name = put_text(&at, part->name);
    staged->config = put_text(&at, part->config);
    return staged;
}

/* The client says its id itself, and may say any: where the caller is known, its share is counted
 * under what it cannot choose. */
struct ps_bytes ps_staged_share_of(const struct ps_request_id *id)
{
    PS_ASSERT(id->present);
    return id->origin != NULL ? id->origin->share(id->origin->self) : id->client_id;
}

/* Any thread that has a reference may give out another. */
void *ps_staged_keep(void *self)
{
    struct ps_staged *staged = self;
    PS_ASSERT(atomic_load(&staged->references) > 0);
    atomic_fetch_add(&staged->references, 1);
    return staged;
}

/* Whoever keeps the whole reads its pieces; the last one ends it, and with it the early update,
 * which holds blocks of the old version until then. */
void ps_staged_release(void *self)
{
    struct ps_staged *staged = self;
    /* The order of the count: what another thread has read of it, it has read before. */
    if (atomic_fetch_sub(&staged->references, 1) > 1)
        return;
    PS_ASSERT(!staged->is_listed && staged->working == 0);
    struct ps_staged_part *part, *next;
    /* Each lets go of the buffers that it came in. */
    LL_FOREACH_SAFE(staged->parts, part, next)
        ps_staged_part_release(staged->memory, part);
    /* Committed or not: what it still holds goes with it. */
    ps_update_destroy(staged->early);
    ps_release(staged->memory, staged->pieces);
    ps_release(staged->memory, staged);
}

/* The numbers first: they tell most ids apart. Ranges of two owners are never put together,
 * whatever they call themselves. */
bool ps_staged_is_of(const struct ps_staged *staged, const struct ps_request_id *id)
{
    PS_ASSERT(id->present);
    return staged->sequence == id->sequence && staged->session == id->session &&
           staged->owner == id->owner && ps_bytes_equal(staged->client_id, id->client_id);
}

/* Sessions rise, and sequences within one. */
bool ps_staged_is_before(const struct ps_staged *staged, const struct ps_request_id *id)
{
    PS_ASSERT(id->present);
    bool is_older = staged->session < id->session ||
                    (staged->session == id->session && staged->sequence < id->sequence);
    /* Numbers of two clients have nothing to do with each other. */
    return is_older && staged->owner == id->owner &&
           ps_bytes_equal(staged->client_id, id->client_id);
}

/* Either its parts or the whole. */
bool ps_staged_is_busy(const struct ps_staged *staged)
{
    PS_ASSERT(!staged->applying || staged->working == 0);
    return staged->applying || staged->working > 0;
}

/* The same request, or another one under a used id, which would put two gradients together. Both
 * names are told, since whoever reads it has to find out which of two clients is wrong. */
enum ps_status ps_staged_check_same(const struct ps_staged *staged, const struct ps_part *part,
                                    struct ps_error *error)
{
    /* Looked at first: whoever repeats a range now is told to wait, and not that it is wrong. */
    if (staged->applying)
        return ps_fail(error, PS_ERR_BUSY, "the same request is being applied; try again in %d ms",
                       PS_STAGED_RETRY_HINT_MS);
    /* The encoding is asked behind it, with a text of its own: that mistake is easily made. */
    if (staged->method != part->method || !ps_bytes_equal(staged->name, part->name) ||
        !ps_bytes_equal(staged->config, part->config) || staged->dtype != part->dtype ||
        staged->total != part->total || !ps_shape_equal(&staged->shape, &part->shape))
        return ps_staged_refuse_other(staged, part->name, error);
    if (staged->encoding != part->encoding)
        return ps_fail(
            error, PS_ERR_BAD_INPUT,
            "Name: %.*s, a range in %s among ranges in %s: all ranges of a request are in "
            "one encoding",
            (int)staged->name.size, (const char *)staged->name.data,
            ps_encoding_name(part->encoding), ps_encoding_name(staged->encoding));
    PS_ASSERT(staged->present < staged->total);
    return PS_OK;
}

/* So that both names are in the text, whatever their lengths. */
static int width_of(struct ps_bytes name)
{
    return name.size < 48 ? (int)name.size : 48;
}

/* Says what to do: the ranges that wait are not touched, and may be somebody's. */
enum ps_status ps_staged_refuse_other(const struct ps_staged *staged, struct ps_bytes name,
                                      struct ps_error *error)
{
    return ps_fail(
        error, PS_ERR_BAD_INPUT,
        "Name: %.*s, the request id is that of ranges of %.*s, of another type, length, "
        "shape, configuration or method, which wait for the rest: give this one an id of its "
        "own",
        width_of(name), (const char *)name.data, width_of(staged->name),
        (const char *)staged->name.data);
}

/* Then a scan of the whole would find nothing, and none is made. */
bool ps_staged_is_plain(const struct ps_staged *staged)
{
    bool is_plain = true;
    PS_ASSERT(staged->present == staged->total);
    for (const struct ps_staged_part *part = staged->parts; part != NULL; part = part->next)
        is_plain = is_plain && part->is_plain;
    return is_plain;
}

/* One that has failed stays until the request ends: other threads may be at work with it. */
struct ps_update *ps_staged_early(const struct ps_staged *staged)
{
    PS_ASSERT(!staged->has_failed || staged->early != NULL);
    return staged->has_failed ? NULL : staged->early;
}

/* From here on the part is there: applied, or kept. The last one counted is the one that a refused
 * whole gives back. */
void ps_staged_count(struct ps_staged *staged, struct ps_staged_part *part)
{
    PS_ASSERT(!part->is_there);
    part->is_there = true;
    staged->newest = part;
    PS_ASSERT(part->range.count <= staged->total - staged->present);
    staged->present += part->range.count;
}

/* The pieces of the whole go, too: they point into parts, and will be joined anew. */
void ps_staged_remove_newest(struct ps_staged *staged)
{
    PS_ASSERT(staged->newest != NULL && staged->newest->is_there);
    LL_DELETE(staged->parts, staged->newest);
    /* It is no longer whole, so nobody else takes it for that. */
    staged->present -= staged->newest->range.count;
    /* The part goes whole, with its content: the client sends that range again, and by that
     * completes the push. */
    ps_staged_part_release(staged->memory, staged->newest);
    ps_release(staged->memory, staged->pieces);
    staged->pieces = NULL;
    staged->newest = NULL;
}

/* Without kept parts the whole has a size and no bytes: what was applied early needs none any
 * more. */
enum ps_status ps_staged_make_whole(struct ps_staged *staged, struct ps_view *content,
                                    struct ps_error *error)
{
    PS_ASSERT(staged->pieces == NULL && staged->newest != NULL && staged->working == 0);
    /* The size is told in any case: metrics count the bytes that were pushed. */
    *content = (struct ps_view){.size = (size_t)staged->content_bytes};
    if (!staged->keeps)
        return PS_OK;
    /* A view over the parts: putting them together copies nothing. */
    staged->pieces = ps_staged_part_join(staged->memory, staged->parts, staged->encoding, content);
    if (staged->pieces == NULL) {
        ps_staged_remove_newest(staged);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the pieces of a whole");
    }
    PS_ASSERT(content->size == staged->content_bytes || staged->encoding == PS_ENCODING_TOP_K);
    return PS_OK;
}

/* Parts lie in the order of their ranges and do not overlap; what is there is counted; all of it is
 * there exactly while it is being applied. */
void ps_staged_check(const struct ps_staged *staged)
{
    /* Counted again from the parts themselves. */
    uint64_t present = 0;
    uint64_t end = 0;
    for (const struct ps_staged_part *part = staged->parts; part != NULL; part = part->next) {
        PS_ASSERT(part->range.first >= end);
        end = part->range.first + part->range.count;
        present += part->is_there ? part->range.count : 0;
    }
    PS_ASSERT(end <= staged->total && present == staged->present);
    PS_ASSERT(staged->applying == (present == staged->total));
    PS_ASSERT(!staged->applying || staged->working == 0);
    PS_ASSERT(staged->pieces == NULL || staged->applying);
    PS_ASSERT(staged->keeps || staged->early != NULL);
    PS_ASSERT(atomic_load(&staged->references) > 0);
}
