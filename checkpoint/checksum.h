/* SPDX-License-Identifier: Apache-2.0 */
/* The two checksums of a checkpoint file. isa-l computes them (the home of that library).
 *
 * Both are continued: start with 0 and give each result to the next call.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_CHECKSUM_H
#define PS_CHECKPOINT_CHECKSUM_H

#include "base/bytes.h"

#include <stdint.h>

/* CRC-32C (Castagnoli, as in iSCSI and RFC 3720): of every array and of the header. */
uint32_t ps_checksum_crc32c(uint32_t checksum, struct ps_bytes bytes);

/* CRC-32 (IEEE, as in gzip and zlib): of the whole file, for the pointer in etcd. */
uint32_t ps_checksum_crc32(uint32_t checksum, struct ps_bytes bytes);

/* The checksum of two runs of bytes, one behind the other, from those of each. */
uint32_t ps_checksum_crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes);
uint32_t ps_checksum_crc32_join(uint32_t first, uint32_t second, uint64_t second_bytes);

#endif
