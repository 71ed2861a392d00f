/* SHA-256 (FIPS 180-4), for digests of states.
 *
 * Threads:  a hash belongs to one thread.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_SHA256_H
#define PS_TOOLS_SHA256_H

#include "base/bytes.h"

#define SHA256_BYTES 32
#define SHA256_TEXT_BYTES 65

struct sha256 {
    uint32_t state[8];
    uint64_t size; /* bytes so far */
    uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, struct ps_bytes bytes);
void sha256_add_view(struct sha256 *hash, struct ps_view view);

/* `bytes` lowest bytes of `number`, the lowest first. */
void sha256_add_number(struct sha256 *hash, uint64_t number, size_t bytes);

/* The hash is used up afterwards. */
void sha256_end(struct sha256 *hash, uint8_t result[SHA256_BYTES]);

/* As 64 hexadecimal digits and a NUL. */
void sha256_text(const uint8_t result[SHA256_BYTES], char text[SHA256_TEXT_BYTES]);

#endif
