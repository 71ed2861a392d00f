/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint of each shard is published, asked of etcd or of the store that a server without
 * etcd has in its data folder; and publishing another one.
 *
 * Threads:  one.
 * Blocking: until the deadline given at the beginning.
 * Errors:   those of etcd/kv.h; PS_ERR_BAD_INPUT for URLs or a job name.
 * Memory:   owned until published_close.
 */
#ifndef PS_TOOLS_PUBLISHED_H
#define PS_TOOLS_PUBLISHED_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/journal_note.h"
#include "etcd/registry.h"

struct published {
    struct ps_kv *kv; /* owned; NULL: nobody is asked */
    const struct ps_allocator *memory;
    uint64_t deadline_ms;
    char copy[64]; /* private: a folder with a copy of a store that cannot be written; "": none */
};

struct published_options {
    const char *etcd;   /* NULL: the store of `folder` is asked */
    const char *folder; /* a data folder; NULL, or without a store: nobody is asked */
    bool makes_store;   /* a folder without a store gets one */
    bool only_asks;     /* nothing will be published: the store may lie on a read-only file system,
                         * where no server can own a shard */
    bool only_pointers; /* and nobody is asked for owners: a copy of the store does, and the store
                         * itself is neither locked nor written */
    struct ps_etcd_access access;
    uint64_t timeout_ms;
};

PS_MUST_USE enum ps_status published_open(struct published *published,
                                          const struct published_options *options,
                                          const struct ps_allocator *memory,
                                          struct ps_error *error);

/* Accepts a zeroed struct. */
void published_close(struct published *published);

/* Is there anybody to ask? */
bool published_asks(const struct published *published);

/* Reads the pointer. PS_ERR_NOT_FOUND when there is none or nobody is asked, PS_ERR_CORRUPT when
 * it is not a pointer. */
PS_MUST_USE enum ps_status published_place(struct published *published, const char *job,
                                           uint32_t index, struct ps_checkpoint_place *place,
                                           struct ps_error *error);

/* Reads the note of how far the shard's journal was durable; zeroed when there is none that can be
 * read. */
PS_MUST_USE enum ps_status published_note(struct published *published, const char *job,
                                          uint32_t index, struct ps_journal_note *note,
                                          struct ps_error *error);

/* Returns when no server owns the shard, or PS_ERR_UNAVAILABLE at the deadline. */
PS_MUST_USE enum ps_status published_wait_free(struct published *published, const char *job,
                                               uint32_t index, struct ps_error *error);

/* Publishes `place`. PS_ERR_UNAVAILABLE while a server owns the shard. */
PS_MUST_USE enum ps_status published_replace(struct published *published, const char *job,
                                             uint32_t index,
                                             const struct ps_checkpoint_place *place,
                                             struct ps_error *error);

/* The same for all shards of a set, at once or not at all (ps_registry_restore_set). */
PS_MUST_USE enum ps_status published_restore(struct published *published, const char *job,
                                             const char *set,
                                             const struct ps_checkpoint_place *places, size_t count,
                                             struct ps_error *error);

/* Writes the uuid of the published checkpoint, or "" when there is none or nobody is asked. */
PS_MUST_USE enum ps_status published_uuid(struct published *published, const char *job,
                                          uint32_t index, char uuid[37], struct ps_error *error);

#endif
