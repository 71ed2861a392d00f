/* SPDX-License-Identifier: Apache-2.0 */
/* Two maps: what is held, and what is gathered to take its place. Reads see the first one, between
 * two pieces: a delta changes it under the lock, a piece at a time. */
#include "client/replica/replica_rows.h"

#include "base/assert.h"
#include "base/thread.h"
#include "client/replica/row_map.h"
#include "optimizer/first_values.h"

#include <string.h>

/* Keys between the steps of a look-up: enough for the memory to answer meanwhile. */
#define AHEAD 8

struct ps_replica_rows {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_rwlock lock;             /* PS_RANK_LEAF; guards what reads look at */
    struct ps_table_settings settings;
    enum ps_dtype dtype;
    size_t row_bytes;
    bool is_complete; /* some version was, once */
    struct ps_row_map held;
    struct ps_row_map gathered; /* of the thread that takes; no lock */
};

/* What was never complete answers nobody: a table without rows is a version like any other, and
 * must not be taken for one that has not come. */
struct ps_replica_rows *ps_replica_rows_create(const struct ps_allocator *memory,
                                               const struct ps_table_settings *settings,
                                               enum ps_dtype dtype)
{
    struct ps_replica_rows *rows = ps_zeroed(memory, sizeof *rows);
    PS_ASSERT(settings->width > 0);
    if (rows == NULL)
        return NULL;
    rows->memory = memory;
    rows->settings = *settings;
    rows->dtype = dtype;
    rows->row_bytes = settings->width * ps_dtype_size(dtype);
    ps_rwlock_init(&rows->lock, PS_RANK_LEAF);
    ps_row_map_init(&rows->held, memory, rows->row_bytes);
    ps_row_map_init(&rows->gathered, memory, rows->row_bytes);
    return rows;
}

/* Both maps may be empty, or in the middle of something. */
void ps_replica_rows_destroy(struct ps_replica_rows *rows)
{
    if (rows == NULL)
        return;
    ps_row_map_fini(&rows->held);
    ps_row_map_fini(&rows->gathered);
    ps_rwlock_fini(&rows->lock);
    ps_release(rows->memory, rows);
}

/* These two never change, and are asked without the lock. */
size_t ps_replica_rows_row_bytes(const struct ps_replica_rows *rows)
{
    PS_ASSERT(rows->row_bytes > 0);
    return rows->row_bytes;
}

uint32_t ps_replica_rows_width(const struct ps_replica_rows *rows)
{
    PS_ASSERT(rows->settings.width > 0);
    return rows->settings.width;
}

/* Of what is held: what is gathered counts when it is complete. */
uint64_t ps_replica_rows_count(struct ps_replica_rows *rows)
{
    ps_rwlock_read(&rows->lock);
    uint64_t count = rows->held.count;
    ps_rwlock_unlock(&rows->lock);
    PS_ASSERT(count <= UINT32_MAX);
    return count;
}

/* One copy, since the keys lie side by side: the lock is held no longer than for a piece. In the
 * order of the map, which changes as rows go: who wants another sorts them without the lock. */
bool ps_replica_rows_keys(struct ps_replica_rows *rows, uint64_t *keys, size_t keys_max,
                          uint64_t *count)
{
    ps_rwlock_read(&rows->lock);
    bool is_complete = rows->is_complete;
    size_t held = rows->held.count;
    size_t copied = held < keys_max ? held : keys_max;
    /* A map without rows has no keys, and memcpy takes no NULL. */
    if (copied > 0)
        memcpy(keys, rows->held.keys, copied * sizeof *keys);
    ps_rwlock_unlock(&rows->lock);
    PS_ASSERT(copied == 0 || keys != NULL);
    *count = held;
    return is_complete;
}

/* Under the lock, so that no read finds one half of the settings old and the other new. */
void ps_replica_rows_describe(struct ps_replica_rows *rows,
                              const struct ps_table_settings *settings)
{
    PS_ASSERT(settings->width == rows->settings.width);
    ps_rwlock_write(&rows->lock);
    rows->settings = *settings;
    ps_rwlock_unlock(&rows->lock);
}

/* Keys stand before all values in a piece, so that two places of it are read at once. Memory that
 * is refused leaves rows of the piece in their places, each whole: they are newer than the version
 * that is held, as rows of a delta that broke off always are. */
static enum ps_status put_rows(struct ps_row_map *map, struct ps_view piece, size_t keys_at,
                               uint64_t count, struct ps_error *error)
{
    struct ps_view_cursor keys = {.view = piece};
    struct ps_view_cursor values = {.view = piece};
    PS_ASSERT(keys_at <= piece.size);
    ps_view_skip(&keys, keys_at);
    ps_view_skip(&values, keys_at + count * sizeof(uint64_t));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key;
        ps_view_read(&keys, &key, sizeof key);
        uint8_t *row = ps_row_map_put(map, key);
        if (row == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for row %u of a replica",
                           map->count);
        ps_view_read(&values, row, map->row_bytes);
    }
    return PS_OK;
}

/* The keys that went are first: one that went and came back is among the rows. */
static enum ps_status take(struct ps_row_map *map, struct ps_view piece, uint64_t gone,
                           uint64_t count, struct ps_error *error)
{
    struct ps_view_cursor keys = {.view = piece};
    PS_ASSERT(piece.size == gone * sizeof(uint64_t) + count * (sizeof(uint64_t) + map->row_bytes));
    for (uint64_t i = 0; i < gone; i++) {
        uint64_t key;
        ps_view_read(&keys, &key, sizeof key);
        ps_row_map_remove(map, key);
    }
    return put_rows(map, piece, (size_t)gone * sizeof(uint64_t), count, error);
}

/* What is gathered is seen by nobody else, and takes no lock: a first copy of a large table does
 * not slow down who reads the version before. An empty piece is the usual case of a table at rest,
 * and does not disturb anybody either. */
enum ps_status ps_replica_rows_take(struct ps_replica_rows *rows, struct ps_view piece,
                                    uint64_t gone, uint64_t count, bool aside,
                                    struct ps_error *error)
{
    PS_ASSERT(aside || rows->is_complete);
    if (aside)
        return take(&rows->gathered, piece, gone, count, error);
    /* Nobody waits for the lock of a table that stands still. */
    if (gone == 0 && count == 0)
        return PS_OK;
    ps_rwlock_write(&rows->lock);
    enum ps_status status = take(&rows->held, piece, gone, count, error);
    ps_rwlock_unlock(&rows->lock);
    return status;
}

/* The memory of what was held is given back without the lock: that takes a while. */
void ps_replica_rows_replace(struct ps_replica_rows *rows)
{
    ps_rwlock_write(&rows->lock);
    struct ps_row_map before = rows->held;
    rows->held = rows->gathered;
    rows->is_complete = true;
    ps_rwlock_unlock(&rows->lock);
    PS_ASSERT(before.row_bytes == rows->held.row_bytes);
    /* The maps were exchanged as structs, so that the one is begun anew and the other ended. */
    ps_row_map_init(&rows->gathered, rows->memory, rows->row_bytes);
    ps_row_map_fini(&before);
}

/* What began to come whole and broke off: the next version that comes whole is another one, and
 * rows of this one must not be among its rows. */
void ps_replica_rows_forget(struct ps_replica_rows *rows)
{
    PS_ASSERT(rows->gathered.row_bytes == rows->row_bytes);
    ps_row_map_fini(&rows->gathered);
    ps_row_map_init(&rows->gathered, rows->memory, rows->row_bytes);
}

/* One look at the lock for all keys of the call, which may be a batch of some thousand: each look
 * writes to a line that all readers share. */
bool ps_replica_rows_get(struct ps_replica_rows *rows, const uint64_t *keys, const size_t *order,
                         size_t count, uint8_t *to)
{
    ps_rwlock_read(&rows->lock);
    bool is_complete = rows->is_complete;
    for (size_t i = 0; is_complete && i < count; i++) {
        /* Keys of other servers stand between those of this one. */
        if (i + 2 * AHEAD < count)
            ps_row_map_expect(&rows->held, keys[order[i + 2 * AHEAD]]);
        if (i + AHEAD < count)
            ps_row_map_expect_row(&rows->held, keys[order[i + AHEAD]]);
        uint8_t *row_to = to + order[i] * rows->row_bytes;
        const uint8_t *row = ps_row_map_find(&rows->held, keys[order[i]]);
        if (row != NULL)
            memcpy(row_to, row, rows->row_bytes);
        else /* as the servers would make them: by the same function, and so with the same bits */
            ps_first_values(&rows->settings, rows->dtype, keys[order[i]], rows->settings.width,
                            row_to);
    }
    ps_rwlock_unlock(&rows->lock);
    PS_ASSERT(count == 0 || to != NULL);
    return is_complete;
}
