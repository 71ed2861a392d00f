/* SPDX-License-Identifier: Apache-2.0 */
/* What the gRPC server is told at its creation.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_SERVER_RPC_SERVER_ARGUMENTS_H
#define PS_SERVER_RPC_SERVER_ARGUMENTS_H

#include <grpc/grpc.h>

#include <stdint.h>

enum { PS_SERVER_ARGUMENTS_MAX = 16 };

/* Of one connection, at once, where nothing else is said. */
#define PS_CLIENT_CALLS_DEFAULT 256

struct ps_server_arguments {
    grpc_arg list[PS_SERVER_ARGUMENTS_MAX];
    grpc_channel_args arguments; /* points to `list` */
};

/* `arguments` must stay where it is. Messages longer than `message_bytes_max` are refused;
 * calls of a connection beyond `client_calls_max` (0: 256) wait at the client. */
void ps_server_arguments_init(struct ps_server_arguments *arguments, uint64_t message_bytes_max,
                              uint32_t client_calls_max);

#endif
