/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of parameters that are kept up to date by delta pulls: decides what to ask for and takes
 * the answers. It only decides: no thread, no network, no clock.
 *
 *     ps_replica_create(..., &replica); ps_replica_add(replica, ...) for each part
 *     ps_replica_begin(replica);
 *     while (ps_replica_next(replica, &message)) ... send all of them, for each part of an answer:
 *         ps_replica_take(replica, &message, &reply);      ... and ask again
 *
 * A part is what one server knows as a parameter. What a part holds is one version, whole, or it is
 * nothing: an answer goes into the part's memory only when all of it is there and its digest is
 * right. While more is to come, what came waits beside it; only a part that holds nothing is filled
 * at once. When the digest is wrong, what is held counts for nothing and the next answer is a full
 * copy.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   of a part: in the part.
 * Memory:   two numbers per block of 256 KiB, and what waits: at most what an answer has.
 */
#ifndef PS_CLIENT_REPLICA_H
#define PS_CLIENT_REPLICA_H

#include "base/bounds.h"
#include "client/engine/engine.h"
#include "client/replica/replica_part.h"

/* Most content of one answer, and most parts that one message asks for. */
#define PS_REPLICA_ANSWER_BYTES PS_DELTA_BYTES_MAX
#define PS_REPLICA_ASKED_MAX 1024

struct ps_replica {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_replica_part *parts;     /* owned */
    size_t part_count;
    size_t part_count_max;
    bool advanced; /* some part has got something since it was last asked */
    struct ps_replica_counters counters;
};

/* One message: asks one shard for some parts. */
struct ps_since_message {
    struct ps_replica *replica;
    uint32_t shard;
    struct ps_since_request request;
    struct ps_pull_request *pulls; /* owned: of the request */
    uint32_t *asked;               /* owned: the parts that they are of */
};

PS_MUST_USE enum ps_status ps_replica_create(const struct ps_allocator *memory, size_t parts_max,
                                             struct ps_replica **replica, struct ps_error *error);
void ps_replica_destroy(struct ps_replica *replica);

/* Adds a part that holds nothing. Name copied, content borrowed, rows taken. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_replica_add(struct ps_replica *replica,
                                          const struct ps_replica_part *part,
                                          struct ps_error *error);

/* Every part is to be asked for. */
void ps_replica_begin(struct ps_replica *replica);

/* Makes the messages that ask for every stale part: those of one shard together, as far as their
 * answers may be expected to fit. *count of them, 0 when none is stale.
 *
 * PS_ERR_NO_MEMORY  there are none
 */
PS_MUST_USE enum ps_status ps_replica_ask(struct ps_replica *replica,
                                          struct ps_since_message **messages, size_t *count,
                                          struct ps_error *error);
void ps_replica_release(struct ps_replica *replica, struct ps_since_message *messages,
                        size_t count);

/* The item of a batch of PS_METHOD_SINCE that sends the message and takes its answer; borrows the
 * message until the batch is ended. */
struct ps_item ps_replica_item(struct ps_since_message *message);

/* Takes the answer to a message. PS_ERR_BAD_INPUT when the bytes are not an answer to it. */
PS_MUST_USE enum ps_status ps_replica_take(const struct ps_since_message *message,
                                           const struct ps_bundle_reply *reply,
                                           struct ps_error *error);

/* The message failed: so do its parts. */
void ps_replica_fail(const struct ps_since_message *message, enum ps_status status,
                     const char *text);

/* Reads all that is held. False when a part is not what it was: then it holds nothing. */
bool ps_replica_verify(struct ps_replica *replica);

/* Asserts every invariant. */
void ps_replica_check(const struct ps_replica *replica);

#endif
