/* Random numbers, seeded and from the system. */
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
    return (double)(ps_random_next(random) >> 11) * 0x1.0p-53;
}

void ps_random_system(void *destination, size_t size)
{
    uint8_t *to = destination;
    while (size > 0) {
        ssize_t got = getrandom(to, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        PS_ASSERT(got > 0);
        to += got;
        size -= (size_t)got;
    }
}
