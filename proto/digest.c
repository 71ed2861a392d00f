/* The one place that knows xxHash, whose header is the whole library: nothing to link. */
#include "proto/digest.h"

#include "base/assert.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t ps_digest_xxh64(struct ps_bytes bytes)
{
    return XXH64(bytes.data, bytes.size, 0);
}

static uint64_t not_zero(uint64_t digest)
{
    return digest != 0 ? digest : 1;
}

uint64_t ps_digest_block(struct ps_bytes block)
{
    return not_zero(ps_digest_xxh64(block));
}

uint64_t ps_digest_next_block(struct ps_view_cursor *cursor, size_t size)
{
    XXH64_state_t state;
    (void)XXH64_reset(&state, 0);
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
    const uint64_t words[2] = {chain, block};
    return ps_digest_xxh64((struct ps_bytes){(const uint8_t *)words, sizeof words});
}
