/* SPDX-License-Identifier: Apache-2.0 */
/* The parts from which the codecs of the calls and of bundles read messages. Private to proto/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   in the reader's status; what was read then is not to be used.
 * Memory:   what is found stays where it lies.
 */
#ifndef PS_PROTO_DECODE_PARTS_H
#define PS_PROTO_DECODE_PARTS_H

#include "proto/codec.h"
#include "proto/messages.h"
#include "proto/wire.h"

/* The byte fields of a message as they were found; the last of each counts. */
struct ps_found {
    struct ps_wire_range name;
    struct ps_wire_range config;
    struct ps_wire_range client_id;
    struct ps_wire_range prefix; /* of names, in a list */
    struct ps_wire_range clocks; /* by which a pull is timed */
    struct ps_wire_range content;
    struct ps_wire_range runs;
};

/* The byte fields again, ready to be used: each contiguous but the content, which is a view. */
struct ps_kept {
    struct ps_bytes name;
    struct ps_bytes config;
    struct ps_bytes client_id;
    struct ps_bytes prefix;
    struct ps_bytes clocks;
    struct ps_bytes runs;
    struct ps_view content;
};

/* Each reads to the end of its message: numbers into `read`, bytes into `found`. */
void ps_decode_push_fields(struct ps_wire_reader *reader, struct ps_push_request *read,
                           struct ps_found *found);
void ps_decode_push_reply_fields(struct ps_wire_reader *reader, struct ps_push_reply *read);
void ps_decode_pull_fields(struct ps_wire_reader *reader, struct ps_pull_request *read,
                           struct ps_found *found);
void ps_decode_pull_reply_fields(struct ps_wire_reader *reader, struct ps_pull_reply *read,
                                 struct ps_found *found);

/* One field each, held to its bound. */
enum ps_dtype ps_decode_dtype(struct ps_wire_reader *reader, const struct ps_wire_field *field);
enum ps_encoding ps_decode_encoding(struct ps_wire_reader *reader,
                                    const struct ps_wire_field *field);
struct ps_wire_range ps_decode_name(struct ps_wire_reader *reader,
                                    const struct ps_wire_field *field);
uint32_t ps_decode_shard(struct ps_wire_reader *reader, const struct ps_wire_field *field);
/* A RequestId that comes twice is merged field by field, as protobuf says. */
void ps_decode_request_id(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_request_id *request, struct ps_wire_range *client_id);

/* Makes what was found ready to be used, if the reader got to the end; the reader's status
 * otherwise. On any failure `decoded` holds nothing, so callers return at once.
 *
 * memory   borrows until ps_decoded_release
 * found    borrows for the call; `kept` points into the same message, or into `decoded`
 * Returns  PS_OK, the reader's status, PS_ERR_NO_MEMORY, PS_ERR_BAD_INPUT (a name that
 *          is not text).
 */
PS_MUST_USE enum ps_status ps_decode_keep(const struct ps_wire_reader *reader,
                                          const struct ps_found *found,
                                          const struct ps_allocator *memory, struct ps_kept *kept,
                                          struct ps_decoded *decoded);

/* As field 15 of a request; nothing of one that is not present. */
void ps_encode_request_id(const struct ps_request_id *request, struct ps_buffer *head);

#endif
