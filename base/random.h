/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: a small seeded generator for everything that must repeat, and the system's
 * source for identities that must not.
 *
 * Threads:  a struct ps_random belongs to one thread.
 * Blocking: ps_random_system may wait for entropy just after boot.
 * Errors:   none; a system without a random source stops the process.
 * Memory:   none.
 */
#ifndef PS_BASE_RANDOM_H
#define PS_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014). Equal seeds give equal sequences on every machine. */
struct ps_random {
    uint64_t state;
};

void ps_random_init(struct ps_random *random, uint64_t seed);

uint64_t ps_random_next(struct ps_random *random);

/* Uniform in [0, bound); bound must not be 0. */
uint64_t ps_random_below(struct ps_random *random, uint64_t bound);

/* Uniform in [0, 1). */
double ps_random_unit(struct ps_random *random);

/* Fills `size` bytes from the system's source. */
void ps_random_system(void *destination, size_t size);

#endif
