/* SPDX-License-Identifier: Apache-2.0 */
/* One work in pieces, dealt to the threads of a crew.
 *
 * Threads:  run returns when no thread works any more; what the pieces left is read without a lock.
 * Blocking: run, until all pieces are done or one has failed.
 * Errors:   of several failures the first is told: the others may be its consequences, such as a
 *           disk that is gone.
 * Memory:   room for each thread that takes a piece, from `memory`; given back before run returns.
 */
#ifndef PS_SERVER_CORE_CREW_PIECES_H
#define PS_SERVER_CORE_CREW_PIECES_H

#include "base/alloc.h"
#include "base/status.h"
#include "server/core/values/crew.h"

#include <stddef.h>

struct ps_crew_pieces {
    /* Does piece `piece`, while other threads do others. `room` is the thread's own, and still has
     * what a former piece left in it; `error` is never NULL. */
    enum ps_status (*work)(void *self, size_t piece, void *room, struct ps_error *error);
    void *self;
    size_t count;
    size_t room_bytes;                 /* of one thread; 0: `room` is NULL */
    const struct ps_allocator *memory; /* of the rooms */
};

/* Each thread takes the next piece that nobody has, the first piece first, so that a file is read
 * forward. A failure lets the others finish the piece that they are at, and no more. Without a crew
 * (NULL) this thread does it all. On PS_OK every piece was done, once. Otherwise some were not, and
 * the status is that of the first failure: what `work` returned, or PS_ERR_NO_MEMORY when a thread
 * that had taken a piece got no room. */
PS_MUST_USE enum ps_status ps_crew_pieces_run(const struct ps_crew_pieces *pieces,
                                              const struct ps_crew *crew, struct ps_error *error);

#endif
