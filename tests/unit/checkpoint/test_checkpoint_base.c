/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_base.c: files that add to another, with every sort of parameter, and with
 * bases that are not what they should be. */
#include "checkpoint/checkpoint.h"

#include "base_pair.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/header_reader.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_file_and_its_base_are_one_checkpoint)
{
    write_both();

    ck_assert_msg(open_own() == PS_OK, "%s", pair_error.text);

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
    ck_assert_int_eq(ps_checkpoint_verify(files, own_path, ps_allocator_heap(), &pair_error),
                     PS_OK);
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

    ck_assert_str_eq(pair_error.text,
                     PS_CHECKPOINT_CORRUPT "its base " SAMPLE_BASE " is not in the folder");
    ck_assert_int_eq(ps_checkpoint_verify(files, own_path, ps_allocator_heap(), &pair_error),
                     PS_ERR_CORRUPT);
}
END_TEST

static void assert_refused(const char *reason)
{
    write_both();
    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(pair_error.text, reason) != NULL, "%s", pair_error.text);
    ck_assert_msg(strncmp(pair_error.text, PS_CHECKPOINT_CORRUPT, strlen(PS_CHECKPOINT_CORRUPT)) ==
                      0,
                  "%s", pair_error.text);
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

    ck_assert_ptr_nonnull(strstr(pair_error.text, "another uuid"));
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
                                            ps_allocator_heap(), &place, &pair_error),
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
                                            ps_allocator_heap(), &place, &pair_error),
                     PS_OK);

    ck_assert(memory_files_get(disk, spare, &file));
    ck_assert_int_eq(ps_checkpoint_write_as(files, "ck", &base_facts, base, PARAMETERS, &setup,
                                            ps_allocator_heap(), &place, &pair_error),
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
    tcase_add_checked_fixture(tests, base_pair_begin, base_pair_end);
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
    tcase_add_test(tests, rows_of_a_source_are_written_as_rows_in_memory);
    tcase_add_test(tests, a_spare_is_left_to_a_whole_one);
    tcase_add_test(tests, refused_memory_leaves_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
