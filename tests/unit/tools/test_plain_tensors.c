/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/plain_tensors.c: what other programs get of a state. */
#include "tools/psckpt/plain_tensors.h"

#include "rows_fixture.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct rows_fixture table;
static struct shard_state state;
static struct ps_checkpoint_parameter rows[3];
static struct ps_error error;

START_TEST(a_table_is_a_matrix_and_its_keys)
{
    struct plain_tensors tensors;
    rows_fixture_init(&table, "emb");
    rows_fixture_put(&table, 4, 1, 1);
    rows_fixture_put(&table, 9, 2, 1);
    rows[0] = (struct ps_checkpoint_parameter){.name = ps_bytes_of_text("a"), .count = 5};
    rows[1] = table.row;
    rows[2] = (struct ps_checkpoint_parameter){.name = ps_bytes_of_text("z"), .count = 6};
    shard_state_init(&state, ps_allocator_heap());
    state.parameters = rows;
    state.count = 3;

    ck_assert_int_eq(plain_tensors_make(&tensors, &state, &error), PS_OK);

    ck_assert_uint_eq(tensors.count, 4);
    const struct ps_checkpoint_parameter *matrix = &tensors.rows[1];
    ck_assert(!matrix->is_table);
    ck_assert_uint_eq(matrix->shape.rank, 2);
    ck_assert_uint_eq(matrix->shape.lengths[0], 2);
    ck_assert_uint_eq(matrix->shape.lengths[1], 2);
    const struct ps_checkpoint_parameter *keys = &tensors.rows[2];
    ck_assert(ps_bytes_equal(keys->name, ps_bytes_of_text("ps.keys/emb")));
    ck_assert_int_eq(keys->dtype, PS_U64);
    ck_assert_uint_eq(keys->count, 2);
    ck_assert_uint_eq(keys->values.size, 16);
    ck_assert_uint_eq(plain_tensors_of_one(&tensors, 0), 1);
    ck_assert_uint_eq(plain_tensors_of_one(&tensors, 1), 2);
    ck_assert_uint_eq(plain_tensors_of_one(&tensors, 3), 1);
    shard_state_fini(&state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plain_tensors");
    TCase *tests = tcase_create("plain_tensors");
    tcase_add_test(tests, a_table_is_a_matrix_and_its_keys);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
