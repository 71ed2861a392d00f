/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter that is a table: its values and states are rows (server/core/tables), which come with
 * the pushes that name their keys.
 *
 * Threads:  get from any; everything else as said at each function.
 * Blocking: get for a push that is at work on one of the rows.
 * Errors:   said at each function.
 * Memory:   the parameter owns its rows. What they take counts in the spec's row_room.
 */
#ifndef PS_SERVER_CORE_PARAMETER_ROWS_H
#define PS_SERVER_CORE_PARAMETER_ROWS_H

#include "server/core/tables/row_sweep.h"
#include "server/core/tables/row_table.h"
#include "server/core/update/parameter.h"
#include "server/core/update/row_ages.h"
#include "server/core/values/encoded_values.h"

/* When rows expire; only the thread that sweeps has it, and whoever has the cut alone. */
struct ps_row_expiry {
    struct ps_row_ages by_time;
    struct ps_row_ages by_clock;
    uint64_t due;            /* rows last pushed to before that version are to go */
    uint64_t swept;          /* and before that one are gone */
    struct ps_row_walk walk; /* in search of them; of version 0: none is under way */
};

/* What a row is made of under that configuration, which is a table's. */
struct ps_row_layout ps_parameter_rows_layout(const struct ps_parameter_spec *spec);

/* Could so many shards have such a table? PS_ERR_BAD_INPUT: bounds of another number of them. */
PS_MUST_USE enum ps_status ps_parameter_rows_check_shards(const struct ps_table_settings *settings,
                                                          uint32_t shard_count,
                                                          struct ps_error *error);

/* Which shard has a key of the table, whose rows are hashed over the job's shards. The spec's own
 * for every key where they are not, or where nobody knows of other shards. */
uint32_t ps_parameter_rows_shard(const struct ps_parameter_spec *spec, uint64_t key);

/* Gives the parameter, whose spec is a table, its rows: none yet. False when memory is refused. */
bool ps_parameter_rows_create(struct ps_parameter *parameter);

/* What the rows took counts nowhere any more. A snapshot that holds some keeps its own. Of a
 * parameter that is no table it does nothing. */
void ps_parameter_rows_destroy(struct ps_parameter *parameter);

/* Counts what the rows take by now. With the parameter's lock, or while nobody else has it. */
void ps_parameter_rows_count(struct ps_parameter *parameter);

/* Bytes of one key, and of one row, in a message. */
#define PS_ROW_KEY_BYTES ((size_t)8)
size_t ps_parameter_rows_row_bytes(const struct ps_parameter_spec *spec);

/* Returns a copy of the rows of `keys` (of 8 bytes each, little-endian) in their order, and a
 * version whose push is in all of them; each row is of one version. End it with
 * ps_encoded_values_release. Without the parameter's lock.
 *
 * PS_ERR_OUT_OF_RANGE  a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_parameter_rows_get(struct ps_parameter *parameter,
                                                 struct ps_view keys,
                                                 struct ps_encoded_values **rows, uint64_t *version,
                                                 struct ps_error *error);

/* Do rows of it go by themselves, by time or by a clock? Also asked of what is no table. */
bool ps_parameter_rows_expire(const struct ps_parameter *parameter);

/* What is due under the former settings is due no more: the present ones are asked. With the cut
 * held alone. */
void ps_parameter_rows_forget_due(struct ps_parameter *parameter);

/* Rows last pushed to before `before_version` go, all of them or those of the removal; returns how
 * many. With the parameter's lock. */
uint64_t ps_parameter_rows_sweep(struct ps_parameter *parameter, uint64_t before_version);
uint64_t ps_parameter_rows_remove(struct ps_parameter *parameter,
                                  const struct ps_row_removal *removal);

#endif
