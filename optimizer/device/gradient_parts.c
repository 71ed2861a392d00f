/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting encoded gradients. */
#include "optimizer/device/gradient_parts.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "optimizer/encoded.h"

#include <string.h>

/* Runs begin where groups of a sum, groups of int8 and 16-byte accesses all begin. */
#define UNIT PS_SUM_ELEMENTS
_Static_assert(UNIT % PS_ENCODING_GROUP == 0, "a group of int8 is never cut");
_Static_assert(sizeof(float) == 4, "a scale and a value of top_k have 4 bytes");

static uint64_t elements_max(const struct ps_gradient_source *source, size_t room);
static struct ps_gradient_part next_listed(const struct ps_gradient_source *source,
                                           const struct ps_gradient_part *before, size_t room);
static uint64_t listed_below(const struct ps_gradient_source *source, uint64_t from, uint64_t count,
                             uint64_t limit);

/* Parts begin at lines of 256 bytes, which is what a device reads at once. */
static size_t rounded_up(uint64_t bytes)
{
    return (size_t)((bytes + 255) / 256 * 256);
}

static size_t width_of(const struct ps_gradient_source *source)
{
    return ps_encoding_width(source->encoding, source->dtype);
}

/* A list of elements may be of any length; its size is checked where it is taken in. */
uint64_t ps_gradient_source_bytes(const struct ps_gradient_source *source)
{
    if (source->encoding == PS_ENCODING_TOP_K)
        return 0;
    return ps_encoding_bytes(source->encoding, source->dtype, source->count);
}

/* A gradient may be larger than a slot. Parts are cut so that each can be applied by itself: no
 * group of int8 and no group of a sum is divided, and the last part is what is left. */
struct ps_gradient_part ps_gradient_part_next(const struct ps_gradient_source *source,
                                              const struct ps_gradient_part *before, size_t room)
{
    if (source->encoding == PS_ENCODING_TOP_K)
        return next_listed(source, before, room);
    struct ps_gradient_part part = {.first = before->first + before->count};
    /* 0 at the end: a part without elements is the sign that all are done. */
    uint64_t rest = source->count - part.first;
    uint64_t most = elements_max(source, room);
    part.count = rest < most ? rest : most;
    /* Where the second kind of data begins; of encodings that have one kind, the end. */
    part.extra = rounded_up(part.count * width_of(source));
    part.bytes = part.extra;
    if (source->encoding == PS_ENCODING_INT8)
        part.bytes += rounded_up(ps_encoding_groups(part.count) * 4);
    return part;
}

/* A slot holds thousands of units, so that at least one fits. */
static uint64_t elements_max(const struct ps_gradient_source *source, size_t room)
{
    PS_ASSERT(room >= 65536);
    if (source->encoding != PS_ENCODING_INT8)
        return room / width_of(source) / UNIT * UNIT;
    uint64_t groups = room / (PS_ENCODING_GROUP + 4);
    return groups * PS_ENCODING_GROUP / UNIT * UNIT;
}

/* As many entries as fit, and all elements up to the last whole unit in front of the next entry;
 * entries beyond that wait for the next part. */
static struct ps_gradient_part next_listed(const struct ps_gradient_source *source,
                                           const struct ps_gradient_part *before, size_t room)
{
    struct ps_gradient_part part = {.first = before->first + before->count,
                                    .skipped = before->skipped + before->listed};
    uint64_t all = source->content.size / 8;
    uint64_t rest = all - part.skipped;
    /* Two arrays, each rounded up: 64 entries less is room enough for that. */
    uint64_t most = room / 8 - 64;
    part.listed = rest < most ? rest : most;
    part.count = source->count - part.first;
    if (part.listed < rest) {
        uint32_t next;
        ps_view_copy(source->content, (size_t)(part.skipped + part.listed) * 4, &next, 4);
        /* The next entry begins the next part; the elements in front of it, which are zeros,
         * belong to this one. */
        uint64_t limit = next / UNIT * UNIT;
        PS_ASSERT(limit > part.first); /* indices rise, and more than a unit of them fit */
        part.count = limit - part.first;
        part.listed = listed_below(source, part.skipped, part.listed, limit);
    }
    part.extra = rounded_up(part.listed * 4);
    part.bytes = 2 * part.extra;
    return part;
}

/* How many of `count` entries from `from` on have an index below `limit`.
 * Halving, since indices rise and a list may have millions. */
static uint64_t listed_below(const struct ps_gradient_source *source, uint64_t from, uint64_t count,
                             uint64_t limit)
{
    uint64_t low = 0;
    uint64_t high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint32_t index;
        ps_view_copy(source->content, (size_t)(from + middle) * 4, &index, 4);
        if (index < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Without what a slot adds to be a multiple of lines: memory of others may end where the part
 * does. */
size_t ps_gradient_part_bytes(const struct ps_gradient_source *source,
                              const struct ps_gradient_part *part)
{
    PS_ASSERT(source->encoding != PS_ENCODING_INT8 && source->encoding != PS_ENCODING_TOP_K);
    return (size_t)part->count * width_of(source);
}

/* The only copy of a gradient on the host: from the message, wherever its pieces lie, into
 * pinned memory. Scales come behind quanta, indices behind values, each where
 * ps_gradient_part_at looks for them. */
void ps_gradient_part_copy(const struct ps_gradient_source *source,
                           const struct ps_gradient_part *part, uint8_t *destination)
{
    /* Of a list it is that of a pair, and not used. */
    size_t width = width_of(source);
    struct ps_view content = source->content;
    switch (source->encoding) {
    case PS_ENCODING_INT8:
        ps_view_copy(content, (size_t)(ps_encoding_groups(source->count) * 4 + part->first),
                     destination, (size_t)part->count);
        ps_view_copy(content, (size_t)(part->first / PS_ENCODING_GROUP * 4),
                     destination + part->extra, (size_t)(ps_encoding_groups(part->count) * 4));
        return;
    case PS_ENCODING_TOP_K:
        ps_view_copy(content, content.size / 8 * 4 + (size_t)part->skipped * 4, destination,
                     (size_t)part->listed * 4);
        ps_view_copy(content, (size_t)part->skipped * 4, destination + part->extra,
                     (size_t)part->listed * 4);
        return;
    /* Every other encoding is one kind of data: elements as they lie in the message. */
    default:
        ps_view_copy(content, (size_t)part->first * width, destination,
                     (size_t)part->count * width);
        return;
    }
}

/* The same for either side of a slot: the device's part lies as the host's does. */
struct ps_cuda_gradient ps_gradient_part_at(const struct ps_gradient_source *source,
                                            const struct ps_gradient_part *part,
                                            const uint8_t *place)
{
    /* Pointers are to the device; nothing is read through them here. */
    struct ps_cuda_gradient gradient = {.encoding = source->encoding, .elements = place};
    const void *extra = place + part->extra;
    if (source->encoding == PS_ENCODING_INT8)
        gradient.scales = extra;
    if (source->encoding == PS_ENCODING_TOP_K) {
        gradient.indices = extra;
        gradient.kept = part->listed;
    }
    return gradient;
}
