/* SPDX-License-Identifier: Apache-2.0 */
/* A shard on a device and one on the host, each with the parameter "p" of float32; and another
 * process's memory on that device, which the first has imported.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   any failure ends the test.
 * Memory:   everything is given back by core_lender_end.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_LENDER_H
#define PS_TESTS_UNIT_CORE_CORE_LENDER_H

#include "lender.h"
#include "tests/unit/core/core_device.h"

extern struct core_device device;
extern struct core_world resident; /* on the device */
extern struct core_world host;
extern struct lender lender;
extern uint8_t *memory; /* the lender's, as the device sees it here */

/* Both are initialised with these values and this configuration. */
void core_lender_begin(const float *values, size_t count, bool journals, struct ps_bytes config);

void core_lender_end(void);

#endif
