/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client of the smallest kind, on the C core: one call at a time, bytes out and bytes in.
 *
 * Threads:  a client belongs to one thread.
 * Blocking: each call up to its deadline.
 * Errors:   as gRPC codes, in the answer.
 * Memory:   an answer's bytes belong to it until raw_answer_release.
 */
#ifndef PS_TESTS_INTEGRATION_RPC_RAW_CLIENT_H
#define PS_TESTS_INTEGRATION_RPC_RAW_CLIENT_H

#include "base/bytes.h"

#include <grpc/grpc.h>

struct raw_client {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    bool asks; /* for the name at which the server takes shared memory */
};

struct raw_answer {
    int code;
    char text[512];
    char word[64];  /* of the trailing metadata; empty: none */
    char name[128]; /* that was asked for; empty: none */
    uint8_t *bytes;
    size_t size;
};

void raw_client_open(struct raw_client *client, uint16_t port);
void raw_client_close(struct raw_client *client);

/* One call, from its start to its answer. */
void raw_call(struct raw_client *client, const char *path, struct ps_bytes request,
              int64_t timeout_ms, struct raw_answer *answer);
void raw_answer_release(struct raw_answer *answer);

/* A call that is started and left alone until it is waited for. */
struct raw_pending {
    grpc_call *call;
    grpc_byte_buffer *sent;
    grpc_byte_buffer *received;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_slice details;
    grpc_status_code code;
};

void raw_start(struct raw_client *client, struct raw_pending *pending, const char *path,
               struct ps_bytes request, int64_t timeout_ms);
void raw_cancel(struct raw_pending *pending);
/* False when the call has not ended after `wait_ms`. */
bool raw_wait(struct raw_client *client, struct raw_pending *pending, int64_t wait_ms,
              struct raw_answer *answer);

#endif
