/* SPDX-License-Identifier: Apache-2.0 */
/* What every device's runtime is held to, through the plugin's table alone: the emulator and a GPU
 * run the same suite.
 *
 * Threads:  one.
 * Blocking: until the device has done what it was given.
 * Errors:   counted in the struct expect.
 * Memory:   everything is given back.
 */
#ifndef PS_TESTS_OPTIMIZER_DEVICE_SUITE_H
#define PS_TESTS_OPTIMIZER_DEVICE_SUITE_H

#include "expect.h"

void device_suite_run(struct expect *expect);

#endif
