/* SPDX-License-Identifier: Apache-2.0 */
/* A small table whose rows say which key they are of: width 2, f32, one state of one element for a
 * row. The values of the row of `key` are value and value + 0.5, its state is key + 100.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   assertions of Check.
 * Memory:   in place; must not move once it has rows.
 */
#ifndef PS_TESTS_ROWS_FIXTURE_H
#define PS_TESTS_ROWS_FIXTURE_H

#include "checkpoint/array_layout.h"

#define ROWS_FIXTURE_ROWS 64

struct rows_fixture {
    struct ps_checkpoint_parameter row;
    float values[ROWS_FIXTURE_ROWS][2];
    float states[ROWS_FIXTURE_ROWS];
    uint64_t keys[ROWS_FIXTURE_ROWS];
    uint32_t clocks[ROWS_FIXTURE_ROWS];
    uint8_t *arrays[PS_CHECKPOINT_ARRAYS_MAX];
    struct ps_bytes pieces[PS_CHECKPOINT_ARRAYS_MAX];
};

/* Without rows, as version 10. */
void rows_fixture_init(struct rows_fixture *table, const char *name);

/* One row more, at the end. */
void rows_fixture_put(struct rows_fixture *table, uint64_t key, float value, uint32_t clock);

/* Row `i` of a table that was made of fixtures is that of `key`, with all that belongs to it. */
void rows_fixture_expect(const struct ps_checkpoint_parameter *table, uint64_t i, uint64_t key,
                         float value, uint32_t clock);

#endif
