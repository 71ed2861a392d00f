/* CRC-32C and CRC-32 by isa-l, with one convention for both. */
#include "checkpoint/checksum.h"

#include <isa-l/crc.h>

#include <limits.h>

/* isa-l takes the length as an int, and neither inverts before nor after. */
#define PART_BYTES_MAX ((size_t)INT_MAX)

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
    if (bytes.size == 0)
        return checksum;
    return crc32_gzip_refl(checksum, bytes.data, bytes.size);
}
