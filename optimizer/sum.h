/* The end of a sum of fixed shape: 256 lanes are folded in halves, whatever the machine.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_SUM_H
#define PS_OPTIMIZER_SUM_H

#include "optimizer/optimizer.h"

/* Adds lane j + 128 to lane j, then j + 64, and so on; returns lane 0. Lanes are overwritten. */
double ps_sum_fold(double lanes[PS_SUM_LANES]);

/* The sum of squares of everything scanned, the open group included. */
double ps_sum_total(const struct ps_gradient_scan *scan);

#endif
