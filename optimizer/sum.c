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

double ps_sum_total(const struct ps_gradient_scan *scan)
{
    double lanes[PS_SUM_LANES];
    memcpy(lanes, scan->lanes, sizeof lanes);
    return scan->square_sum + ps_sum_fold(lanes);
}
