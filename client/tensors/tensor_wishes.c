/* SPDX-License-Identifier: Apache-2.0 */
/* Ids are counted from the first, so that an answer is found without a search, whatever the order
 * in which a server lists them. Ranges go straight to where the value is to lie. */
#include "client/tensors/tensor_wishes.h"

#include "base/assert.h"
#include "base/hash.h"

#include <string.h>

static enum ps_status open_value(struct ps_tensor_wishes *wishes, size_t i,
                                 const struct ps_received_tensor *received, uint64_t size,
                                 struct ps_error *error);

/* By the hash that barriers have, too: all processes of a job agree on it, and on the number of
 * shards, without a word. */
uint32_t ps_tensor_shard_of(struct ps_bytes key, uint32_t shard_count)
{
    PS_ASSERT(shard_count > 0);
    return ps_hash_fnv1a32(key) % shard_count;
}

/* Keys are looked at before anything is asked: of a wish that is malformed nothing is received. */
enum ps_status ps_tensor_wishes_init(struct ps_tensor_wishes *wishes,
                                     const struct ps_allocator *memory,
                                     const struct ps_tensor_place *place, const char *const *keys,
                                     size_t count, uint64_t first_id, uint32_t shard_count,
                                     struct ps_error *error)
{
    PS_ASSERT(first_id != 0 && count > 0);
    *wishes = (struct ps_tensor_wishes){
        .memory = memory, .place = *place, .first_id = first_id, .missing = count};
    wishes->values = ps_zeroed_array(memory, count, sizeof *wishes->values);
    if (wishes->values == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu receives", count);
    wishes->count = count;
    for (size_t i = 0; i < count; i++) {
        struct ps_bytes key = ps_bytes_of_text(keys[i]);
        if (key.size == 0 || key.size > PS_RENDEZVOUS_KEY_BYTES_MAX)
            return ps_fail(error, PS_ERR_BAD_INPUT, "a key has 1 to %d bytes, not %zu",
                           PS_RENDEZVOUS_KEY_BYTES_MAX, key.size);
        wishes->values[i].key = key;
        wishes->values[i].shard = ps_tensor_shard_of(key, shard_count);
    }
    return PS_OK;
}

/* The values are their places', not the wishes'. */
void ps_tensor_wishes_fini(struct ps_tensor_wishes *wishes)
{
    PS_ASSERT(wishes->values != NULL || wishes->count == 0);
    ps_release(wishes->memory, wishes->values);
    wishes->values = NULL;
    wishes->count = 0;
}

/* ---- What is asked ---- */

/* What came meanwhile is passed over by the next walk. */
void ps_tensor_wishes_rewind(struct ps_tensor_wishes *wishes)
{
    PS_ASSERT(wishes->missing <= wishes->count);
    wishes->cursor = 0;
}

/* A value that has begun is asked for by ranges only. */
size_t ps_tensor_wishes_next(struct ps_tensor_wishes *wishes, uint32_t shard,
                             struct ps_rendezvous_wish *asked, size_t most)
{
    size_t used = 0;
    PS_ASSERT(most > 0);
    for (; wishes->cursor < wishes->count && used < most; wishes->cursor++) {
        const struct ps_tensor_wished *value = &wishes->values[wishes->cursor];
        if (value->shard == shard && !value->has_begun)
            asked[used++] = (struct ps_rendezvous_wish){.id = wishes->first_id + wishes->cursor,
                                                        .key = value->key};
    }
    return used;
}

/* From the beginning of each value to its end: a server finds ranges that follow each other where
 * it has just read. */
bool ps_tensor_wishes_next_range(struct ps_tensor_wishes *wishes, struct ps_rendezvous_wish *asked,
                                 uint32_t *shard)
{
    for (; wishes->cursor < wishes->count; wishes->cursor++) {
        struct ps_tensor_wished *value = &wishes->values[wishes->cursor];
        if (!value->has_begun || value->asked == value->total)
            continue;
        uint64_t left = value->total - value->asked;
        uint64_t size = left < PS_TENSOR_RANGE_BYTES ? left : PS_TENSOR_RANGE_BYTES;
        *asked = (struct ps_rendezvous_wish){.id = wishes->first_id + wishes->cursor,
                                             .key = value->key,
                                             .offset = value->asked,
                                             .count = size};
        *shard = value->shard;
        value->asked += size;
        PS_ASSERT(value->asked <= value->total);
        return true;
    }
    return false;
}

/* ---- What came ---- */

/* The words are TensorFlow's. The first failure is the one that is told: those behind it are mostly
 * its consequences. */
static void note_failure(struct ps_tensor_wishes *wishes, size_t i, enum ps_status status)
{
    enum ps_status ignored = PS_OK;
    struct ps_bytes key = wishes->values[i].key;
    if (wishes->why.status != PS_OK)
        return;
    if (status == PS_ERR_CANCELLED)
        ignored = ps_fail(&wishes->why, PS_ERR_ABORTED, "[_Derived_]RecvAsync is cancelled.");
    else if (status == PS_ERR_ABORTED)
        ignored = ps_fail(&wishes->why, PS_ERR_ABORTED, "Duplicated recv: %.*s",
                          key.size < 140 ? (int)key.size : 140, (const char *)key.data);
    else
        ignored = ps_fail(&wishes->why, status, "%s", ps_status_sentence(status));
    PS_ASSERT(ignored != PS_OK);
}

/* Where the bytes of an answer are; a server that names bytes which are not in the room is not
 * believed. */
static enum ps_status find_content(const struct ps_received_tensor *received, struct ps_bytes room,
                                   struct ps_bytes *shared, struct ps_view *content,
                                   struct ps_error *error)
{
    *content = received->content;
    if (received->shared_size == 0)
        return PS_OK;
    PS_ASSERT(room.data != NULL || room.size == 0);
    if (received->content.size > 0 || received->shared_offset > room.size ||
        received->shared_size > room.size - received->shared_offset)
        return ps_fail(error, PS_ERR_INTERNAL, "the reply's content is nowhere");
    *shared = (struct ps_bytes){room.data + received->shared_offset, (size_t)received->shared_size};
    *content = ps_view_of(shared);
    return PS_OK;
}

/* One copy, from where the network or the server has put it to where it stays. */
static enum ps_status keep_range(struct ps_tensor_wished *value, uint64_t offset,
                                 struct ps_view content, struct ps_error *error)
{
    PS_ASSERT(value->has_begun);
    if (offset > value->asked || content.size > value->asked - offset)
        return ps_fail(error, PS_ERR_INTERNAL, "the reply is of another range");
    if (content.size > 0)
        ps_view_copy(content, 0, value->content + offset, content.size);
    value->arrived += content.size;
    PS_ASSERT(value->arrived <= value->asked);
    return PS_OK;
}

/* Whether it is of the first range or of another is seen from the value: a server that knows no
 * ranges says nothing of them, and sends all of it. */
enum ps_status ps_tensor_wishes_take(struct ps_tensor_wishes *wishes,
                                     const struct ps_received_tensor *received,
                                     struct ps_bytes room, struct ps_error *error)
{
    /* An id from before the first wraps to a number beyond all of them. */
    uint64_t i = received->id - wishes->first_id;
    struct ps_bytes shared;
    struct ps_view content;
    if (i >= wishes->count || ps_tensor_wishes_has(wishes, (size_t)i))
        return PS_OK;
    struct ps_tensor_wished *value = &wishes->values[i];
    if (received->status != PS_OK) {
        note_failure(wishes, (size_t)i, received->status);
        return PS_OK;
    }
    PS_TRY(find_content(received, room, &shared, &content, error));
    /* Of a first range that came twice the first counts. */
    if (value->has_begun && received->offset == 0)
        return PS_OK;
    bool is_rest = value->has_begun;
    if (!is_rest)
        PS_TRY(open_value(wishes, (size_t)i, received, content.size, error));
    PS_TRY(keep_range(value, received->offset, content, error));
    if (value->arrived < value->total)
        return PS_OK;
    PS_ASSERT(wishes->missing > 0 && (!is_rest || wishes->begun > 0));
    wishes->missing--;
    wishes->begun -= is_rest ? 1 : 0;
    return PS_OK;
}

/* The first answer says how long the value is. An empty value is there with it. */
static enum ps_status open_value(struct ps_tensor_wishes *wishes, size_t i,
                                 const struct ps_received_tensor *received, uint64_t size,
                                 struct ps_error *error)
{
    struct ps_tensor_wished *value = &wishes->values[i];
    uint64_t total = received->total != 0 ? received->total : size;
    if (received->offset != 0 || size > total || (size == 0 && total > 0))
        return ps_fail(error, PS_ERR_INTERNAL, "the reply is of another range");
    PS_TRY(
        wishes->place.open(wishes->place.self, i, &received->facts, total, &value->content, error));
    value->has_begun = true;
    value->total = total;
    value->asked = size;
    wishes->begun += total > size ? 1 : 0;
    PS_ASSERT(value->arrived == 0);
    return PS_OK;
}

bool ps_tensor_wishes_has(const struct ps_tensor_wishes *wishes, size_t i)
{
    const struct ps_tensor_wished *value = &wishes->values[i];
    PS_ASSERT(i < wishes->count);
    return value->has_begun && value->arrived == value->total;
}
