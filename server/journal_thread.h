/* SPDX-License-Identifier: Apache-2.0 */
/* The one thread that writes the journal: takes what pushes have queued, writes and syncs it in one
 * go (group commit), and tells the service what is durable. While one batch is on its way to the
 * disk, the next is taken and copied.
 *
 * When a write or a sync fails, the file is given up for good and the service refuses pushes. This
 * thread tries, after 20 ms and then up to every second, to write what failed to another file; when
 * it could, pushes are let in again.
 *
 * Threads:  one of its own. open belongs to the thread that loads; wake to any; create and destroy
 *           to the main thread.
 * Blocking: open and destroy wait for the write at work.
 * Errors:   said at each function.
 * Memory:   everything in the options is borrowed and outlives the thread.
 */
#ifndef PS_SERVER_JOURNAL_THREAD_H
#define PS_SERVER_JOURNAL_THREAD_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "checkpoint/journal.h"
#include "server/core/requests/service.h"

struct ps_journal_thread;

/* How files are written: through the cache of the system or past it. */
enum ps_journal_way {
    PS_JOURNAL_AUTO, /* past it where the file system can */
    PS_JOURNAL_DIRECT,
    PS_JOURNAL_BUFFERED
};

struct ps_journal_thread_options {
    const struct ps_files *files;
    const struct ps_allocator *memory;
    const struct ps_clock *clock;
    const struct ps_log *log;
    struct ps_metrics *metrics;
    struct ps_service *service;
    uint64_t segment_bytes; /* 0: PS_JOURNAL_SEGMENT_BYTES */
    enum ps_journal_way way;
};

PS_MUST_USE enum ps_status ps_journal_thread_create(const struct ps_journal_thread_options *options,
                                                    struct ps_journal_thread **thread,
                                                    struct ps_error *error);

/* What is queued and not written yet is not written any more. NULL is allowed. */
void ps_journal_thread_destroy(struct ps_journal_thread *thread);

/* Begins the journal of a claim in `folder`; one that was open before is closed. Its first segment
 * is durable on PS_OK. PS_ERR_IO, PS_ERR_NO_MEMORY: there is no journal, and nothing is written;
 * PS_ERR_UNSUPPORTED: nor past the cache, which PS_JOURNAL_DIRECT demands. */
PS_MUST_USE enum ps_status ps_journal_thread_open(struct ps_journal_thread *thread,
                                                  const char *folder,
                                                  const struct ps_journal_facts *facts,
                                                  struct ps_error *error);

/* Something was queued. Never blocks for the disk. */
void ps_journal_thread_wake(struct ps_journal_thread *thread);

#endif
