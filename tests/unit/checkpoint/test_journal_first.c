/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_first.c: the first record of a segment, and whether a file is still that
 * segment. */
#include "checkpoint/journal_first.h"

#include "journal_disk.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct ps_journal_segment segment = {7, 1};
static char path[128];

/* A journal of two records in the segment above. */
static void make_segment(void)
{
    (void)sample_segment(segment.epoch, segment.first, path);
    journal(segment.epoch, segment.first, 2);
}

static struct ps_journal_first read_first(void)
{
    struct ps_journal_first first;
    ck_assert_int_eq(ps_journal_first_read(files, path, segment, &first, NULL), PS_OK);
    return first;
}

static bool is_same(const struct ps_journal_life *life)
{
    bool same = false;
    ck_assert_int_eq(ps_journal_first_is_same(files, path, segment, life, &same, NULL), PS_OK);
    return same;
}

/* A file may be no longer than its first record. */
START_TEST(a_first_record_alone_is_read)
{
    const struct ps_journal_facts facts = {
        .index = 2, .shard_count = 5, .epoch = 7, .position = 0, .previous_epoch = 4};
    struct journal_maker maker;
    struct ps_bytes whole;
    (void)sample_segment(7, 1, path);
    ck_assert_int_eq(
        journal_maker_begin(&maker, files, SAMPLE_FOLDER, &facts, disk_format, 800, NULL), PS_OK);
    struct ps_journal_life life = maker.life;
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    ck_assert(memory_files_get(disk, path, &whole));
    uint8_t bytes[PS_JOURNAL_HEAD_BYTES + PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    size_t size = disk_format == PS_JOURNAL_FORMAT ? sizeof bytes : sizeof bytes - 8;
    memcpy(bytes, whole.data, size);
    memory_files_put(disk, path, (struct ps_bytes){bytes, size});

    struct ps_journal_first first = read_first();

    ck_assert(first.whole);
    ck_assert_uint_eq(first.facts.index, 2);
    ck_assert_uint_eq(first.facts.previous_epoch, 4);
    ck_assert_uint_eq(first.life.format, disk_format);
    ck_assert_uint_eq(first.life.salt, life.salt);
    memory_files_put(disk, path, (struct ps_bytes){bytes, size - 1});
    ck_assert(!read_first().whole);
}
END_TEST

START_TEST(no_flipped_bit_of_a_first_record_is_believed)
{
    make_segment();
    size_t size = PS_JOURNAL_HEAD_BYTES + PS_JOURNAL_SEGMENT_CONTENT_BYTES;
    size -= disk_format == PS_JOURNAL_FORMAT ? 0 : 8;
    for (uint64_t bit = 0; bit < size * 8; bit++) {
        memory_files_flip(disk, path, bit);
        struct ps_journal_first first = read_first();
        ck_assert(!first.whole);
        ck_assert_uint_eq(first.facts.previous_epoch, 0);
        ck_assert_uint_eq(first.life.format, 0);
        memory_files_flip(disk, path, bit);
    }
    ck_assert(read_first().whole);
}
END_TEST

START_TEST(a_first_record_of_another_segment_is_not_believed)
{
    struct ps_journal_first first;
    make_segment();

    ck_assert_int_eq(
        ps_journal_first_read(files, path, (struct ps_journal_segment){7, 2}, &first, NULL), PS_OK);
    ck_assert(!first.whole);
    ck_assert_int_eq(
        ps_journal_first_read(files, path, (struct ps_journal_segment){8, 1}, &first, NULL), PS_OK);
    ck_assert(!first.whole);
}
END_TEST

START_TEST(a_file_is_the_same_until_it_has_gone_or_has_another_life)
{
    struct ps_journal_life unknown = {0};
    make_segment();
    struct ps_journal_life life = read_first().life;
    struct ps_journal_life other = {life.format, life.salt + 1};

    ck_assert(is_same(&life));
    ck_assert(is_same(&unknown));
    ck_assert(!is_same(&other));
    memory_files_flip(disk, path, 700); /* damage, which the name does not explain */
    ck_assert(is_same(&other));
    ck_assert_int_eq(files->remove(files->self, path, NULL), PS_OK);
    ck_assert(!is_same(&life));
    ck_assert(!is_same(&unknown));
}
END_TEST

START_TEST(a_disk_that_fails_says_nothing_of_a_file)
{
    struct ps_journal_first first;
    struct ps_journal_life life = {0};
    struct ps_error error = {0};
    bool same = false;
    make_segment();
    memory_files_knobs(disk)->fail_from = 0;

    ck_assert_int_eq(ps_journal_first_read(files, path, segment, &first, NULL), PS_ERR_IO);
    ck_assert_int_eq(ps_journal_first_is_same(files, path, segment, &life, &same, NULL), PS_ERR_IO);
    ck_assert_int_eq(ps_journal_first_gone(segment, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "0000000000000007-0000000000000001.journal has gone"));
}
END_TEST

static TCase *make_case(const char *name, SFun set_up_format)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, set_up_format, tear_down);
    tcase_add_test(tests, a_first_record_alone_is_read);
    tcase_add_test(tests, no_flipped_bit_of_a_first_record_is_believed);
    tcase_add_test(tests, a_first_record_of_another_segment_is_not_believed);
    tcase_add_test(tests, a_file_is_the_same_until_it_has_gone_or_has_another_life);
    tcase_add_test(tests, a_disk_that_fails_says_nothing_of_a_file);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("journal_first");
    suite_add_tcase(suite, make_case("format 1", set_up_format_1));
    suite_add_tcase(suite, make_case("format 2", set_up_format_2));
    return run_suite(suite);
}
