/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C and CRC-32 by isa-l, with one convention for both: an empty text has 0, and the checksum
 * of a whole is made by passing that of its beginning on.
 *
 * CRC-32C (Castagnoli) guards our own bytes, since processors compute it; CRC-32 (IEEE, as in gzip)
 * is what the old system's pointers contain. */
#include "checkpoint/checksum.h"

#include <isa-l/crc.h>

#include <limits.h>

/* isa-l's crc32_iscsi takes the length as an int, and inverts neither before nor after. */
#define PART_BYTES_MAX ((size_t)INT_MAX)

static uint32_t join(uint32_t first, uint32_t second, uint64_t second_bytes, uint32_t modulus);
static uint32_t multiply(uint32_t a, uint32_t b, uint32_t modulus);

uint32_t ps_checksum_crc32c(uint32_t checksum, struct ps_bytes bytes)
{
    uint32_t state = ~checksum;
    while (bytes.size > 0) {
        size_t part = bytes.size < PART_BYTES_MAX ? bytes.size : PART_BYTES_MAX;
        /* The library forgot a const; it only reads. */
        state = crc32_iscsi((unsigned char *)(uintptr_t)bytes.data, (int)part, state);
        bytes.data += part;
        bytes.size -= part;
    }
    return ~state;
}

uint32_t ps_checksum_crc32(uint32_t checksum, struct ps_bytes bytes)
{
    /* crc32_gzip_refl inverts by itself and takes 64-bit lengths; with NULL for no bytes it is not
     * tried. */
    if (bytes.size == 0)
        return checksum;
    return crc32_gzip_refl(checksum, bytes.data, bytes.size);
}

uint32_t ps_checksum_crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes)
{
    /* The generator polynomials with their bits reversed, as reflected CRCs want them. */
    return join(first, second, second_bytes, UINT32_C(0x82f63b78));
}

uint32_t ps_checksum_crc32_join(uint32_t first, uint32_t second, uint64_t second_bytes)
{
    return join(first, second, second_bytes, UINT32_C(0xedb88320));
}

/* A checksum is a polynomial over two elements, modulo that of its kind: bytes that follow multiply
 * it by x to the power of their bits. The power is made by squaring, so joining costs 64 steps
 * whatever the size. The inversions of both checksums cancel (the method of zlib's
 * crc32_combine). */
static uint32_t join(uint32_t first, uint32_t second, uint64_t second_bytes, uint32_t modulus)
{
    /* 0 times anything is 0; also the usual case of an empty beginning. */
    if (first == 0)
        return second;
    uint32_t power = (uint32_t)1 << (31 - 8); /* x^8, a byte; then x^16, x^32, ... */
    for (; second_bytes > 0; second_bytes >>= 1) {
        if ((second_bytes & 1) != 0)
            first = multiply(first, power, modulus);
        power = multiply(power, power, modulus);
    }
    return first ^ second;
}

/* Multiplies modulo the generator. In reflected form the highest bit is the lowest power of x, so
 * multiplying by x shifts to the right, and a bit that falls out is reduced. */
static uint32_t multiply(uint32_t a, uint32_t b, uint32_t modulus)
{
    uint32_t product = 0;
    for (uint32_t bit = (uint32_t)1 << 31; bit != 0; bit >>= 1) {
        if ((a & bit) != 0)
            product ^= b;
        b = (b & 1) != 0 ? b >> 1 ^ modulus : b >> 1;
    }
    return product;
}
