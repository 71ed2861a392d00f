/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that knows xxHash (XXH64, seed 0), whose header is the whole library: nothing to
 * link. The digests are part of the contract with clients, so neither function nor seed may
 * change. */
#include "proto/digest.h"

#include "base/assert.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t ps_digest_xxh64(struct ps_bytes bytes)
{
    return XXH64(bytes.data, bytes.size, 0);
}

/* 0 stands for "not computed" beside each block. The one content in 2^64 whose digest is 0 shares 1
 * with another; both sides do the same, so nothing fails. */
static uint64_t not_zero(uint64_t digest)
{
    return digest != 0 ? digest : 1;
}

uint64_t ps_digest_block(struct ps_bytes block)
{
    return not_zero(ps_digest_xxh64(block));
}

/* The same digest over a block that lies in several pieces, as a client gets it from the
 * network. */
uint64_t ps_digest_next_block(struct ps_view_cursor *cursor, size_t size)
{
    XXH64_state_t state;
    (void)XXH64_reset(&state, 0);
    /* The state of XXH64 takes bytes in any portions; the result does not depend on where they were
     * cut. */
    while (size > 0) {
        struct ps_bytes run = ps_view_next(cursor, size);
        PS_ASSERT(run.size > 0);
        (void)XXH64_update(&state, run.data, run.size);
        size -= run.size;
    }
    return not_zero(XXH64_digest(&state));
}

uint64_t ps_digest_chain(uint64_t chain, uint64_t block)
{
    /* In the memory order of the machine: both ends of a delta pull are little-endian, which the
     * wire format of the elements demands anyway. */
    const uint64_t words[2] = {chain, block};
    return ps_digest_xxh64((struct ps_bytes){(const uint8_t *)words, sizeof words});
}
