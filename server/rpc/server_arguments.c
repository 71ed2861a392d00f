/* SPDX-License-Identifier: Apache-2.0 */
/* Each setting with its reason.
 *
 * These are what the library can bound by itself, and it bounds by what a peer admits: a limit
 * counts from the moment in which the peer acknowledges it, and header lists are looked at when
 * they are whole. The rest is bounded in front of the library (server/front), for peers that keep
 * to nothing. What a client that means well does is settled here, so that it never comes near
 * that. */
#include "server/rpc/server_arguments.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <grpc/compression.h>

#include <limits.h>
#include <string.h>

static void add(struct ps_server_arguments *arguments, const char *key, int value)
{
    size_t count = arguments->arguments.num_args;
    PS_ASSERT(count < PS_ARRAY_COUNT(arguments->list));
    arguments->list[count].type = GRPC_ARG_INTEGER;
    arguments->list[count].key = (char *)(uintptr_t)key; /* gRPC only reads it */
    arguments->list[count].value.integer = value;
    arguments->arguments.num_args++;
}

void ps_server_arguments_init(struct ps_server_arguments *arguments, uint64_t message_bytes_max,
                              uint32_t client_calls_max)
{
    memset(arguments, 0, sizeof *arguments);
    arguments->arguments.args = arguments->list;
    int bytes_max = message_bytes_max < INT_MAX ? (int)message_bytes_max : INT_MAX;
    add(arguments, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, bytes_max);

    /* Two servers on one port would share its connections: the second one is to fail. */
    add(arguments, GRPC_ARG_ALLOW_REUSEPORT, 0);

    /* Bounds what one connection can make us hold: this many messages of the largest size. A peer
     * that does not acknowledge the number has twice as many before the front door closes its
     * connection: a client may begin calls before it has heard of any number. */
    add(arguments, GRPC_ARG_MAX_CONCURRENT_STREAMS,
        client_calls_max != 0 ? (int)client_calls_max : PS_CLIENT_CALLS_DEFAULT);

    /* A compressed message could become any size, and parameters do not compress. */
    add(arguments, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    add(arguments, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);

    /* The server compresses nothing either: its replies are slices of blocks. */
    add(arguments, GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);

    /* A call is looked at when it comes, and a parked one about once a second (unary_call.c): a
     * timer in gRPC for each call would say the same, and a live client cancels by itself. */
    add(arguments, GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);

    /* Also the time of a handshake of TLS, of which nothing else is bounded.
     * A peer that connects and says nothing is dropped; the default waits for two minutes. */
    add(arguments, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10 * 1000);

    /* Peers that died without a word are found, and connections that nobody uses are closed. */
    add(arguments, GRPC_ARG_KEEPALIVE_TIME_MS, 60 * 1000);
    add(arguments, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20 * 1000);
    add(arguments, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    add(arguments, GRPC_ARG_MAX_CONNECTION_IDLE_MS, 30 * 60 * 1000);

    /* Clients ping often to find a dead server soon: that is not an offence. */
    add(arguments, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);

    /* Bookkeeping that nothing here reads, and that holds an entry for each connection. */
    add(arguments, GRPC_ARG_ENABLE_CHANNELZ, 0);
}
