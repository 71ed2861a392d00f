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

#include "proto/messages.h"
#include "proto/wire.h"

/* The byte fields of a message as they were found; the last of each counts. */
struct ps_found {
    struct ps_wire_range name;
    struct ps_wire_range config;
    struct ps_wire_range client_id;
    struct ps_wire_range content;
    struct ps_wire_range runs;
};

/* Each reads to the end of its message: numbers into `read`, bytes into `found`. */
void ps_decode_push_fields(struct ps_wire_reader *reader, struct ps_push_request *read,
                           struct ps_found *found);
void ps_decode_push_reply_fields(struct ps_wire_reader *reader, struct ps_push_reply *read);
void ps_decode_pull_fields(struct ps_wire_reader *reader, struct ps_pull_request *read,
                           struct ps_found *found);
void ps_decode_pull_reply_fields(struct ps_wire_reader *reader, struct ps_pull_reply *read,
                                 struct ps_found *found);

/* A RequestId that comes twice is merged field by field, as protobuf says. */
void ps_decode_request_id(struct ps_wire_reader *reader, const struct ps_wire_field *field,
                          struct ps_request_id *request, struct ps_wire_range *client_id);

#endif
