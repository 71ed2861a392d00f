/* Straight from the standard: no tables but its constants. */
#include "tools/psckpt/sha256.h"

#include <stdio.h>
#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static void add_block(struct sha256 *hash, const uint8_t *block);
static void rounds(uint32_t state[8], const uint32_t words[64]);

void sha256_init(struct sha256 *hash)
{
    *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, struct ps_bytes bytes)
{
    size_t filled = (size_t)(hash->size % sizeof hash->block);
    hash->size += bytes.size;
    if (filled > 0) {
        size_t room = sizeof hash->block - filled;
        size_t part = bytes.size < room ? bytes.size : room;
        if (part > 0)
            memcpy(hash->block + filled, bytes.data, part);
        if (part < room)
            return;
        add_block(hash, hash->block);
        bytes.data += part;
        bytes.size -= part;
    }
    for (; bytes.size >= sizeof hash->block; bytes.size -= sizeof hash->block) {
        add_block(hash, bytes.data);
        bytes.data += sizeof hash->block;
    }
    if (bytes.size > 0)
        memcpy(hash->block, bytes.data, bytes.size);
}

void sha256_add_view(struct sha256 *hash, struct ps_view view)
{
    for (size_t i = 0; i < view.piece_count; i++)
        sha256_add(hash, view.pieces[i]);
}

void sha256_add_number(struct sha256 *hash, uint64_t number, size_t bytes)
{
    uint8_t text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (uint8_t)(number >> 8 * i);
    sha256_add(hash, (struct ps_bytes){text, bytes});
}

void sha256_end(struct sha256 *hash, uint8_t result[SHA256_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->size * 8;
    size_t filled = (size_t)(hash->size % 64);
    sha256_add(hash, (struct ps_bytes){padding, (filled < 56 ? 56 : 120) - filled});
    uint8_t length[8];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(hash, (struct ps_bytes){length, sizeof length});
    for (size_t i = 0; i < SHA256_BYTES; i++)
        result[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_text(const uint8_t result[SHA256_BYTES], char text[SHA256_TEXT_BYTES])
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", result[i]);
}

static uint32_t turn(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void add_block(struct sha256 *hash, const uint8_t *block)
{
    uint32_t words[64];
    for (size_t i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = words[i - 15];
        uint32_t b = words[i - 2];
        words[i] = words[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + words[i - 7] +
                   (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    rounds(hash->state, words);
}

/* Eight variables that move on by one each round: compilers turn the moves into names. */
static void rounds(uint32_t state[8], const uint32_t words[64])
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (size_t i = 0; i < 64; i++) {
        uint32_t first = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) +
                         constants[i] + words[i];
        uint32_t second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; i++)
        state[i] += added[i];
}
