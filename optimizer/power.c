/* SPDX-License-Identifier: Apache-2.0 */
/* 2^(exponent * log2(base)), both functions as plain series of + - * /. */
#include "optimizer/power.h"

#include "base/assert.h"

#include <math.h>

/* libm gives its powers with errors in the last place that differ between versions, and a last
 * place of the learning rate is a last place of every weight. These series have one result on
 * every machine, because they use operations that IEEE 754 defines exactly; they need not be the
 * fastest, since a push needs one or two of them. */
static double log2_of(double x);
static double exp2_of(double x);

double ps_power(double base, double exponent)
{
    PS_ASSERT(base >= 0);
    PS_ASSERT(isfinite(exponent));
    /* What pow gives for the edges, so that a formula needs no cases of its own: also 0^0 is 1. */
    if (exponent == 0 || base == 1)
        return 1;
    if (base == 0 || isinf(base))
        return (base == 0) == (exponent > 0) ? 0 : (double)INFINITY;
    return exp2_of(exponent * log2_of(base));
}

/* log2 x = e + 2/ln 2 atanh((m - 1) / (m + 1)) with x = m 2^e and m in [sqrt 1/2, sqrt 2). */
static double log2_of(double x)
{
    static const double two_over_ln_2 = 0x1.71547652b82fep+1;
    int exponent = 0;
    /* Exact: a power of two is taken off, no digit is lost. */
    double mantissa = frexp(x, &exponent);
    /* Around 1 the series below has its least argument and converges fastest; at an end of the
     * range a term more would be needed for each digit. */
    if (mantissa < 0x1.6a09e667f3bcdp-1) {
        mantissa *= 2;
        exponent -= 1;
    }
    double ratio = (mantissa - 1) / (mantissa + 1);
    double square = ratio * ratio;
    double series = 0;
    /* From the smallest term on, so that small ones are not lost in the greatest. With a ratio
     * of at most 0.172 the term after k = 25 is below 2^-70. */
    for (int k = 25; k >= 1; k -= 2)
        series = series * square + 1.0 / k;
    return exponent + two_over_ln_2 * (ratio * series);
}

/* 2^x = 2^k e^(f ln 2) with k whole and f in [-1/2, 1/2]. */
static double exp2_of(double x)
{
    static const double ln_2 = 0x1.62e42fefa39efp-1;
    /* Beyond the range of a double, subnormals included; the comparison also keeps the cast
     * below within an int. */
    if (x > 1100)
        return (double)INFINITY;
    if (x < -1100)
        return 0;
    double whole = floor(x + 0.5);
    double part = (x - whole) * ln_2;
    double series = 1;
    /* Horner's form of the exponential series; with a part of at most 0.35 the term after k = 18
     * is below 2^-80. */
    for (int k = 18; k >= 1; k--)
        series = 1 + series * part / k;
    return ldexp(series, (int)whole);
}
