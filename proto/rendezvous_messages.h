/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of rendezvous.proto as plain structs.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   every pointer is borrowed from the bytes that were decoded, or will be encoded.
 */
#ifndef PS_PROTO_RENDEZVOUS_MESSAGES_H
#define PS_PROTO_RENDEZVOUS_MESSAGES_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_VALUE_RANK_MAX 8

/* Longest key that a server takes, in bytes. */
#define PS_RENDEZVOUS_KEY_BYTES_MAX 1024

/* Most receives of one call; done_with and give_back have as many at most. */
#define PS_RENDEZVOUS_WISHES_MAX 4096

/* What a value is: the server passes it on, and understands none of it. */
struct ps_value_facts {
    uint32_t dtype;        /* the clients' number of an element type */
    uint32_t element_size; /* bytes; 0: elements have no one size */
    uint32_t rank;         /* dimensions, at most PS_VALUE_RANK_MAX */
    uint64_t extents[PS_VALUE_RANK_MAX];
    bool dead; /* made by a branch that was not taken */
};

/* One receive that a caller wants to have answered. */
struct ps_rendezvous_wish {
    uint64_t id; /* not 0, and no other receive's of this step, ever */
    struct ps_bytes key;
};

struct ps_send_tensor_request {
    uint64_t step, epoch, token;
    struct ps_bytes key;
    struct ps_value_facts facts;
    struct ps_view content;
    uint32_t shard;
};

struct ps_recv_tensors_request {
    uint64_t step, epoch;
    uint32_t wanted;
    uint64_t wait_ms;
    const struct ps_rendezvous_wish *wishes;
    size_t wish_count;
    const uint64_t *done_with;
    size_t done_count;
    const uint64_t *give_back;
    size_t give_back_count;
    uint32_t shard;
};

/* One answer of a reply. */
struct ps_received_tensor {
    uint64_t id;
    enum ps_status status; /* PS_OK: there is a value */
    struct ps_value_facts facts;
    struct ps_view content; /* of a reply that is decoded: for as long as it is taken */
};

enum ps_step_act {
    PS_STEP_NOTHING,
    PS_STEP_BEGIN,
    PS_STEP_ABORT,
    PS_STEP_CLEANUP,
    PS_STEP_CLEANUP_ALL
};

#endif
