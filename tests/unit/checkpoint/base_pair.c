/* SPDX-License-Identifier: Apache-2.0 */
/* Two tables and two dense parameters: one of each as the base has it, one of the file's own. */
#include "base_pair.h"

#include "checkpoint/checkpoint.h"

#include <check.h>
#include <string.h>

struct memory_files *disk;
const struct ps_files *files;
struct ps_checkpoint_facts base_facts, own_facts;
struct ps_checkpoint_parameter base[PARAMETERS], own[PARAMETERS];
struct sample_rows base_rows, own_rows, merged_rows, same_rows;
struct ps_checkpoint_reader *reader;
struct ps_error pair_error;
char base_path[1024], own_path[1024];

const double numbers[2][3] = {{1, 2, 3}, {4, 5, 6}};
static const struct ps_bytes runs[2] = {{(const uint8_t *)numbers[0], sizeof numbers[0]},
                                        {(const uint8_t *)numbers[1], sizeof numbers[1]}};
const struct sample_row base_list[5] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
static const struct sample_row own_list[] = {{9, 2}, {2, 2}};
static const struct sample_row merged_list[] = {{1, 1}, {3, 1}, {5, 1}, {9, 2}, {2, 2}};
const uint64_t removed[1] = {4};

struct ps_checkpoint_parameter dense(const char *name, size_t run)
{
    return (struct ps_checkpoint_parameter){.name = ps_bytes_of_text(name),
                                            .dtype = PS_F64,
                                            .count = 3,
                                            .version = 1,
                                            .id = 8,
                                            .state_count = 1,
                                            .values = ps_view_of(&runs[run]),
                                            .states = {ps_view_of(&runs[1 - run])}};
}

void base_pair_begin(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    base_facts = sample_base_facts();
    own_facts = sample_own_facts();
    sample_rows_init(&base_rows, "t", PS_F32, 3, base_list, 5);
    sample_rows_init(&same_rows, "u", PS_F32, 1, base_list, 5);
    sample_rows_init(&own_rows, "t", PS_F32, 3, own_list, 2);
    sample_rows_remove(&own_rows, removed, 1);
    sample_rows_init(&merged_rows, "t", PS_F32, 3, merged_list, 5);
    base[0] = own[0] = dense("a", 0);
    base[1] = dense("b", 0);
    own[1] = dense("b", 1);
    base[2] = base_rows.parameter;
    own[2] = own_rows.parameter;
    base[3] = own[3] = same_rows.parameter;
    own[0].carry = own[3].carry = PS_CARRY_AS_BASE;
    own[0].version = 77;
}

void base_pair_end(void)
{
    ps_checkpoint_close(reader);
    sample_rows_fini(&base_rows);
    sample_rows_fini(&same_rows);
    sample_rows_fini(&own_rows);
    sample_rows_fini(&merged_rows);
    memory_files_destroy(disk);
}

void write_both(void)
{
    sample_increment_write(files, "ck", &base_facts, base, PARAMETERS, base_path);
    sample_increment_write(files, "ck", &own_facts, own, PARAMETERS, own_path);
}

enum ps_status open_own(void)
{
    ps_checkpoint_close(reader);
    reader = NULL;
    pair_error = (struct ps_error){.status = PS_OK};
    return ps_checkpoint_open(files, own_path, ps_allocator_heap(), &reader, &pair_error);
}

void assert_dense(size_t i, size_t run)
{
    double read[3] = {0};
    for (int32_t state = -1; state < 1; state++) {
        const struct ps_checkpoint_piece piece = {read, sizeof read};
        size_t wanted = state < 0 ? run : 1 - run;
        ck_assert_int_eq(ps_checkpoint_read_array(reader, i, state, &piece, 1, NULL), PS_OK);
        ps_checkpoint_forget_part(reader, i, state, 0, sizeof read);
        ck_assert_mem_eq(read, numbers[wanted], sizeof read);
    }
}
