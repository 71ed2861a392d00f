/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs by batches: all indices stand first in a content, then all values. So two cursors walk
 * through the same view, one half of it apart. */
#include "server/core/update/gradient_pairs.h"

#include "base/assert.h"

#define PAIR_BYTES (sizeof(uint32_t) + sizeof(float))

void ps_gradient_pairs_init(struct ps_gradient_pairs *pairs, struct ps_view content)
{
    PS_ASSERT(content.size % PAIR_BYTES == 0);
    pairs->index_cursor = (struct ps_view_cursor){.view = content};
    pairs->value_cursor = (struct ps_view_cursor){.view = content};
    pairs->rest = content.size / PAIR_BYTES;
    pairs->at = 0;
    pairs->count = 0;
    PS_ASSERT(pairs->rest * PAIR_BYTES == content.size);
    ps_view_skip(&pairs->value_cursor, pairs->rest * sizeof pairs->indices[0]);
}

/* Into aligned memory: where a message was cut, a pair may lie on both sides of the cut. */
static void read_batch(struct ps_gradient_pairs *pairs)
{
    /* Both cursors go on by the same number of pairs, so they stay half a view apart. */
    size_t count = pairs->rest < PS_GRADIENT_PAIRS ? pairs->rest : PS_GRADIENT_PAIRS;
    ps_view_read(&pairs->index_cursor, pairs->indices, count * sizeof pairs->indices[0]);
    ps_view_read(&pairs->value_cursor, pairs->values, count * sizeof pairs->values[0]);
    PS_ASSERT(count <= pairs->rest);
    pairs->rest -= count;
    pairs->count = count;
    pairs->at = 0;
}

/* A run ends where a batch does, or at the limit. Indices rise, so the first one that is not below
 * the limit is where the next block's walk goes on. */
struct ps_gradient_pair_run ps_gradient_pairs_next(struct ps_gradient_pairs *pairs, uint64_t limit)
{
    if (pairs->at == pairs->count && pairs->rest > 0)
        read_batch(pairs);
    size_t first = pairs->at;
    while (pairs->at < pairs->count && pairs->indices[pairs->at] < limit)
        pairs->at++;
    PS_ASSERT(pairs->at <= pairs->count);
    return (struct ps_gradient_pair_run){pairs->indices + first, pairs->values + first,
                                         pairs->at - first};
}

/* Pairs that another thread applies are read all the same: only their indices say where they
 * are. */
void ps_gradient_pairs_skip_to(struct ps_gradient_pairs *pairs, uint64_t index)
{
    while (ps_gradient_pairs_next(pairs, index).count > 0)

        continue;
}
