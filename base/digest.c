/* xxHash64, from its description: four lanes of 8 bytes, joined, then the rest. */
#include "base/digest.h"

#include <string.h>

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t rotated(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint32_t half_at(const uint8_t *bytes)
{
    uint32_t half;
    memcpy(&half, bytes, sizeof half);
    return half;
}

static uint64_t rounded(uint64_t lane, uint64_t word)
{
    return rotated(lane + word * PRIME_2, 31) * PRIME_1;
}

static uint64_t joined(uint64_t hash, uint64_t lane)
{
    return (hash ^ rounded(0, lane)) * PRIME_1 + PRIME_4;
}

/* Of all whole stripes of 32 bytes, of which there is one at least. */
static uint64_t stripes(const uint8_t *bytes, size_t size)
{
    uint64_t a = PRIME_1 + PRIME_2;
    uint64_t b = PRIME_2;
    uint64_t c = 0;
    uint64_t d = 0 - PRIME_1;
    for (const uint8_t *end = bytes + size - size % 32; bytes < end; bytes += 32) {
        a = rounded(a, word_at(bytes));
        b = rounded(b, word_at(bytes + 8));
        c = rounded(c, word_at(bytes + 16));
        d = rounded(d, word_at(bytes + 24));
    }
    uint64_t hash = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18);
    return joined(joined(joined(joined(hash, a), b), c), d);
}

/* The last bytes, fewer than 32. */
static uint64_t with_rest(uint64_t hash, const uint8_t *bytes, size_t size)
{
    for (; size >= 8; bytes += 8, size -= 8)
        hash = rotated(hash ^ rounded(0, word_at(bytes)), 27) * PRIME_1 + PRIME_4;
    if (size >= 4) {
        hash = rotated(hash ^ half_at(bytes) * PRIME_1, 23) * PRIME_2 + PRIME_3;
        bytes += 4;
        size -= 4;
    }
    for (; size > 0; bytes++, size--)
        hash = rotated(hash ^ *bytes * PRIME_5, 11) * PRIME_1;
    return hash;
}

uint64_t ps_digest_xxh64(struct ps_bytes bytes)
{
    uint64_t hash = bytes.size >= 32 ? stripes(bytes.data, bytes.size) : PRIME_5;
    hash = with_rest(hash + bytes.size, bytes.data + bytes.size - bytes.size % 32, bytes.size % 32);
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

uint64_t ps_digest_block(struct ps_bytes block)
{
    uint64_t digest = ps_digest_xxh64(block);
    return digest != 0 ? digest : 1;
}

uint64_t ps_digest_chain(uint64_t chain, uint64_t block)
{
    const uint64_t words[2] = {chain, block};
    return ps_digest_xxh64((struct ps_bytes){(const uint8_t *)words, sizeof words});
}
