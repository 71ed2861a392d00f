/* SPDX-License-Identifier: Apache-2.0 */
/* How a status travels in a gRPC reply, and back. Numbers only: no gRPC header is needed.
 *
 * A server that answers with a failure sends three things: the gRPC code that belongs to the
 * status, the text of the error as the status message, and trailing metadata "ps-status: WORD"
 * with the word of ps_status_word. The word is how a client knows that the server itself has
 * answered. Then nothing was applied, unless the word is "timeout" or "cancelled": those two say
 * unknown. A failure without the word was made by gRPC on the way (connection lost, deadline over,
 * message too long, server gone while the request was on its way: then also CANCELLED): whether
 * the server has seen the request is unknown.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_PROTO_STATUS_CODES_H
#define PS_PROTO_STATUS_CODES_H

#include "base/bytes.h"
#include "base/status.h"

/* gRPC's numbers, with the names that metrics carry. */
#define PS_RPC_CODE_TABLE(X)                            \
    X(PS_RPC_OK, "OK")                                  \
    X(PS_RPC_CANCELLED, "Canceled")                     \
    X(PS_RPC_UNKNOWN, "Unknown")                        \
    X(PS_RPC_INVALID_ARGUMENT, "InvalidArgument")       \
    X(PS_RPC_DEADLINE_EXCEEDED, "DeadlineExceeded")     \
    X(PS_RPC_NOT_FOUND, "NotFound")                     \
    X(PS_RPC_ALREADY_EXISTS, "AlreadyExists")           \
    X(PS_RPC_PERMISSION_DENIED, "PermissionDenied")     \
    X(PS_RPC_RESOURCE_EXHAUSTED, "ResourceExhausted")   \
    X(PS_RPC_FAILED_PRECONDITION, "FailedPrecondition") \
    X(PS_RPC_ABORTED, "Aborted")                        \
    X(PS_RPC_OUT_OF_RANGE, "OutOfRange")                \
    X(PS_RPC_UNIMPLEMENTED, "Unimplemented")            \
    X(PS_RPC_INTERNAL, "Internal")                      \
    X(PS_RPC_UNAVAILABLE, "Unavailable")                \
    X(PS_RPC_DATA_LOSS, "DataLoss")                     \
    X(PS_RPC_UNAUTHENTICATED, "Unauthenticated")

#define PS_RPC_CODE_ENUM(TAG, name) TAG,
enum ps_rpc_code { PS_RPC_CODE_TABLE(PS_RPC_CODE_ENUM) PS_RPC_CODE_COUNT };
#undef PS_RPC_CODE_ENUM

/* The key of the trailing metadata that carries the word. */
#define PS_STATUS_METADATA_KEY "ps-status"

/* With "stale_session": the key of a session that the client may begin now, in digits. With
 * "aborted": the epoch of the server's programs, which is not the one that an Ask has named. */
#define PS_SESSION_METADATA_KEY "ps-session"

/* The code that a reply with this status has. */
enum ps_rpc_code ps_rpc_code_of_status(enum ps_status status);

/* "NotFound" ... Static; "Unknown" for a number that is none of gRPC's. */
const char *ps_rpc_code_name(uint32_t code);

/* The status of a reply with this code and this word (empty: the reply had none).
 * `*from_server` says whether the server itself has answered: code 0, or a word that we know.
 * Without a word the code alone decides: CANCELLED and DEADLINE_EXCEEDED become what they are
 * called here, a message that was too long (RESOURCE_EXHAUSTED) PS_ERR_OUT_OF_RANGE, UNIMPLEMENTED
 * PS_ERR_UNSUPPORTED, UNAVAILABLE PS_ERR_UNAVAILABLE, and what gRPC does not make by itself
 * PS_ERR_INTERNAL. */
enum ps_status ps_status_of_reply(uint32_t code, struct ps_bytes word, bool *from_server);

#endif
