/* SPDX-License-Identifier: Apache-2.0 */
/* A worker at clock q may announce the clocks q to q + k + 1. These are k + 2, so that the clock
 * modulo that number is a slot of its own: every announcement is found without a look at others.
 *
 * FlexPS answers a read when one of three things happens that may let it go. Here the read is asked
 * again whenever something has moved, and all its conditions are looked at each time: nobody has to
 * know which event helps whom. FlexPS also holds back a clock that is too far ahead, since its ring
 * of recorders would overflow. A worker's own read is what keeps the worker back here, and a clock
 * is taken as it comes. */
#include "server/core/clocks/sparse_ssp.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

/* What one worker will read at one of its clocks. Compared whole, when the read comes: another list
 * of keys under the same clock would let the read pass where it must wait. */
struct ps_announcement {
    uint64_t clock;
    uint64_t table;
    uint64_t met_clock; /* where its read met another worker's update the last time ... */
    size_t met;         /* ... of this key */
    size_t count;
    uint64_t keys[]; /* as they came */
};

static struct ps_announcement **slot_of(const struct ps_sparse_ssp *sparse, uint32_t rank,
                                        uint64_t clock);
static struct ps_announcement *find(const struct ps_sparse_ssp *sparse, uint32_t rank,
                                    uint64_t clock);
static enum ps_status check_clock(const struct ps_sparse_ssp *sparse, uint64_t own,
                                  const struct ps_sparse_read *read, struct ps_error *error);
static bool is_same(const struct ps_announcement *announced, const struct ps_sparse_read *read);
static enum ps_status keep(struct ps_sparse_ssp *sparse, const struct ps_sparse_read *read,
                           struct ps_error *error);
static uint64_t pair_of(const struct ps_announcement *announced, size_t i, uint64_t clock);
static void drop(struct ps_sparse_ssp *sparse, struct ps_announcement **slot);
static enum ps_status check_known(const struct ps_sparse_ssp *sparse,
                                  const struct ps_progress *progress, uint32_t rank, uint64_t last,
                                  struct ps_error *error);
static bool meets_update(const struct ps_sparse_ssp *sparse, struct ps_announcement *announced,
                         uint64_t first, uint64_t last);

/* Nothing is taken before the first announcement: most clocks are of another model. */
void ps_sparse_ssp_init(struct ps_sparse_ssp *sparse, const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    *sparse = (struct ps_sparse_ssp){.memory = memory};
    ps_key_counts_init(&sparse->counts, memory);
}

void ps_sparse_ssp_fini(struct ps_sparse_ssp *sparse)
{
    /* Key by key, so that the counters prove that every announcement was counted once. */
    for (uint32_t rank = 0; rank < sparse->ranks; rank++)
        ps_sparse_ssp_leave(sparse, rank);
    PS_ASSERT(sparse->key_count == 0);
    ps_release(sparse->memory, sparse->slots);
    ps_key_counts_fini(&sparse->counts);
    *sparse = (struct ps_sparse_ssp){.memory = sparse->memory, .counts = sparse->counts};
}

/* The slots are arranged by ranks and speculation. Whoever waits asks again after a change of
 * settings, and so announces again. */
void ps_sparse_ssp_configure(struct ps_sparse_ssp *sparse, uint32_t ranks, uint64_t staleness,
                             uint64_t speculation)
{
    /* Of none they are as clocks of another model, which have no announcements. */
    PS_ASSERT(ranks <= PS_CLOCK_WORKERS_MAX && speculation <= PS_CLOCK_SPECULATION_MAX);
    if (ranks != sparse->ranks || speculation != sparse->speculation)
        ps_sparse_ssp_fini(sparse);
    sparse->ranks = ranks;
    sparse->staleness = staleness;
    sparse->speculation = speculation;
}

/* The slots of a rank stand together, so that a clock which frees several of them touches few lines
 * of memory. One clock has one slot: two that share it are never announced at the same time. */
static struct ps_announcement **slot_of(const struct ps_sparse_ssp *sparse, uint32_t rank,
                                        uint64_t clock)
{
    uint64_t depth = sparse->speculation + 2;
    PS_ASSERT(sparse->slots != NULL && rank < sparse->ranks);
    return &sparse->slots[rank * depth + clock % depth];
}

/* NULL: the worker has not said what it reads then. */
static struct ps_announcement *find(const struct ps_sparse_ssp *sparse, uint32_t rank,
                                    uint64_t clock)
{
    if (sparse->slots == NULL || rank >= sparse->ranks)
        return NULL;
    /* The slot may be another clock's: of one that is over, or of one that is still to come. */
    struct ps_announcement *there = *slot_of(sparse, rank, clock);
    return there != NULL && there->clock == clock ? there : NULL;
}

enum ps_status ps_sparse_ssp_announce(struct ps_sparse_ssp *sparse, uint64_t own,
                                      const struct ps_sparse_read *read, bool *is_new,
                                      struct ps_error *error)
{
    PS_ASSERT(read->rank < sparse->ranks && is_new != NULL);
    PS_TRY(check_clock(sparse, own, read, error));
    const struct ps_announcement *there = find(sparse, read->rank, read->clock);
    *is_new = there == NULL;
    if (there == NULL)
        return keep(sparse, read, error);
    /* A repeat, or a read that waits and asks again. */
    if (is_same(there, read))
        return PS_OK;
    return ps_fail(error, PS_ERR_MISMATCH,
                   "worker %" PRIu32 " reads other keys at clock %" PRIu64 " than it has announced",
                   read->rank, read->clock);
}

/* The clock before may still be on its way while this read is here already: the two come over
 * different streams of a connection. So one clock more than the rule needs is let in. */
static enum ps_status check_clock(const struct ps_sparse_ssp *sparse, uint64_t own,
                                  const struct ps_sparse_read *read, struct ps_error *error)
{
    if (read->keys.size % sizeof(uint64_t) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%zu bytes of keys, of 8 bytes each",
                       read->keys.size);
    if (read->clock < own)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "worker %" PRIu32 " announces clock %" PRIu64 " and has ended %" PRIu64
                       " iterations",
                       read->rank, read->clock, own);
    if (read->clock - own > sparse->speculation + 1)
        return ps_fail(error, PS_ERR_MISMATCH,
                       "worker %" PRIu32 " announces clock %" PRIu64 " and has ended %" PRIu64
                       " iterations: at most %" PRIu64 " ahead",
                       read->rank, read->clock, own, sparse->speculation + 1);
    return PS_OK;
}

/* Key by key and piece by piece: nothing is copied for a comparison. */
static bool is_same(const struct ps_announcement *announced, const struct ps_sparse_read *read)
{
    /* Keys in another order are other keys: a client that repeats a read repeats its bytes. */
    const uint8_t *own = (const uint8_t *)announced->keys;
    struct ps_view_cursor cursor = {.view = read->keys};
    if (announced->table != read->table || read->keys.size != announced->count * sizeof(uint64_t))
        return false;
    for (struct ps_bytes run = ps_view_next(&cursor, SIZE_MAX); run.size > 0;
         run = ps_view_next(&cursor, SIZE_MAX)) {
        if (memcmp(own, run.data, run.size) != 0)
            return false;
        own += run.size;
    }
    return true;
}

/* Everything that may fail first. */
static enum ps_status keep(struct ps_sparse_ssp *sparse, const struct ps_sparse_read *read,
                           struct ps_error *error)
{
    size_t count = read->keys.size / sizeof(uint64_t);
    /* One message may bring as many as there is room for at all. */
    if (count > read->room)
        return ps_fail(error, PS_ERR_BUSY,
                       "%zu keys are announced, of which there may be %zu more at this server",
                       count, read->room);
    if (sparse->slots == NULL)
        sparse->slots = ps_zeroed_array(
            sparse->memory, sparse->ranks * (size_t)(sparse->speculation + 2), sizeof(void *));
    if (sparse->slots == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for announcements");
    PS_TRY(ps_key_counts_reserve(&sparse->counts, count, error));
    /* The last that may fail. Room in the table that is not used then is used by the next. */
    struct ps_announcement *made =
        ps_plain(sparse->memory, sizeof *made + count * sizeof made->keys[0]);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu announced keys", count);
    *made = (struct ps_announcement){.clock = read->clock, .table = read->table, .count = count};
    /* As they lie in the message. They are looked at as numbers only to be hashed and to be named,
     * and each is hashed the same way by every worker of this server. */
    ps_view_copy(read->keys, 0, made->keys, read->keys.size);
    for (size_t i = 0; i < count; i++)
        ps_key_counts_add(&sparse->counts, pair_of(made, i, made->clock));
    sparse->key_count += count;
    /* What lay here is of a clock that is over, and went with it. */
    PS_ASSERT(*slot_of(sparse, read->rank, read->clock) == NULL);
    *slot_of(sparse, read->rank, read->clock) = made;
    return PS_OK;
}

/* One of its keys at a clock: its own, when it is counted, or an earlier one, when others may be
 * about to update it. */
static uint64_t pair_of(const struct ps_announcement *announced, size_t i, uint64_t clock)
{
    PS_ASSERT(i < announced->count);
    return ps_key_counts_hash(announced->keys[i] ^ announced->table, clock);
}

/* The way back of keep. The pairs are made again from the keys, which costs less than to keep
 * them. */
static void drop(struct ps_sparse_ssp *sparse, struct ps_announcement **slot)
{
    struct ps_announcement *gone = *slot;
    if (gone == NULL)
        return;
    PS_ASSERT(sparse->key_count >= gone->count);
    for (size_t i = 0; i < gone->count; i++)
        ps_key_counts_take(&sparse->counts, pair_of(gone, i, gone->clock));
    sparse->key_count -= gone->count;
    ps_release(sparse->memory, gone);
    *slot = NULL;
}

/* In the order of the table above. A read ahead of its worker waits for that worker, which is the
 * one exception to "the slowest never waits": nobody needs its answer yet. */
enum ps_status ps_sparse_ssp_read(const struct ps_sparse_ssp *sparse,
                                  const struct ps_progress *progress, uint32_t rank, uint64_t clock,
                                  struct ps_error *error)
{
    /* Three numbers decide nearly every read; the table is looked at by those that are ahead. */
    uint64_t own = ps_progress_clock(progress, rank);
    uint64_t minimum = ps_progress_minimum(progress);
    struct ps_announcement *announced = find(sparse, rank, clock);
    PS_ASSERT(minimum <= own);
    if (clock > own)
        return ps_fail(error, PS_ERR_NOT_READY,
                       "worker %" PRIu32 " reads at clock %" PRIu64 " when it has ended %" PRIu64
                       " iterations",
                       rank, clock, own);
    if (clock <= sparse->staleness || clock - sparse->staleness <= minimum)
        return PS_OK;
    /* From here on not everybody has ended what SSP(s) asks for. What was not announced waits for
     * that; what was may go earlier by up to k iterations. */
    /* At least 1, so that there is a last iteration whose updates it may not miss. */
    uint64_t needed = clock - sparse->staleness;
    uint64_t least = announced == NULL              ? needed
                     : needed > sparse->speculation ? needed - sparse->speculation
                                                    : 0;
    if (minimum < least)
        return ps_fail(error, PS_ERR_NOT_READY,
                       "worker %" PRIu32 " at clock %" PRIu64 " waits for clock %" PRIu64
                       "; worker %" PRIu32 " is at %" PRIu64,
                       rank, clock, least, ps_progress_slowest(progress, 0), minimum);
    PS_TRY(check_known(sparse, progress, rank, needed - 1, error));
    if (!meets_update(sparse, announced, minimum, needed - 1))
        return PS_OK;
    return ps_fail(error, PS_ERR_NOT_READY,
                   "a read at clock %" PRIu64 " waits: key %" PRIu64
                   " is to be updated in iteration %" PRIu64,
                   clock, announced->keys[announced->met], announced->met_clock);
}

/* Every worker that has not ended the iteration `last` has said what it reads until then. The
 * reader itself has ended that one, or else it would not be so far ahead. */
static enum ps_status check_known(const struct ps_sparse_ssp *sparse,
                                  const struct ps_progress *progress, uint32_t rank, uint64_t last,
                                  struct ps_error *error)
{
    PS_ASSERT(ps_progress_clock(progress, rank) > last);
    for (uint32_t other = 0; other < sparse->ranks; other++) {
        /* Who is evicted updates nothing that anybody waits for. */
        if (!ps_progress_has(progress, other))
            continue;
        for (uint64_t clock = ps_progress_clock(progress, other); clock <= last; clock++)
            if (find(sparse, other, clock) == NULL)
                return ps_fail(error, PS_ERR_NOT_READY,
                               "worker %" PRIu32 " waits: worker %" PRIu32
                               " has not announced what it reads at clock %" PRIu64,
                               rank, other, clock);
    }
    return PS_OK;
}

/* Its own announcements are of clocks behind `last`, so that every count is somebody else's. What
 * it met before is asked first: a read that waits is asked again with each clock and announcement
 * of anybody, and all its keys at all these clocks are some hundred thousand looks. */
static bool meets_update(const struct ps_sparse_ssp *sparse, struct ps_announcement *announced,
                         uint64_t first, uint64_t last)
{
    PS_ASSERT(announced->clock > last && announced->met <= announced->count);
    uint64_t met = announced->met_clock;
    if (announced->met < announced->count && met >= first && met <= last &&
        ps_key_counts_has(&sparse->counts, pair_of(announced, announced->met, met)))
        return true;
    /* The latest iterations first: most who are slower are so by one. */
    for (uint64_t clock = last + 1; clock-- > first;)
        for (size_t i = 0; i < announced->count; i++)
            if (ps_key_counts_has(&sparse->counts, pair_of(announced, i, clock))) {
                announced->met_clock = clock;
                announced->met = i;
                return true;
            }
    return false;
}

/* All slots are looked at: a worker that comes back may have jumped. */
void ps_sparse_ssp_clock(struct ps_sparse_ssp *sparse, uint32_t rank, uint64_t clock)
{
    if (sparse->slots == NULL || rank >= sparse->ranks)
        return;
    /* Slots are as many as clocks that may be announced, so that these numbers are all of them. */
    for (uint64_t i = 0; i < sparse->speculation + 2; i++) {
        struct ps_announcement **slot = slot_of(sparse, rank, i);
        if (*slot != NULL && (*slot)->clock < clock)
            drop(sparse, slot);
    }
}

void ps_sparse_ssp_leave(struct ps_sparse_ssp *sparse, uint32_t rank)
{
    /* No clock is that high. */
    ps_sparse_ssp_clock(sparse, rank, UINT64_MAX);
}

/* Each announcement in its slot, all its keys counted, and no others. */
void ps_sparse_ssp_check(const struct ps_sparse_ssp *sparse)
{
    size_t slots = sparse->slots == NULL ? 0 : sparse->ranks * (size_t)(sparse->speculation + 2);
    size_t keys = 0;
    /* Two keys may share a counter, so that the counters are not as many as the keys. */
    ps_key_counts_check(&sparse->counts);
    for (size_t i = 0; i < slots; i++) {
        const struct ps_announcement *there = sparse->slots[i];
        if (there == NULL)
            continue;
        PS_ASSERT(there->clock % (sparse->speculation + 2) == i % (sparse->speculation + 2));
        for (size_t k = 0; k < there->count; k++)
            PS_ASSERT(ps_key_counts_has(&sparse->counts, pair_of(there, k, there->clock)));
        keys += there->count;
    }
    PS_ASSERT(keys == sparse->key_count);
}
