/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_base.c: files that add to another, with every sort of parameter, and with
 * bases that are not what they should be. */
#include "checkpoint/checkpoint.h"

#include "checkpoint/checkpoint_name.h"
#include "checkpoint/header_reader.h"
#include "run_suite.h"
#include "sample_increment.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS 4

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_checkpoint_facts base_facts, own_facts;
static struct ps_checkpoint_parameter base[PARAMETERS], own[PARAMETERS];
static struct sample_rows base_rows, own_rows, merged_rows, same_rows;
static struct ps_checkpoint_reader *reader;
static struct ps_error error;
static char base_path[1024], own_path[1024];

static const double numbers[2][3] = {{1, 2, 3}, {4, 5, 6}};
static const struct ps_bytes runs[2] = {{(const uint8_t *)numbers[0], sizeof numbers[0]},
                                        {(const uint8_t *)numbers[1], sizeof numbers[1]}};
static const struct sample_row base_list[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
static const struct sample_row own_list[] = {{9, 2}, {2, 2}};
static const struct sample_row merged_list[] = {{1, 1}, {3, 1}, {5, 1}, {9, 2}, {2, 2}};
static const uint64_t removed[] = {4};

static struct ps_checkpoint_parameter dense(const char *name, size_t run)
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

/* In the order of the file: one that is the base's, one that is the file's own, and two tables, of
 * which one has not changed. */
static void set_up(void)
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

static void tear_down(void)
{
    ps_checkpoint_close(reader);
    sample_rows_fini(&base_rows);
    sample_rows_fini(&same_rows);
    sample_rows_fini(&own_rows);
    sample_rows_fini(&merged_rows);
    memory_files_destroy(disk);
}

static void write_both(void)
{
    sample_increment_write(files, "ck", &base_facts, base, PARAMETERS, base_path);
    sample_increment_write(files, "ck", &own_facts, own, PARAMETERS, own_path);
}

static enum ps_status open_own(void)
{
    ps_checkpoint_close(reader);
    reader = NULL;
    error = (struct ps_error){.status = PS_OK};
    return ps_checkpoint_open(files, own_path, ps_allocator_heap(), &reader, &error);
}

static void assert_dense(size_t i, size_t run)
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

START_TEST(a_file_and_its_base_are_one_checkpoint)
{
    write_both();

    ck_assert_msg(open_own() == PS_OK, "%s", error.text);

    ck_assert_str_eq(ps_checkpoint_reader_facts(reader)->uuid, SAMPLE_OWN);
    ck_assert_str_eq(ps_checkpoint_reader_facts(reader)->base, SAMPLE_BASE);
    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), PARAMETERS);
    assert_dense(0, 0);
    assert_dense(1, 1);
    sample_rows_assert(reader, 2, &merged_rows);
    sample_rows_assert(reader, 3, &same_rows);
    ck_assert_uint_eq(ps_checkpoint_parameter(reader, 0)->version, 77);
    ck_assert_int_eq(ps_checkpoint_parameter(reader, 0)->carry, PS_CARRY_AS_BASE);
    ck_assert_int_eq(ps_checkpoint_parameter(reader, 1)->carry, PS_CARRY_WHOLE);
    ck_assert_int_eq(ps_checkpoint_parameter(reader, 2)->carry, PS_CARRY_ROWS);
    ck_assert_int_eq(ps_checkpoint_verify(files, own_path, ps_allocator_heap(), &error), PS_OK);
}
END_TEST

START_TEST(its_name_says_what_it_adds_to)
{
    write_both();

    ck_assert_str_eq(own_path, "ck/0000000000000003-0000000000000014-" SAMPLE_OWN "-on-" SAMPLE_BASE
                               ".safetensors");
}
END_TEST

START_TEST(older_programs_refuse_it_by_its_format)
{
    struct ps_bytes file;
    write_both();

    ck_assert(memory_files_get(disk, own_path, &file));
    ck_assert_ptr_nonnull(strstr((const char *)file.data + 8, "\"ps.format\":\"4\""));
    ck_assert(memory_files_get(disk, base_path, &file));
    ck_assert_ptr_nonnull(strstr((const char *)file.data + 8, "\"ps.format\":\"3\""));
}
END_TEST

START_TEST(it_holds_nothing_of_what_is_the_bases)
{
    struct ps_bytes file;
    own[1].carry = PS_CARRY_AS_BASE;
    own[2].carry = PS_CARRY_AS_BASE;
    own[2].removed = (struct ps_view){0};
    write_both();

    ck_assert(memory_files_get(disk, own_path, &file));
    uint64_t header = 0;
    memcpy(&header, file.data, sizeof header);

    ck_assert_uint_eq(file.size, header + 8);
    ck_assert_int_eq(open_own(), PS_OK);
    assert_dense(1, 0);
    sample_rows_assert(reader, 2, &base_rows);
}
END_TEST

/* What a parameter of the base has no place in the file for is compared all the same. */
START_TEST(parameters_may_come_and_go)
{
    own[1] = dense("c", 1);
    write_both();

    ck_assert_int_eq(open_own(), PS_OK);

    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), PARAMETERS);
    ck_assert(ps_bytes_equal(ps_checkpoint_parameter(reader, 1)->name, ps_bytes_of_text("c")));
    assert_dense(1, 1);
}
END_TEST

START_TEST(a_file_without_its_base_is_refused)
{
    write_both();
    ck_assert_int_eq(files->remove(files->self, base_path, NULL), PS_OK);

    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);

    ck_assert_str_eq(error.text,
                     PS_CHECKPOINT_CORRUPT "its base " SAMPLE_BASE " is not in the folder");
    ck_assert_int_eq(ps_checkpoint_verify(files, own_path, ps_allocator_heap(), &error),
                     PS_ERR_CORRUPT);
}
END_TEST

static void assert_refused(const char *reason)
{
    write_both();
    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(error.text, reason) != NULL, "%s", error.text);
    ck_assert_msg(strncmp(error.text, PS_CHECKPOINT_CORRUPT, strlen(PS_CHECKPOINT_CORRUPT)) == 0,
                  "%s", error.text);
    ck_assert_int_eq(files->remove(files->self, base_path, NULL), PS_OK);
    ck_assert_int_eq(files->remove(files->self, own_path, NULL), PS_OK);
    base_facts = sample_base_facts();
    own_facts = sample_own_facts();
}

START_TEST(a_base_of_something_else_is_refused)
{
    base_facts.index = 0;
    assert_refused("of another shard or job");
    base_facts.shard_count = 3;
    assert_refused("of another shard or job");
    base_facts.job = "k";
    assert_refused("of another shard or job");
    base_facts.history.bytes[3] = 2;
    assert_refused("of another history");
    base_facts.position = 21;
    assert_refused("younger than what adds to it");
    base_facts.epoch = 4;
    assert_refused("younger than what adds to it");
}
END_TEST

START_TEST(a_base_that_is_not_whole_itself_is_refused)
{
    base_facts.base = "0190cccc-0000-7000-8000-000000000003";
    assert_refused("is not whole itself");
}
END_TEST

/* Somebody has given a file the name of another. */
START_TEST(a_base_of_another_uuid_than_its_name_is_refused)
{
    struct ps_bytes file;
    struct ps_checkpoint_facts other = base_facts;
    char name[PS_CHECKPOINT_NAME_BYTES], path[1024], other_path[1024];
    write_both();
    memcpy(other.uuid, "0190dddd-0000-7000-8000-000000000004", sizeof other.uuid);
    sample_increment_write(files, "ck", &other, base, PARAMETERS, other_path);
    ck_assert(memory_files_get(disk, other_path, &file));
    ps_checkpoint_name_write(3, 10, SAMPLE_BASE, "", PS_CHECKPOINT_SUFFIX, name);
    (void)snprintf(path, sizeof path, "ck/%s", name);
    uint8_t *copy = malloc(file.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, file.data, file.size);
    memory_files_put(disk, path, (struct ps_bytes){copy, file.size});

    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(error.text, "another uuid"));
    free(copy);
}
END_TEST

START_TEST(a_base_that_has_another_parameter_is_refused)
{
    for (size_t i = 0; i < PARAMETERS; i += i == 0 ? 2 : 1) {
        base[i].id++;
        assert_refused("has another");
        base[i].id--;
    }
    base[0].state_count = 0;
    assert_refused("has another a");
    base[0].state_count = 1;
    base[0].name = ps_bytes_of_text("0");
    assert_refused("has no a");
    base[0].name = ps_bytes_of_text("a");
    base[2].name = ps_bytes_of_text("s");
    assert_refused("has no t");
}
END_TEST

START_TEST(a_table_of_another_width_is_refused)
{
    sample_rows_fini(&base_rows);
    sample_rows_init(&base_rows, "t", PS_F32, 4, base_list, 5);
    base[2] = base_rows.parameter;
    assert_refused("has another t");
}
END_TEST

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
                ps_checkpoint_read_array(reader, 2, (int32_t)array - 1, &piece, 1, &error),
                PS_ERR_CORRUPT);
        }
        ck_assert_ptr_nonnull(strstr(error.text, " of t"));
        ck_assert_int_eq(strstr(error.text, "in its base " SAMPLE_BASE) != NULL, in_base);
        ck_assert_int_eq(ps_checkpoint_verify(files, own_path, ps_allocator_heap(), &error),
                         PS_ERR_CORRUPT);
        ck_assert_int_eq(strstr(error.text, "in its base " SAMPLE_BASE) != NULL, in_base);
    }
}
END_TEST

START_TEST(damage_of_keys_that_went_is_found)
{
    write_both();
    flip(own_path, removed, sizeof removed);

    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(error.text, "removed keys of t"));
}
END_TEST

START_TEST(damage_of_what_is_the_bases_is_said_to_be_there)
{
    double read[3];
    const struct ps_checkpoint_piece piece = {read, sizeof read};
    write_both();
    flip(base_path, numbers[0], sizeof numbers[0]);
    ck_assert_int_eq(open_own(), PS_OK);

    ck_assert_int_eq(ps_checkpoint_read_array(reader, 0, -1, &piece, 1, &error), PS_ERR_CORRUPT);

    ck_assert_str_eq(error.text, PS_CHECKPOINT_CORRUPT "values of a (in its base " SAMPLE_BASE ")");
}
END_TEST

START_TEST(of_a_damaged_base_the_files_own_parameters_can_be_had)
{
    bool sessions = false;
    write_both();
    ck_assert_int_eq(files->remove(files->self, base_path, NULL), PS_OK);

    ck_assert_int_eq(ps_checkpoint_open_damaged(files, own_path, ps_allocator_heap(), &reader,
                                                &sessions, &error),
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
                                                &sessions, &error),
                     PS_OK);

    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), 3);
    assert_dense(0, 0);
    assert_dense(1, 1);
    sample_rows_assert(reader, 2, &same_rows);
}
END_TEST

/* As a server gives rows: by a source, which knows nothing of keys that went. */
static enum ps_status give_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *why)
{
    const struct sample_rows *rows = self;
    (void)why;
    ck_assert_uint_lt(array, ps_array_count(&rows->parameter));
    memcpy(to, rows->arrays[array] + offset, size);
    return PS_OK;
}

static void note_written(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    uint64_t *told = self;
    ck_assert_uint_lt(array, ps_array_count(&own[parameter]));
    ck_assert_int_ne(own[parameter].carry, PS_CARRY_AS_BASE);
    told[parameter] += array == 0 ? bytes : 0;
}

START_TEST(rows_of_a_source_are_written_as_rows_in_memory)
{
    uint64_t told[PARAMETERS] = {0};
    const struct ps_checkpoint_watcher watcher = {note_written, told};
    const struct ps_checkpoint_setup setup = {.watcher = &watcher};
    struct ps_checkpoint_place place;
    struct ps_bytes first, second;
    write_both();
    own[2].source = (struct ps_checkpoint_source){give_rows, &own_rows};
    own[2].values = own[2].keys = own[2].clock = (struct ps_view){0};
    own[3].source = own[2].source;

    ck_assert_int_eq(ps_checkpoint_write_as(files, "other", &own_facts, own, PARAMETERS, &setup,
                                            ps_allocator_heap(), &place, &error),
                     PS_OK);

    ck_assert(memory_files_get(disk, own_path, &first));
    ck_assert(memory_files_get(disk, place.path, &second));
    ck_assert(ps_bytes_equal(first, second));
    ck_assert_uint_eq(told[0] + told[3], 0);
    ck_assert_uint_eq(told[1], sizeof numbers[0]);
    ck_assert_uint_eq(told[2], ps_array_bytes(&own_rows.parameter, 0));
}
END_TEST

/* A long file under a short one would be cut, and the next whole one would have to grow. */
START_TEST(a_spare_is_left_to_a_whole_one)
{
    static const char spare[] = "ck/0000000000000003-0000000000000001-u.safetensors.spare";
    const struct ps_checkpoint_setup setup = {.over_spare = true};
    struct ps_checkpoint_place place;
    struct ps_bytes file;
    write_both();
    memory_files_put(disk, spare, ps_bytes_of_text("spare"));
    own_facts.position++;

    ck_assert_int_eq(ps_checkpoint_write_as(files, "ck", &own_facts, own, PARAMETERS, &setup,
                                            ps_allocator_heap(), &place, &error),
                     PS_OK);

    ck_assert(memory_files_get(disk, spare, &file));
    ck_assert_int_eq(ps_checkpoint_write_as(files, "ck", &base_facts, base, PARAMETERS, &setup,
                                            ps_allocator_heap(), &place, &error),
                     PS_OK);
    ck_assert(!memory_files_get(disk, spare, &file));
}
END_TEST

START_TEST(refused_memory_leaves_nothing)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    write_both();
    for (int refused = 0; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_checkpoint_reader *opened = NULL;
        status = ps_checkpoint_open(files, own_path, &memory, &opened, NULL);
        ps_checkpoint_close(status == PS_OK ? opened : NULL);
        ck_assert_int_eq(heap.live, 0);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_base");
    TCase *tests = tcase_create("checkpoint_base");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_file_and_its_base_are_one_checkpoint);
    tcase_add_test(tests, its_name_says_what_it_adds_to);
    tcase_add_test(tests, older_programs_refuse_it_by_its_format);
    tcase_add_test(tests, it_holds_nothing_of_what_is_the_bases);
    tcase_add_test(tests, parameters_may_come_and_go);
    tcase_add_test(tests, a_file_without_its_base_is_refused);
    tcase_add_test(tests, a_base_of_something_else_is_refused);
    tcase_add_test(tests, a_base_that_is_not_whole_itself_is_refused);
    tcase_add_test(tests, a_base_of_another_uuid_than_its_name_is_refused);
    tcase_add_test(tests, a_base_that_has_another_parameter_is_refused);
    tcase_add_test(tests, a_table_of_another_width_is_refused);
    tcase_add_test(tests, damage_of_a_table_is_found_in_either_file);
    tcase_add_test(tests, damage_of_keys_that_went_is_found);
    tcase_add_test(tests, damage_of_what_is_the_bases_is_said_to_be_there);
    tcase_add_test(tests, of_a_damaged_base_the_files_own_parameters_can_be_had);
    tcase_add_test(tests, of_a_damaged_table_the_other_parameters_can_be_had);
    tcase_add_test(tests, rows_of_a_source_are_written_as_rows_in_memory);
    tcase_add_test(tests, a_spare_is_left_to_a_whole_one);
    tcase_add_test(tests, refused_memory_leaves_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
