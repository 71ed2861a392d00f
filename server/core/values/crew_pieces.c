/* SPDX-License-Identifier: Apache-2.0 */
/* Threads take work by one atomic count, and not by shares that were made before: so none of them
 * is left with one share that takes longer than all others. A crew may bring fewer threads than it
 * was asked for, or one after another, and nothing here depends on how many come. */
#include "server/core/values/crew_pieces.h"

#include "base/assert.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>

/* What the threads of one run have together. */
struct deal {
    const struct ps_crew_pieces *pieces;
    _Atomic size_t next; /* piece that nobody has taken */
    _Atomic bool failed;
    struct ps_mutex lock;    /* guards what follows */
    struct ps_error failure; /* the first */
};

static void work(void *argument);
static enum ps_status do_piece(const struct ps_crew_pieces *pieces, size_t piece, void **room,
                               struct ps_error *error);
static void note_failure(struct deal *deal, const struct ps_error *failure);

enum ps_status ps_crew_pieces_run(const struct ps_crew_pieces *pieces, const struct ps_crew *crew,
                                  struct ps_error *error)
{
    struct deal deal = {.pieces = pieces};
    /* Asked here, since only a thread that gets a piece would notice. */
    PS_ASSERT(pieces->work != NULL);
    PS_ASSERT(pieces->room_bytes == 0 || pieces->memory != NULL);
    ps_mutex_init(&deal.lock, PS_RANK_QUEUE);
    if (crew != NULL)
        crew->run(crew->self, work, &deal);
    else
        work(&deal);
    ps_mutex_fini(&deal.lock);
    /* Every thread has ended by now: no lock is needed to read what they left. */
    if (atomic_load(&deal.failed))
        return ps_fail(error, deal.failure.status, "%s", deal.failure.text);
    return PS_OK;
}

/* Runs in each thread of the crew until no piece is left or one has failed. */
static void work(void *argument)
{
    struct deal *deal = argument;
    void *room = NULL;
    PS_ASSERT(deal != NULL);
    while (!atomic_load(&deal->failed)) {
        struct ps_error reason = {0};
        /* Beyond the end the count goes on rising, once for each thread: that ends them all. */
        size_t taken = atomic_fetch_add(&deal->next, 1);
        if (taken >= deal->pieces->count)
            break;
        if (do_piece(deal->pieces, taken, &room, &reason) != PS_OK)
            note_failure(deal, &reason);
    }
    if (room != NULL)
        ps_release(deal->pieces->memory, room);
}

/* A thread that comes too late for a piece takes no memory. */
static enum ps_status do_piece(const struct ps_crew_pieces *pieces, size_t piece, void **room,
                               struct ps_error *error)
{
    PS_ASSERT(piece < pieces->count);
    if (*room == NULL && pieces->room_bytes > 0) {
        *room = ps_plain(pieces->memory, pieces->room_bytes);
        if (*room == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a thread: %zu bytes",
                           pieces->room_bytes);
    }
    return pieces->work(pieces->self, piece, *room, error);
}

/* The lock is for the text, which is longer than what can be written at once; whoever comes second
 * leaves it as it is. */
static void note_failure(struct deal *deal, const struct ps_error *failure)
{
    PS_ASSERT(failure->status != PS_OK);
    ps_mutex_lock(&deal->lock);
    if (!atomic_load(&deal->failed))
        deal->failure = *failure;
    atomic_store(&deal->failed, true);
    ps_mutex_unlock(&deal->lock);
}
