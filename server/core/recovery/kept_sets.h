/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of one shard that belong to sets: they stay when older ones go.
 *
 * Threads:  that of the registry's store.
 * Blocking: until the deadline.
 * Errors:   those of etcd/kv.h.
 * Memory:   in place.
 */
#ifndef PS_SERVER_CORE_KEPT_SETS_H
#define PS_SERVER_CORE_KEPT_SETS_H

#include "checkpoint/catalog.h"
#include "etcd/registry_sets.h"

struct ps_kept_sets {
    struct ps_catalog_uuid
        uuids[PS_SETS_KEPT_MAX + 3]; /* of whole sets, the one under way, and one more */
    size_t count;
};

/* What of shard `index` stays. After a failure nothing is known, and nothing may go. */
PS_MUST_USE enum ps_status ps_kept_sets_read(struct ps_registry *registry, uint32_t index,
                                             const struct ps_allocator *memory,
                                             uint64_t deadline_ms, struct ps_kept_sets *kept,
                                             struct ps_error *error);

/* One more, without asking. False: there is no room. */
bool ps_kept_sets_add(struct ps_kept_sets *kept, const char *uuid);

bool ps_kept_sets_have(const struct ps_kept_sets *kept, const char *uuid);

#endif
