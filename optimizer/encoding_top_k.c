/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of greatest magnitude, without sorting and without memory: the bits of a magnitude,
 * read as a whole number, order as the magnitude does, so the smallest one that is kept is found
 * digit by digit. */
#include "optimizer/encoded.h"

#include "base/assert.h"
#include "optimizer/decode.rule.h"

/* The 31 bits of a magnitude in three digits. */
#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

/* What is kept: every magnitude above `least`, and the first `ties` that equal it. */
struct choice {
    uint32_t least;
    size_t ties;
};

static struct choice choose(enum ps_dtype dtype, const void *elements, size_t count, size_t kept);

/* Rounded to what is sent before it is compared: two doubles that differ beyond float32 are
 * equal to the receiver, and must be to the choice. */
static float element_at(enum ps_dtype dtype, const void *elements, size_t i)
{
    return dtype == PS_F32 ? ((const float *)elements)[i]
                           : ps_decode_f64_f32(((const double *)elements)[i]);
}

/* Without its sign bit an IEEE number orders like a whole number, infinities and NaNs above all
 * finite ones. */
static uint32_t magnitude_at(enum ps_dtype dtype, const void *elements, size_t i)
{
    return ps_bits_from_float(element_at(dtype, elements, i)) & 0x7fffffffU;
}

/* Two passes: `choose` finds the least magnitude that is kept, then one walk writes indices and
 * values. Of equal magnitudes the first are kept, so that the same gradient always gives the
 * same bytes, on every machine and however it was cut. */
void ps_encode_top_k(enum ps_dtype dtype, const void *elements, size_t count, size_t kept,
                     void *encoded)
{
    PS_ASSERT(ps_dtype_is_float(dtype));
    PS_ASSERT(kept <= count);
    PS_ASSERT(count <= (uint64_t)1 << 32);
    if (kept == 0)
        return;
    struct choice choice = choose(dtype, elements, count, kept);
    uint8_t *indices = encoded;
    uint8_t *values = indices + kept * sizeof(uint32_t);
    size_t at = 0;
    for (size_t i = 0; i < count && at < kept; i++) {
        uint32_t magnitude = magnitude_at(dtype, elements, i);
        if (magnitude < choice.least || (magnitude == choice.least && choice.ties == 0))
            continue;
        /* Counted down: when no tie is left, further equal ones are passed over. */
        choice.ties -= magnitude == choice.least;
        uint32_t index = (uint32_t)i;
        float value = element_at(dtype, elements, i);
        /* Bytes are copied, since the message may begin at any address. */
        memcpy(indices + at * sizeof index, &index, sizeof index);
        memcpy(values + at * sizeof value, &value, sizeof value);
        at++;
    }
    PS_ASSERT(at == kept);
}

/* Counts the digits at `shift` of those magnitudes whose higher bits are `high`. */
static void count_digits(enum ps_dtype dtype, const void *elements, size_t count, unsigned shift,
                         uint32_t high, size_t counts[DIGITS])
{
    memset(counts, 0, DIGITS * sizeof counts[0]);
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = magnitude_at(dtype, elements, i);
        /* In two steps: a shift by all 32 bits would be undefined. */
        counts[magnitude >> shift & (DIGITS - 1)] +=
            magnitude >> shift >> DIGIT_BITS == high >> shift >> DIGIT_BITS;
    }
}

/* Three counts of 2048 digits, from the highest digit down: after each the digit of the least
 * kept magnitude is known, and how many of those that share it are still wanted. That is linear
 * in the elements and needs no memory beside the counts; a sort or a heap would need one entry
 * for each element kept. */
static struct choice choose(enum ps_dtype dtype, const void *elements, size_t count, size_t kept)
{
    struct choice choice = {.least = 0, .ties = kept};
    size_t counts[DIGITS];
    for (unsigned digit = 3; digit-- > 0;) {
        unsigned shift = digit * DIGIT_BITS;
        count_digits(dtype, elements, count, shift, choice.least, counts);
        uint32_t chosen = DIGITS - 1;
        /* From the greatest digit down: all of a digit that fits is kept, and the one that does
         * not fit is looked at with its next digit. */
        while (counts[chosen] < choice.ties) {
            choice.ties -= counts[chosen];
            PS_ASSERT(chosen > 0);
            chosen--;
        }
        choice.least |= chosen << shift;
    }
    return choice;
}
