/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the arrays of a table whose rows are in two files, gathered while the parts of these
 * arrays are read, so that nothing is read once more to be verified. Private to checkpoint/.
 *
 * A CRC is linear: that of a whole is the exclusive or of those of its runs of bytes, each moved by
 * the number of bytes behind it. So runs may come in any order and from any thread, and nothing is
 * kept of them but the sum so far. A run that is missing, or comes twice, shows as damage would:
 * who finds a sum wrong has to read again before he calls the file damaged.
 *
 * Threads:  any number add; who asks comes behind all of them.
 * Blocking: never.
 * Errors:   none.
 * Memory:   24 bytes for each array.
 */
#ifndef PS_CHECKPOINT_MERGED_SUMS_H
#define PS_CHECKPOINT_MERGED_SUMS_H

#include <stdatomic.h>
#include <stdint.h>

/* Of one array. Zeroed: nothing was read of it. */
struct ps_merged_sums {
    _Atomic uint64_t bytes;  /* of the merged array, that were handed out */
    _Atomic uint32_t merged; /* of these, as they stood before rows were moved together */
    _Atomic uint32_t base;   /* of the base's array, rows that went among it */
    _Atomic uint32_t own;    /* of the file's own array */
};

/* Adds a run of bytes with that checksum (which began with 0), `behind` bytes before the end of
 * what `*whole` is the sum of. */
void ps_merged_sums_add(_Atomic uint32_t *whole, uint32_t crc32c, uint64_t behind);

/* From here on it is as if nothing had been read. */
void ps_merged_sums_clear(struct ps_merged_sums *sums);

#endif
