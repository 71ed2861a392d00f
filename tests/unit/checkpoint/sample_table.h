/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of random rows as a checkpoint has them, given by a source, for tests.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a difference fails the test.
 * Memory:   a table owns its arrays until sample_table_fini; it must not move after
 *           sample_table_init, since the source points at it.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_SAMPLE_TABLE_H
#define PS_TESTS_UNIT_CHECKPOINT_SAMPLE_TABLE_H

#include "checkpoint/array_layout.h"

struct sample_table {
    struct ps_checkpoint_parameter parameter;
    uint8_t *arrays[PS_CHECKPOINT_ARRAYS_MAX];
    uint64_t next[PS_CHECKPOINT_ARRAYS_MAX]; /* offset at which the source must be asked */
};

/* Random bytes in every array; keys differ. Every second state has one element for a row. */
void sample_table_init(struct sample_table *table, const char *name, enum ps_dtype dtype,
                       uint64_t rows, uint32_t width, uint32_t state_count);
void sample_table_fini(struct sample_table *table);

/* Parameter `i` of the reader is this table, all arrays of it. */
void sample_table_assert_equal(const struct sample_table *table,
                               struct ps_checkpoint_reader *reader, size_t i);

#endif
