/* SPDX-License-Identifier: Apache-2.0 */
/* grpc.reflection.v1 and v1alpha (the same messages in two packages): a request in, the whole
 * response out.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a request that is malformed or longer than its bound. What is
 *           asked for and does not exist is an answer, not a failure.
 * Memory:   the caller's.
 */
#ifndef PS_PROTO_REFLECTION_CODEC_H
#define PS_PROTO_REFLECTION_CODEC_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

/* Longest request: a few names. */
#define PS_REFLECTION_REQUEST_BYTES_MAX 2048

/* Longest response, for the buffer: the largest file and the request again. */
#define PS_REFLECTION_REPLY_BYTES_MAX (64 * 1024)

#define PS_REFLECTION_V1_PATH "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define PS_REFLECTION_V1ALPHA_PATH "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

/* Appends the ServerReflectionResponse. Extensions are answered NOT_FOUND: there are none. */
PS_MUST_USE enum ps_status ps_reflection_answer(struct ps_view request, struct ps_buffer *reply,
                                                struct ps_error *error);

#endif
