/* SPDX-License-Identifier: Apache-2.0 */
/* ListWorkersResponse: who takes part in a job.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for bytes that are not such a message; PS_ERR_NO_MEMORY.
 * Memory:   a decoded list owns its rows, bounded by PS_WORKERS_LISTED_MAX and twice as many groups
 *           as a job may have.
 */
#ifndef PS_PROTO_WORKER_CODEC_H
#define PS_PROTO_WORKER_CODEC_H

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>

/* Rows of one answer: less than gRPC's default limit of 4 MiB. */
#define PS_WORKERS_LISTED_MAX 8192

/* Longest text of a row, with its NUL. */
#define PS_WORKER_TEXT_BYTES 288

/* What a server writes; texts are borrowed, and NULL counts as "". */
struct ps_worker_info {
    uint32_t rank;
    bool is_heard; /* silent_ms is known */
    uint64_t joined_unix_ms, silent_ms, ttl_ms, incarnation;
    const char *group, *name, *role, *host;
};

void ps_encode_worker(const struct ps_worker_info *info, struct ps_buffer *message);
void ps_encode_worker_group(const char *name, uint32_t size, struct ps_buffer *message);

/* What a client reads. */
struct ps_listed_worker {
    uint32_t rank;
    bool is_heard;
    uint64_t joined_unix_ms, silent_ms, ttl_ms, incarnation;
    char group[PS_WORKER_TEXT_BYTES], name[PS_WORKER_TEXT_BYTES], role[PS_WORKER_TEXT_BYTES],
        host[PS_WORKER_TEXT_BYTES];
};

struct ps_listed_group {
    char name[PS_WORKER_TEXT_BYTES];
    uint32_t size;
};

struct ps_worker_list {
    const struct ps_allocator *memory; /* borrowed; of the rows */
    struct ps_listed_worker *rows;     /* owned */
    struct ps_listed_group *groups;    /* owned */
    size_t count, group_count;
    uint64_t revision;
    bool more;
};

/* End with ps_worker_list_release. */
PS_MUST_USE enum ps_status ps_decode_workers(struct ps_view message,
                                             const struct ps_allocator *memory,
                                             struct ps_worker_list *list, struct ps_error *error);

/* Accepts a zeroed one. */
void ps_worker_list_release(struct ps_worker_list *list);

#endif
