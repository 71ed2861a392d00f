/* SPDX-License-Identifier: Apache-2.0 */
/* A cache in one block of memory for each kind of thing that it has, as large as it will ever be.
 *
 * Entries lie in one array and rows in another, at the same places. A place is in one bucket, by
 * its key, and in one list, by when it was used; a place that is in neither is in the list of free
 * ones. Nothing is allocated after creation, so that a read never fails for want of memory here. */
#include "client/row_cache.h"

#include "base/assert.h"
#include "base/row_hash.h"

#include <string.h>

/* No place: the end of a list. */
#define NONE UINT32_MAX

struct entry {
    uint64_t key;
    uint64_t clock;        /* at which it was read */
    uint32_t next;         /* of its bucket, or of the free places */
    uint32_t newer, older; /* in the order of use */
};

/* Where a worker is that reads. */
struct reader {
    uint32_t worker;
    uint64_t clock;
};

/* Workers that share a table's object, which mostly has one. The clocks of more are forgotten in
 * turn, and the rows then with them. */
#define READERS_MAX 16

struct ps_row_cache {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint32_t rows_max;
    size_t row_bytes;
    uint64_t staleness;
    struct entry *entries; /* owned */
    uint8_t *rows;         /* owned */
    uint32_t *buckets;     /* owned; the first place of each */
    uint32_t bucket_count; /* a power of two */
    uint32_t newest, oldest, free;
    uint32_t count;
    uint64_t additions; /* begun, ever */
    uint64_t open;      /* begun and not ended */
    uint64_t found, missed;
    char clocks[PS_CLOCKS_NAME_BYTES_MAX + 1]; /* by which rows are so old; "": none were said */
    struct reader readers[READERS_MAX];
    uint32_t reader_count;
    uint64_t highest; /* clock of all readers; UINT64_MAX: nobody has said any */
};

static struct reader *reader_of(struct ps_row_cache *cache, uint32_t worker);
static void forget_all(struct ps_row_cache *cache);
static void forget(struct ps_row_cache *cache, uint32_t place);

/* Places are numbered with 32 bits, and the highest number is none. */
enum ps_status ps_row_cache_create(const struct ps_allocator *memory, uint64_t rows_max,
                                   size_t row_bytes, uint64_t staleness, struct ps_row_cache **out,
                                   struct ps_error *error)
{
    PS_ASSERT(rows_max > 0 && row_bytes > 0);
    if (rows_max > PS_ROW_CACHE_ROWS_MAX || rows_max > SIZE_MAX / row_bytes)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a cache of so many rows");
    struct ps_row_cache *cache = ps_zeroed(memory, sizeof *cache);
    if (cache == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a cache");
    *cache = (struct ps_row_cache){.memory = memory,
                                   .rows_max = (uint32_t)rows_max,
                                   .row_bytes = row_bytes,
                                   .staleness = staleness,
                                   .bucket_count = 1,
                                   .newest = NONE,
                                   .highest = UINT64_MAX,
                                   .oldest = NONE};
    /* A power of two, so that a mask takes the place of a division. */
    while (cache->bucket_count < cache->rows_max)
        cache->bucket_count *= 2;
    cache->entries = ps_zeroed_array(memory, cache->rows_max, sizeof *cache->entries);
    cache->rows = ps_plain(memory, cache->rows_max * row_bytes);
    cache->buckets = ps_zeroed_array(memory, cache->bucket_count, sizeof *cache->buckets);
    if (cache->entries == NULL || cache->rows == NULL || cache->buckets == NULL) {
        ps_row_cache_destroy(cache);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a cache of %u rows",
                       (unsigned)rows_max);
    }
    for (uint32_t i = 0; i < cache->bucket_count; i++)
        cache->buckets[i] = NONE;
    /* The first place is 0, which is where the list of free ones begins. */
    for (uint32_t i = 0; i < cache->rows_max; i++)
        cache->entries[i].next = i + 1 < cache->rows_max ? i + 1 : NONE;
    *out = cache;
    return PS_OK;
}

/* Of a cache that got only a part of its memory, too. */
void ps_row_cache_destroy(struct ps_row_cache *cache)
{
    if (cache == NULL)
        return;
    ps_release(cache->memory, cache->buckets);
    ps_release(cache->memory, cache->rows);
    ps_release(cache->memory, cache->entries);
    ps_release(cache->memory, cache);
}

/* ---- The two lists of a place ---- */

/* Any seed but that of the partition, which a caller may have sorted its keys by. */
static uint32_t *bucket_of(struct ps_row_cache *cache, uint64_t key)
{
    return &cache->buckets[ps_row_hash(key, 2) & (cache->bucket_count - 1)];
}

/* As many buckets as places: a bucket has one place or two. */
static uint32_t place_of(struct ps_row_cache *cache, uint64_t key)
{
    uint32_t place = *bucket_of(cache, key);
    while (place != NONE && cache->entries[place].key != key)
        place = cache->entries[place].next;
    return place;
}

/* Out of the order of use. Its own links stay what they were: whoever takes a place out puts it
 * somewhere else, or gives it back. */
static void unlink_place(struct ps_row_cache *cache, uint32_t place)
{
    const struct entry *entry = &cache->entries[place];
    if (entry->newer != NONE)
        cache->entries[entry->newer].older = entry->older;
    else
        cache->newest = entry->older;
    if (entry->older != NONE)
        cache->entries[entry->older].newer = entry->newer;
    else
        cache->oldest = entry->newer;
}

/* To the front of that order. The last of the list is the first to go, and with one row both ends
 * are the same. */
static void link_newest(struct ps_row_cache *cache, uint32_t place)
{
    struct entry *entry = &cache->entries[place];
    entry->newer = NONE;
    entry->older = cache->newest;
    if (cache->newest != NONE)
        cache->entries[cache->newest].newer = place;
    else
        cache->oldest = place;
    cache->newest = place;
}

/* The place becomes free, and its row is nobody's. The bucket is walked to find who points here:
 * links in one direction are enough where buckets are short. */
static void forget(struct ps_row_cache *cache, uint32_t place)
{
    struct entry *entry = &cache->entries[place];
    uint32_t *link = bucket_of(cache, entry->key);
    while (*link != place) {
        PS_ASSERT(*link != NONE);
        link = &cache->entries[*link].next;
    }
    *link = entry->next;
    unlink_place(cache, place);
    entry->next = cache->free;
    cache->free = place;
    cache->count--;
}

/* ---- Clocks ---- */

/* By worker and not by the highest clock of all: of workers that share the rows one is behind the
 * other, and each goes on where it was. */
void ps_row_cache_at(struct ps_row_cache *cache, const char *clocks, uint32_t worker,
                     uint64_t clock)
{
    struct reader *reader = reader_of(cache, worker);
    bool goes_on = strcmp(cache->clocks, clocks) == 0 &&
                   clock >= (reader != NULL ? reader->clock : cache->highest);
    PS_ASSERT(strlen(clocks) < sizeof cache->clocks);
    if (!goes_on) {
        forget_all(cache);
        reader = NULL;
        cache->reader_count = 0;
        cache->highest = 0;
        memset(cache->clocks, 0, sizeof cache->clocks);
        memcpy(cache->clocks, clocks, strlen(clocks));
    }
    /* Whoever is forgotten here, and comes again behind others, has all rows go. */
    if (reader == NULL && cache->reader_count == READERS_MAX)
        cache->reader_count = 0;
    if (reader == NULL)
        reader = &cache->readers[cache->reader_count++];
    *reader = (struct reader){worker, clock};
    cache->highest = clock > cache->highest ? clock : cache->highest;
}

static struct reader *reader_of(struct ps_row_cache *cache, uint32_t worker)
{
    for (uint32_t i = 0; i < cache->reader_count; i++)
        if (cache->readers[i].worker == worker)
            return &cache->readers[i];
    return NULL;
}

/* What was asked for before is not kept when it comes: it is of the former clocks. */
static void forget_all(struct ps_row_cache *cache)
{
    cache->additions++;
    while (cache->newest != NONE)
        forget(cache, cache->newest);
    PS_ASSERT(cache->count == 0);
}

/* ---- Reading ---- */

/* Additions that are on their way make every ticket worthless: what the servers answer meanwhile
 * may be of before or after them. */
uint64_t ps_row_cache_begin(const struct ps_row_cache *cache)
{
    return cache->open == 0 ? cache->additions : UINT64_MAX;
}

/* A row that is too old stays where it is: the answer that is asked for now takes its place. It may
 * also serve another worker, which is at an earlier clock. */
bool ps_row_cache_find(struct ps_row_cache *cache, uint64_t key, uint64_t clock, void *row)
{
    uint32_t place = place_of(cache, key);
    /* The difference and not the sum: no clock wraps. */
    if (place == NONE || (clock > cache->entries[place].clock &&
                          clock - cache->entries[place].clock > cache->staleness)) {
        cache->missed++;
        return false;
    }
    /* Used now: the last to go. */
    cache->found++;
    unlink_place(cache, place);
    link_newest(cache, place);
    memcpy(row, cache->rows + place * cache->row_bytes, cache->row_bytes);
    return true;
}

/* A place that is free, or that of the row which was used longest ago. Its key and its row are
 * still those of before. */
static uint32_t take_place(struct ps_row_cache *cache)
{
    if (cache->free == NONE)
        forget(cache, cache->oldest);
    uint32_t place = cache->free;
    cache->free = cache->entries[place].next;
    cache->count++;
    return place;
}

/* Of two answers for one key the one of the later clock stays. A full cache always takes a new row:
 * what is read now is likelier to be read again than what was read longest ago. */
void ps_row_cache_keep(struct ps_row_cache *cache, uint64_t ticket, uint64_t key, uint64_t clock,
                       const void *row)
{
    /* The ticket of a read beside an addition fits no number that there will ever be. A read that
     * was begun at former clocks, and has asked here behind their end, is of a higher one. */
    if (ticket != cache->additions || cache->open > 0 || clock > cache->highest)
        return;
    uint32_t place = place_of(cache, key);
    /* Workers of one table may be at different clocks. */
    if (place != NONE && cache->entries[place].clock > clock)
        return;
    if (place == NONE) {
        place = take_place(cache);
        uint32_t *bucket = bucket_of(cache, key);
        cache->entries[place].key = key;
        cache->entries[place].next = *bucket;
        *bucket = place;
    } else {
        unlink_place(cache, place);
    }
    cache->entries[place].clock = clock;
    memcpy(cache->rows + place * cache->row_bytes, row, cache->row_bytes);
    link_newest(cache, place);
}

/* ---- Adding ---- */

/* What a gradient makes of a row is the server's to say: it has the rule, its states, and the
 * gradients of others. */
void ps_row_cache_add_begin(struct ps_row_cache *cache, const uint64_t *keys, size_t count)
{
    cache->additions++;
    cache->open++;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = place_of(cache, keys[i]);
        /* A key that comes twice went with its first. */
        if (place != NONE)
            forget(cache, place);
    }
}

/* Also of an addition that failed: it may have been applied, or may be yet. */
void ps_row_cache_add_end(struct ps_row_cache *cache)
{
    PS_ASSERT(cache->open > 0);
    cache->open--;
    cache->additions++;
}

/* For a program that wants to know whether its cache is large enough. */
struct ps_row_cache_counts ps_row_cache_counts(const struct ps_row_cache *cache)
{
    return (struct ps_row_cache_counts){cache->count, cache->found, cache->missed};
}

/* Every place is in the order of use and in its bucket, or free. Counting finds a place that is in
 * two of them as well: the sums would not fit. */
void ps_row_cache_check(const struct ps_row_cache *cache)
{
    uint32_t used = 0, free = 0, bucketed = 0;
    uint32_t newer = NONE;
    for (uint32_t i = cache->newest; i != NONE; i = cache->entries[i].older, used++) {
        PS_ASSERT(cache->entries[i].newer == newer);
        newer = i;
    }
    PS_ASSERT(cache->oldest == newer);
    for (uint32_t i = cache->free; i != NONE; i = cache->entries[i].next)
        free++;
    for (uint32_t b = 0; b < cache->bucket_count; b++)
        for (uint32_t i = cache->buckets[b]; i != NONE; i = cache->entries[i].next)
            bucketed++;
    PS_ASSERT(used == cache->count && bucketed == cache->count);
    PS_ASSERT(used + free == cache->rows_max);
}
