/* SPDX-License-Identifier: Apache-2.0 */
/* What the system's random numbers are in a simulated world. The linker puts this in the place of
 * the C library's. */
#include "tests/sim/sim_chance.h"

#include "base/random.h"

#include <string.h>
#include <sys/types.h>

static struct ps_random chance;

ssize_t __wrap_getrandom(void *destination, size_t size, unsigned flags);

void sim_chance_begin(uint64_t seed)
{
    ps_random_init(&chance, seed);
}

ssize_t __wrap_getrandom(void *destination, size_t size, unsigned flags)
{
    uint64_t number = ps_random_next(&chance);
    size_t got = size < sizeof number ? size : sizeof number;
    (void)flags;
    memcpy(destination, &number, got);
    return (ssize_t)got;
}
