/* SPDX-License-Identifier: Apache-2.0 */
/* One block for everything: the struct, its lists, its small fields and, where it is copied, its
 * content. Lists come first, since they need the strictest alignment. */
#include "server/core/programs/parcel.h"

#include "base/assert.h"

#include <string.h>

/* What a message may have beside its content before keeping it would keep too much. */
enum { BESIDE_BYTES = 64 * 1024 };

/* Content is used as an array of whatever the program likes. */
enum { CONTENT_ALIGNMENT = 64 };

/* Where the next thing of the block goes. */
struct place {
    uint8_t *at;
};

/* Nothing at all has an address, too, that nobody reads. */
static void *put(struct place *place, const void *from, size_t size)
{
    void *to = place->at;
    PS_ASSERT(size == 0 || from != NULL);
    if (size > 0)
        /* Sizes were added up by the caller in the same order. */
        memcpy(to, from, size);
    place->at += size;
    return to;
}

/* The same for what is known by its size. */
static struct ps_bytes put_bytes(struct place *place, struct ps_bytes bytes)
{
    return (struct ps_bytes){put(place, bytes.data, bytes.size), bytes.size};
}

/* A message may be longer than its content, by fields that nobody reads: keeping it would keep all
 * of that, beyond what is counted. */
static bool is_worth_keeping(size_t size, const struct ps_hold *hold)
{
    PS_ASSERT(hold == NULL || hold->bytes == 0 || hold->keep != NULL);
    return hold != NULL && hold->keep != NULL && size >= PS_PARCEL_COPIED_BYTES &&
           hold->bytes <= size + size / 8 + BESIDE_BYTES;
}

/* Room for `pieces` pieces and `copied` bytes of content, of which nothing is filled. */
static struct ps_parcel *make(const struct ps_allocator *memory,
                              const struct ps_program_payload *payload, size_t pieces,
                              size_t copied, struct place *place)
{
    /* The codec has bounded all of these; the sum is small beside the content. */
    size_t tensors = payload->tensor_count * sizeof *payload->tensors;
    size_t outputs = payload->output_count * sizeof *payload->outputs;
    PS_ASSERT(payload->tensor_count <= PS_PROGRAM_TENSORS_MAX);
    size_t small = tensors + outputs + payload->body.size + payload->lens.size + payload->keys.size;
    struct ps_parcel *parcel =
        ps_plain(memory, sizeof *parcel + small + pieces * sizeof(struct ps_bytes) +
                             (copied > 0 ? copied + CONTENT_ALIGNMENT : 0));
    if (parcel == NULL)
        return NULL;
    /* The rest of the block is written once, where its content is known. */
    memset(parcel, 0, sizeof *parcel);
    parcel->memory = memory;
    parcel->bytes = sizeof *parcel + small;
    atomic_init(&parcel->references, 1);
    struct ps_program_payload *own = &parcel->payload;
    *own = *payload;
    place->at = (uint8_t *)(parcel + 1) + pieces * sizeof(struct ps_bytes);
    /* From here on everything points into the block itself. */
    own->tensors = put(place, payload->tensors, tensors);
    own->outputs = put(place, payload->outputs, outputs);
    /* Eight bytes each before four bytes each before text. */
    own->keys = put_bytes(place, payload->keys);
    own->lens = put_bytes(place, payload->lens);
    own->body = put_bytes(place, payload->body);
    /* For vectors of whatever width the processor has. */
    if (copied > 0)
        place->at +=
            (CONTENT_ALIGNMENT - (uintptr_t)place->at % CONTENT_ALIGNMENT) % CONTENT_ALIGNMENT;
    return parcel;
}

/* Made without any lock: a copy of small content takes no time that others would wait for. */
struct ps_parcel *ps_parcel_create(const struct ps_allocator *memory,
                                   const struct ps_program_payload *payload,
                                   const struct ps_hold *hold)
{
    const struct ps_view content = payload->content;
    void *kept = is_worth_keeping(content.size, hold) ? hold->keep(hold->self) : NULL;
    struct place place;
    /* What is copied is one piece, whatever the network had cut it into. */
    size_t pieces = kept != NULL ? content.piece_count : 1;
    struct ps_parcel *parcel =
        make(memory, payload, pieces, kept != NULL ? 0 : content.size, &place);
    if (parcel == NULL) {
        if (kept != NULL)
            hold->drop(kept);
        return NULL;
    }
    struct ps_bytes *list = (struct ps_bytes *)(parcel + 1);
    PS_ASSERT(content.size == 0 || content.piece_count > 0);
    parcel->bytes += content.size;
    parcel->payload.content = (struct ps_view){list, pieces, content.size};
    if (kept != NULL) {
        /* The pieces are the call's, and the call ends before the parcel. */
        memcpy(list, content.pieces, pieces * sizeof *list);
        parcel->kept = kept;
        parcel->drop = hold->drop;
        return parcel;
    }
    ps_view_copy(content, 0, place.at, content.size);
    /* An empty one is a piece of nothing, which walkers pass over. */
    list[0] = (struct ps_bytes){place.at, content.size};
    return parcel;
}

/* For a reply, which may be on its way for longer than the parcel is in its mailbox. */
struct ps_parcel *ps_parcel_acquire(struct ps_parcel *parcel)
{
    unsigned before = atomic_fetch_add(&parcel->references, 1);
    PS_ASSERT(before > 0);
    return parcel;
}

/* On any thread: the last slice of a reply is dropped by whichever of gRPC's. */
void ps_parcel_release(struct ps_parcel *parcel)
{
    if (parcel == NULL)
        return;
    unsigned before = atomic_fetch_sub(&parcel->references, 1);
    PS_ASSERT(before > 0);
    /* Somebody else has it still. */
    if (before > 1)
        return;
    /* The network's buffers go before what points into them is released. */
    if (parcel->kept != NULL)
        parcel->drop(parcel->kept);
    ps_release(parcel->memory, parcel);
}
