/* SPDX-License-Identifier: Apache-2.0 */
/* One allocation for the value, the pieces of its view and, where they are copied, its bytes. */
#include "server/core/rendezvous/held_value.h"

#include "base/assert.h"

#include <string.h>

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
    ps_release(value->memory, value);
}
