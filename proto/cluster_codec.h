/* SPDX-License-Identifier: Apache-2.0 */
/* GetClusterResponse: who serves which shard of a job.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for bytes that are not such a message; PS_ERR_NO_MEMORY.
 * Memory:   a decoded reply owns its rows, bounded by PS_SHARDS_MAX.
 */
#ifndef PS_PROTO_CLUSTER_CODEC_H
#define PS_PROTO_CLUSTER_CODEC_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>

struct ps_cluster_member {
    char address[PS_ADDRESS_BYTES_MAX]; /* "": nobody serves the shard */
    uint64_t epoch;                     /* 0: nobody owns it */
    bool answers;                       /* it is the server that gave the answer */
};

struct ps_cluster_reply {
    const struct ps_allocator *memory; /* borrowed; of the rows */
    struct ps_cluster_member *rows;    /* owned; `shard_count` of them */
    uint32_t shard_count;
    uint64_t revision;
    uint64_t split_bytes;
    uint64_t placement; /* 0: not decided, or not said */
    bool alone;
};

/* What comes before the members, and each member behind it, by index. `job`, `version` and
 * `unix_path` (NULL: none) are borrowed. */
void ps_encode_cluster(const struct ps_cluster_reply *reply, const char *job, const char *version,
                       struct ps_buffer *message);
void ps_encode_cluster_member(uint32_t index, const struct ps_cluster_member *member,
                              const char *unix_path, struct ps_buffer *message);

/* Rows that the message does not have are empty. End with ps_cluster_reply_release. */
PS_MUST_USE enum ps_status ps_decode_cluster(struct ps_view message,
                                             const struct ps_allocator *memory,
                                             struct ps_cluster_reply *reply,
                                             struct ps_error *error);

/* Do both say the same of who serves what? A revision alone is not news. */
bool ps_cluster_reply_is_same(const struct ps_cluster_reply *left,
                              const struct ps_cluster_reply *right);

/* Accepts a zeroed one. */
void ps_cluster_reply_release(struct ps_cluster_reply *reply);

#endif
