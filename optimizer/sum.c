/* The one order in which partial sums are added up (the bit contract, B7). */
#include "optimizer/sum.h"

#include <string.h>

double ps_sum_fold(double lanes[PS_SUM_LANES])
{
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
    uint64_t group = scan->count / PS_SUM_ELEMENTS - 1;
    scan->groups[group % PS_SUM_LANES] += ps_sum_fold(scan->lanes);
    memset(scan->lanes, 0, sizeof scan->lanes);
    if ((group + 1) % PS_SUM_ELEMENTS != 0)
        return;
    scan->square_sum += ps_sum_fold(scan->groups);
    memset(scan->groups, 0, sizeof scan->groups);
}

double ps_sum_total(const struct ps_gradient_scan *scan)
{
    double lanes[PS_SUM_LANES];
    double groups[PS_SUM_LANES];
    memcpy(lanes, scan->lanes, sizeof lanes);
    memcpy(groups, scan->groups, sizeof groups);
    groups[scan->count / PS_SUM_ELEMENTS % PS_SUM_LANES] += ps_sum_fold(lanes);
    return scan->square_sum + ps_sum_fold(groups);
}
