/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap of ranks by their clocks; each worker knows its place in it, so that a clock that
 * moves costs the height of the heap and not a look at all workers.
 *
 * Two arrays and no list: workers are found by their rank at every call, and the minimum is looked
 * at by every read that waits. A worker that goes leaves its room, since ranks are given out again;
 * only the highest rank that ever came decides how much memory there is. */
#include "server/core/clocks/worker_progress.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

struct ps_progress_worker {
    uint64_t clock;
    uint32_t place; /* 1 + index in the heap; 0: not there */
};

static enum ps_status grow(struct ps_progress *progress, uint32_t rank, struct ps_error *error);
static enum ps_status check_there(const struct ps_progress *progress, uint32_t rank,
                                  struct ps_error *error);
static void put(struct ps_progress *progress, uint32_t place, uint32_t rank);
static void rise(struct ps_progress *progress, uint32_t place);
static void sink(struct ps_progress *progress, uint32_t place);
static uint64_t clock_at(const struct ps_progress *progress, uint32_t place);

/* Nothing is taken before the first worker comes: most shards have no clocks. */
void ps_progress_init(struct ps_progress *progress, const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    /* The allocator is all that is kept: a tracker whose workers have gone is as one without. */
    *progress = (struct ps_progress){.memory = memory};
}

void ps_progress_fini(struct ps_progress *progress)
{
    ps_release(progress->memory, progress->workers);
    ps_release(progress->memory, progress->heap);
    *progress = (struct ps_progress){.memory = progress->memory};
}

enum ps_status ps_progress_join(struct ps_progress *progress, uint32_t rank, uint64_t clock,
                                struct ps_error *error)
{
    if (rank >= PS_CLOCK_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "worker %" PRIu32 ": ranks are below %d", rank,
                       PS_CLOCK_WORKERS_MAX);
    if (ps_progress_has(progress, rank))
        return ps_fail(error, PS_ERR_EXISTS, "worker %" PRIu32 " is there already", rank);
    PS_TRY(grow(progress, rank, error));
    /* A newcomer is put last, where no parent of the heap is yet wrong, and rises to its place. */
    PS_ASSERT(rank < progress->capacity);
    PS_ASSERT(progress->count < progress->capacity);
    progress->workers[rank].clock = clock;
    progress->count++;
    put(progress, progress->count, rank);
    rise(progress, progress->count);
    return PS_OK;
}

/* A worker that is taken back must not be refused for want of memory: whoever decides that it comes
 * has written that down by then. */
enum ps_status ps_progress_reserve(struct ps_progress *progress, uint32_t ranks,
                                   struct ps_error *error)
{
    if (ranks > PS_CLOCK_WORKERS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%" PRIu32 " workers, at most %d", ranks,
                       PS_CLOCK_WORKERS_MAX);
    return ranks == 0 ? PS_OK : grow(progress, ranks - 1, error);
}

/* Both arrays have room for every rank up to the highest, so that nothing that follows can fail. */
static enum ps_status grow(struct ps_progress *progress, uint32_t rank, struct ps_error *error)
{
    uint32_t capacity = progress->capacity == 0 ? 8 : progress->capacity;
    PS_ASSERT(rank < PS_CLOCK_WORKERS_MAX);
    /* Doubled, so that ranks that come one after the other copy each row twice at most. */
    while (capacity <= rank)
        capacity *= 2;
    if (capacity == progress->capacity)
        return PS_OK;
    struct ps_progress_worker *workers =
        ps_zeroed_array(progress->memory, capacity, sizeof *workers);
    uint32_t *heap = ps_zeroed_array(progress->memory, capacity, sizeof *heap);
    if (workers == NULL || heap == NULL) {
        ps_release(progress->memory, workers);
        ps_release(progress->memory, heap);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for worker %" PRIu32, rank);
    }
    /* The old arrays stay until both new ones are there: a refusal changes nothing. */
    PS_ASSERT(capacity > progress->capacity);
    if (progress->capacity > 0) {
        memcpy(workers, progress->workers, progress->capacity * sizeof *workers);
        memcpy(heap, progress->heap, progress->capacity * sizeof *heap);
    }
    ps_release(progress->memory, progress->workers);
    ps_release(progress->memory, progress->heap);
    progress->workers = workers;
    progress->heap = heap;
    progress->capacity = capacity;
    return PS_OK;
}

/* The last of the heap takes the place of the one that goes, and may belong above or below it. */
enum ps_status ps_progress_leave(struct ps_progress *progress, uint32_t rank,
                                 struct ps_error *error)
{
    PS_TRY(check_there(progress, rank, error));
    PS_ASSERT(progress->count > 0);
    uint32_t place = progress->workers[rank].place;
    uint32_t last = progress->heap[progress->count - 1];
    progress->workers[rank] = (struct ps_progress_worker){0};
    progress->count--;
    if (last == rank)
        return PS_OK;
    put(progress, place, last);
    rise(progress, place);
    sink(progress, progress->workers[last].place);
    return PS_OK;
}

enum ps_status ps_progress_advance(struct ps_progress *progress, uint32_t rank, uint64_t clock,
                                   struct ps_error *error)
{
    PS_TRY(check_there(progress, rank, error));
    struct ps_progress_worker *worker = &progress->workers[rank];
    /* A repeat, or a message that was overtaken by a later one. */
    if (clock <= worker->clock)
        return PS_OK;
    /* A clock only rises, so that a worker only sinks; the minimum may have moved then. */
    worker->clock = clock;
    sink(progress, worker->place);
    return PS_OK;
}

/* The rank in the text is the one that the caller said, so that whoever counts from 1 sees it. */
static enum ps_status check_there(const struct ps_progress *progress, uint32_t rank,
                                  struct ps_error *error)
{
    if (ps_progress_has(progress, rank))
        return PS_OK;
    return ps_fail(error, PS_ERR_NOT_FOUND, "worker %" PRIu32 " is not there", rank);
}

/* Ranks come from messages: one beyond the arrays is a worker that never came. */
bool ps_progress_has(const struct ps_progress *progress, uint32_t rank)
{
    return rank < progress->capacity && progress->workers[rank].place != 0;
}

/* Asked of workers that are there only: whoever asks has looked, and decides upon the answer. */
uint64_t ps_progress_clock(const struct ps_progress *progress, uint32_t rank)
{
    PS_ASSERT(ps_progress_has(progress, rank));
    PS_ASSERT(progress->workers[rank].place <= progress->count);
    return progress->workers[rank].clock;
}

/* Asked by every read, and so without a look at anybody but the first of the heap. */
uint64_t ps_progress_minimum(const struct ps_progress *progress)
{
    return progress->count == 0 ? UINT64_MAX : clock_at(progress, 1);
}

/* Whom to wait for is asked at every look of a read that waits. */
uint32_t ps_progress_holder(const struct ps_progress *progress)
{
    PS_ASSERT(progress->count <= progress->capacity);
    return progress->count == 0 ? PS_CLOCK_WORKERS_MAX : progress->heap[0];
}

uint32_t ps_progress_slowest(const struct ps_progress *progress, uint32_t from)
{
    /* All ranks are looked at: people ask, and calls that wait ask for the minimum alone. */
    uint64_t minimum = ps_progress_minimum(progress);
    PS_ASSERT(progress->count == 0 || minimum < UINT64_MAX);
    for (uint32_t rank = from; rank < progress->capacity; rank++)
        if (ps_progress_has(progress, rank) && progress->workers[rank].clock == minimum)
            return rank;
    return PS_CLOCK_WORKERS_MAX;
}

/* ---- The heap: places from 1, so that the children of p are 2p and 2p + 1 ---- */

/* The heap has ranks and not clocks, so that a clock stands in one place only. */
static uint64_t clock_at(const struct ps_progress *progress, uint32_t place)
{
    PS_ASSERT(place >= 1 && place <= progress->count);
    return progress->workers[progress->heap[place - 1]].clock;
}

/* Both directions at once: from the place to the rank and back. */
static void put(struct ps_progress *progress, uint32_t place, uint32_t rank)
{
    PS_ASSERT(place >= 1 && place <= progress->capacity);
    PS_ASSERT(rank < progress->capacity);
    progress->heap[place - 1] = rank;
    progress->workers[rank].place = place;
}

/* A worker at its own place is nobody to exchange with: that would be an endless walk. */
static void swap(struct ps_progress *progress, uint32_t one, uint32_t other)
{
    PS_ASSERT(one != other);
    uint32_t rank = progress->heap[one - 1];
    put(progress, one, progress->heap[other - 1]);
    put(progress, other, rank);
}

/* The worker at `place` is above its children already: only parents may be larger. */
static void rise(struct ps_progress *progress, uint32_t place)
{
    PS_ASSERT(place <= progress->count);
    while (place > 1 && clock_at(progress, place) < clock_at(progress, place / 2)) {
        swap(progress, place, place / 2);
        place /= 2;
    }
}

/* The worker at `place` is below its parent already: only children may be smaller. */
static void sink(struct ps_progress *progress, uint32_t place)
{
    PS_ASSERT(place >= 1);
    /* With the smaller of its children a place is exchanged: that one is above the other then. */
    for (uint32_t child = 2 * place; child <= progress->count; child = 2 * place) {
        if (child < progress->count && clock_at(progress, child + 1) < clock_at(progress, child))
            child++;
        if (clock_at(progress, place) <= clock_at(progress, child))
            return;
        swap(progress, place, child);
        place = child;
    }
}

/* The order of parents and children is all that the minimum rests on. */
void ps_progress_check(const struct ps_progress *progress)
{
    uint32_t there = 0;
    PS_ASSERT(progress->count <= progress->capacity);
    for (uint32_t rank = 0; rank < progress->capacity; rank++) {
        uint32_t place = progress->workers[rank].place;
        if (place == 0)
            continue;
        there++;
        PS_ASSERT(place <= progress->count);
        PS_ASSERT(progress->heap[place - 1] == rank);
        PS_ASSERT(place == 1 || clock_at(progress, place / 2) <= clock_at(progress, place));
    }
    PS_ASSERT(there == progress->count);
}
