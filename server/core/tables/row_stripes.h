/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a table: 256 small tables ("stripes"), chosen by the top bits of the hash, each
 * with an index and a list of pages of its own. So what must be done in one go (a larger index) is
 * done for one of them, and is short. Private to this room.
 *
 * The number of stripes is the same for every table: which rows go when a table is full depends on
 * it, and must not change with a setting.
 *
 * Threads:  only the pushing thread changes a stripe, under the stripe's lock; it may read without.
 *           All others read under the lock. While a table is loaded, several threads are each the
 *           pushing one of some stripes (row_load.c).
 * Blocking: for that lock.
 * Errors:   as said at each function.
 * Memory:   a stripe owns its index and its list of pages; the pages are those of row_pages.h.
 */
#ifndef PS_SERVER_CORE_ROW_STRIPES_H
#define PS_SERVER_CORE_ROW_STRIPES_H

#include "base/large_heap.h"
#include "base/row_hash.h"
#include "server/core/tables/row_index.h"
#include "server/core/tables/row_pages.h"
#include "server/core/tables/row_removals.h"
#include "server/core/tables/row_shape.h"
#include "server/core/tables/row_table.h"

/* Smaller in the simulator, whose tables have few rows. */
#ifndef PS_ROW_STRIPE_BITS
#define PS_ROW_STRIPE_BITS 8
#endif
#define PS_ROW_STRIPES (1u << PS_ROW_STRIPE_BITS)

/* Stripes that share a lock: a batch of 10,000 keys has 40 in each stripe, too few for reading
 * ahead if it began anew with each. Three hundred are held up for some ten microseconds. */
#ifndef PS_ROW_LOCK_STRIPES
#define PS_ROW_LOCK_STRIPES 8
#endif
#define PS_ROW_LOCKS (PS_ROW_STRIPES / PS_ROW_LOCK_STRIPES)

struct ps_row_stripe {
    struct ps_row_index index;
    uint8_t **pages; /* where each begins; it stays there */
    uint64_t *live;  /* bit i says that there is a row of number i */
    /* With bodies on a device (row_bodies.h); else NULL. */
    uint64_t *stale; /* as `live`: what lies in the page is older than the row */
    uint32_t *seats; /* of each row, or PS_ROW_NONE */
    uint32_t page_count;
    uint32_t page_room; /* of both arrays */
    uint32_t rows;
    uint32_t free_from; /* no number below is free */
};

struct ps_row_bodies;

struct ps_row_table {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_row_shape shape;
    struct ps_table_settings settings;
    enum ps_row_repeats repeats;
    uint64_t seed;
    uint64_t key_first;
    uint64_t key_end;
    uint64_t version;            /* of the newest push; ages count from there */
    _Atomic uint32_t references; /* the owner, and each hold */
    _Atomic uint32_t turn;       /* where the next walk over the locks begins */
    _Atomic uint64_t rows;
    struct ps_row_bodies *bodies;    /* NULL: on no device. Owned */
    struct ps_row_table *candidates; /* row_admission.h; NULL: the first push makes a row. Owned */
    struct ps_large_heap lists;      /* of stripes: indexes, pages, bits */
    struct ps_row_pages pages;
    struct ps_mutex holds_lock;          /* PS_RANK_HOLDS; guards the next two */
    struct ps_row_aside *asides;         /* of the holds that there are (row_aside.h) */
    struct ps_row_hold *next_hold;       /* memory for it, or NULL (row_hold.c). Owned */
    struct ps_row_removals *removals;    /* a reference */
    struct ps_mutex locks[PS_ROW_LOCKS]; /* PS_RANK_ROWS */
    /* Of row_load.c alone: who loads rows into some stripes, and who makes any stripe larger. */
    struct ps_mutex loading[PS_ROW_LOCKS]; /* PS_RANK_LOADING */
    struct ps_mutex growth;                /* PS_RANK_GROWTH */
    struct ps_row_stripe stripes[PS_ROW_STRIPES];
};

/* Candidates age with the table whose keys they count. */
static inline void ps_row_table_set_version(struct ps_row_table *table, uint64_t version)
{
    table->version = version;
    if (table->candidates != NULL)
        table->candidates->version = version;
}

void ps_row_table_acquire(struct ps_row_table *table);
void ps_row_table_release(struct ps_row_table *table);

static inline uint64_t ps_row_table_hash(const struct ps_row_table *table, uint64_t key)
{
    return ps_row_hash(key, table->seed);
}

static inline uint32_t ps_row_stripe_of(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - PS_ROW_STRIPE_BITS));
}

static inline uint8_t *ps_row_at(const struct ps_row_shape *shape,
                                 const struct ps_row_stripe *stripe, uint32_t row)
{
    uint32_t place = row & ((1u << shape->page_bits) - 1);
    return stripe->pages[row >> shape->page_bits] + place * shape->stride;
}

/* Words of 64 bits for the rows of so many pages. */
static inline size_t ps_row_words(const struct ps_row_shape *shape, uint32_t pages)
{
    return (((size_t)pages << shape->page_bits) + 63) / 64;
}

/* The bit of a row in the word of its number. */
static inline uint64_t ps_row_bit(uint32_t row)
{
    return (uint64_t)1 << row % 64;
}

static inline bool ps_row_is_live(const struct ps_row_stripe *stripe, uint32_t row)
{
    return (stripe->live[row / 64] & ps_row_bit(row)) != 0;
}

/* The number of the key's row, or PS_ROW_NONE. */
uint32_t ps_row_stripe_find(const struct ps_row_table *table, const struct ps_row_stripe *stripe,
                            uint64_t key, uint64_t hash);

/* Room for the index of `rows` rows in all, and an index that is larger by a quarter if there is
 * not. Takes the stripe's lock. False when memory is refused. */
bool ps_row_stripe_expect(struct ps_row_table *table, uint32_t stripe, uint64_t rows);

/* After a push has got ready to make so many rows: indexes that will soon be too small are made
 * larger, as many as these rows may be held up for. The rows do not depend on it. */
void ps_row_stripes_grow_ahead(struct ps_row_table *table, uint64_t rows_made);

/* Sees to it that the page of this number is there: one behind the last is made. Takes the stripe's
 * lock. False when memory is refused. */
bool ps_row_stripe_extend(struct ps_row_table *table, uint32_t stripe, uint32_t page);

/* The first number from `from` on that is no row's; perhaps of the page behind the last one. */
uint32_t ps_row_stripe_free(const struct ps_row_table *table, const struct ps_row_stripe *stripe,
                            uint32_t from);

/* Makes the row `row`, whose page is there and which the index has room for: with its key, and
 * values and states that are yet to be written. Under the stripe's lock. Returns the row. */
uint8_t *ps_row_stripe_place(struct ps_row_table *table, struct ps_row_stripe *stripe, uint64_t key,
                             uint64_t hash, uint32_t row);

/* The same with first values and the states' start. */
uint8_t *ps_row_stripe_insert(struct ps_row_table *table, struct ps_row_stripe *stripe,
                              uint64_t key, uint64_t hash, uint32_t row);

/* The row goes. Touches no page. Under the stripe's lock. */
void ps_row_stripe_remove(struct ps_row_table *table, struct ps_row_stripe *stripe, uint64_t hash,
                          uint32_t row);

static inline struct ps_mutex *ps_row_lock_of(struct ps_row_table *table, uint32_t stripe)
{
    return &table->locks[stripe / PS_ROW_LOCK_STRIPES];
}

#endif
