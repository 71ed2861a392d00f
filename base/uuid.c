/* SPDX-License-Identifier: Apache-2.0 */
/* Version 7, variant 1: the milliseconds stand first, so that names of the same position sort by
 * age, also where only their texts are compared. */
#include "base/uuid.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>

void ps_uuid_make(struct ps_random *random, uint64_t unix_ns, char uuid[PS_UUID_BYTES])
{
    PS_ASSERT(uuid != NULL);
    uint64_t bits[2];
    if (random != NULL) {
        bits[0] = ps_random_next(random);
        bits[1] = ps_random_next(random);
    } else {
        ps_random_system(bits, sizeof bits);
    }
    /* 48 bits of time, the version, 12 random bits; then the variant and 62 random bits. */
    uint64_t high = unix_ns / 1000000 << 16 | UINT64_C(0x7000) | (bits[0] & 0xfff);
    uint64_t low = bits[1] >> 2 | UINT64_C(1) << 63;
    snprintf(uuid, PS_UUID_BYTES,
             "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, high >> 32,
             high >> 16 & 0xffff, high & 0xffff, low >> 48, low & UINT64_C(0xffffffffffff));
}
