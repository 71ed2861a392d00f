/* SPDX-License-Identifier: Apache-2.0 */
/* Content that lies in memory which a client and a server of one machine share, instead of in a
 * message: how it is named in messages, and the two short messages by which such memory is agreed
 * on. docs/shared-memory.md tells the whole story.
 *
 * Threads:  pure functions.
 * Blocking: never.
 * Errors:   false for bytes that are not such a message.
 * Memory:   plain values.
 */
#ifndef PS_PROTO_SHARED_RANGE_H
#define PS_PROTO_SHARED_RANGE_H

#include "base/bytes.h"
#include "base/device_share.h"
#include "proto/messages.h"
#include "proto/wire.h"

/* Metadata of a request: "tell me your name, if you have one". Of a reply: the name of the local
 * socket (base/local_socket.h) at which the server takes memory. */
#define PS_SHARED_METADATA_KEY "ps-shared-memory"
#define PS_SHARED_METADATA_ASK "?"

/* In the same way: how many bytes the server takes in one message, or as one content in shared
 * memory; decimal. */
#define PS_MESSAGE_BYTES_METADATA_KEY "ps-message-bytes"

/* The SharedRange that a field of a message holds. */
void ps_shared_range_read(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_shared_range *range);

/* How many bytes of shared memory a push or a pull names, or the items of a bundle of such; each
 * range counts for `bytes_max` at most. What cannot be read counts for nothing: the decoder will
 * refuse it. */
uint64_t ps_shared_range_total(struct ps_view message, bool is_bundle, uint64_t bytes_max);

/* Appends it as field `number`; nothing when all of it is 0. */
void ps_shared_range_put(struct ps_buffer *head, uint32_t number,
                         const struct ps_shared_range *range);

/* ---- On the local socket ---- */

/* What a client sends, with the memory's descriptor: here are `size` bytes. */
#define PS_SHARED_HELLO_BYTES 16
void ps_shared_hello_write(uint64_t size, uint8_t message[PS_SHARED_HELLO_BYTES]);
bool ps_shared_hello_read(struct ps_bytes message, uint64_t *size);

/* The same of a device's memory, without a descriptor: all of this piece. */
#define PS_DEVICE_HELLO_BYTES (16 + PS_DEVICE_UUID_BYTES + PS_DEVICE_HANDLE_BYTES)
void ps_device_hello_write(const struct ps_device_share *share,
                           uint8_t message[PS_DEVICE_HELLO_BYTES]);
bool ps_device_hello_read(struct ps_bytes message, struct ps_device_share *share);

/* What the server answers: messages name it as `segment` (not 0). */
#define PS_SHARED_WELCOME_BYTES 16
void ps_shared_welcome_write(uint64_t segment, uint8_t message[PS_SHARED_WELCOME_BYTES]);
bool ps_shared_welcome_read(struct ps_bytes message, uint64_t *segment);

#endif
