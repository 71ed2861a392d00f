/* SPDX-License-Identifier: Apache-2.0 */
/* One walk over the rows in the order in which they lie, as a sweep makes it: each knows when it
 * was pushed to last, and nothing else is kept of what changed. That reads all of a table for a few
 * rows; it costs a push nothing, and a walk goes at the speed of memory.
 *
 * A row keeps its number while it lives, so that a place stays good whatever is pushed between two
 * pieces. A row that goes is told of by its key; one that comes back elsewhere, behind the walk,
 * has a version that the next walk is for.
 */
#include "server/core/tables/row_since.h"

#include "server/core/tables/row_bodies.h"

#include "base/assert.h"

#include <inttypes.h>

/* Numbers of rows that are looked at under a lock at a time. */
#define AT_ONCE 4096

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). Without
 * it the row that found no room is not the first of the next piece. */
#ifdef PS_MUTATE_SKIP_DELTA_PLACE
static const bool a_row_is_passed = true;
#else
static const bool a_row_is_passed = false;
#endif

/* Where a walk is, and what it has found. */
struct walk {
    struct ps_row_table *table;
    bool everything;
    uint32_t since;
    uint32_t stripe;
    uint32_t row;
    uint64_t looked; /* bytes */
    uint64_t room;   /* rows that go into the piece */
    uint64_t rows;
    uint64_t passed;
    uint8_t *keys;
    uint8_t *values;
};

static enum ps_status begin(struct walk *walk, const struct ps_row_since *since,
                            struct ps_error *error);
static enum ps_status go_on(struct walk *walk, struct ps_error *error);

/* A conflict: the caller begins again, as with a version that nobody has any more. */
static enum ps_status tell_forgotten(struct ps_error *error)
{
    return ps_fail(error, PS_ERR_CONFLICT, "more than %d rows went since: begin again",
                   PS_ROW_FOLLOWED_MAX);
}

/* Bytes of a row in a piece: its key and its values. */
static size_t bytes_in_piece(const struct ps_row_table *table)
{
    PS_ASSERT(table->shape.arrays[0].size > 0);
    return sizeof(uint64_t) + table->shape.arrays[0].size;
}

/* What the caller holds may be very old, of a copy that was saved, say. Versions are known by 32
 * bits. So far apart that they cannot be told from each other, everything
 * counts as changed. */
static bool is_everything(const struct ps_row_since *since)
{
    PS_ASSERT(since->everything || since->version <= since->now);
    return since->everything || since->now - since->version >= (uint64_t)1 << 31;
}

/* A table to which nobody has pushed since has no row to be looked for: what stands in rows by now
 * is of a push that has not ended yet, for which nobody asks. */
static bool is_at_rest(const struct ps_row_since *since)
{
    return !since->everything && since->place == 0 && since->version == since->now;
}

/* Rows that come to be between this question and the walk take part in it, and what has no room is
 * of the next piece: so the room may be a little short, and never matters to what is right. */
enum ps_status ps_row_since_room(struct ps_row_table *table, const struct ps_row_since *since,
                                 uint64_t *room, struct ps_error *error)
{
    uint64_t gone = 0;
    PS_ASSERT(table != NULL);
    ps_row_removals_follow(table->removals);
    if (since->mark != 0 && !ps_row_removals_count(table->removals, since->mark, &gone))
        return tell_forgotten(error);
    *room = gone * sizeof(uint64_t);
    if (!is_at_rest(since))
        *room += (ps_row_table_rows(table) + 1) * bytes_in_piece(table);
    return PS_OK;
}

/* The first piece of everything tells no keys, since there is nothing to take them out of. The keys
 * that went, and the mark behind them: read before any row is, so that what goes from here on is
 * told with the next mark or not seen here at all. */
static enum ps_status take_gone(struct ps_row_table *table, const struct ps_row_since *since,
                                void *to, size_t room, struct ps_row_piece *piece,
                                struct ps_error *error)
{
    size_t count = 0;
    PS_ASSERT(piece->gone == 0 && piece->mark == 0);
    piece->mark = since->mark;
    if (since->mark == 0) {
        piece->mark = ps_row_removals_number(table->removals);
        return PS_OK;
    }
    if (!ps_row_removals_since(table->removals, &piece->mark, room / sizeof(uint64_t), to, &count))
        return tell_forgotten(error);
    piece->gone = count;
    piece->size = count * sizeof(uint64_t);
    return PS_OK;
}

/* Values are written behind the keys of as many rows as have room, and moved up to those that came:
 * how many there are is known at the end. */
enum ps_status ps_row_table_since(struct ps_row_table *table, const struct ps_row_since *since,
                                  void *to, size_t room, struct ps_row_piece *piece,
                                  struct ps_error *error)
{
    struct ps_row_piece made = {0};
    struct walk walk = {.table = table};
    size_t value_bytes = table->shape.arrays[0].size;
    PS_TRY(begin(&walk, since, error));
    PS_TRY(take_gone(table, since, to, room, &made, error));
    PS_ASSERT(made.size <= room);
    /* What is left of a row's size is not used: each row is whole in one piece. */
    walk.room = (room - made.size) / bytes_in_piece(table);
    walk.keys = (uint8_t *)to + made.size;
    walk.values = walk.keys + walk.room * sizeof(uint64_t);
    /* All keys that went before any row: one of them may have come back. */
    bool is_full = made.gone == room / sizeof(uint64_t) &&
                   made.mark != ps_row_removals_number(table->removals);
    if (is_full || is_at_rest(since)) {
        made.passed = is_full ? 0 : ps_row_table_rows(table);
        made.next = !is_full ? 0 : since->place > 0 ? since->place : 1;
        *piece = made;
        return PS_OK;
    }
    PS_TRY(go_on(&walk, error));
    PS_ASSERT(walk.rows <= walk.room);
    if (walk.rows > 0 && walk.rows < walk.room)
        memmove(walk.keys + walk.rows * sizeof(uint64_t), walk.values, walk.rows * value_bytes);
    made.rows = walk.rows;
    made.passed = walk.passed;
    made.size += walk.rows * bytes_in_piece(table);
    if (walk.stripe < PS_ROW_STRIPES)
        made.next = 1 + ((uint64_t)walk.stripe << 32 | (walk.row + (a_row_is_passed ? 1 : 0)));
    *piece = made;
    return PS_OK;
}

/* A place comes from outside. A row beyond the stripe's end is where the next stripe begins. */
static enum ps_status begin(struct walk *walk, const struct ps_row_since *since,
                            struct ps_error *error)
{
    walk->everything = is_everything(since);
    walk->since = (uint32_t)since->version;
    if (since->place == 0)
        return PS_OK;
    uint64_t stripe = (since->place - 1) >> 32;
    if (stripe >= PS_ROW_STRIPES)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a table has no place %" PRIu64, since->place);
    walk->stripe = (uint32_t)stripe;
    walk->row = (uint32_t)(since->place - 1);
    PS_ASSERT(walk->stripe < PS_ROW_STRIPES);
    return PS_OK;
}

/* As a difference, which is right also where versions have gone on from 0. A row that nobody has
 * pushed to for 2^31 versions looks newer than it is, and comes for nothing. */
static bool is_newer(const struct walk *walk, const uint8_t *row)
{
    return walk->everything || (int32_t)(ps_row_touched(row) - walk->since) > 0;
}

/* Some rows of one stripe, under its lock; false when the piece is full. */
static bool look(struct walk *walk, const struct ps_row_stripe *stripe, uint32_t end)
{
    const struct ps_row_shape *shape = &walk->table->shape;
    PS_ASSERT(walk->row <= end);
    for (; walk->row < end; walk->row++) {
        if (!ps_row_is_live(stripe, walk->row))
            continue;
        const uint8_t *row = ps_row_at(shape, stripe, walk->row);
        if (!is_newer(walk, row)) {
            walk->passed++;
            continue;
        }
        /* The walk stands at this row: the next piece begins with it. */
        if (walk->rows == walk->room)
            return false;
        memcpy(walk->keys + walk->rows * sizeof(uint64_t), row, sizeof(uint64_t));
        ps_row_copy(walk->values + walk->rows * shape->arrays[0].size,
                    row + shape->arrays[0].offset, shape->arrays[0].size);
        walk->rows++;
    }
    return true;
}

/* Rows of a device that will be looked at, with its lock: they are at home until that is let go. */
static enum ps_status bring_home(const struct walk *walk, struct ps_error *error)
{
    struct ps_row_table *table = walk->table;
    const struct ps_row_stripe *stripe = &table->stripes[walk->stripe];
    uint32_t all = stripe->page_count << table->shape.page_bits;
    PS_ASSERT(table->bodies != NULL);
    for (uint32_t row = walk->row; row < all && row - walk->row < AT_ONCE; row++)
        if (ps_row_is_stale(stripe, row) && is_newer(walk, ps_row_at(&table->shape, stripe, row)))
            PS_TRY(ps_row_bodies_call(table, walk->stripe, row, error));
    return ps_row_bodies_fetch(table, error);
}

/* Some rows from where the walk stands; false when the piece is full. */
static bool look_on(struct walk *walk)
{
    struct ps_row_table *table = walk->table;
    const struct ps_row_stripe *stripe = &table->stripes[walk->stripe];
    ps_mutex_lock(ps_row_lock_of(table, walk->stripe));
    uint32_t all = stripe->page_count << table->shape.page_bits;
    uint32_t begun = walk->row < all ? walk->row : all;
    uint32_t end = all - begun > AT_ONCE ? begun + AT_ONCE : all;
    walk->row = begun;
    bool has_room = look(walk, stripe, end);
    ps_mutex_unlock(ps_row_lock_of(table, walk->stripe));
    if (!has_room)
        return false;
    walk->looked += (uint64_t)(end - begun) * table->shape.stride;
    if (end == all) {
        walk->stripe++;
        walk->row = 0;
    }
    return true;
}

/* A row that is made or goes meanwhile is seen or not, as a reader would see it: the version that
 * the pieces lead to is older than either. Until the end, until the piece is full, or until enough
 * was looked at. The lock is let go between two times AT_ONCE rows, for pushes and readers. */
static enum ps_status go_on(struct walk *walk, struct ps_error *error)
{
    struct ps_row_bodies *bodies = walk->table->bodies;
    bool has_room = true;
    PS_ASSERT(walk->rows == 0);
    while (has_room && walk->stripe < PS_ROW_STRIPES && walk->looked < PS_ROW_SINCE_BYTES) {
        enum ps_status status = PS_OK;
        /* For as long as the rows are looked at: a push would make them stale again. */
        if (bodies != NULL) {
            ps_rwlock_write(&bodies->lock);
            status = bring_home(walk, error);
        }
        /* From here on it is the walk of any table. */
        if (status == PS_OK)
            has_room = look_on(walk);
        if (bodies != NULL)
            ps_rwlock_unlock(&bodies->lock);
        PS_TRY(status);
    }
    return PS_OK;
}
