/* SPDX-License-Identifier: Apache-2.0 */
/* One small training on a device, in one of the orders in which its streams may run, compared with
 * the CPU's loops to the bit.
 *
 * Threads:  one.
 * Blocking: while the emulator runs.
 * Errors:   a difference is the result; anything else that fails ends the process.
 * Memory:   everything is given back.
 */
#ifndef PS_TESTS_DEVICE_ORDERS_H
#define PS_TESTS_DEVICE_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

/* True when values, states and every read in between have the CPU's bits in this order. */
bool ps_device_order_is_right(uint64_t seed);

#endif
