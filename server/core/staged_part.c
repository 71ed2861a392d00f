/* Parts of one whole. */
#include "server/core/staged_part.h"

#include "base/bounds.h"

#include <inttypes.h>
#include <string.h>

static struct ps_staged_part *create_bare(const struct ps_allocator *memory,
                                          struct ps_elements range);

struct ps_staged_part *ps_staged_part_create(const struct ps_allocator *memory,
                                             const struct ps_part *from, bool keeps)
{
    if (!keeps)
        return create_bare(memory, from->range);
    void *kept = from->hold.keep != NULL ? from->hold.keep(from->hold.self) : NULL;
    size_t piece_count = kept != NULL ? from->content.piece_count : 1;
    size_t copied = kept != NULL ? 0 : from->content.size;
    struct ps_staged_part *part =
        ps_plain(memory, sizeof *part + piece_count * sizeof(struct ps_bytes) + copied);
    if (part == NULL) {
        if (kept != NULL)
            from->hold.drop(kept);
        return NULL;
    }
    *part = (struct ps_staged_part){
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

static struct ps_staged_part *create_bare(const struct ps_allocator *memory,
                                          struct ps_elements range)
{
    struct ps_staged_part *part = ps_plain(memory, sizeof *part);
    if (part != NULL)
        *part = (struct ps_staged_part){.range = range};
    return part;
}

void ps_staged_part_release(const struct ps_allocator *memory, struct ps_staged_part *part)
{
    if (part->kept != NULL)
        part->drop(part->kept);
    ps_release(memory, part);
}

enum ps_status ps_staged_part_place(struct ps_staged_part **first, const struct ps_part *part,
                                    struct ps_staged_part ***place, struct ps_error *error)
{
    struct ps_elements range = part->range;
    struct ps_staged_part **link = first;
    uint64_t end = 0; /* of the range before */
    while (*link != NULL && (*link)->range.first < range.first) {
        end = (*link)->range.first + (*link)->range.count;
        link = &(*link)->next;
    }
    const struct ps_staged_part *after = *link;
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
                   part->name.size < PS_NAME_BYTES_MAX ? (int)part->name.size : PS_NAME_BYTES_MAX,
                   (const char *)part->name.data, range.count, range.first);
}
