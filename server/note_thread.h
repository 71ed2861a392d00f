/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that notes how far the journal is durable (server/core/recovery/note_writer.h), beside
 * the one that writes it: a note waits for the store, and no push waits for a note.
 *
 * Threads:  one of its own. begin belongs to the thread that loads, wake to any, create and destroy
 *           to the main thread.
 * Blocking: destroy waits for the note at work, up to PS_NOTE_STORE_TIMEOUT_MS.
 * Errors:   create: PS_ERR_NO_MEMORY. A note that fails is tried again.
 * Memory:   everything in the options is borrowed and outlives the thread.
 */
#ifndef PS_SERVER_NOTE_THREAD_H
#define PS_SERVER_NOTE_THREAD_H

#include "server/core/recovery/note_writer.h"

struct ps_note_thread;

struct ps_note_thread_options {
    const struct ps_files *files;
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log;
    struct ps_service *service;
    struct ps_registry *registry; /* with a store of its own, used by this thread alone */
};

PS_MUST_USE enum ps_status ps_note_thread_create(const struct ps_note_thread_options *options,
                                                 struct ps_note_thread **thread,
                                                 struct ps_error *error);

/* NULL is allowed. */
void ps_note_thread_destroy(struct ps_note_thread *thread);

/* The journal of `epoch` has begun in `folder`, under `claim`. */
void ps_note_thread_begin(struct ps_note_thread *thread, const char *folder,
                          const struct ps_claim *claim, uint64_t epoch);

/* Something may have become durable. Cheap: for every write of the journal. NULL is allowed. */
void ps_note_thread_wake(struct ps_note_thread *thread);

#endif
