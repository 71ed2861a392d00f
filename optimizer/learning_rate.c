/* SPDX-License-Identifier: Apache-2.0 */
/* The learning-rate policies as pure functions of the step. */
#include "optimizer/power.h"
#include "optimizer/settings.h"

#include "base/assert.h"

#include <math.h>

/* A configuration that does not name the number says 0, and means that a step is a sample, or a
 * pass. */
static uint64_t at_least_one(uint64_t n)
{
    return n == 0 ? 1 : n;
}

/* The product saturates: past 2^64 samples every schedule has long reached its end, and a wrap
 * would begin it again. */
static uint64_t samples_at(const struct ps_learning_rate *learning_rate, uint64_t step)
{
    uint64_t per_step = at_least_one(learning_rate->samples_per_step);
    return step > UINT64_MAX / per_step ? UINT64_MAX : step * per_step;
}

/* The rate of the first segment with n <= its end; past the last end, the last rate. */
static double segment_rate(const struct ps_learning_rate *learning_rate, uint64_t n)
{
    PS_ASSERT(learning_rate->segment_count > 0);
    PS_ASSERT(learning_rate->segment_count <= PS_SCHEDULE_SEGMENTS_MAX);
    uint32_t i = 0;
    /* A linear walk: there are at most 64 segments, and the rate is computed once for a push,
     * not for an element. */
    while (i + 1 < learning_rate->segment_count && n > learning_rate->segments[i].end)
        i++;
    return learning_rate->segments[i].rate;
}

/* Past a the base would be negative, which ps_power does not take; the schedule says 0 there. */
static double caffe_poly_factor(double n, double a, double b)
{
    return n > a ? 0 : ps_power(1 - n / a, b);
}

/* Written as the old trainer defined the policies, with two departures: the powers are those of
 * power.c, so that every machine has the same rate, and the check of the settings has kept out
 * every a and b with which a rate could leave the finite numbers. */
double ps_learning_rate_at(const struct ps_learning_rate *learning_rate, uint64_t step)
{
    PS_ASSERT(step > 0);
    double rate = learning_rate->rate;
    double a = learning_rate->a;
    double b = learning_rate->b;
    uint64_t samples = samples_at(learning_rate, step);
    /* Exact up to 2^53 samples; beyond, neighbours share a rate. */
    double n = (double)samples;

    switch (learning_rate->schedule) {
    case PS_SCHEDULE_CONSTANT:
        return rate;
    case PS_SCHEDULE_LINEAR:
        /* b is the floor at which the line ends; it may lie above the first rate, which is then
         * never used. */
        return fmax(rate - a * n, b);
    case PS_SCHEDULE_POLY:
        return rate * ps_power(1 + a * n, -b);
    case PS_SCHEDULE_CAFFE_POLY:
        return rate * caffe_poly_factor(n, a, b);
    case PS_SCHEDULE_EXP:
        return rate * ps_power(a, n / b);
    case PS_SCHEDULE_DISCEXP:
        /* Stairs: the rate stays for b samples, so that a change is visible in the loss. */
        return rate * ps_power(a, floor(n / b));
    case PS_SCHEDULE_MANUAL:
        /* A factor and not a rate: one list of segments serves parameters of different rates. */
        return rate * segment_rate(learning_rate, samples);
    case PS_SCHEDULE_PASS_MANUAL:
        return rate * segment_rate(learning_rate,
                                   (step - 1) / at_least_one(learning_rate->steps_per_pass));
    }
    PS_ASSERT(0 && "a schedule that ps_optimizer_settings_check let through");
    return 0;
}
