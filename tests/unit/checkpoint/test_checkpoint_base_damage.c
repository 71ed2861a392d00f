/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_base.c: a file that adds to another, of which either is damaged. */
#include "checkpoint/checkpoint.h"

#include "base_pair.h"
#include "checkpoint/header_reader.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void flip(const char *path, const void *needle, size_t size)
{
    struct ps_bytes file;
    ck_assert(memory_files_get(disk, path, &file));
    uint8_t *damaged = malloc(file.size);
    ck_assert_ptr_nonnull(damaged);
    memcpy(damaged, file.data, file.size);
    uint8_t *at = memmem(damaged, file.size, needle, size);
    ck_assert_ptr_nonnull(at);
    at[size - 1] ^= 4;
    memory_files_put(disk, path, (struct ps_bytes){damaged, file.size});
    free(damaged);
}

/* Every array of the table in turn, in either file. What decides about rows is read when the file
 * is opened, the rest when its sum is asked for; the text says in which file it is. */
START_TEST(damage_of_a_table_is_found_in_either_file)
{
    uint32_t keys = ps_array_of_keys(&base_rows.parameter);
    for (uint32_t k = 0; k < 2 * ps_array_count(&base_rows.parameter); k++) {
        uint32_t array = k / 2;
        bool in_base = k % 2 == 0;
        const struct sample_rows *rows = in_base ? &base_rows : &own_rows;
        write_both();
        flip(in_base ? base_path : own_path, rows->arrays[array],
             ps_array_bytes(&rows->parameter, array));

        enum ps_status status = open_own();
        ck_assert_int_eq(status, array == keys ? PS_ERR_CORRUPT : PS_OK);
        if (status == PS_OK) {
            uint8_t bytes[256];
            const struct ps_checkpoint_piece piece = {
                bytes, ps_array_bytes(&merged_rows.parameter, array)};
            ck_assert_int_eq(
                ps_checkpoint_read_array(reader, 2, (int32_t)array - 1, &piece, 1, &pair_error),
                PS_ERR_CORRUPT);
        }
        ck_assert_ptr_nonnull(strstr(pair_error.text, " of t"));
        ck_assert_int_eq(strstr(pair_error.text, "in its base " SAMPLE_BASE) != NULL, in_base);
        ck_assert_int_eq(ps_checkpoint_verify(files, own_path, ps_allocator_heap(), &pair_error),
                         PS_ERR_CORRUPT);
        ck_assert_int_eq(strstr(pair_error.text, "in its base " SAMPLE_BASE) != NULL, in_base);
    }
}
END_TEST

START_TEST(damage_of_keys_that_went_is_found)
{
    write_both();
    flip(own_path, removed, sizeof removed);

    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(pair_error.text, "removed keys of t"));
}
END_TEST

START_TEST(damage_of_what_is_the_bases_is_said_to_be_there)
{
    double read[3];
    const struct ps_checkpoint_piece piece = {read, sizeof read};
    write_both();
    flip(base_path, numbers[0], sizeof numbers[0]);
    ck_assert_int_eq(open_own(), PS_OK);

    ck_assert_int_eq(ps_checkpoint_read_array(reader, 0, -1, &piece, 1, &pair_error),
                     PS_ERR_CORRUPT);

    ck_assert_str_eq(pair_error.text,
                     PS_CHECKPOINT_CORRUPT "values of a (in its base " SAMPLE_BASE ")");
}
END_TEST

START_TEST(of_a_damaged_base_the_files_own_parameters_can_be_had)
{
    bool sessions = false;
    write_both();
    ck_assert_int_eq(files->remove(files->self, base_path, NULL), PS_OK);

    ck_assert_int_eq(ps_checkpoint_open_damaged(files, own_path, ps_allocator_heap(), &reader,
                                                &sessions, &pair_error),
                     PS_OK);

    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), 1);
    ck_assert(ps_bytes_equal(ps_checkpoint_parameter(reader, 0)->name, ps_bytes_of_text("b")));
    assert_dense(0, 1);
}
END_TEST

/* A table whose keys are damaged cannot be merged; everything else can. */
START_TEST(of_a_damaged_table_the_other_parameters_can_be_had)
{
    bool sessions = false;
    uint32_t keys = ps_array_of_keys(&base_rows.parameter);
    write_both();
    flip(own_path, own_rows.arrays[keys], 16);

    ck_assert_int_eq(ps_checkpoint_open_damaged(files, own_path, ps_allocator_heap(), &reader,
                                                &sessions, &pair_error),
                     PS_OK);

    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), 3);
    assert_dense(0, 0);
    assert_dense(1, 1);
    sample_rows_assert(reader, 2, &same_rows);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_base_damage");
    TCase *tests = tcase_create("checkpoint_base_damage");
    tcase_add_checked_fixture(tests, base_pair_begin, base_pair_end);
    tcase_add_test(tests, damage_of_a_table_is_found_in_either_file);
    tcase_add_test(tests, damage_of_keys_that_went_is_found);
    tcase_add_test(tests, damage_of_what_is_the_bases_is_said_to_be_there);
    tcase_add_test(tests, of_a_damaged_base_the_files_own_parameters_can_be_had);
    tcase_add_test(tests, of_a_damaged_table_the_other_parameters_can_be_had);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
