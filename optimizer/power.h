/* SPDX-License-Identifier: Apache-2.0 */
/* Powers with the same bits on every machine. The C library's pow may differ in the last bit from
 * one version, and from one processor, to the next, and a learning rate that does would make a
 * replay on another machine differ.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_POWER_H
#define PS_OPTIMIZER_POWER_H

/* base^exponent for base >= 0 (infinity included) and a finite exponent. The relative error stays
 * below 3e-16 (2 + |log2 of the result|). 0^0 is 1. */
double ps_power(double base, double exponent);

#endif
