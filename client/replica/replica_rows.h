/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table that one server has, kept by the reader: found by their keys, brought up to
 * date by pieces of a delta.
 *
 * What is held is what answers reads. A delta of it is put on it piece by piece, each row whole. A
 * version that comes whole is gathered beside it, and takes its place when it is complete.
 *
 * Threads:  reads from any thread at any time; everything else one at a time.
 * Blocking: a read while one piece is put in its place.
 * Errors:   said at each function.
 * Memory:   values, 8 bytes for a key and 8 to 16 of an index; a row that goes leaves its room to
 *           the next.
 */
#ifndef PS_CLIENT_REPLICA_ROWS_H
#define PS_CLIENT_REPLICA_ROWS_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/table_settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ps_replica_rows;

/* A table of which nothing is held. Settings are copied; their width is that of the table. NULL
 * when memory is refused. */
struct ps_replica_rows *ps_replica_rows_create(const struct ps_allocator *memory,
                                               const struct ps_table_settings *settings,
                                               enum ps_dtype dtype);

/* Takes `rows`; NULL is allowed. Reads have returned. */
void ps_replica_rows_destroy(struct ps_replica_rows *rows);

size_t ps_replica_rows_row_bytes(const struct ps_replica_rows *rows);
uint32_t ps_replica_rows_width(const struct ps_replica_rows *rows);
uint64_t ps_replica_rows_count(struct ps_replica_rows *rows);

/* Writes the keys of up to `keys_max` rows, in no order, and says in `*count` how many rows there
 * are. False: no version was ever complete. */
bool ps_replica_rows_keys(struct ps_replica_rows *rows, uint64_t *keys, size_t keys_max,
                          uint64_t *count);

/* What keys without a row are answered with. The width stays. */
void ps_replica_rows_describe(struct ps_replica_rows *rows,
                              const struct ps_table_settings *settings);

/* A piece: `gone` keys, the keys of `count` rows and their values. With `aside` it is of a version
 * that is gathered.
 *
 * PS_ERR_NO_MEMORY  some of it was taken: the same piece may be taken again
 */
PS_MUST_USE enum ps_status ps_replica_rows_take(struct ps_replica_rows *rows, struct ps_view piece,
                                                uint64_t gone, uint64_t count, bool aside,
                                                struct ps_error *error);

/* What was gathered is held from now on. */
void ps_replica_rows_replace(struct ps_replica_rows *rows);

/* What was gathered counts for nothing. */
void ps_replica_rows_forget(struct ps_replica_rows *rows);

/* Copies the row of each key to `to + order[i] * row_bytes`; a key without a row is answered with
 * its first values. False: no version was ever complete. */
bool ps_replica_rows_get(struct ps_replica_rows *rows, const uint64_t *keys, const size_t *order,
                         size_t count, uint8_t *to);

#endif
