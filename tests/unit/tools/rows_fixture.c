/* SPDX-License-Identifier: Apache-2.0 */
/* Rows beside each other, in the order in which they were put. */
#include "rows_fixture.h"

#include <check.h>
#include <string.h>

void rows_fixture_init(struct rows_fixture *table, const char *name)
{
    *table = (struct rows_fixture){.row = {.name = ps_bytes_of_text(name),
                                           .dtype = PS_F32,
                                           .version = 10,
                                           .step = 9,
                                           .state_count = 1,
                                           .is_table = true,
                                           .state_is_one = {true},
                                           .width = 2}};
    uint8_t *arrays[] = {(uint8_t *)table->values, (uint8_t *)table->states, (uint8_t *)table->keys,
                         (uint8_t *)table->clocks};
    memcpy(table->arrays, arrays, sizeof arrays);
    for (uint32_t array = 0; array < 4; array++) {
        table->pieces[array] = (struct ps_bytes){table->arrays[array], 0};
        ps_array_set_view(&table->row, array, ps_view_of(&table->pieces[array]));
    }
}

void rows_fixture_put(struct rows_fixture *table, uint64_t key, float value, uint32_t clock)
{
    uint64_t i = table->row.rows++;
    ck_assert_uint_lt(i, ROWS_FIXTURE_ROWS);
    table->values[i][0] = value;
    table->values[i][1] = value + 0.5f;
    table->states[i] = (float)key + 100;
    table->keys[i] = key;
    table->clocks[i] = clock;
    table->row.count = table->row.rows * 2;
    for (uint32_t array = 0; array < 4; array++) {
        table->pieces[array].size = (size_t)ps_array_bytes(&table->row, array);
        ps_array_set_view(&table->row, array, ps_view_of(&table->pieces[array]));
    }
}

void rows_fixture_expect(const struct ps_checkpoint_parameter *table, uint64_t i, uint64_t key,
                         float value, uint32_t clock)
{
    const float values[2] = {value, value + 0.5f};
    const float state = (float)key + 100;
    uint8_t row[sizeof values];
    ck_assert_uint_lt(i, table->rows);
    ps_view_copy(table->keys, i * sizeof key, row, sizeof key);
    ck_assert_mem_eq(row, &key, sizeof key);
    ps_view_copy(table->values, i * sizeof values, row, sizeof values);
    ck_assert_mem_eq(row, values, sizeof values);
    ps_view_copy(table->states[0], i * sizeof state, row, sizeof state);
    ck_assert_mem_eq(row, &state, sizeof state);
    ps_view_copy(table->clock, i * sizeof clock, row, sizeof clock);
    ck_assert_mem_eq(row, &clock, sizeof clock);
}
