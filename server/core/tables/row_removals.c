/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of keys with several readers, each of which knows a place in it by number. It lies in
 * chunks, so that a sweep of millions of rows never waits for a copy of what is there already; the
 * oldest chunks go when the last reader that needs them does.
 *
 * Why numbers, and not the versions at which rows went: a sweep makes no version, and a table at
 * rest would tell the same keys again with each question.
 *
 * Why a list, and not a bit in the row: a row that went has no place any more, and the one that
 * takes its place has another key. Why not all keys of the base: 8 bytes for each row of the table,
 * to be compared with all that there are, where most tables lose few rows in a minute.
 *
 * A removal must not fail, since its record is in the journal by then. So it is the list that
 * fails, and whoever wanted it writes a whole checkpoint instead, or asks for the whole table.
 */
#include "server/core/tables/row_removals.h"

#include "base/assert.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_REMOVED_KEYS
static const bool removed_keys_are_off = true;
#else
static const bool removed_keys_are_off = false;
#endif

/* Of a chunk: with its head 32 KiB. */
#define CHUNK_KEYS 4095

/* The share of a table's rows whose keys are kept, as a divisor; and a chunk for the smallest. */
#define KEPT_SHARE 4

/* Filled from its beginning; only the last one has room. */
struct chunk {
    struct chunk *next;
    uint64_t keys[CHUNK_KEYS];
};

/* Keys are numbered from the table's first removal on, and never anew, so that a place stays what
 * it is when those before it are forgotten. Without a reader the numbers stand still. */
struct ps_row_removals {
    const struct ps_allocator *memory; /* borrowed */
    _Atomic uint32_t references;       /* of the table, and of each mark */
    _Atomic uint32_t live;             /* marks that are not lost; changed under the lock */
    _Atomic bool is_followed;          /* never again false */
    _Atomic uint64_t bytes;
    struct ps_mutex lock; /* guards what follows */
    struct ps_row_mark *marks;
    struct chunk *first;
    struct chunk *last;
    uint64_t begin;    /* number of the first key of the first chunk; 0 was the first ever */
    uint64_t end;      /* number of the key to come */
    uint64_t followed; /* no key from here on is missing for followers */
};

/* A place in the list. Marks are two at most in a server: of the base, and of the snapshot that is
 * being written; so going through all of them costs nothing. */
struct ps_row_mark {
    struct ps_row_removals *removals; /* a reference */
    struct ps_row_mark *next;
    uint64_t at; /* number of the first key behind it */
    bool is_lost;
};

static bool lengthen(struct ps_row_removals *removals, uint64_t rows);
static void give_up(struct ps_row_removals *removals);
static void forget_to(struct ps_row_removals *removals, uint64_t number);
static uint64_t oldest_marked(const struct ps_row_removals *removals);
static uint64_t oldest_needed(const struct ps_row_removals *removals);
static bool copy_keys(const struct ps_row_mark *from, uint64_t to, uint64_t *keys);
static uint64_t copy_some(const struct ps_row_removals *removals, uint64_t at, uint64_t to,
                          void *keys);
static size_t sort_out(uint64_t *keys, size_t count);

/* Made with the table, so that a mark needs no more than itself while all pushes wait. */
struct ps_row_removals *ps_row_removals_create(const struct ps_allocator *memory)
{
    PS_ASSERT(memory != NULL);
    struct ps_row_removals *removals = ps_zeroed(memory, sizeof *removals);
    if (removals == NULL)
        return NULL;
    removals->memory = memory;
    atomic_init(&removals->references, 1);
    ps_mutex_init(&removals->lock, PS_RANK_LEAF);
    return removals;
}

/* The table lets go when it ends, which may be long before a base of it is forgotten. */
void ps_row_removals_release(struct ps_row_removals *removals)
{
    if (removals == NULL)
        return;
    uint32_t before = atomic_fetch_sub(&removals->references, 1);
    PS_ASSERT(before > 0);
    if (before > 1)
        return;
    /* The last mark has emptied it, but for what followers might have asked for. */
    PS_ASSERT(removals->marks == NULL);
    forget_to(removals, UINT64_MAX);
    ps_mutex_fini(&removals->lock);
    ps_release(removals->memory, removals);
}

/* A mark is made while no row goes, so that one that is not seen here yet need not be; a follower
 * that is not seen looks at the row's stripe later. */
void ps_row_removals_add(struct ps_row_removals *removals, uint64_t key, uint64_t rows)
{
    if (removed_keys_are_off ||
        (atomic_load(&removals->live) == 0 && !atomic_load(&removals->is_followed)))
        return;
    ps_mutex_lock(&removals->lock);
    /* Place 0 is that of a chunk that is yet to come. Asked again under the lock: the last mark may
     * have gone meanwhile, and its chunks with it. */
    uint64_t place = (removals->end - removals->begin) % CHUNK_KEYS;
    bool is_wanted = removals->live > 0 || removals->is_followed;
    PS_ASSERT(removals->begin <= removals->end);
    if (is_wanted && (place > 0 || lengthen(removals, rows)))
        removals->last->keys[place] = key;
    removals->end += is_wanted ? 1 : 0;
    /* What was not noted has a number all the same: nobody's place is before it. */
    if (removals->first == NULL)
        removals->begin = removals->followed = removals->end;
    ps_mutex_unlock(&removals->lock);
}

/* Under the lock. Another chunk at the end, if anybody wants it and there is memory. Marks end
 * where the table is not worth their list; followers need no more than the last keys. */
static bool lengthen(struct ps_row_removals *removals, uint64_t rows)
{
    PS_ASSERT((removals->first == NULL) == (removals->begin == removals->end));
    if (removals->live > 0 && removals->end - oldest_marked(removals) > rows / KEPT_SHARE)
        give_up(removals);
    forget_to(removals, oldest_needed(removals));
    bool is_wanted = removals->live > 0 || removals->is_followed;
    struct chunk *chunk = is_wanted ? ps_plain(removals->memory, sizeof *chunk) : NULL;
    if (chunk == NULL) {
        give_up(removals);
        forget_to(removals, UINT64_MAX);
        return false;
    }
    chunk->next = NULL;
    if (removals->last != NULL)
        removals->last->next = chunk;
    else
        removals->first = chunk;
    removals->last = chunk;
    atomic_fetch_add(&removals->bytes, sizeof *chunk);
    return true;
}

/* Under the lock. Whoever has a mark learns of it when it asks. */
static void give_up(struct ps_row_removals *removals)
{
    for (struct ps_row_mark *mark = removals->marks; mark != NULL; mark = mark->next)
        mark->is_lost = true;
    atomic_store(&removals->live, 0);
    PS_ASSERT(oldest_marked(removals) == UINT64_MAX);
}

/* Under the lock. Keys with lower numbers go, as far as whole chunks are made of them; at the end
 * of the last one the next key begins another. */
static void forget_to(struct ps_row_removals *removals, uint64_t number)
{
    bool all = number >= removals->end;
    PS_ASSERT(number >= removals->begin);
    while (removals->first != NULL && (all || removals->begin + CHUNK_KEYS <= number)) {
        struct chunk *chunk = removals->first;
        removals->first = chunk->next;
        removals->begin += CHUNK_KEYS;
        atomic_fetch_sub(&removals->bytes, sizeof *chunk);
        ps_release(removals->memory, chunk);
    }
    if (removals->first != NULL)
        return;
    /* The next key begins a chunk, whatever its number. */
    removals->last = NULL;
    removals->begin = removals->end;
}

/* Of whole chunks: the table's memory is counted with each push, and a list that grows by a key a
 * time would count as often. */
uint64_t ps_row_removals_bytes(struct ps_row_removals *removals)
{
    PS_ASSERT(atomic_load(&removals->references) > 0);
    return atomic_load(&removals->bytes) + sizeof *removals;
}

/* The number of the key to come is all that a mark is: nothing is copied, and nothing walked
 * through, while all pushes wait for the instant. */
struct ps_row_mark *ps_row_mark_create(struct ps_row_removals *removals)
{
    struct ps_row_mark *mark = ps_zeroed(removals->memory, sizeof *mark);
    if (mark == NULL)
        return NULL;
    uint32_t before = atomic_fetch_add(&removals->references, 1);
    PS_ASSERT(before > 0);
    ps_mutex_lock(&removals->lock);
    *mark =
        (struct ps_row_mark){.removals = removals, .next = removals->marks, .at = removals->end};
    removals->marks = mark;
    atomic_fetch_add(&removals->live, 1);
    ps_mutex_unlock(&removals->lock);
    return mark;
}

/* A list that was given up stays so for the marks of that time; those made since have another. */
void ps_row_mark_destroy(struct ps_row_mark *mark)
{
    if (mark == NULL)
        return;
    struct ps_row_removals *removals = mark->removals;
    ps_mutex_lock(&removals->lock);
    struct ps_row_mark **at = &removals->marks;
    while (*at != mark) {
        PS_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = mark->next;
    if (!mark->is_lost)
        atomic_fetch_sub(&removals->live, 1);
    forget_to(removals, oldest_needed(removals));
    ps_mutex_unlock(&removals->lock);
    ps_release(removals->memory, mark);
    ps_row_removals_release(removals);
}

/* Under the lock. Without a mark: none of them. */
static uint64_t oldest_marked(const struct ps_row_removals *removals)
{
    /* Marks that are lost need nothing: what they would have needed is gone. */
    uint64_t oldest = UINT64_MAX;
    for (const struct ps_row_mark *mark = removals->marks; mark != NULL; mark = mark->next)
        if (!mark->is_lost && mark->at < oldest)
            oldest = mark->at;
    PS_ASSERT(oldest >= removals->begin);
    return oldest;
}

/* Under the lock. By marks, and by followers. */
static uint64_t oldest_needed(const struct ps_row_removals *removals)
{
    uint64_t oldest = oldest_marked(removals);
    if (!removals->is_followed)
        return oldest;
    uint64_t last = removals->end > PS_ROW_FOLLOWED_MAX ? removals->end - PS_ROW_FOLLOWED_MAX : 0;
    PS_ASSERT(removals->begin <= removals->end);
    last = last > removals->begin ? last : removals->begin;
    return oldest < last ? oldest : last;
}

/* A key that went, came back and went again is there twice. */
enum ps_status ps_row_marks_between(const struct ps_row_mark *from, const struct ps_row_mark *to,
                                    uint64_t **keys, size_t *count)
{
    if (from->removals != to->removals)
        return PS_ERR_NOT_FOUND;
    /* `to` was made later: its number can only be the same or higher. */
    PS_ASSERT(from->at <= to->at);
    const struct ps_allocator *memory = from->removals->memory;
    size_t all = (size_t)(to->at - from->at);
    /* Also of no keys: a list that was given up may be anything but known. */
    uint64_t *copied = ps_plain(memory, all * sizeof *copied);
    if (copied == NULL)
        return PS_ERR_NO_MEMORY;
    if (!copy_keys(from, to->at, copied)) {
        ps_release(memory, copied);
        return PS_ERR_NOT_FOUND;
    }
    *count = sort_out(copied, all);
    *keys = copied;
    if (*count == 0) {
        ps_release(memory, copied);
        *keys = NULL;
    }
    return PS_OK;
}

/* A chunk at a time under the lock, for which a sweep waits. The last look, at no key, is for a
 * list that was given up without any. */
static bool copy_keys(const struct ps_row_mark *from, uint64_t to, uint64_t *keys)
{
    struct ps_row_removals *removals = from->removals;
    uint64_t at = from->at;
    bool is_known = true;
    PS_ASSERT(at <= to);
    do {
        ps_mutex_lock(&removals->lock);
        is_known = !from->is_lost;
        if (is_known && at < to)
            at += copy_some(removals, at, to, keys + (at - from->at));
        ps_mutex_unlock(&removals->lock);
    } while (is_known && at < to);
    return is_known;
}

/* Under the lock. The keys from number `at` on that lie in one chunk, which is looked for from the
 * first one: there are hundreds. Returns how many. */
static uint64_t copy_some(const struct ps_row_removals *removals, uint64_t at, uint64_t to,
                          void *keys)
{
    const struct chunk *chunk = removals->first;
    uint64_t place = at - removals->begin;
    PS_ASSERT(at >= removals->begin && at < to && to <= removals->end);
    for (; place >= CHUNK_KEYS; place -= CHUNK_KEYS)
        chunk = chunk->next;
    uint64_t some = CHUNK_KEYS - place < to - at ? CHUNK_KEYS - place : to - at;
    memcpy(keys, chunk->keys + place, (size_t)some * sizeof chunk->keys[0]);
    return some;
}

/* Unsigned, as everybody else compares keys. */
static int compare_keys(const void *a, const void *b)
{
    uint64_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return left < right ? -1 : left > right;
}

/* Sorted, so that equal states give equal files, and a reader may look a key up. */
static size_t sort_out(uint64_t *keys, size_t count)
{
    /* In place: what was looked at already is never longer than what is kept of it. */
    size_t kept = 0;
    PS_ASSERT(keys != NULL);
    if (count > 1)
        qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || keys[kept - 1] != keys[i])
            keys[kept++] = keys[i];
    return kept;
}

/* ---- Followers ---- */

/* What went before is nobody's to be told of: numbers from before are refused. */
void ps_row_removals_follow(struct ps_row_removals *removals)
{
    PS_ASSERT(atomic_load(&removals->references) > 0);
    if (atomic_load(&removals->is_followed))
        return;
    ps_mutex_lock(&removals->lock);
    /* Two followers may begin at once. */
    if (!removals->is_followed)
        removals->followed = removals->end;
    atomic_store(&removals->is_followed, true);
    ps_mutex_unlock(&removals->lock);
}

/* One more than the place, so that 0 is nobody's number. */
uint64_t ps_row_removals_number(struct ps_row_removals *removals)
{
    ps_mutex_lock(&removals->lock);
    uint64_t number = removals->end + 1;
    ps_mutex_unlock(&removals->lock);
    PS_ASSERT(number > 0);
    return number;
}

/* Under the lock. A number is of this list when its keys were noted, and known when they are kept
 * for followers. More may be here for the sake of a mark, which nobody can rely on. */
static bool is_told_of(const struct ps_row_removals *removals, uint64_t number)
{
    PS_ASSERT(removals->followed <= removals->end);
    return number > removals->followed && number - 1 <= removals->end &&
           removals->end - (number - 1) <= PS_ROW_FOLLOWED_MAX;
}

/* For who wants to know how much room to get; more may have gone when it is used. */
bool ps_row_removals_count(struct ps_row_removals *removals, uint64_t number, uint64_t *count)
{
    ps_mutex_lock(&removals->lock);
    bool is_here = is_told_of(removals, number);
    if (is_here)
        *count = removals->end - (number - 1);
    ps_mutex_unlock(&removals->lock);
    PS_ASSERT(!is_here || *count <= PS_ROW_FOLLOWED_MAX);
    return is_here;
}

/* A key may come twice, when its row came back and went again: taking it out twice does no harm.
 * All of it under the lock: between two chunks the first of them might go. */
bool ps_row_removals_since(struct ps_row_removals *removals, uint64_t *number, size_t count_max,
                           void *to, size_t *count)
{
    ps_mutex_lock(&removals->lock);
    bool is_here = is_told_of(removals, *number);
    uint64_t first = *number - 1;
    uint64_t some = is_here ? removals->end - first : 0;
    some = some < count_max ? some : count_max;
    for (uint64_t done = 0; done < some;)
        done += copy_some(removals, first + done, first + some,
                          (uint8_t *)to + done * sizeof(uint64_t));
    ps_mutex_unlock(&removals->lock);
    PS_ASSERT(some <= PS_ROW_FOLLOWED_MAX);
    if (!is_here)
        return false;
    *number += some;
    *count = (size_t)some;
    return true;
}
