/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of admin.proto as plain structs: what operators ask, and what they are told.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   every pointer is borrowed from the bytes that were decoded, or will be encoded; texts
 *           of replies outlive them.
 */
#ifndef PS_PROTO_ADMIN_MESSAGES_H
#define PS_PROTO_ADMIN_MESSAGES_H

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_status_reply {
    const char *program_version;
    uint32_t index;
    uint32_t shard_count;
    uint64_t epoch;
    const char *state;
    uint64_t parameter_count;
    uint64_t parameter_bytes;
    uint64_t state_bytes;
    uint64_t push_count;
    uint64_t pull_count;
    uint64_t position;
    const char *checkpoint_uuid;
    uint64_t checkpoint_position;
    uint64_t checkpoint_unix_ns;
    uint64_t uptime_ms;
    const char *device;
    const char *job;
    const char *address;
    uint64_t lost_count;
    uint64_t placement;
};

struct ps_list_request {
    struct ps_bytes after;
    uint32_t limit;
    bool with_config;
    struct ps_bytes prefix; /* of the names; empty: all */
};

/* Room for the first few ranks that a round waits for, as text. */
#define PS_ROUND_MISSING_BYTES_MAX 96

struct ps_param_info {
    struct ps_bytes name;
    enum ps_dtype dtype;
    uint64_t element_count;
    uint64_t version;
    const char *rule;
    double learning_rate;
    uint64_t state_bytes;
    struct ps_shape shape;
    struct ps_bytes config;                         /* where it was asked for */
    uint32_t round_workers;                         /* of one that is trained in rounds; else 0 */
    uint32_t round_counted;                         /* contributions to the open round */
    char round_missing[PS_ROUND_MISSING_BYTES_MAX]; /* ranks that it waits for, the first few */
};

struct ps_list_reply {
    const struct ps_param_info *params;
    size_t param_count;
    bool more;
};

struct ps_drain_request {
    uint64_t epoch; /* of the server that is meant */
};

struct ps_save_request {
    bool once; /* the reason of an attempt that failed is an answer, too */
};

struct ps_save_reply {
    const char *uuid;
    const char *path;
    uint64_t position;
    uint64_t bytes;
};

struct ps_saved_shard {
    uint32_t index;
    const char *uuid;
    const char *path;
    uint64_t position, bytes, epoch, unix_ns;
};

struct ps_model_reply {
    const char *set;
    bool whole, existed;
    uint32_t shard_count; /* PS_SHARDS_MAX at most */
    const struct ps_saved_shard *shards;
    size_t count; /* of the rows; their indices are the server's word */
};

#endif
