/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/section_reader.c: records that were saved come back, or are refused. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_format.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/little_endian.h"
#include "checkpoint/section.h"
#include "run_suite.h"
#include "sample_checkpoint.h"
#include "sample_sections.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;
static struct sample sample;
static struct ps_checkpoint_place place;

/* A copy of the file that a test may bend. */
static uint8_t *bytes;
static size_t size;
static uint64_t begin; /* of ps.rounds */
static uint64_t section_bytes;

static void find_rounds(void)
{
    struct ps_checkpoint_reader *reader = NULL;
    ck_assert_int_eq(ps_checkpoint_open(files, place.path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    section_bytes = ps_checkpoint_section_bytes(reader, PS_CHECKPOINT_ROUNDS);
    begin = size;
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        begin -= ps_checkpoint_section_bytes(reader, i);
    ps_checkpoint_close(reader);
}

static void set_up(void)
{
    disk = memory_files_create(11);
    files = memory_files_files(disk);
    sample_init(&sample, 3, 7, 1);
    sample.facts.position = 4711;
    sample_sections(&sample.facts);
    place = sample_write(&sample, files);
    struct ps_bytes file = {0};
    ck_assert(memory_files_get(disk, place.path, &file));
    size = file.size;
    bytes = malloc(size + PS_JOURNAL_HEAD_BYTES_MAX);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, file.data, size);
    find_rounds();
}

static void tear_down(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
    sample_fini(&sample);
    free(bytes);
}

static enum ps_status read_back(struct ps_error *error)
{
    return sample_sections_read(&sample.facts, files, place.path, ps_allocator_heap(), error);
}

static enum ps_status verify(void)
{
    return ps_checkpoint_verify(files, place.path, ps_allocator_heap(), NULL);
}

static void put_digits(size_t at, uint32_t crc32c)
{
    char digits[9];
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, crc32c);
    memcpy(bytes + at, digits, 8);
}

/* Sums of section and header put right, as whoever makes a file by hand would have them. */
static void put_repaired(void)
{
    static const char key[] = "\"ps.rounds_crc32c\":\"";
    const char *found = memmem(bytes, size, key, sizeof key - 1);
    ck_assert_ptr_nonnull(found);
    size_t head_size = (size_t)(ps_little_take(bytes, 8) + 8);
    put_digits((size_t)(found - (const char *)bytes) + sizeof key - 1,
               ps_checksum_crc32c(0, (struct ps_bytes){bytes + begin, (size_t)section_bytes}));
    put_digits(PS_HEADER_CHECKSUM_AT, ps_header_checksum((struct ps_bytes){bytes, head_size}));
    memory_files_put(disk, place.path, (struct ps_bytes){bytes, size});
}

START_TEST(records_come_back_as_they_were_given)
{
    ck_assert_int_eq(read_back(NULL), PS_OK);

    ck_assert_int_eq(verify(), PS_OK);
    sample_assert_equal(&sample, files, place.path);
    ck_assert(section_bytes > 0 && section_bytes % 8 == 0);
}
END_TEST

START_TEST(a_file_without_sections_says_so_and_is_of_the_format_that_it_always_was)
{
    static const char format[] = "\"ps.format\":\"5\"";
    ck_assert_ptr_nonnull(memmem(bytes, size, format, sizeof format - 1));
    memset(sample.facts.sections, 0, sizeof sample.facts.sections);
    memcpy(sample.facts.uuid, "1f", 2);

    place = sample_write(&sample, files);

    struct ps_bytes file = {0};
    ck_assert(memory_files_get(disk, place.path, &file));
    ck_assert_ptr_null(memmem(file.data, file.size, format, sizeof format - 1));
    ck_assert_ptr_null(memmem(file.data, file.size, "ps.rounds", 9));
    ck_assert_int_eq(read_back(NULL), PS_OK);
}
END_TEST

START_TEST(clocks_without_rounds_come_back_too)
{
    sample.facts.sections[PS_CHECKPOINT_ROUNDS].count = 0;
    sample.facts.sessions = (struct ps_bytes){0};
    memcpy(sample.facts.uuid, "1f", 2);

    place = sample_write(&sample, files);

    ck_assert_int_eq(read_back(NULL), PS_OK);
    ck_assert_int_eq(verify(), PS_OK);
}
END_TEST

/* The sample's comparison fails the test when a bent record comes back as a good one. */
START_TEST(a_wrong_bit_anywhere_in_the_sections_is_found_by_both_readers)
{
    for (size_t at = (size_t)begin; at < size; at++) {
        bytes[at] ^= (uint8_t)(1u << at % 8);
        memory_files_put(disk, place.path, (struct ps_bytes){bytes, size});
        ck_assert_int_eq(read_back(NULL), PS_ERR_CORRUPT);
        ck_assert_int_eq(verify(), PS_ERR_CORRUPT);
        bytes[at] ^= (uint8_t)(1u << at % 8);
    }
}
END_TEST

/* The first record of the section is written again, by somebody who knows the format. */
static void forge_first(struct ps_record *record, uint32_t crc32c)
{
    uint8_t head[PS_JOURNAL_HEAD_BYTES_MAX];
    size_t head_size = ps_journal_head_write(record, &ps_section_life, 0, crc32c, head);
    memcpy(bytes + begin, head, head_size);
    put_repaired();
}

START_TEST(a_record_that_does_not_belong_there_is_refused_behind_right_checksums)
{
    const uint8_t *content = bytes + begin + PS_JOURNAL_HEAD_BYTES + 8;
    uint32_t crc32c = ps_checksum_crc32c(0, (struct ps_bytes){content, 13});
    struct ps_bytes piece = {content, 13};
    const struct ps_record good = {.type = PS_RECORD_ROUND,
                                   .position = sample.facts.position,
                                   .epoch = sample.facts.epoch,
                                   .version = 7,
                                   .name = ps_bytes_of_text("w"),
                                   .content = ps_view_of(&piece)};
    struct ps_bytes longer = {NULL, (size_t)section_bytes};
    struct ps_record bent[6] = {good, good, good, good, good, good};
    bent[0].type = PS_RECORD_CLOCK;
    bent[1].type = PS_RECORD_PUSH;
    bent[2].position++;
    bent[3].epoch--;
    bent[4].client_id = ps_bytes_of_text("c");
    bent[5].content = (struct ps_view){&longer, 1, longer.size};
    struct ps_record same = good;
    forge_first(&same, crc32c);
    ck_assert_int_eq(read_back(NULL), PS_OK);

    forge_first(&bent[_i], crc32c);

    ck_assert_int_eq(verify(), PS_OK); /* by the sums it is whole */
    ck_assert_int_eq(read_back(NULL), PS_ERR_CORRUPT);
}
END_TEST

START_TEST(a_record_of_a_later_version_is_unsupported)
{
    struct ps_record later = {.type = (enum ps_record_type)(PS_RECORD_TYPE_LAST + 1),
                              .name = ps_bytes_of_text("w")};
    struct ps_error error = {0};
    forge_first(&later, 0);

    ck_assert_int_eq(read_back(&error), PS_ERR_UNSUPPORTED);

    ck_assert_ptr_nonnull(strstr(error.text, "ps.rounds"));
}
END_TEST

START_TEST(a_record_without_its_content_is_not_a_record)
{
    struct ps_record bent = {.type = PS_RECORD_ROUND,
                             .position = sample.facts.position,
                             .epoch = sample.facts.epoch,
                             .version = 7,
                             .name = ps_bytes_of_text("w"),
                             .content = {NULL, 0, 13}};
    struct ps_error error = {0};
    forge_first(&bent, 12345);

    ck_assert_int_eq(read_back(&error), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(error.text, "a record of w"));
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing_behind)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int64_t i = 0; status != PS_OK; i++) {
        struct fault_heap heap = {.refuse_at = i};
        struct ps_allocator memory = fault_heap_allocator(&heap);

        status = sample_sections_read(&sample.facts, files, place.path, &memory, NULL);

        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

/* From below the records, and with records of an empty table: sizes that end anywhere. */
START_TEST(a_file_that_is_cut_is_refused)
{
    for (size_t cut = (size_t)begin; cut < size; cut += 5) {
        memory_files_put(disk, place.path, (struct ps_bytes){bytes, cut});

        ck_assert_int_eq(read_back(NULL), PS_ERR_CORRUPT);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("section_reader");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, records_come_back_as_they_were_given);
    tcase_add_test(tests, a_file_without_sections_says_so_and_is_of_the_format_that_it_always_was);
    tcase_add_test(tests, clocks_without_rounds_come_back_too);
    tcase_add_test(tests, a_wrong_bit_anywhere_in_the_sections_is_found_by_both_readers);
    tcase_add_loop_test(
        tests, a_record_that_does_not_belong_there_is_refused_behind_right_checksums, 0, 6);
    tcase_add_test(tests, a_record_of_a_later_version_is_unsupported);
    tcase_add_test(tests, a_record_without_its_content_is_not_a_record);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing_behind);
    tcase_add_test(tests, a_file_that_is_cut_is_refused);
    Suite *suite = suite_create("section_reader");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
