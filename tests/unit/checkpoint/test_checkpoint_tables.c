/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/: tables beside other parameters, written, read, damaged and broken off. */
#include "checkpoint/catalog.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_bytes.h"
#include "checkpoint/header_reader.h"
#include "checkpoint/header_writer.h"

#include "run_suite.h"
#include "sample_table.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define TABLES 9
#define PARAMETERS (TABLES + 2)

static const double dense[3] = {1, 2, 3};
static const struct ps_bytes run = {(const uint8_t *)dense, sizeof dense};
static struct sample_table tables[TABLES];
static struct ps_checkpoint_parameter parameters[PARAMETERS];
static struct ps_checkpoint_facts facts;
static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_checkpoint_place place;
static struct ps_error error;

/* Odd numbers of rows, so that an array of 4-byte elements in front of one of 8-byte elements would
 * leave that one at no multiple of 8. */
static void set_up(void)
{
    disk = memory_files_create(3);
    files = memory_files_files(disk);
    facts = (struct ps_checkpoint_facts){
        .uuid = "u-1", .shard_count = 1, .epoch = 1, .position = 2, .job = "j"};
    sample_table_init(&tables[0], "b/f32", PS_F32, 301, 5, 2);
    sample_table_init(&tables[1], "c/f64", PS_F64, 33, 3, 2);
    sample_table_init(&tables[2], "d/empty", PS_F32, 0, 16, 1);
    sample_table_init(&tables[3], "e/one", PS_F32, 1, 1, 2);
    sample_table_init(&tables[4], "f/whole", PS_I32, 65535, 1, 0);
    sample_table_init(&tables[5], "g/wide", PS_I64, 3, 4096, 0);
    sample_table_init(&tables[6], "h/none", PS_U64, 0, 1, 0);
    /* Larger than a buffer of the writer: their arrays are written side by side. */
    sample_table_init(&tables[7], "i/large", PS_F32, 65533, 13, 2);
    sample_table_init(&tables[8], "j/long", PS_F64, 301, 2047, 1);
    for (size_t i = 0; i < TABLES; i++)
        parameters[i] = tables[i].parameter;
    parameters[TABLES] = (struct ps_checkpoint_parameter){
        .name = ps_bytes_of_text("a"), .dtype = PS_F32, .count = 5, .values = {&run, 1, 20}};
    parameters[TABLES + 1] = (struct ps_checkpoint_parameter){.name = ps_bytes_of_text("z"),
                                                              .dtype = PS_F64,
                                                              .count = 3,
                                                              .values = {&run, 1, sizeof dense}};
}

static void tear_down(void)
{
    for (size_t i = 0; i < TABLES; i++)
        sample_table_fini(&tables[i]);
    memory_files_destroy(disk);
}

static enum ps_status write_to(const struct ps_files *to, const struct ps_allocator *memory)
{
    static const struct ps_bytes narrow = {(const uint8_t *)dense, 20};
    parameters[TABLES].values.pieces = &narrow;
    for (size_t i = 0; i < TABLES; i++)
        memset(tables[i].next, 0, sizeof tables[i].next);
    return ps_checkpoint_write(to, "ck", &facts, parameters, PARAMETERS, memory, &place, &error);
}

/* Every table of the file is the one that was written, and each array is aligned. */
static void assert_whole(const struct ps_files *from)
{
    struct ps_checkpoint_reader *reader = NULL;
    size_t found = 0;
    ck_assert_int_eq(ps_checkpoint_open(from, place.path, ps_allocator_heap(), &reader, &error),
                     PS_OK);
    for (size_t i = 0; i < ps_checkpoint_parameter_count(reader); i++)
        for (size_t k = 0; k < TABLES; k++)
            if (ps_bytes_equal(ps_checkpoint_parameter(reader, i)->name,
                               tables[k].parameter.name)) {
                sample_table_assert_equal(&tables[k], reader, i);
                found++;
            }
    ck_assert_uint_eq(found, TABLES);
    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), PARAMETERS);
    ps_checkpoint_close(reader);
    ck_assert_int_eq(ps_checkpoint_verify(from, place.path, ps_allocator_heap(), &error), PS_OK);
}

START_TEST(tables_come_back_as_they_were)
{
    struct ps_bytes content;
    ck_assert_int_eq(write_to(files, ps_allocator_heap()), PS_OK);

    assert_whole(files);
    ck_assert(memory_files_get(disk, place.path, &content));
    ck_assert_uint_eq(content.size, place.bytes);
    ck_assert_uint_eq(ps_checksum_crc32(0, content), place.crc32);
}
END_TEST

START_TEST(ages_of_rows_come_back_beside_those_that_have_none)
{
    struct ps_checkpoint_reader *reader = NULL;
    parameters[1].ages = ps_bytes_of_text("time 60000 17 5 18");
    parameters[6].ages = ps_bytes_of_text("clocks 5 0");
    ck_assert_int_eq(write_to(files, ps_allocator_heap()), PS_OK);

    assert_whole(files);

    ck_assert_int_eq(ps_checkpoint_open(files, place.path, ps_allocator_heap(), &reader, &error),
                     PS_OK);
    for (size_t i = 0; i < PARAMETERS; i++) {
        const struct ps_checkpoint_parameter *found = ps_checkpoint_parameter(reader, i);
        for (size_t k = 0; k < PARAMETERS; k++)
            if (ps_bytes_equal(found->name, parameters[k].name))
                ck_assert(ps_bytes_equal(found->ages, parameters[k].ages));
    }
    ps_checkpoint_close(reader);
}
END_TEST

START_TEST(every_array_of_a_table_is_aligned_to_its_element)
{
    struct ps_bytes file;
    struct ps_header header;
    size_t length = 0;
    ck_assert_int_eq(write_to(files, ps_allocator_heap()), PS_OK);
    ck_assert(memory_files_get(disk, place.path, &file));
    ck_assert_int_eq(ps_header_length((struct ps_bytes){file.data, 8}, file.size, &length, &error),
                     PS_OK);
    struct ps_bytes head = {file.data, length + 8};
    ck_assert_int_eq(ps_header_init(&header, head, file.size, ps_allocator_heap(), &error), PS_OK);

    for (size_t i = 0; i < header.count; i++)
        for (uint32_t array = 0; array < ps_array_count(&header.parameters[i].about); array++) {
            enum ps_dtype dtype = ps_array_dtype(&header.parameters[i].about, array);
            ck_assert_uint_eq(header.parameters[i].offset[array] % ps_dtype_size(dtype), 0);
        }

    ps_header_fini(&header);
}
END_TEST

START_TEST(a_file_with_a_table_is_of_the_format_that_older_programs_refuse)
{
    struct ps_bytes file;

    ck_assert_int_eq(write_to(files, ps_allocator_heap()), PS_OK);

    ck_assert(memory_files_get(disk, place.path, &file));
    ck_assert_ptr_nonnull(strstr((const char *)file.data + 8, "\"ps.format\":\"3\""));
}
END_TEST

/* One bit of each array in turn; the message names what is lost. */
START_TEST(damage_of_keys_and_clock_is_named)
{
    static const char *names[] = {"values of b/f32", "state 0 of b/f32", "state 1 of b/f32",
                                  "keys of b/f32", "clock of b/f32"};
    struct ps_checkpoint_parameter *table = &tables[0].parameter;
    for (uint32_t array = 0; array < ps_array_count(table); array++) {
        struct ps_bytes file;
        ck_assert_int_eq(write_to(files, ps_allocator_heap()), PS_OK);
        ck_assert(memory_files_get(disk, place.path, &file));
        uint8_t *damaged = malloc(file.size);
        ck_assert_ptr_nonnull(damaged);
        memcpy(damaged, file.data, file.size);
        uint8_t *at = memmem(damaged, file.size, tables[0].arrays[array], 64);
        ck_assert_ptr_nonnull(at);
        at[63] ^= 4;
        memory_files_put(disk, place.path, (struct ps_bytes){damaged, file.size});

        ck_assert_int_eq(ps_checkpoint_verify(files, place.path, ps_allocator_heap(), &error),
                         PS_ERR_CORRUPT);

        ck_assert_ptr_nonnull(strstr(error.text, names[array]));
        free(damaged);
    }
}
END_TEST

START_TEST(names_of_keys_and_clocks_are_refused)
{
    static const char *names[] = {"ps.keys/", "ps.keys/w", "ps.clock/", "ps.clock/w"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        parameters[0].name = ps_bytes_of_text(names[i]);
        ck_assert_int_eq(write_to(files, ps_allocator_heap()), PS_ERR_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(error.text, "reserved"));
    }
    ck_assert_uint_eq(memory_files_file_count(disk), 0);
}
END_TEST

START_TEST(a_refused_allocation_leaves_no_file)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int refused = 0; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        status = write_to(files, &memory);
        ck_assert_int_eq(heap.live, 0);
        ck_assert(status == PS_OK || memory_files_file_count(disk) == 0);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

/* The power fails at every operation in turn: the file is whole, or there is none of its name. */
START_TEST(a_crash_at_any_call_leaves_whole_tables_or_none)
{
    enum ps_status status = PS_ERR_IO;
    for (int64_t power = 0; status != PS_OK; power++) {
        struct memory_files *other = memory_files_create((uint64_t)power);
        struct ps_catalog catalog;
        memory_files_knobs(other)->fail_from = power;
        status = write_to(memory_files_files(other), ps_allocator_heap());
        memory_files_crash(other, MEMORY_CRASH_SEEDED);
        memory_files_knobs(other)->fail_from = -1;

        ck_assert_int_eq(
            ps_catalog_init(&catalog, memory_files_files(other), "ck", ps_allocator_heap(), &error),
            PS_OK);
        ck_assert(status != PS_OK || catalog.count == 1);
        if (catalog.count == 1)
            ck_assert_int_eq(ps_checkpoint_verify(memory_files_files(other),
                                                  "ck/0000000000000001-0000000000000002-u-1"
                                                  ".safetensors",
                                                  ps_allocator_heap(), &error),
                             PS_OK);
        if (status == PS_OK)
            assert_whole(memory_files_files(other));
        ps_catalog_fini(&catalog);
        memory_files_destroy(other);
    }
}
END_TEST

/* However many rows a table gets, its share of the header was counted when it came: in a whole
 * file, in one that adds rows and says which went, and in one that leaves it to its base. */
START_TEST(a_table_never_needs_more_header_than_was_counted)
{
    static const struct ps_header_section none[PS_CHECKPOINT_SECTION_COUNT];
    struct ps_buffer head;
    uint64_t most = 0;
    facts.job = "";
    ck_assert_int_eq(ps_header_facts_bytes("", ps_allocator_heap(), &most, NULL), PS_OK);
    for (size_t i = 0; i < TABLES; i++) {
        uint8_t ages[PS_CHECKPOINT_AGES_MAX];
        memset(ages, '9', sizeof ages);
        /* Of every other one how old the rows are, too. */
        if (i % 2 == 1)
            tables[i].parameter.ages = (struct ps_bytes){ages, sizeof ages};
        struct ps_checkpoint_parameter full = tables[i].parameter;
        struct ps_header_slot slot = {.parameter = &full};
        uint64_t share = 0;
        ck_assert_int_eq(
            ps_header_parameter_bytes(&tables[i].parameter, ps_allocator_heap(), &share, NULL),
            PS_OK);
        full.rows = (UINT64_C(1) << 50) / full.width;
        full.count = full.rows * full.width;
        full.version = full.step = full.id = UINT64_MAX;
        for (int carry = PS_CARRY_WHOLE; carry <= PS_CARRY_ROWS; carry++) {
            full.carry = (enum ps_checkpoint_carry)carry;
            full.removed.size = carry == PS_CARRY_ROWS ? (size_t)8 << 50 : 0;
            facts.base = carry == PS_CARRY_WHOLE ? "" : "ffffffff-ffff-ffff-ffff-ffffffffffff";
            ps_buffer_init(&head, ps_allocator_heap(), PS_HEADER_BYTES_MAX);
            ck_assert_int_eq(
                ps_header_write(&facts, none, &slot, 1, ps_allocator_heap(), &head, NULL), PS_OK);
            ck_assert_uint_le(head.size, most + share);
            ps_buffer_fini(&head);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_tables");
    TCase *tests = tcase_create("checkpoint_tables");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, tables_come_back_as_they_were);
    tcase_add_test(tests, ages_of_rows_come_back_beside_those_that_have_none);
    tcase_add_test(tests, every_array_of_a_table_is_aligned_to_its_element);
    tcase_add_test(tests, a_file_with_a_table_is_of_the_format_that_older_programs_refuse);
    tcase_add_test(tests, damage_of_keys_and_clock_is_named);
    tcase_add_test(tests, names_of_keys_and_clocks_are_refused);
    tcase_add_test(tests, a_refused_allocation_leaves_no_file);
    tcase_add_test(tests, a_crash_at_any_call_leaves_whole_tables_or_none);
    tcase_add_test(tests, a_table_never_needs_more_header_than_was_counted);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
