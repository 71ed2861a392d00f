/* SPDX-License-Identifier: Apache-2.0 */
/* Short ways to define, push to and read a table of a shard in a test. The table is called "t", has
 * float32 rows of TABLE_WIDTH elements, and everybody is the client "client" in session 1; sequence
 * 0: without an id.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the calls return the status and leave the text in world->error.
 * Memory:   none.
 */
#ifndef PS_TEST_CORE_TABLE_H
#define PS_TEST_CORE_TABLE_H

#include "core_world.h"
#include "server/core/update/parameter_rows.h"

enum { TABLE_WIDTH = 3, TABLE_ROW_BYTES = 8 + TABLE_WIDTH * 4 };

/* Rate 1; "row_wise" is Adagrad with one accumulator for a row; `table` may lack its width. Valid
 * until the next configuration. */
struct ps_bytes table_config(const char *optimizer, struct ps_table_settings table);

enum ps_status table_define(struct core_world *world, struct ps_bytes config, uint64_t sequence);

/* One gradient for each of the keys from `first` on, all of whose elements are `value`. */
enum ps_status table_push(struct core_world *world, uint64_t first, size_t count, float value,
                          uint64_t sequence);

/* The same in rounds, and as the client "worker-R" of that rank: request `sequence` of its own, to
 * round `round`. */
struct ps_bytes table_config_of_rounds(const char *optimizer, struct ps_table_settings table,
                                       const struct ps_round_settings *rounds);
enum ps_status table_contribute(struct core_world *world, uint32_t rank, uint64_t round,
                                uint64_t first, size_t count, float value, uint64_t sequence);

/* The first element of a row, all of which must be equal. */
float table_value(struct core_world *world, uint64_t key);

struct ps_parameter *table_of(struct core_world *world);

/* A parameter by itself. */
struct ps_parameter *table_create(const struct ps_allocator *memory, enum ps_rule rule,
                                  struct ps_row_room *room);

#endif
