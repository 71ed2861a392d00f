/* SPDX-License-Identifier: Apache-2.0 */
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

/* Called when a row of lanes is full, or at a run's end: takes a finished group one level up, and
 * PS_SUM_ELEMENTS finished groups into square_sum. */
void ps_sum_close(struct ps_gradient_scan *scan);

/* The sum of squares of everything scanned, what is open included. */
double ps_sum_total(const struct ps_gradient_scan *scan);

#endif
