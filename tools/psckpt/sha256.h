/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for digests of states.
 *
 * Threads:  a hash belongs to one thread.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY where a hash ends: what failed before is not forgotten.
 * Memory:   libcrypto's, from init until end.
 */
#ifndef PS_TOOLS_SHA256_H
#define PS_TOOLS_SHA256_H

#include "base/bytes.h"
#include "base/status.h"

#define SHA256_BYTES 32
#define SHA256_TEXT_BYTES 65

struct sha256 {
    void *context; /* owned; NULL: libcrypto had no memory for it */
};

/* Is to be ended, whatever becomes of it. */
void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, struct ps_bytes bytes);
void sha256_add_view(struct sha256 *hash, struct ps_view view);

/* `bytes` lowest bytes of `number`, the lowest first. */
void sha256_add_number(struct sha256 *hash, uint64_t number, size_t bytes);

/* The hash is used up afterwards, and without PS_OK `result` is not to be used. */
PS_MUST_USE enum ps_status sha256_end(struct sha256 *hash, uint8_t result[SHA256_BYTES],
                                      struct ps_error *error);

/* As 64 hexadecimal digits and a NUL. */
void sha256_text(const uint8_t result[SHA256_BYTES], char text[SHA256_TEXT_BYTES]);

#endif
