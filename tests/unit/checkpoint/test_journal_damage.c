/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_reader.c: what is damaged is named, what is torn is cut. In format 1;
 * test_journal_reuse.c has the same for format 2. */
#include "base/random.h"
#include "checkpoint/journal_record.h"
#include "journal_disk.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 12

static const struct ps_journal_life life = {.format = PS_JOURNAL_FORMAT_1};

static struct sample_result read_all(uint64_t position)
{
    return sample_read_on(files, &small, position, ps_allocator_heap());
}

/* Where each record of a segment ends; `ends[0]` is the end of the segment's own first record. */
static size_t find_ends(struct ps_bytes segment, uint64_t *ends, size_t ends_max)
{
    size_t count = 0;
    for (uint64_t offset = 0; offset < segment.size; count++) {
        struct ps_journal_head head;
        struct ps_bytes rest = {segment.data + offset, segment.size - offset};
        ck_assert_int_eq(ps_journal_head_read(rest, &life, &head), PS_JOURNAL_GOOD);
        offset += head.record_bytes;
        ck_assert_uint_lt(count, ends_max);
        ends[count] = offset;
    }
    return count;
}

/* The record that byte `offset` lies in: 0 is the segment's own. */
static size_t record_at(const uint64_t *ends, uint64_t offset)
{
    size_t record = 0;
    while (ends[record] <= offset)
        record++;
    return record;
}

/* A journal of RECORDS small records, each written by itself, and a copy of its only segment. */
struct one_segment {
    char path[128];
    uint8_t *bytes; /* owned */
    size_t size;
    uint64_t ends[RECORDS + 1];
};

static void one_segment_init(struct one_segment *one)
{
    sample_journal(files, &small, 1, RECORDS, 1, PS_JOURNAL_SEGMENT_BYTES);
    (void)sample_segment(7, 1, one->path);
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, one->path, &whole));
    one->size = whole.size;
    one->bytes = malloc(whole.size);
    ck_assert_ptr_nonnull(one->bytes);
    memcpy(one->bytes, whole.data, whole.size);
    ck_assert_uint_eq(find_ends(whole, one->ends, RECORDS + 1), RECORDS + 1);
}

/* With one bit of the record behind `last` flipped: reading gives the records before it, and then
 * names it, or cuts it where it is the end. */
static void assert_noticed(const struct one_segment *one, size_t record, uint64_t bit)
{
    struct sample_result result = read_all(0);
    uint64_t begin = record == 0 ? 0 : one->ends[record - 1];
    if (record == RECORDS) {
        ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "bit %llu", (unsigned long long)bit);
        ck_assert_uint_eq(result.last, RECORDS - 1);
        ck_assert_uint_eq(result.cut, one->size - begin);
        return;
    }
    ck_assert_msg(result.status == PS_ERR_CORRUPT, "bit %llu", (unsigned long long)bit);
    ck_assert_uint_eq(result.last, record == 0 ? 0 : record - 1);
    if (record == 0)
        return; /* Opening failed; the text says where. */
    ck_assert_str_eq(result.damage.segment, strchr(one->path, '/') + 1);
    ck_assert_uint_eq(result.damage.offset, begin);
    ck_assert_uint_eq(result.damage.position, record);
    ck_assert_ptr_nonnull(strstr(result.error.text, result.damage.segment));
}

START_TEST(every_truncation_gives_exactly_the_records_before_it)
{
    struct one_segment one;
    one_segment_init(&one);
    for (size_t size = 0; size < one.size; size++) {
        memory_files_put(disk, one.path, (struct ps_bytes){one.bytes, size});
        size_t record = record_at(one.ends, size);

        struct sample_result result = read_all(0);

        ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
        ck_assert_uint_eq(result.last, record == 0 ? 0 : record - 1);
        ck_assert_uint_eq(result.cut, size - (record == 0 ? 0 : one.ends[record - 1]));
    }
    free(one.bytes);
}
END_TEST

START_TEST(a_truncation_before_the_last_segment_is_damage)
{
    sample_journal(files, &small, 1, 20, 1, 800);
    char path[128];
    (void)sample_segment(7, 1, path);
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, path, &whole));
    uint8_t *bytes = malloc(whole.size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, whole.data, whole.size);
    for (size_t size = 0; size < whole.size; size++) {
        memory_files_put(disk, path, (struct ps_bytes){bytes, size});

        ck_assert_int_eq(read_all(0).status, PS_ERR_CORRUPT);
    }
    free(bytes);
}
END_TEST

START_TEST(every_flipped_bit_of_a_head_is_noticed)
{
    struct one_segment one;
    one_segment_init(&one);
    for (size_t record = 0; record <= RECORDS; record++) {
        uint64_t begin = record == 0 ? 0 : one.ends[record - 1];
        struct ps_journal_head head;
        struct ps_bytes rest = {one.bytes + begin, one.size - begin};
        ck_assert_int_eq(ps_journal_head_read(rest, &life, &head), PS_JOURNAL_GOOD);
        for (uint64_t bit = begin * 8; bit < (begin + head.head_bytes) * 8; bit++) {
            memory_files_flip(disk, one.path, bit);

            assert_noticed(&one, record, bit);

            memory_files_flip(disk, one.path, bit);
        }
    }
    ck_assert_uint_eq(read_all(0).last, RECORDS);
    free(one.bytes);
}
END_TEST

START_TEST(two_thousand_random_flips_are_noticed)
{
    const uint64_t seed = 20261121;
    struct one_segment one;
    one_segment_init(&one);
    struct ps_random random;
    ps_random_init(&random, seed);
    for (int i = 0; i < 2000; i++) {
        uint64_t bit = ps_random_below(&random, one.size * 8);
        memory_files_flip(disk, one.path, bit);

        assert_noticed(&one, record_at(one.ends, bit / 8), bit);

        memory_files_flip(disk, one.path, bit);
    }
    ck_assert_uint_eq(read_all(0).last, RECORDS);
    free(one.bytes);
}
END_TEST

/* Nothing but its own successor tells that a record of the last write is damaged, not torn. */
START_TEST(flips_within_one_batch_are_noticed_too)
{
    char path[128];
    sample_journal(files, &small, 1, RECORDS, RECORDS, PS_JOURNAL_SEGMENT_BYTES);
    (void)sample_segment(7, 1, path);
    struct ps_bytes whole;
    uint64_t ends[RECORDS + 1];
    ck_assert(memory_files_get(disk, path, &whole));
    ck_assert_uint_eq(find_ends(whole, ends, RECORDS + 1), RECORDS + 1);
    for (uint64_t bit = 0; bit < ends[RECORDS - 1] * 8; bit++) {
        memory_files_flip(disk, path, bit);
        struct sample_result result = read_all(0);

        ck_assert_int_eq(result.status, PS_ERR_CORRUPT);

        memory_files_flip(disk, path, bit);
        whole.size = 0;
    }
}
END_TEST

START_TEST(damage_is_repeated_and_never_read_past)
{
    struct one_segment one;
    one_segment_init(&one);
    memory_files_flip(disk, one.path, one.ends[4] * 8);
    struct ps_journal_reader *reader = NULL;
    ck_assert_int_eq(ps_journal_reader_open(files, SAMPLE_FOLDER, 4, UINT64_MAX,
                                            ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    for (int i = 0; i < 3; i++) {
        struct ps_journal_row row = {0};
        struct ps_journal_damage damage = {0};
        uint64_t cut = 0;

        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, &damage, NULL), PS_ERR_CORRUPT);

        ck_assert_uint_eq(damage.position, 5);
        ck_assert_uint_eq(damage.offset, one.ends[4]);
    }
    ps_journal_reader_close(reader);
    free(one.bytes);
}
END_TEST

/* Puts a record with a right checksum and the given type and format behind the twelve. */
static void put_strange_record(const struct one_segment *one, enum ps_record_type type)
{
    uint8_t *bytes = malloc(one->size + PS_JOURNAL_HEAD_BYTES_MAX);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, one->bytes, one->size);
    struct ps_record record = {
        .type = type, .position = RECORDS + 1, .epoch = 7, .name = ps_bytes_of_text("w")};
    size_t size = ps_journal_head_write(&record, &life, RECORDS, 0, bytes + one->size);
    memory_files_put(disk, one->path, (struct ps_bytes){bytes, one->size + size});
    free(bytes);
}

START_TEST(a_type_of_a_later_version_is_unsupported)
{
    struct one_segment one;
    one_segment_init(&one);
    put_strange_record(&one, (enum ps_record_type)(PS_RECORD_TYPE_LAST + 1));

    struct sample_result result = read_all(0);

    ck_assert_int_eq(result.status, PS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(result.last, RECORDS);
    ck_assert_uint_eq(result.damage.position, RECORDS + 1);
    ck_assert_uint_eq(result.damage.offset, one.size);
    free(one.bytes);
}
END_TEST

START_TEST(a_segment_record_in_the_middle_is_no_push)
{
    struct one_segment one;
    one_segment_init(&one);
    put_strange_record(&one, PS_RECORD_SEGMENT);

    ck_assert_uint_eq(read_all(0).last, RECORDS);
    ck_assert_int_ne(read_all(0).status, PS_OK);
    free(one.bytes);
}
END_TEST

START_TEST(a_record_cut_out_of_the_middle_is_damage)
{
    struct one_segment one;
    one_segment_init(&one);
    size_t gap = (size_t)(one.ends[RECORDS - 1] - one.ends[RECORDS - 2]);
    uint8_t *bytes = malloc(one.size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, one.bytes, one.ends[RECORDS - 2]);
    memcpy(bytes + one.ends[RECORDS - 2], one.bytes + one.ends[RECORDS - 1],
           one.size - one.ends[RECORDS - 1]);
    memory_files_put(disk, one.path, (struct ps_bytes){bytes, one.size - gap});

    struct sample_result result = read_all(0);

    ck_assert_int_eq(result.status, PS_ERR_CORRUPT);
    ck_assert_uint_eq(result.damage.position, RECORDS - 1);
    free(bytes);
    free(one.bytes);
}
END_TEST

START_TEST(a_segment_under_a_wrong_name_is_damage)
{
    char from[128];
    char to[128];
    sample_journal(files, &small, 1, 5, 1, 800000);
    ck_assert_int_eq(
        files->rename(files->self, sample_segment(7, 1, from), sample_segment(8, 1, to), NULL),
        PS_OK);
    ck_assert_int_eq(read_all(0).status, PS_ERR_CORRUPT);

    ck_assert_int_eq(files->rename(files->self, to, sample_segment(7, 3, from), NULL), PS_OK);
    ck_assert_int_eq(read_all(2).status, PS_ERR_CORRUPT);
}
END_TEST

/* A head may claim any size: only what the file really has is asked of the heap. */
START_TEST(a_huge_stated_content_asks_for_no_memory)
{
    struct one_segment one;
    one_segment_init(&one);
    uint8_t *bytes = malloc(one.size + PS_JOURNAL_HEAD_BYTES_MAX);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, one.bytes, one.size);
    struct ps_record record = {.type = PS_RECORD_PUSH,
                               .position = RECORDS + 1,
                               .epoch = 7,
                               .name = ps_bytes_of_text("w"),
                               .content = {NULL, 0, (size_t)1 << 60}};
    size_t size = ps_journal_head_write(&record, &life, RECORDS, 0, bytes + one.size);
    memory_files_put(disk, one.path, (struct ps_bytes){bytes, one.size + size});
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);

    struct sample_result result = sample_read_on(files, &small, RECORDS, &memory);

    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.cut, size);
    ck_assert_int_eq(heap.live, 0);
    free(bytes);
    free(one.bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_damage");
    TCase *tests = tcase_create("journal_damage");
    tcase_add_checked_fixture(tests, set_up_format_1, tear_down);
    tcase_add_test(tests, every_truncation_gives_exactly_the_records_before_it);
    tcase_add_test(tests, a_truncation_before_the_last_segment_is_damage);
    tcase_add_test(tests, every_flipped_bit_of_a_head_is_noticed);
    tcase_add_test(tests, two_thousand_random_flips_are_noticed);
    tcase_add_test(tests, flips_within_one_batch_are_noticed_too);
    tcase_add_test(tests, damage_is_repeated_and_never_read_past);
    tcase_add_test(tests, a_type_of_a_later_version_is_unsupported);
    tcase_add_test(tests, a_segment_record_in_the_middle_is_no_push);
    tcase_add_test(tests, a_record_cut_out_of_the_middle_is_damage);
    tcase_add_test(tests, a_segment_under_a_wrong_name_is_damage);
    tcase_add_test(tests, a_huge_stated_content_asks_for_no_memory);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
