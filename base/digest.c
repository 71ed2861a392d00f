/* xxHash64, from its description: four lanes of 8 bytes, joined, then the rest. */
#include "base/digest.h"

#include "base/assert.h"

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

/* Takes whole stripes of 32 bytes. */
static void take_stripes(uint64_t lanes[4], const uint8_t *bytes, size_t size)
{
    uint64_t a = lanes[0];
    uint64_t b = lanes[1];
    uint64_t c = lanes[2];
    uint64_t d = lanes[3];
    for (const uint8_t *end = bytes + size; bytes < end; bytes += 32) {
        a = rounded(a, word_at(bytes));
        b = rounded(b, word_at(bytes + 8));
        c = rounded(c, word_at(bytes + 16));
        d = rounded(d, word_at(bytes + 24));
    }
    lanes[0] = a;
    lanes[1] = b;
    lanes[2] = c;
    lanes[3] = d;
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

void ps_digest_begin(struct ps_digest *digest)
{
    *digest = (struct ps_digest){.lanes = {PRIME_1 + PRIME_2, PRIME_2, 0, 0 - PRIME_1}};
}

void ps_digest_add(struct ps_digest *digest, struct ps_bytes bytes)
{
    size_t waiting = (size_t)(digest->size % 32);
    digest->size += bytes.size;
    if (waiting > 0) {
        size_t missing = 32 - waiting < bytes.size ? 32 - waiting : bytes.size;
        memcpy(digest->rest + waiting, bytes.data, missing);
        if (waiting + missing < 32)
            return;
        take_stripes(digest->lanes, digest->rest, 32);
        bytes = (struct ps_bytes){bytes.data + missing, bytes.size - missing};
    }
    size_t stripes = bytes.size - bytes.size % 32;
    take_stripes(digest->lanes, bytes.data, stripes);
    if (bytes.size > stripes)
        memcpy(digest->rest, bytes.data + stripes, bytes.size - stripes);
}

uint64_t ps_digest_end(const struct ps_digest *digest)
{
    const uint64_t *lanes = digest->lanes;
    uint64_t hash = PRIME_5;
    if (digest->size >= 32) {
        hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) +
               rotated(lanes[3], 18);
        for (size_t i = 0; i < 4; i++)
            hash = joined(hash, lanes[i]);
    }
    hash = with_rest(hash + digest->size, digest->rest, (size_t)(digest->size % 32));
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

uint64_t ps_digest_xxh64(struct ps_bytes bytes)
{
    struct ps_digest digest;
    ps_digest_begin(&digest);
    if (bytes.size > 0)
        ps_digest_add(&digest, bytes);
    return ps_digest_end(&digest);
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
    struct ps_digest digest;
    ps_digest_begin(&digest);
    while (size > 0) {
        struct ps_bytes run = ps_view_next(cursor, size);
        PS_ASSERT(run.size > 0);
        ps_digest_add(&digest, run);
        size -= run.size;
    }
    return not_zero(ps_digest_end(&digest));
}

uint64_t ps_digest_chain(uint64_t chain, uint64_t block)
{
    const uint64_t words[2] = {chain, block};
    return ps_digest_xxh64((struct ps_bytes){(const uint8_t *)words, sizeof words});
}
