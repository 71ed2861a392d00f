/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of one to eight bytes in files, the lowest byte first on every machine.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   reads and writes the caller's bytes, which need no alignment.
 */
#ifndef PS_CHECKPOINT_LITTLE_ENDIAN_H
#define PS_CHECKPOINT_LITTLE_ENDIAN_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The lowest `bytes` of the number come first in memory, so that one copy serves all widths. */
static inline void ps_little_put(uint8_t *to, size_t bytes, uint64_t value)
{
    uint64_t little = htole64(value);
    memcpy(to, &little, bytes);
}

static inline uint64_t ps_little_take(const uint8_t *from, size_t bytes)
{
    uint64_t little = 0;
    memcpy(&little, from, bytes);
    return le64toh(little);
}

#endif
