/* SPDX-License-Identifier: Apache-2.0 */
/* Receives that are over, until their servers were told; and the memory of what they have brought.
 * An id stays noted until a call that told it went well; two threads may tell the same, which does
 * no harm. */
#include "client/tensor_receives.h"

#include "base/assert.h"
#include "base/slab.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* From here on the library's memory for a value is in large pages: of a smaller one, half a slab
 * might be lost. */
#define SLABS_ABOVE_BYTES ((size_t)4 * PS_SLAB_BYTES)

/* There is room, or there is none until the server was told of what is noted. */
bool ps_tensor_ended_note(struct psclient_rendezvous *rendezvous, uint32_t shard, uint64_t id,
                          bool is_delivered)
{
    struct ps_tensor_ended *ended = &rendezvous->ended[shard];
    PS_ASSERT(id != 0);
    ps_mutex_lock(&rendezvous->lock);
    size_t *count = is_delivered ? &ended->done_count : &ended->give_back_count;
    /* The lists were made as long as they may be: noting takes no memory. */
    bool has_room = *count < PS_TENSOR_ENDED_MAX;
    if (has_room)
        (is_delivered ? ended->done_with : ended->give_back)[(*count)++] = id;
    ps_mutex_unlock(&rendezvous->lock);
    return has_room;
}

/* What this server is to hear besides. It stays noted until the call went well. */
void ps_tensor_ended_take(struct psclient_rendezvous *rendezvous, uint32_t shard,
                          struct ps_tensor_told *told)
{
    const struct ps_tensor_ended *ended = &rendezvous->ended[shard];
    /* A copy, since the lists grow while the call is on its way. */
    ps_mutex_lock(&rendezvous->lock);
    told->done_count = ended->done_count;
    told->give_back_count = ended->give_back_count;
    memcpy(told->ended, ended->done_with, ended->done_count * sizeof told->ended[0]);
    memcpy(told->ended + ended->done_count, ended->give_back,
           ended->give_back_count * sizeof told->ended[0]);
    ps_mutex_unlock(&rendezvous->lock);
}

/* By value and not by place: another thread may have noted more meanwhile, or told the same. Mostly
 * what was told is what the list begins with. */
static void forget(uint64_t *ids, size_t *count, const uint64_t *told, size_t told_count)
{
    /* In place: the list is short, and its order does not matter. */
    size_t kept = 0;
    PS_ASSERT(told_count <= PS_TENSOR_ENDED_MAX);
    /* Nobody noted or told anything else meanwhile: the usual case, and one comparison. */
    if (told_count <= *count && memcmp(ids, told, told_count * sizeof *ids) == 0) {
        memmove(ids, ids + told_count, (*count - told_count) * sizeof *ids);
        *count -= told_count;
        return;
    }
    for (size_t i = 0; i < *count; i++) {
        bool was_told = false;
        for (size_t k = 0; k < told_count; k++)
            was_told = was_told || told[k] == ids[i];
        if (!was_told)
            ids[kept++] = ids[i];
    }
    *count = kept;
}

/* Two threads may have told the same: the second forgets nothing. */
void ps_tensor_ended_forget(struct psclient_rendezvous *rendezvous, uint32_t shard,
                            const struct ps_tensor_told *told)
{
    struct ps_tensor_ended *ended = &rendezvous->ended[shard];
    ps_mutex_lock(&rendezvous->lock);
    forget(ended->done_with, &ended->done_count, told->ended, told->done_count);
    forget(ended->give_back, &ended->give_back_count, told->ended + told->done_count,
           told->give_back_count);
    ps_mutex_unlock(&rendezvous->lock);
}

/* ---- Memory ---- */

/* Memory of the library's. A large value lies in large pages, of which each is one fault of the
 * processor's instead of 512. */
static bool make_content(struct psclient_tensor *tensor, size_t size)
{
    size_t slabs = size >= SLABS_ABOVE_BYTES ? (size - 1) / PS_SLAB_BYTES + 1 : 0;
    PS_ASSERT(tensor->content == NULL);
    if (slabs > 0 && slabs < INT_MAX)
        tensor->content = ps_slabs_take(slabs);
    else
        slabs = 0;
    /* A system that has no slabs to give may still have memory. */
    if (tensor->content == NULL) {
        slabs = 0;
        tensor->content = ps_plain(ps_allocator_heap(), size);
    }
    tensor->is_owned = tensor->content != NULL ? 1 + (int)slabs : 0;
    return tensor->content != NULL;
}

/* Into the caller's memory, or memory of its own. */
enum ps_status ps_tensor_open(void *self, size_t i, const struct ps_value_facts *facts,
                              uint64_t size, uint8_t **content, struct ps_error *error)
{
    struct psclient_tensor *tensor = &((struct psclient_tensor *)self)[i];
    PS_ASSERT(facts->rank <= PSCLIENT_TENSOR_RANK_MAX);
    /* The server's value stays there, for a receive with more room. */
    if (tensor->content != NULL && tensor->size < size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a value of %" PRIu64 " bytes does not fit %zu",
                       size, tensor->size);
    if (tensor->content == NULL && !make_content(tensor, (size_t)size))
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a value of %" PRIu64 " bytes", size);
    /* Known with the first range: whoever looks at the tensor looks when the receive is over. */
    tensor->size = (size_t)size;
    tensor->dtype = facts->dtype;
    tensor->element_size = facts->element_size;
    tensor->rank = facts->rank;
    tensor->dead = facts->dead ? 1 : 0;
    memcpy(tensor->shape, facts->extents, sizeof tensor->shape);
    *content = tensor->content;
    return PS_OK;
}

/* Memory of the caller's own stays as it is. */
PS_EXPORT void psclient_tensor_release(struct psclient_tensor *tensor)
{
    if (tensor->is_owned == 0)
        return;
    /* 1 and the number of slabs, as the receive has made it. */
    if (tensor->is_owned > 1)
        ps_slabs_give(tensor->content, (size_t)tensor->is_owned - 1);
    else
        ps_release(ps_allocator_heap(), tensor->content);
    tensor->content = NULL;
    tensor->size = 0;
    tensor->is_owned = 0;
}
