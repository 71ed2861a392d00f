/* SPDX-License-Identifier: Apache-2.0 */
/* A gradient is copied into shared memory and looked through in one pass: what is loaded to be
 * stored is looked at on the way, which costs nothing beside the memory. The server need not read
 * it once more to refuse what is not finite.
 *
 * The loops have no branch and no early end, so that the compiler turns them into vector
 * instructions (CMakeLists.txt gives this file -O3 for that). */
#include "client/local/finite_copy.h"

#include "base/assert.h"

#include <stdint.h>
#include <string.h>

/* Bits that are all set in what is not finite, of the word that holds the exponent. */
#define EXPONENT_F32 UINT32_C(0x7f800000)
#define EXPONENT_F64 UINT32_C(0x7ff00000)

/* No word masked with 0 is 1: for words that hold no exponent. */
#define NEVER_MASK UINT32_C(0)
#define NEVER_LEFT UINT32_C(1)

/* memcpy in both directions, since neither side need be aligned: it becomes one load and one store.
 * An element is infinite or NaN when all bits of its exponent are set (IEEE 754). */
static inline uint32_t copy_word(uint8_t *restrict to, const uint8_t *restrict from, size_t i,
                                 uint32_t mask, uint32_t left)
{
    uint32_t word;
    memcpy(&word, from + i * sizeof word, sizeof word);
    memcpy(to + i * sizeof word, &word, sizeof word);
    return (uint32_t)((word & mask) == left);
}

static bool copy_f32(uint8_t *restrict to, const uint8_t *restrict from, size_t count)
{
    uint32_t strange = 0;
    for (size_t i = 0; i < count; i++)
        strange |= copy_word(to, from, i, EXPONENT_F32, EXPONENT_F32);
    return strange == 0;
}

/* `count` words, two for each element: little-endian, the exponent is in the second. The first word
 * goes through the same steps with a mask that never matches: words of 64 bits would need an
 * instruction set that not every machine has, and two kinds of step would not become vectors. */
static bool copy_f64(uint8_t *restrict to, const uint8_t *restrict from, size_t count)
{
    uint32_t strange = 0;
    for (size_t i = 0; i < count; i += 2) {
        strange |= copy_word(to, from, i, NEVER_MASK, NEVER_LEFT);
        strange |= copy_word(to, from, i + 1, EXPONENT_F64, EXPONENT_F64);
    }
    return strange == 0;
}

/* Whole numbers are copied and pass. */
bool ps_finite_copy(void *to, const void *from, size_t size, enum ps_dtype dtype)
{
    PS_ASSERT(size % ps_dtype_size(dtype) == 0);
    if (dtype == PS_F32)
        return copy_f32(to, from, size / sizeof(uint32_t));
    if (dtype == PS_F64)
        return copy_f64(to, from, size / sizeof(uint32_t));
    memcpy(to, from, size);
    return true;
}
