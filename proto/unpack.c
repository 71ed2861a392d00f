/* SPDX-License-Identifier: Apache-2.0 */
/* The arena behind protobuf-c's allocator interface. protobuf-c allocates for each field as it
 * parses, several times the size of the message if that was made to blow up; with the arena's cap
 * it fails instead. */
#include "proto/unpack.h"

#include "base/assert.h"

/* What an honest encoder writes needs less than 16 bytes of structs for each byte, and a fixed part
 * for the messages that are absent from the bytes. Unknown fields of two bytes, the worst that a
 * sender can do, would need 44. */
enum { BYTES_PER_BYTE_MAX = 16, BYTES_FIXED = 16 * 1024 };

static void *take(void *arena, size_t size)
{
    return ps_arena_take(arena, size);
}

/* Nothing is given back piece by piece: the arena is released as a whole. */
static void leave(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

size_t ps_unpack_bytes_max(size_t size)
{
    PS_ASSERT(size < SIZE_MAX / (2 * BYTES_PER_BYTE_MAX));
    return size * BYTES_PER_BYTE_MAX + BYTES_FIXED;
}

enum ps_status ps_unpack(const ProtobufCMessageDescriptor *descriptor, struct ps_bytes bytes,
                         struct ps_arena *arena, ProtobufCMessage **message, struct ps_error *error)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = leave, .allocator_data = arena};
    ProtobufCMessage *unpacked =
        protobuf_c_message_unpack(descriptor, &allocator, bytes.size, bytes.data);
    /* protobuf-c says NULL for both; the arena remembers whether it was the memory. The difference
     * decides whether a client may try again. */
    if (unpacked == NULL && arena->refused)
        return ps_fail(error, PS_ERR_NO_MEMORY, "%s: takes too much memory", descriptor->name);
    if (unpacked == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "malformed %s", descriptor->name);
    *message = unpacked;
    return PS_OK;
}
