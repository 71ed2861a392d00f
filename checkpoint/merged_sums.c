/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic is that of ps_checksum_crc32c_join with nothing behind: inversions cancel in it,
 * so that a sum moved past zeros is what the run adds to the whole. */
#include "checkpoint/merged_sums.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"

/* Relaxed, since no other memory is read by it: who asks has waited for the threads that add. */
void ps_merged_sums_add(_Atomic uint32_t *whole, uint32_t crc32c, uint64_t behind)
{
    PS_ASSERT(whole != NULL);
    uint32_t moved = ps_checksum_crc32c_join(crc32c, 0, behind);
    atomic_fetch_xor_explicit(whole, moved, memory_order_relaxed);
}

/* For a reader whose arrays are read more than once: each time is judged by itself. */
void ps_merged_sums_clear(struct ps_merged_sums *sums)
{
    PS_ASSERT(sums != NULL);
    atomic_store(&sums->bytes, 0);
    atomic_store(&sums->merged, 0);
    atomic_store(&sums->base, 0);
    atomic_store(&sums->own, 0);
}
