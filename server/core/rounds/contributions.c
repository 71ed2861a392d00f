/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions lie in blocks, as values do: what a round gives back is what the next one takes.
 * Those of rows are as large as what came. */
#include "server/core/rounds/contributions.h"

#include "base/assert.h"

/* One allocation, as long as the parameter is trained by so many workers; the gradients come and go
 * beside it. */
struct ps_contributions *ps_contributions_create(const struct ps_allocator *memory,
                                                 uint32_t workers)
{
    PS_ASSERT(workers > 0 && workers <= PS_ROUND_WORKERS_MAX);
    struct ps_contributions *contributions =
        ps_zeroed(memory, sizeof *contributions + workers * sizeof contributions->held[0]);
    if (contributions == NULL)
        return NULL;
    contributions->memory = memory;
    ps_mutex_init(&contributions->lock, PS_RANK_ROUND);
    ps_round_init(&contributions->round, workers);
    return contributions;
}

/* Whoever reads a contribution, a snapshot say, has a reference of its own. */
void ps_contributions_destroy(struct ps_contributions *contributions)
{
    if (contributions == NULL)
        return;
    for (uint32_t i = 0; i < contributions->round.workers; i++)
        ps_contribution_release(&contributions->held[i]);
    ps_mutex_fini(&contributions->lock);
    ps_release(contributions->memory, contributions);
}

/* Blocks are as large as the parameter, and rows as what came. */
uint64_t ps_contribution_bytes(const struct ps_contribution *one)
{
    PS_ASSERT(one->values == NULL || one->rows == NULL);
    if (one->rows != NULL)
        return one->rows->content.size;
    return one->values != NULL ? one->values->size : 0;
}

/* Whoever reads it has a reference of its own. */
void ps_contribution_release(const struct ps_contribution *one)
{
    PS_ASSERT(one->values == NULL || one->rows == NULL);
    ps_blocks_release(one->values);
    ps_held_rows_release(one->rows);
}

/* Beyond every limit where the product is beyond 64 bits. */
uint64_t ps_contributions_bytes_max(const struct ps_parameter_spec *spec)
{
    uint64_t workers = spec->settings.rounds.workers;
    uint64_t bytes = ps_parameter_spec_bytes(spec);
    if (ps_parameter_spec_is_table(spec))
        return 0;
    PS_ASSERT(bytes > 0 && workers <= PS_ROUND_WORKERS_MAX);
    return workers > UINT64_MAX / 2 / bytes ? UINT64_MAX / 2 : workers * bytes;
}

/* The round counts whom the array has: the two are changed together, so that whoever has the lock
 * sees them agree. A weight of 0 has become 1 before. */
void ps_contributions_hold(struct ps_contributions *contributions, uint32_t worker,
                           const struct ps_contribution *one, uint64_t now_ms)
{
    struct ps_contribution *held = &contributions->held[worker];
    PS_ASSERT(worker < contributions->round.workers && ps_contribution_is_held(one));
    PS_ASSERT(!ps_contribution_is_held(held) && one->weight > 0);
    *held = *one;
    ps_round_join(&contributions->round, worker, now_ms);
}

/* Walked through rather than counted along: a thousand workers at most. */
uint64_t ps_contributions_held_bytes(const struct ps_contributions *contributions)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < contributions->round.workers; i++)
        bytes += ps_contribution_bytes(&contributions->held[i]);
    return bytes;
}

/* All that is held counted: there is no contribution that would wait for another round. */
void ps_contributions_next(struct ps_contributions *contributions, const uint8_t *evicted)
{
    PS_ASSERT(contributions->round.counted_count > 0);
    for (uint32_t i = 0; i < contributions->round.workers; i++) {
        ps_contribution_release(&contributions->held[i]);
        contributions->held[i] = (struct ps_contribution){0};
    }
    ps_round_next(&contributions->round, evicted);
}

/* Array and set say the same, whoever looks. */
void ps_contributions_check(struct ps_contributions *contributions)
{
    ps_mutex_lock(&contributions->lock);
    const struct ps_round *round = &contributions->round;
    ps_round_check(round);
    for (uint32_t i = 0; i < round->workers; i++)
        PS_ASSERT(ps_contribution_is_held(&contributions->held[i]) ==
                  ps_round_set_has(round->counted, i));
    ps_mutex_unlock(&contributions->lock);
}
