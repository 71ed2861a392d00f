/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the servers of a job through any of them: a list of addresses, the seeds, each of which is
 * asked where the others are (GetCluster), and a source that follows them through whichever
 * answers.
 *
 *   find ──LIST────► the seeds are the shards, in their order: there is nothing to follow
 *     └────CLUSTER─► ps_seeds_source, for a follower
 *
 * Which of the two a list is, nobody needs to say. An older server knows no such question, and a
 * server that is alone has no others: then the list is what it was before there were seeds.
 *
 * Threads:  one at a time; interrupt of the source from any.
 * Blocking: find until its deadline; the source as member_source.h says.
 * Errors:   each function lists its own.
 * Memory:   bounded by the list, PS_SEEDS_LEARNED and the shards of the job.
 */
#ifndef PS_CLIENT_SEEDS_H
#define PS_CLIENT_SEEDS_H

#include "client/channel/channel.h"
#include "client/members/member_source.h"
#include "proto/cluster_codec.h"

/* Servers that are not in the list and are asked when no seed answers. */
#define PS_SEEDS_LEARNED 16

struct ps_seeds;

enum ps_seeds_verdict {
    PS_SEEDS_OPEN, /* nobody has answered */
    PS_SEEDS_LIST,
    PS_SEEDS_CLUSTER
};

/* `addresses` are borrowed for the call. The channel, which has seed_count + PS_SEEDS_LEARNED
 * shards, is taken on PS_OK. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status
ps_seeds_create(char (*addresses)[PS_ADDRESS_BYTES_MAX], uint32_t seed_count, const char *job,
                const struct ps_channel *channel, const struct ps_clock *clock,
                const struct ps_allocator *memory, struct ps_seeds **seeds, struct ps_error *error);

/* NULL is allowed. */
void ps_seeds_destroy(struct ps_seeds *seeds);

/* Asks until the verdict is not OPEN; of a CLUSTER `*members`, which is zeroed, is filled, of
 * a LIST its placement.
 *
 * PS_ERR_UNAVAILABLE  nobody has answered by the deadline; the text says why
 * PS_ERR_NOT_FOUND    the servers are of another job
 * PS_ERR_DENIED, PS_ERR_UNAUTHENTICATED  nobody who is known there
 */
PS_MUST_USE enum ps_status ps_seeds_find(struct ps_seeds *seeds, uint64_t deadline_ms,
                                         enum ps_seeds_verdict *verdict, struct ps_members *members,
                                         struct ps_error *error);

/* A source that takes the seeds. After a find that said CLUSTER. */
struct ps_member_source ps_seeds_source(struct ps_seeds *seeds);

/* What one answer says of the list. `unsupported`: the server knows no such question. */
enum ps_seeds_verdict ps_seeds_judge(bool unsupported, bool alone, uint32_t shard_count,
                                     uint32_t seed_count);

/* The members that an answer speaks of, to be released; PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_seeds_members(const struct ps_cluster_reply *known,
                                            const struct ps_allocator *memory,
                                            struct ps_members *members, struct ps_error *error);

#endif
