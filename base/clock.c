/* The machine's clock behind the clock interface. */
#include "base/clock.h"

#include "base/assert.h"

#include <stddef.h>
#include <time.h>

static uint64_t real_now_ms(void *self)
{
    (void)self;
    struct timespec now;
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t real_unix_ns(void *self)
{
    (void)self;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static const struct ps_clock real_clock = {real_now_ms, real_unix_ns, NULL};

const struct ps_clock *ps_clock_real(void)
{
    return &real_clock;
}

uint64_t ps_clock_precise_ns(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_MONOTONIC, &now);
    PS_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t ps_now_ms(const struct ps_clock *clock)
{
    PS_ASSERT(clock != NULL);
    return clock->now_ms(clock->self);
}

uint64_t ps_unix_ns(const struct ps_clock *clock)
{
    PS_ASSERT(clock != NULL);
    return clock->unix_ns(clock->self);
}

int64_t ps_clock_offset_ms(const struct ps_clock *clock)
{
    return (int64_t)(ps_unix_ns(clock) / 1000000) - (int64_t)ps_now_ms(clock);
}

uint64_t ps_deadline_after(const struct ps_clock *clock, uint64_t timeout_ms)
{
    uint64_t now = ps_now_ms(clock);
    if (timeout_ms >= PS_DEADLINE_NEVER - now)
        return PS_DEADLINE_NEVER;
    return now + timeout_ms;
}

uint64_t ps_time_left_ms(const struct ps_clock *clock, uint64_t deadline_ms)
{
    uint64_t now = ps_now_ms(clock);
    return deadline_ms > now ? deadline_ms - now : 0;
}
