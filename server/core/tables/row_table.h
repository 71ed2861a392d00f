/* SPDX-License-Identifier: Apache-2.0 */
/* A table of one shard: rows that are found by a key of 64 bits. What a push does to it is in
 * row_push.h, reading in row_pull.h, one instant of it in row_hold.h.
 *
 * Whatever changes a table (which rows are made, go, or are refused) depends on its rows and its
 * settings alone: never on where a row lies, on time or on threads. So the same pushes give the
 * same table, whether they are pushed, replayed, or pushed to one that was loaded in between.
 *
 * Threads:  one push, sweep or load at a time, which the caller's lock sees to; pulls and reads of
 *           holds beside it, from any thread. `rows` and `bytes` from any thread.
 * Blocking: for the lock of a stripe, which is held for microseconds and a growing index for one
 *           or two milliseconds. Locks are of PS_RANK_ROWS and PS_RANK_LEAF.
 * Errors:   as said at each function; nothing has changed after any of them.
 * Memory:   pages and index belong to the table; a table lives until its owner and all holds let
 * go.
 */
#ifndef PS_SERVER_CORE_ROW_TABLE_H
#define PS_SERVER_CORE_ROW_TABLE_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/dtype.h"
#include "base/log.h"
#include "base/status.h"
#include "base/table_settings.h"
#include "optimizer/device.h"
#include "optimizer/repeats.h"

#include <stdbool.h>
#include <stdint.h>

/* What a row is made of: its values, then its states. */
struct ps_row_layout {
    enum ps_dtype dtype;
    uint32_t width; /* elements of a row's values, and of each state */
    uint32_t state_count;
    bool state_is_one[PS_STATES_MAX]; /* this state is a single element */
    double state_start[PS_STATES_MAX];
};

/* A device on which bodies of rows may live (row_bodies.h). */
struct ps_row_device {
    const struct ps_device_plugin *plugin; /* NULL: there is none; borrowed, as the next two */
    struct ps_device *device;
    const struct ps_log *log;                     /* may be NULL */
    const struct ps_optimizer_settings *settings; /* of the rule; for create alone, as the name */
    const char *name;                             /* of the table, for the log; may be NULL */
    uint64_t min_bytes;                           /* of the bodies of what is put there */
};

struct ps_row_table_options {
    const struct ps_allocator *memory; /* borrowed; outlives the table */
    struct ps_row_layout layout;
    struct ps_table_settings settings; /* `width` is that of the layout */
    enum ps_row_repeats repeats;       /* of the gradients of one key in one push */
    uint64_t id;        /* of the parameter: the seed of the hash, the same after each recovery */
    uint64_t key_first; /* keys of this shard: from here */
    uint64_t key_end;   /* to before here; 0: to the last */
    struct ps_touch_ahead *ahead; /* borrowed; outlives the table and its holds; may be NULL */
    struct ps_row_device device;  /* the same */
};

struct ps_row_table;

/* PS_ERR_NO_MEMORY, or `*table` for ps_row_table_destroy. */
PS_MUST_USE enum ps_status ps_row_table_create(const struct ps_row_table_options *options,
                                               struct ps_row_table **table, struct ps_error *error);

/* Takes `table`; NULL is allowed. The memory goes with the last hold. */
void ps_row_table_destroy(struct ps_row_table *table);

uint64_t ps_row_table_rows(const struct ps_row_table *table);

/* When the pushes so far are done on a device, of which nothing may be acknowledged before; 0: they
 * are. With the lock under which one pushes. */
struct ps_device_ticket ps_row_table_due(const struct ps_row_table *table);

/* How many rows have their bodies on a device. */
uint64_t ps_row_table_seated(const struct ps_row_table *table);

/* Memory: pages, index and directory, with what is free in them; and those of the candidates. */
uint64_t ps_row_table_bytes(const struct ps_row_table *table);

/* The keys that were pushed to less often than `settings.admission` says and have no row: a table
 * by itself, of one number (PS_U32) for each, which is how often. Borrowed from `table`, whose
 * pushes change it; it may be held, and loaded (numbers from 1 to admission - 1, keys without a
 * row). NULL: a key gets its row with its first push. */
struct ps_row_table *ps_row_table_candidates(const struct ps_row_table *table);

/* Takes over what may change of the settings: rows_max, full, expiry, candidates_max. No row goes
 * with this. A limit below what there is lets no new row in (PS_TABLE_REFUSE), or each of the next
 * pushes that make rows takes out more than it makes, but no more than holds others up for a
 * millisecond or two, until the table is within it (PS_TABLE_OLDEST, row_evict.h). A push whose own
 * rows are more than the limit is refused from here on.
 *
 * PS_ERR_BAD_INPUT    something else is not as it was
 */
PS_MUST_USE enum ps_status ps_row_table_configure(struct ps_row_table *table,
                                                  const struct ps_table_settings *settings,
                                                  struct ps_error *error);

/* PS_OK when the key is one of this shard's, otherwise PS_ERR_OUT_OF_RANGE with a text. */
PS_MUST_USE enum ps_status ps_row_table_check_key(const struct ps_row_table *table, uint64_t key,
                                                  struct ps_error *error);

/* Asserts every invariant. Reads all of the table; nobody pushes meanwhile. */
void ps_row_table_check(struct ps_row_table *table);

#endif
