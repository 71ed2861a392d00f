/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions lie in blocks, as values do: what a round gives back is what the next one takes. */
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
        ps_blocks_release(contributions->held[i].values);
    ps_mutex_fini(&contributions->lock);
    ps_release(contributions->memory, contributions);
}

/* Beyond every limit where the product is beyond 64 bits. */
uint64_t ps_contributions_bytes_max(const struct ps_parameter_spec *spec)
{
    uint64_t workers = spec->settings.rounds.workers;
    uint64_t bytes = ps_parameter_spec_bytes(spec);
    PS_ASSERT(bytes > 0 && workers <= PS_ROUND_WORKERS_MAX);
    return workers > UINT64_MAX / 2 / bytes ? UINT64_MAX / 2 : workers * bytes;
}

/* The round counts whom the array has: the two are changed together, so that whoever has the lock
 * sees them agree. A weight of 0 has become 1 before. */
void ps_contributions_hold(struct ps_contributions *contributions, uint32_t worker,
                           struct ps_blocks *values, float weight, uint64_t now_ms)
{
    struct ps_contribution *held = &contributions->held[worker];
    PS_ASSERT(worker < contributions->round.workers && values != NULL);
    PS_ASSERT(held->values == NULL && weight > 0);
    *held = (struct ps_contribution){.values = values, .weight = weight};
    ps_round_join(&contributions->round, worker, now_ms);
}

/* All that is held counted: there is no contribution that would wait for another round. */
void ps_contributions_next(struct ps_contributions *contributions, const uint8_t *evicted)
{
    PS_ASSERT(contributions->round.counted_count > 0);
    for (uint32_t i = 0; i < contributions->round.workers; i++) {
        ps_blocks_release(contributions->held[i].values);
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
        PS_ASSERT((contributions->held[i].values != NULL) == ps_round_set_has(round->counted, i));
    ps_mutex_unlock(&contributions->lock);
}
