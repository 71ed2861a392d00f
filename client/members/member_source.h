/* SPDX-License-Identifier: Apache-2.0 */
/* Where a client learns who serves which shard: an interface. members_of_store.c asks the store,
 * seeds.c the servers themselves; the follower does not see a difference.
 *
 * Threads:  a source belongs to one thread; only interrupt may be called from another.
 * Blocking: next, until something is to be told, or interrupt; for five seconds at most after that.
 * Errors:   those of next are retried by who asks.
 * Memory:   destroy ends the source.
 */
#ifndef PS_CLIENT_MEMBER_SOURCE_H
#define PS_CLIENT_MEMBER_SOURCE_H

#include "etcd/registry.h"

struct ps_member_source {
    /* Moves what is new into `*members`, which is zeroed. It stays zeroed when there is nothing to
     * tell; then, as after a failure, next is to be called again. */
    enum ps_status (*next)(void *self, struct ps_members *members, struct ps_error *error);

    /* Makes a wait of next end, now or when it is called again: what is known may be old. */
    void (*interrupt)(void *self);

    void (*destroy)(void *self);
    void *self; /* NULL: there is no source */
};

/* The store's keys of `job`. Takes `kv` when it succeeds; clock and memory are borrowed and outlive
 * the source. PS_ERR_BAD_INPUT for the job's name, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_members_of_store(struct ps_kv *kv, const char *job,
                                               const struct ps_clock *clock,
                                               const struct ps_allocator *memory,
                                               struct ps_member_source *source,
                                               struct ps_error *error);

#endif
