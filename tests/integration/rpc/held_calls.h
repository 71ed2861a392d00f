/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are opened on a connection of their own and left alone: their replies are not read, or
 * only their first message is.
 *
 * Threads:  one.
 * Blocking: read, as it says; close, until all calls are over.
 * Errors:   aborts.
 * Memory:   its own, until close.
 */
#ifndef PS_TESTS_INTEGRATION_RPC_HELD_CALLS_H
#define PS_TESTS_INTEGRATION_RPC_HELD_CALLS_H

#include "base/bytes.h"

#include <grpc/grpc.h>

#include <stdbool.h>
#include <stdint.h>

enum { HELD_CALLS_MAX = 1024 };

enum held_kind {
    HELD_UNREAD, /* nothing of the reply is asked for */
    HELD_READS   /* one message is */
};

struct held_call {
    grpc_call *call;
    grpc_byte_buffer *sent;
    grpc_byte_buffer *received;
    grpc_metadata_array initial;
    bool sending;
    bool reading;
};

struct held_calls {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    int count;
    struct held_call calls[HELD_CALLS_MAX];
};

/* Calls beyond what the server lets a connection have are begun and stay at the client. Nothing
 * says here when the server has them. */
void held_calls_open(struct held_calls *held, uint16_t port, const char *path,
                     struct ps_bytes request, enum held_kind kind, int count);

/* Of a call that reads: has a message come within `wait_ms`? */
bool held_calls_read(struct held_calls *held, int index, int64_t wait_ms);

/* Gives all of them up. */
void held_calls_close(struct held_calls *held);

#endif
