/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that only moves when told. */
#include "tests/support/fake_clock.h"

static uint64_t fake_now_ms(void *self)
{
    const struct fake_clock *fake = self;
    return fake->now_ms;
}

static uint64_t fake_unix_ns(void *self)
{
    const struct fake_clock *fake = self;
    return fake->now_ms * 1000000;
}

struct ps_clock fake_clock_clock(struct fake_clock *fake)
{
    return (struct ps_clock){fake_now_ms, fake_unix_ns, fake};
}
