/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of one whole. A part of 512 KiB is not copied when it comes: it keeps the network's
 * buffers, and the whole is a view of all of them in the order that a message in one piece would
 * have. Two halves: of INT8 the scales of all parts come before the elements of all parts, of TOP_K
 * the indices before the values. */
#include "server/core/requests/staged_part.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "optimizer/encoded.h"

#include <inttypes.h>
#include <string.h>

/* Names and numbers of a message, beside its content. */
enum { HELD_BESIDE_BYTES = 8192 };

static enum ps_status check_length(const struct ps_part *part, struct ps_error *error);
static void add_pieces(struct ps_view from, uint64_t skipped, uint64_t size, struct ps_bytes *to,
                       size_t *count);

/* How much of its name a text may print: it was not checked against the limit yet. */
static int name_width(const struct ps_part *part)
{
    return (int)(part->name.size < PS_NAME_BYTES_MAX ? part->name.size : PS_NAME_BYTES_MAX);
}

/* In an order in which each check may rely on those before: the id, then where the range lies, then
 * the length of its content. The smallest size keeps the bookkeeping of a part in proportion to the
 * part; 2^58 elements keep every number of bytes below 2^63. */
enum ps_status ps_staged_part_check(const struct ps_part *part, struct ps_error *error)
{
    PS_ASSERT((uint32_t)part->dtype < PS_DTYPE_COUNT);
    /* The numbers come from outside: every sum is formed only when it cannot overflow. */
    uint64_t element_size = ps_dtype_size(part->dtype);
    struct ps_elements range = part->range;
    const char *name = (const char *)part->name.data;
    if (!part->id->present)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a range needs a request id: the same for all ranges",
                       name_width(part), name);
    if (part->total >= (UINT64_C(1) << 58) || range.first > part->total ||
        range.count > part->total - range.first)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, %" PRIu64 " elements from %" PRIu64 " on: there are %" PRIu64,
                       name_width(part), name, range.count, range.first, part->total);
    /* Behind the range, whose number of elements it is compared with. */
    PS_TRY(check_length(part, error));
    if (range.count * element_size < PS_STAGING_PART_BYTES &&
        range.first + range.count != part->total)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %.*s, a range of %" PRIu64 " elements of %" PRIu64
                       " bytes: all but the last have at least %d bytes",
                       name_width(part), name, range.count, element_size, PS_STAGING_PART_BYTES);
    return PS_OK;
}

/* By the encoding's own rules where it has any: a range of INT8 begins where a group does, since
 * the scale of a group cannot be cut. */
static enum ps_status check_length(const struct ps_part *part, struct ps_error *error)
{
    struct ps_elements range = part->range;
    PS_ASSERT(range.count <= part->total);
    const char *name = (const char *)part->name.data;
    struct ps_error reason;
    if (part->encoding != PS_ENCODING_NATIVE) {
        enum ps_status status =
            ps_encoding_check_range(part->encoding, range.first, range.count, part->total, &reason);
        if (status == PS_OK)
            status = ps_encoding_check(part->encoding, part->dtype, range.count, part->content.size,
                                       &reason);
        return status == PS_OK ? PS_OK
                               : ps_fail(error, status, "Name: %.*s, %.180s", name_width(part),
                                         name, reason.text);
    }
    /* The range was compared with the total before, and the total is below 2^58: this product
     * cannot wrap. */
    if (part->content.size == range.count * ps_dtype_size(part->dtype))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %.*s, a range of %" PRIu64 " elements with %zu bytes of content",
                   name_width(part), name, range.count, part->content.size);
}

/* Of TOP_K as if every element were named: how many will be, the first part does not say. */
uint64_t ps_staged_part_whole_bytes(const struct ps_part *part)
{
    PS_ASSERT(part->total < (UINT64_C(1) << 58));
    return ps_encoding_bytes(part->encoding, part->dtype, part->total);
}

/* A message may be longer than the range that it brings, by fields that nobody reads: holding it
 * would hold all of that, beyond what was reserved for the range. An eighth more is let pass, and
 * what a message has beside its content. */
static bool is_worth_holding(const struct ps_part *from)
{
    uint64_t size = from->content.size;
    PS_ASSERT(from->hold.bytes == 0 || from->hold.keep != NULL);
    return from->hold.keep != NULL && from->hold.bytes <= size + size / 8 + HELD_BESIDE_BYTES;
}

/* One allocation for the part, the pieces of its view, and the bytes, where they have to be copied:
 * when the request does not say how they are held, or cannot hold them at this moment. Without
 * `keeps` it is the range alone: the content is applied while it is here, and nobody reads it
 * again. */
struct ps_staged_part *ps_staged_part_create(const struct ps_allocator *memory,
                                             const struct ps_part *from, bool keeps)
{
    PS_ASSERT(from->hold.keep == NULL || from->hold.drop != NULL);
    /* Held, if the message can be: the network's buffers then live until the push is applied. */
    void *kept = keeps && is_worth_holding(from) ? from->hold.keep(from->hold.self) : NULL;
    bool copies = keeps && kept == NULL;
    size_t piece_count = kept != NULL ? from->content.piece_count : copies;
    size_t copied = copies ? from->content.size : 0;
    struct ps_staged_part *part =
        ps_plain(memory, sizeof *part + piece_count * sizeof(struct ps_bytes) + copied);
    /* What was held for it is let go of: the caller still has the message. */
    if (part == NULL) {
        if (kept != NULL)
            from->hold.drop(kept);
        return NULL;
    }
    *part = (struct ps_staged_part){.range = from->range, .kept = kept, .drop = from->hold.drop};
    /* The list of pieces is copied, since the list belongs to the call; the bytes stay where they
     * are. */
    for (size_t i = 0; kept != NULL && i < piece_count; i++)
        part->pieces[i] = from->content.pieces[i];
    if (copies) {
        /* In one piece, however it was cut. */
        uint8_t *copy = (uint8_t *)(part->pieces + 1);
        ps_view_copy(from->content, 0, copy, copied);
        part->pieces[0] = (struct ps_bytes){copy, copied};
    }
    part->content = (struct ps_view){part->pieces, piece_count, keeps ? from->content.size : 0};
    return part;
}

/* In no list any more, or in one that ends. */
void ps_staged_part_release(const struct ps_allocator *memory, struct ps_staged_part *part)
{
    PS_ASSERT(part->kept == NULL || part->drop != NULL);
    if (part->kept != NULL)
        part->drop(part->kept);
    ps_release(memory, part);
}

/* A walk over the list: parts of one push are few (a push of 1 GiB has 2,048), and they come nearly
 * in order. */
enum ps_status ps_staged_part_place(struct ps_staged_part **first, const struct ps_part *part,
                                    struct ps_staged_part ***place, struct ps_error *error)
{
    struct ps_elements range = part->range;
    struct ps_staged_part **link = first;
    /* The list has no overlaps, so only the neighbours on both sides can be in the way. */
    uint64_t end = 0; /* of the range before */
    while (*link != NULL && (*link)->range.first < range.first) {
        end = (*link)->range.first + (*link)->range.count;
        link = &(*link)->next;
    }
    const struct ps_staged_part *after = *link;
    PS_ASSERT(after == NULL || after->range.first >= range.first);
    PS_ASSERT(after == NULL || end <= after->range.first);
    *place = link;
    /* The same again: its content is the same, too, or the fingerprint of the whole would tell. */
    if (after != NULL && after->range.first == range.first && after->range.count == range.count) {
        *place = NULL;
        return PS_OK;
    }
    if (end <= range.first && (after == NULL || range.first + range.count <= after->range.first))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %.*s, %" PRIu64 " elements from %" PRIu64
                   " on: they overlap with another range of this request",
                   name_width(part), (const char *)part->name.data, range.count, range.first);
}

/* First the first halves of all parts, then the second halves; where an encoding has no halves, the
 * first is everything and the second is empty. */
struct ps_bytes *ps_staged_part_join(const struct ps_allocator *memory,
                                     const struct ps_staged_part *first, enum ps_encoding encoding,
                                     struct ps_view *content)
{
    PS_ASSERT(first != NULL);
    size_t room = 0; /* the piece in which halves meet counts twice */
    size_t count = 0;
    uint64_t size = 0;
    for (const struct ps_staged_part *part = first; part != NULL; part = part->next)
        room += part->content.piece_count + 1;
    struct ps_bytes *pieces = ps_zeroed_array(memory, room, sizeof *pieces);
    if (pieces == NULL)
        return NULL;
    /* Pieces of no length are left out by add_pieces. */
    for (int half = 0; half < 2; half++) {
        /* Room for every piece of every part, and one more each. */
        for (const struct ps_staged_part *part = first; part != NULL; part = part->next) {
            uint64_t bytes = part->content.size;
            uint64_t middle = ps_encoding_first_half(encoding, part->range.count, bytes);
            uint64_t wanted = half == 0 ? middle : bytes - middle;
            add_pieces(part->content, half == 0 ? 0 : middle, wanted, pieces, &count);
            /* Of TOP_K less than was reserved: nobody knew how many would be named. */
            size += wanted;
        }
    }
    PS_ASSERT(count <= room);
    PS_ASSERT(count > 0 || size == 0);
    *content = (struct ps_view){pieces, count, (size_t)size};
    return pieces;
}

/* The pieces of `size` bytes from `skipped` on, as they lie; a piece in which halves meet is
 * cut. */
static void add_pieces(struct ps_view from, uint64_t skipped, uint64_t size, struct ps_bytes *to,
                       size_t *count)
{
    PS_ASSERT(skipped + size <= from.size);
    struct ps_view_cursor cursor = {.view = from};
    ps_view_skip(&cursor, (size_t)skipped);
    while (size > 0) {
        struct ps_bytes piece = ps_view_next(&cursor, (size_t)size);
        PS_ASSERT(piece.size > 0);
        to[(*count)++] = piece;
        size -= piece.size;
    }
}
