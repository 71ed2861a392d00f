/* SPDX-License-Identifier: Apache-2.0 */
/* How a trainer asks for the right to initialise: an interface. init_by_store.c asks the store
 * itself, client/init_by_servers.c any server of the job.
 *
 * Threads:  one at a time; only interrupt from another.
 * Blocking: until the deadline, or interrupt.
 * Errors:   as the functions of etcd/registry.h of the same names.
 * Memory:   destroy ends the way.
 */
#ifndef PS_CLIENT_INIT_WAY_H
#define PS_CLIENT_INIT_WAY_H

#include "etcd/registry.h"

struct ps_init_way {
    /* Takes a place in the queue if there is none, and looks once. Somebody else's turn: waits for
     * a change, keeping the place, but for a third of its time at most. */
    enum ps_status (*turn)(void *self, uint64_t deadline_ms, enum ps_init_turn *turn,
                           struct ps_error *error);
    enum ps_status (*keep)(void *self, uint64_t deadline_ms, struct ps_error *error);
    enum ps_status (*prepare)(void *self, uint64_t deadline_ms, struct ps_error *error);
    /* Decides on the job's placement, with the lock in hand, unless that is decided: `*decided` is
     * what holds. 0 proposes nothing, needs no lock, and may find 0: nothing is decided. */
    enum ps_status (*decide)(void *self, uint64_t proposal, uint64_t deadline_ms, uint64_t *decided,
                             struct ps_error *error);
    enum ps_status (*finish)(void *self, uint64_t deadline_ms, struct ps_error *error);
    void (*abandon)(void *self, uint64_t deadline_ms);
    void (*interrupt)(void *self);
    void (*destroy)(void *self);
    void *self; /* NULL: there is no way */
};

/* Takes `kv` when it succeeds; clock and memory are borrowed and outlive the way. */
PS_MUST_USE enum ps_status ps_init_by_store(struct ps_kv *kv, const char *job, uint64_t ttl_ms,
                                            const struct ps_clock *clock,
                                            const struct ps_allocator *memory,
                                            struct ps_init_way *way, struct ps_error *error);

#endif
