/* SPDX-License-Identifier: Apache-2.0 */
/* The set that this shard is to save a checkpoint for (etcd/registry_sets.h), between the thread
 * that learns of it and the one that saves. A snapshot that begins behind the wish is of that set:
 * it has everything that was acknowledged before.
 *
 * Threads:  every function is safe from any thread; look belongs to the registry's.
 * Blocking: look, for the store; the others never.
 * Errors:   look: those of etcd/kv.h.
 * Memory:   in place.
 */
#ifndef PS_SERVER_CORE_SET_WISH_H
#define PS_SERVER_CORE_SET_WISH_H

#include "base/thread.h"
#include "server/core/recovery/kept_sets.h"
#include "server/core/requests/service.h"

struct ps_set_wish {
    struct ps_service *service; /* borrowed; outlives this */
    size_t keep;                /* sets that stay, 1 to PS_SETS_KEPT_MAX */
    uint64_t interval_ms;       /* the owner of shard 0 asks for a set so often; 0: never */
    uint64_t due_ms;            /* of the looking thread: not before */
    struct ps_mutex mutex;      /* PS_RANK_LEAF; guards what follows */
    struct ps_set set;          /* revision 0: none */
    struct ps_ticket ticket;    /* of the checkpoint that was wanted for it; 0: none yet */
    struct ps_kept_sets kept;   /* the saving thread's: as it was read last ... */
    uint64_t kept_epoch;        /* ... under this claim; 0: never */
};

void ps_set_wish_init(struct ps_set_wish *wish, struct ps_service *service, size_t keep,
                      uint64_t interval_ms);
void ps_set_wish_fini(struct ps_set_wish *wish);

/* What a snapshot that begins now is for. False: for no set. */
bool ps_set_wish_take(struct ps_set_wish *wish, struct ps_set *set);

/* The shard's row of the set is there, or the set is not under way any more. */
void ps_set_wish_end(struct ps_set_wish *wish, const struct ps_set *set);

/* Reads what is wanted, and has a checkpoint written for it when this server owns a shard whose row
 * is missing; makes the set whole when no row is. To be called when /ps_wanted or the phase may
 * have changed, and behind each checkpoint; again is fine. */
PS_MUST_USE enum ps_status ps_set_wish_look(struct ps_set_wish *wish, struct ps_registry *registry,
                                            uint64_t deadline_ms, struct ps_error *error);

/* When to look again for the interval's sake; PS_DEADLINE_NEVER without one. Of the looking
 * thread. */
uint64_t ps_set_wish_due_ms(const struct ps_set_wish *wish);

#endif
