/* SPDX-License-Identifier: Apache-2.0 */
/* The one order in which partial sums are added up (the bit contract, B7). */
#include "optimizer/sum.h"

#include "base/assert.h"

#include <string.h>

static void close_groups(struct ps_gradient_scan *scan);

double ps_sum_fold(double lanes[PS_SUM_LANES])
{
    /* Halves: lane j takes lane j + half. A GPU's block adds in the same order, and a vector
     * unit likes it. */
    for (size_t half = PS_SUM_LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    }
    return lanes[0];
}

void ps_sum_close(struct ps_gradient_scan *scan)
{
    if (scan->count == 0 || scan->count % PS_SUM_ELEMENTS != 0)
        return;
    /* Only a whole group is closed. One that is still open stays in its lanes, since elements of
     * the next run may belong to it. */
    uint64_t group = scan->count / PS_SUM_ELEMENTS - 1;
    scan->groups[group % PS_SUM_LANES] += ps_sum_fold(scan->lanes);
    memset(scan->lanes, 0, sizeof scan->lanes);
    close_groups(scan);
}

/* After whole groups.
 * Partial sums in fixed lanes make the total independent of how a push was cut into runs, of how
 * many threads scanned it, and of the width of a vector: the order of additions follows from the
 * index alone. Two levels keep the error of a sum over 2^24 elements at that of some fifty
 * additions. */
static void close_groups(struct ps_gradient_scan *scan)
{
    if (scan->count / PS_SUM_ELEMENTS % PS_SUM_ELEMENTS != 0)
        return;
    scan->square_sum += ps_sum_fold(scan->groups);
    memset(scan->groups, 0, sizeof scan->groups);
}

/* A part's groups have a lane each, so that adding them up one lane at a time is what a scan that
 * went on would have done; only the last part can end within a group. */
void ps_optimizer_scan_join(struct ps_gradient_scan *scan, const struct ps_gradient_scan *part)
{
    /* A part is at most PS_SCAN_PART_ELEMENTS long: a total of its own would be a fold that the
     * order of the whole does not have. */
    PS_ASSERT(part->square_sum == 0);
    /* The first element in the order of the push is named, whichever thread found its own first. */
    if (part->nonfinite && !scan->nonfinite) {
        scan->nonfinite = true;
        scan->nonfinite_index = scan->count + part->nonfinite_index;
    }
    for (size_t i = 0; i < PS_SUM_LANES; i++)
        scan->groups[i] += part->groups[i];
    memcpy(scan->lanes, part->lanes, sizeof scan->lanes);
    scan->count += part->count;
    if (scan->count % PS_SUM_ELEMENTS == 0)
        close_groups(scan);
}

double ps_sum_total(const struct ps_gradient_scan *scan)
{
    /* Copies: the scan may go on behind this question, and folding destroys the lanes. */
    double lanes[PS_SUM_LANES];
    double groups[PS_SUM_LANES];
    memcpy(lanes, scan->lanes, sizeof lanes);
    memcpy(groups, scan->groups, sizeof groups);
    groups[scan->count / PS_SUM_ELEMENTS % PS_SUM_LANES] += ps_sum_fold(lanes);
    return scan->square_sum + ps_sum_fold(groups);
}
