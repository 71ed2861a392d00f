/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a pull's reply, in whatever encoding and however cut, into the caller's memory.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT when the parameter is of another length, or the bytes cannot be.
 * Memory:   in place.
 */
#ifndef PS_CLIENT_PULL_DECODER_H
#define PS_CLIENT_PULL_DECODER_H

#include "base/status.h"
#include "proto/messages.h"

/* Writes `size` bytes of elements to `destination`; nothing on failure. `name` is for its text. */
PS_MUST_USE enum ps_status ps_pull_reply_take(const struct ps_pull_reply *reply,
                                              struct ps_bytes name, void *destination, size_t size,
                                              struct ps_error *error);

/* The same where the caller's elements are those of an encoding (bfloat16, say): `count` of them,
 * as they come. */
PS_MUST_USE enum ps_status ps_pull_reply_take_as_is(const struct ps_pull_reply *reply,
                                                    enum ps_encoding encoding, struct ps_bytes name,
                                                    void *destination, size_t count,
                                                    struct ps_error *error);

/* Bytes of one element at the destination of the pull. */
size_t ps_pull_element_bytes(const struct ps_pull_request *pull);

#endif
