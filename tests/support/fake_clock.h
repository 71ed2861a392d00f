/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that only moves when told.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SUPPORT_FAKE_CLOCK_H
#define PS_TESTS_SUPPORT_FAKE_CLOCK_H

#include "base/clock.h"

struct fake_clock {
    uint64_t now_ms;
};

/* A clock over `fake`, which it borrows. unix_ns follows now_ms. */
struct ps_clock fake_clock_clock(struct fake_clock *fake);

#endif
