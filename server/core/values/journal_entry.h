/* SPDX-License-Identifier: Apache-2.0 */
/* One record that waits for the journal, with all that it needs to live on.
 *
 * Threads:  an entry belongs to whoever holds the list that it is in.
 * Blocking: never; a release may give a message back to the network.
 * Errors:   NULL when memory is refused.
 * Memory:   an entry is one allocation and owns what it keeps.
 */
#ifndef PS_SERVER_CORE_JOURNAL_ENTRY_H
#define PS_SERVER_CORE_JOURNAL_ENTRY_H

#include "base/alloc.h"
#include "checkpoint/journal.h"
#include "proto/messages.h"
#include "server/core/values/journal_queue.h"

struct ps_journal_entry {
    struct ps_journal_entry *next;
    const struct ps_allocator *memory; /* borrowed */
    struct ps_record record;
    uint64_t bytes; /* that it counts in the queue: of what it keeps all, if nobody else does */
    bool counts_kept;
    void *kept; /* what holds the content; NULL: it is copied */
    void (*drop)(void *kept);
    void (*count_back)(void *kept);
    struct ps_bytes pieces[]; /* head and content; then name, client id, head and copied content */
};

/* The record without position, version, epoch and fingerprint. `kept` holds its content and is the
 * entry's from here on; NULL: the content is copied. On NULL `kept` stays the caller's. */
struct ps_journal_entry *ps_journal_entry_make(const struct ps_allocator *memory,
                                               const struct ps_journal_draft *draft, void *kept);

/* Gives back what the entry keeps, and the entry. */
void ps_journal_entry_release(struct ps_journal_entry *entry);

/* A whole list; NULL is an empty one. */
void ps_journal_entries_release(struct ps_journal_entry *entry);

#endif
