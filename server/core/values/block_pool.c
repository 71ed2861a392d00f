/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs stand in one of three lists by how much of them is free: nothing, something, everything.
 * Blocks come from the second list first, so that whole slabs become free and can go back; a pool
 * that took from any slab would end with one block used in each of them, and could give nothing
 * back. The allocator that Bonwick describes for kernels (Slab Allocator, USENIX 1994) does the
 * same for the same reason. */
#include "server/core/values/block_pool.h"

#include "base/assert.h"
#include "base/slab.h"
#include "base/thread.h"

#include <utlist.h>

#define SLAB_BLOCKS (PS_SLAB_BYTES / PS_BLOCK_BYTES)
_Static_assert(PS_SLAB_BYTES % PS_BLOCK_BYTES == 0, "a slab is whole blocks");
_Static_assert(SLAB_BLOCKS <= 32, "a bit for each block of a slab");

/* The smallest that a system has. */
#define PAGE_BYTES 4096

struct slab;

/* A block knows its slab; struct ps_block comes first. */
struct slab_block {
    struct ps_block block;
    struct slab *slab;
};

struct slab {
    struct slab *prev, *next; /* in its list */
    uint32_t free_bits;       /* a bit for each free block */
    uint8_t *memory;
    struct slab_block blocks[SLAB_BLOCKS];
};

enum fill { FILL_FULL, FILL_PARTIAL, FILL_EMPTY, FILL_COUNT };
#define ALL_FREE ((uint32_t)(((uint64_t)1 << SLAB_BLOCKS) - 1))

struct ps_block_pool {
    const struct ps_allocator *memory; /* borrowed; outlives the last block */
    struct ps_slab_source slabs;
    struct ps_block_source blocks;
    struct ps_mutex lock; /* PS_RANK_LEAF; guards what follows */
    struct slab *lists[FILL_COUNT];
    uint64_t slab_count;
    uint64_t empty_count; /* slabs in the list FILL_EMPTY */
    uint64_t slack_count; /* of them that are kept */
    uint64_t ready_count; /* of them, as many as the next snapshot is to find; 0: there was none */
    uint64_t least_count; /* of them since the last snapshot */
    uint64_t block_count; /* blocks that are out */
    uint64_t most_count;  /* of them, in this period */
    uint64_t most_before; /* and in the one before */
    uint64_t take_count;  /* blocks taken in this period */
    bool closed;          /* destroyed; goes with the last block */
    struct ps_gauge *used_gauge, *reserved_gauge;
};

static struct ps_block_pool *create(const struct ps_slab_source *source,
                                    const struct ps_allocator *memory);
static void *take_slab(void *self);
static void give_slab(void *self, void *slab);
static struct ps_block *take(void *self);
static void give(void *self, struct ps_block *block);
static void expect_copies(void *self, uint64_t bytes);
static void set_ready(struct ps_block_pool *pool, uint64_t ready_count);
static uint64_t wanted_count(const struct ps_block_pool *pool, uint64_t bytes);
static void begin_period(struct ps_block_pool *pool);
static bool keeps_slab(const struct ps_block_pool *pool);
static bool drop_slab(struct ps_block_pool *pool);
static bool wants_slab(struct ps_block_pool *pool);
static bool add_slab(struct ps_block_pool *pool);
static struct slab *create_slab(struct ps_block_pool *pool);
static void destroy_slab(const struct ps_block_pool *pool, struct slab *slab);
static struct slab_block *take_from(struct ps_block_pool *pool, struct slab *slab);
static struct slab *give_back(struct ps_block_pool *pool, struct slab_block *block);
static enum fill fill_of(const struct slab *slab);
static void enter(struct ps_block_pool *pool, struct slab *slab);
static void leave(struct ps_block_pool *pool, struct slab *slab);
static void show(const struct ps_block_pool *pool);
static void free_pool(struct ps_block_pool *pool);

/* Metrics are optional: tests have none, and the gauges are then NULL, which setting them allows.
 * */
struct ps_block_pool *ps_block_pool_create(const struct ps_allocator *memory,
                                           struct ps_metrics *metrics)
{
    PS_ASSERT(memory != NULL);
    const struct ps_slab_source system = {take_slab, give_slab, NULL};
    struct ps_block_pool *pool = create(&system, memory);
    if (pool == NULL)
        return NULL;
    pool->blocks.expect_copies = expect_copies;
    if (metrics != NULL) {
        pool->used_gauge = ps_metrics_gauge(metrics, "ps_block_used_bytes",
                                            "Bytes of parameter blocks in use.", NULL);
        pool->reserved_gauge =
            ps_metrics_gauge(metrics, "ps_block_reserved_bytes",
                             "Bytes that the pool of parameter blocks has from the system.", NULL);
    }
    return pool;
}

/* Memory of a device's own kind is a scarce thing, so that nothing is got ready in advance there.
 * */
struct ps_block_pool *ps_block_pool_create_over(const struct ps_slab_source *source,
                                                const struct ps_allocator *memory)
{
    PS_ASSERT(source->take != NULL && source->give != NULL);
    struct ps_block_pool *pool = create(source, memory);
    if (pool == NULL)
        return NULL;
    pool->blocks.takes_tails = true;
    return pool;
}

static struct ps_block_pool *create(const struct ps_slab_source *source,
                                    const struct ps_allocator *memory)
{
    struct ps_block_pool *pool = ps_zeroed(memory, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->memory = memory;
    pool->slack_count = PS_POOL_SLACK_SLABS;
    pool->slabs = *source;
    pool->blocks = (struct ps_block_source){.take = take, .give = give, .self = pool};
    ps_mutex_init(&pool->lock, PS_RANK_LEAF);
    return pool;
}

static void *take_slab(void *self)
{
    (void)self;
    return ps_slab_take();
}

static void give_slab(void *self, void *slab)
{
    PS_ASSERT(slab != NULL);
    (void)self;
    ps_slab_give(slab);
}

/* Pulls that are still being sent hold blocks longer than the server holds the pool. So the pool
 * stays, and the last block that comes back takes it along; the gauges go at once, since their
 * registry ends with the server. */
void ps_block_pool_destroy(struct ps_block_pool *pool)
{
    if (pool == NULL)
        return;
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(!pool->closed);
    pool->closed = true;
    pool->used_gauge = NULL;
    pool->reserved_gauge = NULL;
    bool is_last = pool->block_count == 0;
    ps_mutex_unlock(&pool->lock);
    if (is_last)
        free_pool(pool);
}

static void free_pool(struct ps_block_pool *pool)
{
    /* No lock: with no block out, nobody else knows the pool. */
    PS_ASSERT(pool->lists[FILL_FULL] == NULL && pool->lists[FILL_PARTIAL] == NULL);
    PS_ASSERT(pool->closed && pool->block_count == 0);
    while (pool->lists[FILL_EMPTY] != NULL) {
        struct slab *slab = pool->lists[FILL_EMPTY];
        leave(pool, slab);
        destroy_slab(pool, slab);
    }
    ps_mutex_fini(&pool->lock);
    ps_release(pool->memory, pool);
}

const struct ps_block_source *ps_block_pool_source(const struct ps_block_pool *pool)
{
    PS_ASSERT(pool->blocks.self == pool);
    return &pool->blocks;
}

/* Both numbers of one moment. */
struct ps_block_pool_state ps_block_pool_look(struct ps_block_pool *pool)
{
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(pool->block_count <= pool->slab_count * SLAB_BLOCKS);
    struct ps_block_pool_state state = {pool->block_count * PS_BLOCK_BYTES,
                                        pool->slab_count * PS_SLAB_BYTES};
    ps_mutex_unlock(&pool->lock);
    return state;
}

/* The lock is held for a few instructions, but never over the kernel: touching new memory takes a
 * millisecond or two for each megabyte, and every lane takes its blocks here. */
static struct ps_block *take(void *self)
{
    struct ps_block_pool *pool = self;
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(!pool->closed);
    /* Partly used slabs first, so that the others can become free. */
    struct slab *slab = pool->lists[FILL_PARTIAL];
    if (slab == NULL)
        slab = pool->lists[FILL_EMPTY];
    if (slab == NULL) {
        /* The kernel takes its time: others may find a block meanwhile. */
        ps_mutex_unlock(&pool->lock);
        slab = create_slab(pool);
        if (slab == NULL)
            return NULL;
        ps_mutex_lock(&pool->lock);
        pool->slab_count++;
        enter(pool, slab);
    }
    PS_ASSERT(slab->free_bits != 0);
    struct slab_block *taken = take_from(pool, slab);
    show(pool);
    ps_mutex_unlock(&pool->lock);
    return &taken->block;
}

/* A slab that is not kept is unmapped after the lock was let go, for the same reason. */
static void give(void *self, struct ps_block *block)
{
    struct ps_block_pool *pool = self;
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(block->source == &pool->blocks);
    struct slab *unwanted = give_back(pool, (struct slab_block *)block);
    /* Decided under the lock, done without it: nobody can take a block from a pool that is closed.
     * */
    bool is_last = pool->closed && pool->block_count == 0;
    show(pool);
    ps_mutex_unlock(&pool->lock);
    if (unwanted != NULL)
        destroy_slab(pool, unwanted);
    if (is_last)
        free_pool(pool);
}

/* A snapshot is about to be taken: from then on every block that a push touches is written anew,
 * and the first push would otherwise wait for the kernel. What was got ready and not needed the
 * last time shrinks by half, so that a pool follows a load that becomes less. `least_count` begins
 * again: it measures what is never needed until the next snapshot. */
static void expect_copies(void *self, uint64_t bytes)
{
    struct ps_block_pool *pool = self;
    ps_mutex_lock(&pool->lock);
    set_ready(pool, wanted_count(pool, bytes));
    ps_mutex_unlock(&pool->lock);
    while (drop_slab(pool)) {
    }
    while (wants_slab(pool) && add_slab(pool)) {
    }
    ps_mutex_lock(&pool->lock);
    pool->least_count = pool->empty_count;
    ps_mutex_unlock(&pool->lock);
}

/* Two periods are begun, since what counts as lately is this one and the one before. */
void ps_block_pool_relax(struct ps_block_pool *pool)
{
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(!pool->closed);
    set_ready(pool, 0);
    begin_period(pool);
    begin_period(pool);
    ps_mutex_unlock(&pool->lock);
    while (drop_slab(pool)) {
    }
}

/* Kept is what is ready, and the slack in any case. */
static void set_ready(struct ps_block_pool *pool, uint64_t ready_count)
{
    PS_ASSERT(ready_count <= PS_POOL_READY_SLABS_MAX);
    pool->ready_count = ready_count;
    /* What is ready is kept, or the next block that comes back would give it away. */
    pool->slack_count = ready_count > PS_POOL_SLACK_SLABS ? ready_count : PS_POOL_SLACK_SLABS;
}

/* As much free as will be held, less half of what was there the last time and not needed. */
static uint64_t wanted_count(const struct ps_block_pool *pool, uint64_t bytes)
{
    /* Every block that is held may be written once while it is held: then as much again is needed.
     * */
    uint64_t held = bytes / PS_SLAB_BYTES + (bytes % PS_SLAB_BYTES != 0);
    uint64_t most = held < PS_POOL_READY_SLABS_MAX ? held : PS_POOL_READY_SLABS_MAX;
    PS_ASSERT(pool->least_count <= pool->empty_count);
    /* Half, so that one quiet period does not throw away what the next needs. */
    uint64_t unneeded = pool->least_count / 2;
    /* The first time there is nothing to learn from. */
    if (pool->ready_count == 0 || unneeded == 0)
        return most;
    uint64_t fewer = pool->ready_count > unneeded ? pool->ready_count - unneeded : 1;
    return fewer < most ? fewer : most;
}

/* Gives one slab back that is free and not kept; false when there is none. One at a time, with the
 * lock let go between: giving slabs back may take long, and others must get at their blocks
 * meanwhile. */
static bool drop_slab(struct ps_block_pool *pool)
{
    ps_mutex_lock(&pool->lock);
    struct slab *slab = pool->lists[FILL_EMPTY];
    if (slab != NULL && keeps_slab(pool))
        slab = NULL;
    if (slab != NULL) {
        leave(pool, slab);
        pool->slab_count--;
        show(pool);
    }
    ps_mutex_unlock(&pool->lock);
    if (slab != NULL)
        destroy_slab(pool, slab);
    return slab != NULL;
}

/* One slab for each call, so that whoever prepares can stop as soon as there is something better to
 * do. */
bool ps_block_pool_prepare(struct ps_block_pool *pool, uint64_t bytes)
{
    ps_mutex_lock(&pool->lock);
    PS_ASSERT(!pool->closed);
    /* Wholly free slabs only: what is free in others is used by pushes meanwhile. */
    bool is_short = pool->empty_count * PS_SLAB_BYTES < bytes;
    ps_mutex_unlock(&pool->lock);
    return is_short && add_slab(pool);
}

/* A slab of memory that has been touched. False when memory is refused. Each page is touched, which
 * is what costs: memory that is only mapped would still be slow for the push that writes it first.
 * Writing a zero keeps it what the kernel gave. */
static bool add_slab(struct ps_block_pool *pool)
{
    struct slab *slab = create_slab(pool);
    if (slab == NULL)
        return false;
    for (size_t at = 0; at < PS_SLAB_BYTES; at += PAGE_BYTES)
        *(volatile uint8_t *)(slab->memory + at) = 0;
    ps_mutex_lock(&pool->lock);
    pool->slab_count++;
    enter(pool, slab);
    show(pool);
    ps_mutex_unlock(&pool->lock);
    return true;
}

/* Asked anew before each slab, since pushes take blocks while slabs are made ready. */
static bool wants_slab(struct ps_block_pool *pool)
{
    PS_ASSERT(pool->ready_count <= PS_POOL_READY_SLABS_MAX);
    ps_mutex_lock(&pool->lock);
    bool is_short = pool->empty_count < pool->ready_count;
    ps_mutex_unlock(&pool->lock);
    return is_short;
}

/* The struct of a slab lies apart from its memory, so that the memory is whole large pages, and the
 * last block ends where the slab does. */
static struct slab *create_slab(struct ps_block_pool *pool)
{
    struct slab *slab = ps_zeroed(pool->memory, sizeof *slab);
    if (slab == NULL)
        return NULL;
    slab->memory = pool->slabs.take(pool->slabs.self);
    if (slab->memory == NULL) {
        ps_release(pool->memory, slab);
        return NULL;
    }
    PS_ASSERT((uintptr_t)slab->memory % sizeof(uint64_t) == 0);
    slab->free_bits = ALL_FREE;
    for (size_t i = 0; i < SLAB_BLOCKS; i++)
        slab->blocks[i] = (struct slab_block){
            .block = {.source = &pool->blocks, .data = slab->memory + i * PS_BLOCK_BYTES},
            .slab = slab};
    return slab;
}

/* Outside of the lock: unmapping takes the kernel its time. */
static void destroy_slab(const struct ps_block_pool *pool, struct slab *slab)
{
    PS_ASSERT(slab->free_bits == ALL_FREE);
    pool->slabs.give(pool->slabs.self, slab->memory);
    ps_release(pool->memory, slab);
}

/* The lowest free block: which one does not matter, but the same run gives the same addresses,
 * which makes a fault easier to find. */
static struct slab_block *take_from(struct ps_block_pool *pool, struct slab *slab)
{
    PS_ASSERT(slab->free_bits != 0);
    uint32_t i = 0;
    while ((slab->free_bits >> i & 1) == 0)
        i++;
    leave(pool, slab);
    slab->free_bits &= ~((uint32_t)1 << i);
    enter(pool, slab);
    if (++pool->take_count > PS_POOL_PERIOD_TAKES)
        begin_period(pool);
    if (++pool->block_count > pool->most_count)
        pool->most_count = pool->block_count;
    return &slab->blocks[i];
}

/* Returns a slab that is to go back to the system, or NULL. */
static struct slab *give_back(struct ps_block_pool *pool, struct slab_block *block)
{
    struct slab *slab = block->slab;
    /* The block's place among its slab's says which it is: nothing is stored for that. */
    uint32_t bit = (uint32_t)1 << (block - slab->blocks);
    PS_ASSERT((slab->free_bits & bit) == 0);
    PS_ASSERT(pool->block_count > 0);
    leave(pool, slab);
    slab->free_bits |= bit;
    pool->block_count--;
    enter(pool, slab);
    if (slab->free_bits != ALL_FREE || keeps_slab(pool))
        return NULL;
    leave(pool, slab);
    pool->slab_count--;
    return slab;
}

/* Periods are counted in blocks taken and not in time: a server that stands still keeps what it
 * needed. */
static void begin_period(struct ps_block_pool *pool)
{
    PS_ASSERT(pool->most_count >= pool->block_count);
    pool->take_count = 0;
    /* The maximum of a period begins at what is out now. */
    pool->most_before = pool->most_count;
    pool->most_count = pool->block_count;
}

/* One of those that are free, if there are any. The slab that is just free is counted among the
 * empty ones already. */
static bool keeps_slab(const struct ps_block_pool *pool)
{
    PS_ASSERT(pool->slab_count > 0 && pool->empty_count <= pool->slab_count);
    /* Of two periods the higher one: at the beginning of one its own maximum says little yet. */
    uint64_t most = pool->most_count > pool->most_before ? pool->most_count : pool->most_before;
    bool needed_lately = (pool->slab_count - 1) * SLAB_BLOCKS < most;
    return pool->empty_count <= pool->slack_count ||
           (needed_lately && pool->empty_count <= PS_POOL_READY_SLABS_MAX);
}

/* From the bits alone, so that the list that a slab stands in can never say something else. */
static enum fill fill_of(const struct slab *slab)
{
    PS_ASSERT((slab->free_bits & ~ALL_FREE) == 0);
    if (slab->free_bits == 0)
        return FILL_FULL;
    return slab->free_bits == ALL_FREE ? FILL_EMPTY : FILL_PARTIAL;
}

/* At the head: what was free last is warm in the caches. */
static void enter(struct ps_block_pool *pool, struct slab *slab)
{
    struct slab **list = &pool->lists[fill_of(slab)];
    DL_PREPEND(*list, slab);
    pool->empty_count += slab->free_bits == ALL_FREE;
}

/* Before the bits change: the list is found by them. */
static void leave(struct ps_block_pool *pool, struct slab *slab)
{
    DL_DELETE(pool->lists[fill_of(slab)], slab);
    pool->empty_count -= slab->free_bits == ALL_FREE;
    /* The lowest since the last snapshot: what was never touched was not needed. */
    if (pool->empty_count < pool->least_count)
        pool->least_count = pool->empty_count;
}

/* Under the lock, so that the two gauges never show more used than there is. */
static void show(const struct ps_block_pool *pool)
{
    ps_gauge_set(pool->used_gauge, (double)(pool->block_count * PS_BLOCK_BYTES));
    ps_gauge_set(pool->reserved_gauge, (double)(pool->slab_count * PS_SLAB_BYTES));
}
