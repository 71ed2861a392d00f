/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the rendezvous as TensorFlow writes them: from which device a value comes, in which life
 * of that device, to which it goes, along which edge of the graph, in which frame and iteration.
 *
 *     /job:a/replica:0/task:0/device:CPU:0;0000000000001ed2;/job:a/replica:0/task:1/cpu:0;w;0:0
 *
 * A server takes any text as a key. This is a help for its clients, who agree by it on the same
 * text without having spoken.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for what is not such a key.
 * Memory:   a parsed key borrows from its text.
 */
#ifndef PS_PROTO_RENDEZVOUS_KEY_H
#define PS_PROTO_RENDEZVOUS_KEY_H

#include "base/bytes.h"
#include "base/status.h"
#include "proto/rendezvous_messages.h"

#include <stddef.h>
#include <stdint.h>

/* "/job:NAME/replica:N/task:N/device:TYPE:N", or with "/cpu:N" or "/gpu:N" (of any case) at its
 * end. */
struct ps_rendezvous_device {
    struct ps_bytes text; /* all of it */
    struct ps_bytes job;
    struct ps_bytes type; /* "CPU" as it was written */
    uint32_t replica, task, number;
};

struct ps_rendezvous_key {
    struct ps_rendezvous_device source, destination;
    uint64_t source_incarnation; /* another one after each start of the source */
    struct ps_bytes edge;        /* not empty */
    struct ps_bytes frame;       /* "FRAME:ITERATION"; not empty, and not looked into */
};

/* Writes the key and a NUL to `text`, which has room for `size` bytes. The devices may be any text
 * without ';': whether they are devices ps_rendezvous_key_parse says.
 *
 * PS_ERR_BAD_INPUT     a part has a ';' in it, or the edge is empty
 * PS_ERR_OUT_OF_RANGE  the key is longer than `size` - 1 or than a server takes
 */
PS_MUST_USE enum ps_status ps_rendezvous_key_create(const char *source, uint64_t source_incarnation,
                                                    const char *destination, const char *edge,
                                                    uint64_t frame, uint64_t iteration, char *text,
                                                    size_t size, struct ps_error *error);

/* PS_ERR_BAD_INPUT "Invalid rendezvous key: ..." unless there are five parts, both devices are
 * full names, the incarnation is hexadecimal digits, 1 to 16 of them, and neither edge nor frame is
 * empty. */
PS_MUST_USE enum ps_status ps_rendezvous_key_parse(struct ps_bytes text,
                                                   struct ps_rendezvous_key *key,
                                                   struct ps_error *error);

#endif
