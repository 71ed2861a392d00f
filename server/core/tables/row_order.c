/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a counting sort by eight bits: a pull needs the keys of one lock together, and no
 * more. What a push wants, equal keys side by side, is optimizer/hash_order.h. */
#include "server/core/tables/row_order.h"

#include "base/assert.h"

/* One pass, since reading needs no more than this: the keys of one lock together. Within a stripe
 * they are in the order of arrival, which costs nothing and helps whoever asks for neighbours. */
void ps_row_order_by_stripe(const uint64_t *hashes, uint32_t count, uint32_t *order,
                            uint32_t begins[PS_ROW_STRIPES + 1])
{
    uint32_t at[PS_ROW_STRIPES] = {0};
    for (uint32_t i = 0; i < count; i++)
        at[ps_row_stripe_of(hashes[i])]++;
    /* Where each stripe's keys begin, and where its next one goes. */
    uint32_t sum = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        begins[i] = sum;
        sum += at[i];
        at[i] = begins[i];
    }
    begins[PS_ROW_STRIPES] = sum;
    PS_ASSERT(sum == count);
    for (uint32_t i = 0; i < count; i++)
        order[at[ps_row_stripe_of(hashes[i])]++] = i;
}
