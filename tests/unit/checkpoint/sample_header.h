/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of checkpoint files with a right checksum and anything in them.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   assertions of Check.
 * Memory:   static; what was read belongs to sample.header until ps_header_fini.
 */
#ifndef TESTS_CHECKPOINT_SAMPLE_HEADER_H
#define TESTS_CHECKPOINT_SAMPLE_HEADER_H

#include "checkpoint/header_reader.h"

#define FACTS                                                                              \
    "\"ps.format\":\"1\",\"ps.uuid\":\"u-1\",\"ps.index\":\"0\",\"ps.shard_count\":\"2\"," \
    "\"ps.epoch\":\"5\",\"ps.position\":\"6\",\"ps.unix_ns\":\"7\",\"ps.job\":\"j\""
#define ENTRY(name, sums)                                                            \
    "{\\\"name\\\":\\\"" name "\\\",\\\"id\\\":\\\"1\\\",\\\"version\\\":\\\"2\\\"," \
    "\\\"step\\\":\\\"3\\\",\\\"config\\\":\\\"Zm9v\\\",\\\"crc32c\\\":[" sums "]}"
#define ONE_SUM "\\\"0123abcd\\\""
#define TENSOR(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define LIST(entries) ",\"ps.parameters\":\"[" entries "]\""

#define GOOD_METADATA FACTS LIST(ENTRY("w", ONE_SUM))
#define GOOD_TENSOR TENSOR("w", "F32", "[2]", "[0,8]")

struct sample_header {
    struct ps_header header;
    struct ps_error error;
    uint8_t head[65536];
    size_t head_size;
};

extern struct sample_header sample;

/* Makes a head with right length, checksum and padding around what follows the checksum. */
void sample_header_make(const char *metadata, const char *tensors);

/* Reads the head as that of a file with so many bytes behind it. */
enum ps_status sample_header_parse(uint64_t data_bytes);

/* Both; the header is refused for a reason that contains `reason`. */
void assert_header_corrupt(const char *metadata, const char *tensors, uint64_t data_bytes,
                           const char *reason);

#endif
