/* SPDX-License-Identifier: Apache-2.0 */
/* What a server program has taken: how large the answers must be, so that a wrong one is refused
 * where it is made, and not at the worker, which could do nothing about it.
 *
 * Only batches are noted. Of a request by keys the program may have changed what is wanted, since
 * lengths are its own to know; the worker, which has the memory, judges those.
 *
 * A request leaves the table when it is over in the server's eyes, answered or gone, and not when
 * the program forgets it; for programs that forget there is a bound.
 *
 * The table is asked with each answer and changed with each take: it is small, in memory of the
 * client's own, and no server is asked for what it knows. Where memory for an entry was refused,
 * the answer is judged further on, by the server and by the worker, which both do so in any
 * case.
 */
#include "client/serving_state.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

/* uthash takes its memory from the client's allocator; a refusal leaves the table as it was. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(serving->client->memory, (size))
#define uthash_free(pointer, size) ps_release(serving->client->memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

/* A program that takes and never answers leaves entries here; the oldest go. */
enum { TAKEN_MAX = 65536 };

struct ps_serving_taken {
    UT_hash_handle hh;
    uint64_t handle;
    size_t count;
    uint64_t sizes[]; /* of what is wanted; 0: any */
};

/* NULL: it was never taken here, or it is over. */
static struct ps_serving_taken *find(const struct ps_serving *serving, uint64_t handle)
{
    struct ps_serving_taken *taken = NULL;
    HASH_FIND(hh, serving->taken, &handle, sizeof handle, taken);
    return taken;
}

/* Requests with keys and simple ones are judged by the worker: what they want follows from lengths
 * that the program may have changed. A repeat of a take brings the same handle again. */
bool ps_serving_note_taken(struct ps_serving *serving, const struct ps_program_taken *taken)
{
    if (taken->asked.kind != PS_ASK_BATCH || find(serving, taken->handle) != NULL)
        return true;
    size_t count = taken->payload.output_count;
    bool refused = false;
    struct ps_serving_taken *entry =
        ps_zeroed(serving->client->memory, sizeof *entry + count * sizeof entry->sizes[0]);
    if (entry == NULL)
        return false;
    entry->handle = taken->handle;
    entry->count = count;
    for (size_t i = 0; i < count; i++)
        entry->sizes[i] = taken->payload.outputs[i].size;
    HASH_ADD(hh, serving->taken, handle, sizeof entry->handle, entry);
    if (refused)
        ps_release(serving->client->memory, entry);
    /* The first in the table's order is the oldest. */
    else if (HASH_COUNT(serving->taken) > TAKEN_MAX)
        ps_serving_drop_taken(serving, serving->taken->handle);
    return !refused;
}

/* The number first: sizes of the wrong tensors would only confuse. A size of 0 was left open by
 * the worker. */
enum ps_status ps_serving_check_answer(const struct ps_serving *serving, uint64_t handle,
                                       const uint64_t *sizes, size_t count, struct ps_error *error)
{
    const struct ps_serving_taken *taken = find(serving, handle);
    if (taken == NULL)
        return PS_OK;
    if (count != taken->count)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "handler %" PRIu64 " wants %zu tensors, and %zu are given", handle,
                       taken->count, count);
    for (size_t i = 0; i < count; i++)
        if (taken->sizes[i] != 0 && sizes[i] != taken->sizes[i])
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "handler %" PRIu64 " wants %" PRIu64 " bytes in tensor %zu, and %" PRIu64
                           " are given",
                           handle, taken->sizes[i], i, sizes[i]);
    return PS_OK;
}

/* Also of one that is not there: two answers of two threads may both come to this. */
void ps_serving_drop_taken(struct ps_serving *serving, uint64_t handle)
{
    struct ps_serving_taken *taken = find(serving, handle);
    if (taken == NULL)
        return;
    HASH_DEL(serving->taken, taken);
    ps_release(serving->client->memory, taken);
}

/* At the end of the program. */
void ps_serving_drop_all_taken(struct ps_serving *serving)
{
    while (serving->taken != NULL)
        ps_serving_drop_taken(serving, serving->taken->handle);
}
