/* SPDX-License-Identifier: Apache-2.0 */
/* What a receiver of blocks checks them by: xxHash64, and a chain of the digests of blocks, which
 * says what a whole parameter is without reading again what did not change. It finds accidents;
 * it is not a signature. docs/delta-pull.md has the rule for clients in other languages.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_PROTO_DIGEST_H
#define PS_PROTO_DIGEST_H

#include "base/bytes.h"

#include <stdint.h>

/* xxHash64 with seed 0. */
uint64_t ps_digest_xxh64(struct ps_bytes bytes);

/* Of one block: its xxHash64, but 1 instead of 0. 0 is never a block's. */
uint64_t ps_digest_block(struct ps_bytes block);

/* The same of the next `size` bytes of a view, which are then consumed. */
uint64_t ps_digest_next_block(struct ps_view_cursor *cursor, size_t size);

/* The chain over blocks, in order: 0, then after each block this. */
uint64_t ps_digest_chain(uint64_t chain, uint64_t block);

#endif
