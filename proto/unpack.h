/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf-c on a leash: unpacks a message with no more memory than a bound says. Only for
 * messages that are not recursive, since protobuf-c has no limit to its depth.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT when the bytes are not such a message, PS_ERR_NO_MEMORY when the
 *           bound or the allocator refuses.
 * Memory:   the message lives in the arena that the caller gives.
 */
#ifndef PS_PROTO_UNPACK_H
#define PS_PROTO_UNPACK_H

#include "base/bytes.h"
#include "base/status.h"
#include "proto/arena.h"

#include <protobuf-c/protobuf-c.h>

/* What the arena for a message of `size` bytes must hold at most: enough for every message that an
 * encoder would write, too little for one made to blow up. */
size_t ps_unpack_bytes_max(size_t size);

PS_MUST_USE enum ps_status ps_unpack(const ProtobufCMessageDescriptor *descriptor,
                                     struct ps_bytes bytes, struct ps_arena *arena,
                                     ProtobufCMessage **message, struct ps_error *error);

#endif
