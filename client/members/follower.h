/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the servers of a job: a thread that asks a source, again and again.
 *
 * Threads:  one of its own, which owns the source; take and shard_count from any.
 * Blocking: create and take never; destroy until the thread has ended.
 * Errors:   the source's failures are retried for ever; what was read last stays valid.
 * Memory:   owned by the follower; options are copied or outlive it, as they say.
 */
#ifndef PS_CLIENT_FOLLOWER_H
#define PS_CLIENT_FOLLOWER_H

#include "client/members/member_source.h"
#include "client/members/wake.h"

struct ps_follower;

/* Takes what `source` is when it succeeds. `wake` is borrowed, and woken after each change. */
PS_MUST_USE enum ps_status ps_follower_create(const struct ps_member_source *source,
                                              struct ps_wake *wake,
                                              const struct ps_allocator *memory,
                                              struct ps_follower **follower,
                                              struct ps_error *error);
void ps_follower_destroy(struct ps_follower *follower);

/* Has everything read again soon, whatever the source has told: a server says that it is not the
 * one that we take it for. Any thread. */
void ps_follower_look_again(struct ps_follower *follower);

/* The number of shards, or PS_ERR_NOT_FOUND while it is not known; the text says why. */
PS_MUST_USE enum ps_status ps_follower_shard_count(struct ps_follower *follower,
                                                   uint32_t *shard_count, struct ps_error *error);

/* Moves what was read last into `*members` (releasing what that held) if it was not taken yet. */
bool ps_follower_take(struct ps_follower *follower, struct ps_members *members);

#endif
