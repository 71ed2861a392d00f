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
#include "proto/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_VALUE_RANK_MAX 8

/* Longest key that a server takes, in bytes. */
#define PS_RENDEZVOUS_KEY_BYTES_MAX 1024

/* Most receives of one call; done_with, give_back and cancel have as many at most. */
#define PS_RENDEZVOUS_WISHES_MAX 4096

/* Least bytes of a part of a value, but for the part that ends it. */
#ifndef PS_TENSOR_PART_BYTES_MIN
#define PS_TENSOR_PART_BYTES_MIN ((uint64_t)64 * 1024)
#endif

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
    uint64_t offset; /* of the value, which is had already when this is not 0: its first byte */
    uint64_t count;  /* most bytes of it; 0: to its end */
};

struct ps_send_tensor_request {
    uint64_t step, epoch, token;
    struct ps_bytes key;
    struct ps_value_facts facts;
    struct ps_view content;
    uint64_t offset;               /* of a part */
    uint64_t total;                /* bytes of the whole value; 0: the content is all of it */
    struct ps_shared_range shared; /* the content, which is then empty above */
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
    const uint64_t *cancel;
    size_t cancel_count;
    struct ps_shared_range shared; /* room for contents */
    uint64_t range_bytes;          /* most bytes of one value; 0: values come whole */
    uint32_t shard;
};

/* One answer of a reply. */
struct ps_received_tensor {
    uint64_t id;
    enum ps_status status; /* PS_OK: there is a value */
    struct ps_value_facts facts;
    struct ps_view content; /* of a reply that is decoded: for as long as it is taken */
    uint64_t total;         /* bytes of the value; 0: the content is all of it */
    uint64_t offset;        /* of a range */
    uint64_t shared_offset, shared_size; /* where the content is in the request's room */
};

/* The reply to a SendTensor. */
struct ps_send_tensor_reply {
    uint64_t epoch;
    bool is_whole; /* the value is in its queue */
};

enum ps_step_act {
    PS_STEP_NOTHING,
    PS_STEP_BEGIN,
    PS_STEP_ABORT,
    PS_STEP_CLEANUP,
    PS_STEP_CLEANUP_ALL
};

#endif
