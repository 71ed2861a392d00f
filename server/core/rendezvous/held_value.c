/* SPDX-License-Identifier: Apache-2.0 */
/* One allocation for the value, the pieces of its view and, where they are copied, its bytes.
 *
 * A value that came in parts is a list of such values, each with its own buffers of the network.
 * The parts are never put together: a reply points at as many of them as it has bytes of, and a
 * reader that asks for ranges of the size of the parts finds each in one or two. */
#include "server/core/rendezvous/held_value.h"

#include "base/assert.h"

#include <string.h>
#include <utlist.h>

/* What a message may have beside its content before keeping it would keep too much. */
enum { BESIDE_BYTES = 8192 };

/* A message may be longer than its content, by fields that nobody reads: keeping it would keep all
 * of that, beyond what is counted. */
static bool is_worth_keeping(struct ps_view content, const struct ps_hold *hold)
{
    PS_ASSERT(hold->bytes == 0 || hold->keep != NULL);
    return hold->keep != NULL && content.size >= PS_HELD_COPIED_BYTES &&
           hold->bytes <= content.size + content.size / 8 + BESIDE_BYTES;
}

/* The pieces are copied in any case: they are the call's, and the call ends before the value. */
static void take_content(struct ps_held_value *value, struct ps_view content)
{
    struct ps_bytes *pieces = (struct ps_bytes *)(value + 1);
    PS_ASSERT(content.size == 0 || content.piece_count > 0);
    if (value->kept != NULL) {
        memcpy(pieces, content.pieces, content.piece_count * sizeof *pieces);
        value->content = (struct ps_view){pieces, content.piece_count, content.size};
        return;
    }
    /* Copied values are one piece, whatever the network had cut them into. */
    uint8_t *bytes = (uint8_t *)(pieces + 1);
    ps_view_copy(content, 0, bytes, content.size);
    pieces[0] = (struct ps_bytes){bytes, content.size};
    value->content = (struct ps_view){pieces, content.size > 0 ? 1 : 0, content.size};
}

/* Made without any lock: a copy of a small value takes no time that others would wait for. */
struct ps_held_value *ps_held_value_create(const struct ps_allocator *memory,
                                           const struct ps_value_facts *facts,
                                           struct ps_view content, const struct ps_hold *hold)
{
    PS_ASSERT(facts->rank <= PS_VALUE_RANK_MAX);
    void *kept = is_worth_keeping(content, hold) ? hold->keep(hold->self) : NULL;
    size_t piece_count = kept != NULL ? content.piece_count : 1;
    size_t copied = kept != NULL ? 0 : content.size;
    struct ps_held_value *value =
        ps_plain(memory, sizeof *value + piece_count * sizeof(struct ps_bytes) + copied);
    if (value == NULL) {
        if (kept != NULL)
            hold->drop(kept);
        return NULL;
    }
    memset(value, 0, sizeof *value);
    value->memory = memory;
    value->facts = *facts;
    value->kept = kept;
    value->drop = hold->drop;
    /* An empty value takes memory, too: a million of them are not for nothing. */
    value->bytes = sizeof *value + content.size;
    atomic_init(&value->references, 1);
    take_content(value, content);
    PS_ASSERT(value->content.size == content.size);
    return value;
}

/* Counted with all of its bytes from the start: a value that has begun to come has room for its
 * end. */
struct ps_held_value *ps_held_value_create_parted(const struct ps_allocator *memory,
                                                  const struct ps_value_facts *facts, uint64_t size)
{
    struct ps_held_value *value = ps_zeroed(memory, sizeof *value);
    PS_ASSERT(size > 0 && size <= SIZE_MAX);
    if (value == NULL)
        return NULL;
    value->memory = memory;
    value->facts = *facts;
    value->content.size = (size_t)size;
    /* What its parts take besides is no more than they do as messages. */
    value->bytes = sizeof *value + size;
    atomic_init(&value->references, 1);
    return value;
}

/* Parts come mostly in their order: the place is looked for from the end. */
bool ps_held_value_add(struct ps_held_value *value, struct ps_held_value *part, uint64_t offset,
                       bool *is_repeat)
{
    uint64_t size = part->content.size;
    struct ps_held_value *before = NULL;
    struct ps_held_value *behind = NULL;
    PS_ASSERT(size > 0 && size <= value->content.size);
    PS_ASSERT(offset <= value->content.size - size);
    /* Behind the last part that begins before this one. */
    for (before = value->parts != NULL ? value->parts->prev : NULL;
         before != NULL && before->offset >= offset;
         before = before == value->parts ? NULL : before->prev)
        behind = before;
    *is_repeat = behind != NULL && behind->offset == offset && behind->content.size == size;
    /* Parts never overlap, not even by the same bytes: their sender cuts them once, and repeats
     * them as they are. */
    if (before != NULL && before->offset + before->content.size > offset)
        return false;
    if (behind != NULL && offset + size > behind->offset)
        return false;
    part->offset = offset;
    /* Sorted, so that a reader walks them as they lie in the value. */
    if (behind != NULL)
        DL_PREPEND_ELEM(value->parts, behind, part);
    else
        DL_APPEND(value->parts, part);
    value->arrived += size;
    PS_ASSERT(value->arrived <= value->content.size);
    return true;
}

/* Parts never overlap, so that as many bytes as there are to be are all of them. */
bool ps_held_value_is_whole(const struct ps_held_value *value)
{
    PS_ASSERT(value->parts != NULL || value->arrived == 0);
    return value->content.piece_count > 0 || value->arrived == value->content.size;
}

/* The pieces of one part, or of a value that came as one. */
static uint64_t walk_pieces(struct ps_held_value *holder, uint64_t skip, uint64_t count,
                            void (*take)(void *self, struct ps_held_value *holder,
                                         struct ps_bytes piece),
                            void *self)
{
    uint64_t left = count;
    PS_ASSERT(skip <= holder->content.size);
    /* The network cuts a message of 2 MiB into hundreds of pieces: those before are passed over by
     * their sizes alone. */
    for (size_t i = 0; i < holder->content.piece_count && left > 0; i++) {
        struct ps_bytes piece = holder->content.pieces[i];
        if (skip >= piece.size) {
            skip -= piece.size;
            continue;
        }
        /* From the middle of the first piece to the middle of the last. */
        piece.data += skip;
        piece.size -= (size_t)skip;
        skip = 0;
        if (piece.size > left)
            piece.size = (size_t)left;
        left -= piece.size;
        take(self, holder, piece);
    }
    return count - left;
}

/* A receiver asks for ranges from the first to the last, each of which is in few parts. */
void ps_held_value_walk(struct ps_held_value *value, uint64_t offset, uint64_t count,
                        void (*take)(void *self, struct ps_held_value *holder,
                                     struct ps_bytes piece),
                        void *self)
{
    struct ps_held_value *part;
    PS_ASSERT(offset <= value->content.size && count <= value->content.size - offset);
    if (value->parts == NULL) {
        uint64_t walked = walk_pieces(value, offset, count, take, self);
        PS_ASSERT(walked == count);
        return;
    }
    DL_FOREACH(value->parts, part)
    {
        if (count == 0)
            break;
        if (part->offset + part->content.size <= offset)
            continue;
        /* Behind the first part that has some of it each begins where the one before has ended. */
        uint64_t walked = walk_pieces(part, offset - part->offset, count, take, self);
        offset += walked;
        count -= walked;
    }
    PS_ASSERT(count == 0);
}

/* For a reply, which may be on its way for longer than the value is in its step. */
struct ps_held_value *ps_held_value_acquire(struct ps_held_value *value)
{
    unsigned before = atomic_fetch_add(&value->references, 1);
    PS_ASSERT(before > 0);
    return value;
}

/* On any thread: the last slice of a reply is dropped by whichever of gRPC's. */
void ps_held_value_release(struct ps_held_value *value)
{
    if (value == NULL)
        return;
    unsigned before = atomic_fetch_sub(&value->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    /* The network's buffers go before what points into them is released. */
    if (value->kept != NULL)
        value->drop(value->kept);
    /* A reply that is on its way may still have parts of it. */
    while (value->parts != NULL) {
        struct ps_held_value *part = value->parts;
        DL_DELETE(value->parts, part);
        ps_held_value_release(part);
    }
    ps_release(value->memory, value);
}
