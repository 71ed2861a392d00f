/* SPDX-License-Identifier: Apache-2.0 */
/* Block by block: a block of the sum stays in the cache while the same block of every contribution
 * is added to it. */
#include "server/core/rounds/combine.h"

#include "base/assert.h"
#include "optimizer/weighted_sum.h"

/* Only floats are trained in rounds (optimizer/settings.c). Without weights each of them is 1, and
 * to multiply by 1 changes no bit; so an average is divided by how many contributions there are.
 * The divisor is never 0, since a weight that is held is above 0 (contributions.c). */
void ps_combine_block(const struct ps_contributions *contributions,
                      const struct ps_parameter_spec *spec, size_t i, void *to)
{
    enum ps_combine combine = spec->settings.rounds.combine;
    size_t count = 0;
    double divisor = 0;
    PS_ASSERT(spec->dtype == PS_F32 || spec->dtype == PS_F64);
    /* The order of ranks, which is the promise: sums of floats depend on it. */
    for (uint32_t rank = 0; rank < contributions->round.workers; rank++) {
        const struct ps_contribution *one = &contributions->held[rank];
        if (one->values == NULL)
            continue;
        struct ps_bytes piece = one->values->pieces[i];
        double weight = combine == PS_COMBINE_WEIGHTED ? (double)one->weight : 1;
        /* The same in each contribution: all have the blocks of one parameter. */
        count = piece.size / ps_dtype_size(spec->dtype);
        if (divisor == 0)
            ps_weighted_sum_first(spec->dtype, to, piece.data, count, weight);
        else
            ps_weighted_sum_add(spec->dtype, to, piece.data, count, weight);
        divisor = ps_weighted_sum_weigh(spec->dtype, divisor, weight);
    }
    PS_ASSERT(divisor > 0 && count > 0);
    if (combine != PS_COMBINE_SUM)
        ps_weighted_sum_divide(spec->dtype, to, count, divisor);
}
