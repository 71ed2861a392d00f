/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the entries that a read returns; for the stores only.
 *
 * Threads:  none inside.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY; the entries then hold what they held and can be released.
 * Memory:   everything is copied.
 */
#ifndef PS_ETCD_KV_ENTRIES_H
#define PS_ETCD_KV_ENTRIES_H

#include "etcd/kv.h"

/* Makes room for `capacity` entries in `entries`, whose content is overwritten. */
PS_MUST_USE enum ps_status ps_kv_entries_make(struct ps_kv_entries *entries,
                                              const struct ps_allocator *memory, size_t capacity,
                                              struct ps_error *error);

/* Appends one; there must be room. `facts` gives revisions and lease, its pointers are ignored. */
PS_MUST_USE enum ps_status ps_kv_entries_add(struct ps_kv_entries *entries, struct ps_bytes key,
                                             struct ps_bytes value, struct ps_kv_entry facts,
                                             struct ps_error *error);

#endif
