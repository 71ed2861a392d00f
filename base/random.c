/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, seeded and from the system.
 *
 * The seeded generator repeats bit for bit on every machine, so that a failed simulation is
 * repeated from the seed that it printed. It is not for secrets: anybody who sees one output knows
 * all others. Identities (client ids, epochs of a run) come from getrandom(2). */
#include "base/random.h"

#include "base/assert.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

void ps_random_init(struct ps_random *random, uint64_t seed)
{
    PS_ASSERT(random != NULL);
    random->state = seed;
}

uint64_t ps_random_next(struct ps_random *random)
{
    /* SplitMix64: a counter with steps of 2^64 divided by the golden ratio, mixed by Stafford's
     * variant 13 of MurmurHash3's finalizer. Any seed is good, 0 included; the period is 2^64. */
    uint64_t mixed = (random->state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

uint64_t ps_random_below(struct ps_random *random, uint64_t bound)
{
    PS_ASSERT(bound > 0);
    /* Values of the last, incomplete round are drawn again, so that no result is favoured. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = ps_random_next(random);
    while (value >= limit)
        value = ps_random_next(random);
    return value % bound;
}

double ps_random_unit(struct ps_random *random)
{
    /* The upper 53 bits: as many as a double's significand holds, so that every result is exact and
     * 1 is never reached. */
    return (double)(ps_random_next(random) >> 11) * 0x1.0p-53;
}

/* A failure of the source aborts: an identity of zeros would be shared by all that failed. */
void ps_random_system(void *destination, size_t size)
{
    uint8_t *to = destination;
    while (size > 0) {
        /* Flags of 0: waits, just after boot, until the source is seeded. Identities drawn before
         * that could be equal on machines that boot from one image. */
        ssize_t got = getrandom(to, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        PS_ASSERT(got > 0);
        to += got;
        size -= (size_t)got;
    }
}
