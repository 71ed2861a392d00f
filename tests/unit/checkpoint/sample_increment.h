/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as two files have them, a whole one and one that adds to it, for tests. What a row holds
 * follows from its key and its generation, so that a row can only be the right one.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a difference fails the test.
 * Memory:   a table owns its arrays until sample_rows_fini.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_SAMPLE_INCREMENT_H
#define PS_TESTS_UNIT_CHECKPOINT_SAMPLE_INCREMENT_H

#include "checkpoint/array_layout.h"

#define SAMPLE_BASE "0190aaaa-0000-7000-8000-000000000001"
#define SAMPLE_OWN "0190bbbb-0000-7000-8000-000000000002"

struct sample_row {
    uint64_t key;
    uint32_t generation;
};

/* What one file has of a table; `parameter` points into the rest. */
struct sample_rows {
    struct ps_checkpoint_parameter parameter;
    uint8_t *arrays[PS_ARRAYS_CARRIED_MAX]; /* owned */
    struct ps_bytes runs[PS_ARRAYS_CARRIED_MAX];
};

/* Of these rows in this order, with one state of the width and, of a wider table than 1, a second
 * of one element for a row. Its id is 5. It must not move afterwards. */
void sample_rows_init(struct sample_rows *rows, const char *name, enum ps_dtype dtype,
                      uint32_t width, const struct sample_row *list, size_t count);
void sample_rows_fini(struct sample_rows *rows);

/* Makes them the rows that a file adds, without these keys of the base. */
void sample_rows_remove(struct sample_rows *rows, const uint64_t *keys, size_t count);

/* Facts of the base (position 10), or of the file that adds to it (position 20). */
struct ps_checkpoint_facts sample_base_facts(void);
struct ps_checkpoint_facts sample_own_facts(void);

/* Writes to `folder` of `files`, and puts where to `path` unless that is NULL. */
void sample_increment_write(const struct ps_files *files, const char *folder,
                            const struct ps_checkpoint_facts *facts,
                            const struct ps_checkpoint_parameter *parameters, size_t count,
                            char path[1024]);

/* Parameter `i` has exactly these rows, in this order, read as a whole and in odd parts. */
void sample_rows_assert(struct ps_checkpoint_reader *reader, size_t i,
                        const struct sample_rows *expected);

#endif
