/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_note.c, and what checkpoint/journal_reader.c makes of notes. */
#include "checkpoint/journal_note.h"

#include "journal_disk.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 12
#define BATCH 4

static const struct ps_journal_note none;

static void put(uint64_t epoch, uint64_t position)
{
    const struct ps_journal_note note = {epoch, position};
    ck_assert_int_eq(files->make_folder(files->self, SAMPLE_FOLDER, NULL), PS_OK);
    ck_assert_int_eq(ps_journal_note_put(files, SAMPLE_FOLDER, &none, &note, NULL), PS_OK);
}

static struct ps_journal_notes notes_up_to(uint64_t epoch_max)
{
    struct ps_journal_notes notes;
    ck_assert_int_eq(ps_journal_notes_read(files, SAMPLE_FOLDER, epoch_max, &notes, NULL), PS_OK);
    return notes;
}

static void assert_highest(uint64_t epoch_max, uint64_t epoch, uint64_t position)
{
    struct ps_journal_notes notes = notes_up_to(epoch_max);
    ck_assert_uint_eq(notes.highest.epoch, epoch);
    ck_assert_uint_eq(notes.highest.position, position);
}

static struct sample_result read_all(uint64_t position)
{
    static const struct sample_shape any = {.content_bytes_max = 60};
    return sample_read_on(files, &any, position, ps_allocator_heap());
}

static void assert_missing(const struct sample_result *result, uint64_t last, const char *words)
{
    ck_assert_int_eq(result->status, PS_ERR_CORRUPT);
    ck_assert_uint_eq(result->last, last);
    ck_assert_msg(strstr(result->error.text, words) != NULL, "%s", result->error.text);
}

/* ---- Notes ---- */

START_TEST(a_note_moves_on_and_there_is_one)
{
    const struct ps_journal_note first = {7, 3};
    const struct ps_journal_note second = {7, 9};
    ck_assert_int_eq(files->make_folder(files->self, SAMPLE_FOLDER, NULL), PS_OK);
    assert_highest(UINT64_MAX, 0, 0);

    ck_assert_int_eq(ps_journal_note_put(files, SAMPLE_FOLDER, &none, &first, NULL), PS_OK);
    assert_highest(UINT64_MAX, 7, 3);
    ck_assert_int_eq(ps_journal_note_put(files, SAMPLE_FOLDER, &first, &second, NULL), PS_OK);

    assert_highest(UINT64_MAX, 7, 9);
    struct ps_bytes content;
    ck_assert(!memory_files_get(disk, SAMPLE_FOLDER "/0000000000000007-0000000000000003.durable",
                                &content));
}
END_TEST

START_TEST(a_note_that_somebody_removed_is_made_again)
{
    const struct ps_journal_note first = {7, 3};
    const struct ps_journal_note second = {7, 9};
    ck_assert_int_eq(files->make_folder(files->self, SAMPLE_FOLDER, NULL), PS_OK);

    ck_assert_int_eq(ps_journal_note_put(files, SAMPLE_FOLDER, &first, &second, NULL), PS_OK);

    assert_highest(UINT64_MAX, 7, 9);
}
END_TEST

START_TEST(the_highest_epoch_has_the_word_and_later_claims_have_none)
{
    put(7, 30);
    put(9, 12);
    put(9, 14);
    put(20, 1);

    assert_highest(UINT64_MAX, 20, 1);
    assert_highest(19, 9, 14);
    assert_highest(8, 7, 30);
    assert_highest(6, 0, 0);
}
END_TEST

START_TEST(other_files_are_passed_over)
{
    const char *const names[] = {"0000000000000007-0000000000000003.durable.tmp",
                                 "0000000000000007-000000000000003.durable",
                                 "000000000000000G-0000000000000003.durable",
                                 "0000000000000007_0000000000000003.durable",
                                 "0000000000000007-0000000000000003.journal",
                                 ".durable",
                                 ".given-up"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", SAMPLE_FOLDER, names[i]);
        memory_files_put(disk, path, (struct ps_bytes){NULL, 0});
    }
    assert_highest(UINT64_MAX, 0, 0);
    ck_assert(!notes_up_to(UINT64_MAX).given_up);
}
END_TEST

START_TEST(a_folder_that_is_not_there_has_no_notes_and_one_that_cannot_be_read_an_error)
{
    struct ps_journal_notes notes;
    assert_highest(UINT64_MAX, 0, 0);
    put(7, 3);
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen;

    ck_assert_int_eq(ps_journal_notes_read(files, SAMPLE_FOLDER, UINT64_MAX, &notes, NULL),
                     PS_ERR_IO);
}
END_TEST

START_TEST(a_refused_put_leaves_the_note_before)
{
    const struct ps_journal_note first = {7, 3};
    const struct ps_journal_note second = {7, 9};
    put(7, 3);
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen;

    ck_assert_int_eq(ps_journal_note_put(files, SAMPLE_FOLDER, &first, &second, NULL), PS_ERR_IO);

    assert_highest(UINT64_MAX, 7, 3);
}
END_TEST

START_TEST(a_sweep_leaves_the_notes_of_the_epoch_that_began)
{
    put(5, 30);
    put(7, 31);
    put(9, 32);
    ck_assert_int_eq(ps_journal_give_up(files, SAMPLE_FOLDER, 40, 31, NULL), PS_OK);

    ps_journal_notes_sweep(files, SAMPLE_FOLDER, 9);

    assert_highest(8, 0, 0);
    assert_highest(UINT64_MAX, 9, 32);
    ck_assert(!notes_up_to(UINT64_MAX).given_up);
}
END_TEST

START_TEST(json_comes_back)
{
    const struct ps_journal_note note = {UINT64_MAX, UINT64_MAX - 1};
    struct ps_journal_note read = {0};
    char json[PS_JOURNAL_NOTE_JSON_BYTES];

    ps_journal_note_write(&note, json);

    ck_assert_int_eq(ps_journal_note_read(ps_bytes_of_text(json), &read, NULL), PS_OK);
    ck_assert_uint_eq(read.epoch, note.epoch);
    ck_assert_uint_eq(read.position, note.position);
}
END_TEST

START_TEST(json_that_is_no_note_is_refused)
{
    const char *const texts[] = {"",
                                 "7",
                                 "[]",
                                 "{\"epoch\":\"7\"}",
                                 "{\"position\":\"7\"}",
                                 "{\"epoch\":\"x\",\"position\":\"7\"}"};
    struct ps_journal_note read = {0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ck_assert_int_eq(ps_journal_note_read(ps_bytes_of_text(texts[i]), &read, NULL),
                         PS_ERR_CORRUPT);
    ck_assert_uint_eq(read.epoch, 0);
}
END_TEST

/* ---- Reading ---- */

/* A journal of RECORDS records, the last BATCH of them one write, and a copy of its segment. */
struct noted {
    char path[128];
    uint8_t *bytes; /* owned */
    size_t size;
    size_t last_write; /* where it begins */
};

static void noted_init(struct noted *noted)
{
    struct journal_maker maker;
    struct ps_bytes whole;
    (void)sample_segment(7, 1, noted->path);
    sample_maker(&maker, files, &small, 6, 0, PS_JOURNAL_SEGMENT_BYTES);
    sample_make(&maker, &small, 1, RECORDS - BATCH, BATCH);
    noted->last_write = maker.size;
    sample_make(&maker, &small, RECORDS - BATCH + 1, RECORDS, BATCH);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    ck_assert(memory_files_get(disk, noted->path, &whole));
    noted->size = sample_end(whole);
    noted->bytes = malloc(whole.size);
    ck_assert_ptr_nonnull(noted->bytes);
    memcpy(noted->bytes, whole.data, whole.size);
}

START_TEST(no_flipped_bit_of_the_last_write_is_taken_for_a_torn_end_once_it_is_noted)
{
    struct noted noted;
    noted_init(&noted);
    put(7, RECORDS);
    for (size_t bit = noted.last_write * 8; bit < noted.size * 8; bit++) {
        noted.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        memory_files_put(disk, noted.path, (struct ps_bytes){noted.bytes, noted.size});
        noted.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);

        struct sample_result result = read_all(0);

        ck_assert_msg(result.status == PS_ERR_CORRUPT, "bit %zu of %zu", bit, noted.size * 8);
        ck_assert_uint_lt(result.last, RECORDS);
        ck_assert_str_eq(result.damage.segment, strchr(noted.path, '/') + 1);
    }
    free(noted.bytes);
}
END_TEST

START_TEST(no_shorter_journal_is_whole_once_it_is_noted)
{
    struct noted noted;
    noted_init(&noted);
    put(7, RECORDS);
    ck_assert_int_eq(read_all(0).status, PS_ERR_NOT_FOUND);
    for (size_t size = 0; size < noted.size; size++) {
        memory_files_put(disk, noted.path, (struct ps_bytes){noted.bytes, size});
        struct sample_result result = read_all(0);
        ck_assert_msg(result.status == PS_ERR_CORRUPT, "%zu bytes", size);
    }
    memory_files_put(disk, noted.path, (struct ps_bytes){noted.bytes, noted.last_write});
    struct sample_result result = read_all(0);
    assert_missing(&result, RECORDS - BATCH, "at least 4 acknowledged pushes are missing");
    ck_assert_uint_eq(result.damage.position, RECORDS - BATCH + 1);
    ck_assert_uint_eq(result.damage.offset, noted.last_write);
    free(noted.bytes);
}
END_TEST

START_TEST(a_note_that_is_behind_demands_less)
{
    struct noted noted;
    noted_init(&noted);
    put(7, RECORDS - BATCH);

    ck_assert_int_eq(read_all(0).status, PS_ERR_NOT_FOUND);
    memory_files_put(disk, noted.path, (struct ps_bytes){noted.bytes, noted.size - 9});
    struct sample_result torn = read_all(0);

    ck_assert_int_eq(torn.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(torn.last, RECORDS - 1);
    /* Of a head that is cut short itself nobody can say that it was one of this life. */
    ck_assert(torn.cut > 0 || disk_format == PS_JOURNAL_FORMAT);
    free(noted.bytes);
}
END_TEST

START_TEST(segments_that_are_gone_are_missed)
{
    char path[128];
    sample_journal(files, &small, 1, RECORDS, 1, short_segment());
    put(7, RECORDS);
    ck_assert_int_eq(read_all(0).status, PS_ERR_NOT_FOUND);
    uint64_t first = RECORDS;
    struct ps_bytes content;
    while (!memory_files_get(disk, sample_segment(7, first, path), &content))
        first--;
    ck_assert_uint_gt(first, 1);
    ck_assert_int_eq(files->remove(files->self, path, NULL), PS_OK);

    struct sample_result result = read_all(0);

    ck_assert_int_eq(result.status, PS_ERR_CORRUPT);
    ck_assert_uint_eq(result.last, first - 1);
}
END_TEST

START_TEST(a_journal_that_is_gone_altogether_is_missed_but_for_what_a_checkpoint_covers)
{
    put(7, 5);
    struct sample_result result = read_all(2);
    assert_missing(&result, 2, "at least 3 acknowledged pushes are missing");
    ck_assert_int_eq(read_all(5).status, PS_ERR_NOT_FOUND);
    ck_assert_int_eq(read_all(6).status, PS_ERR_NOT_FOUND);
    ck_assert_int_eq(read_all(UINT64_MAX).status, PS_ERR_NOT_FOUND);
}
END_TEST

/* The owner after it began before that place: it never happened. */
START_TEST(what_a_former_owner_noted_after_a_takeover_is_not_missed)
{
    const struct sample_shape second = {.epoch = 9, .content_bytes_max = 60, .format = disk_format};
    sample_journal(files, &small, 1, 6, 2, PS_JOURNAL_SEGMENT_BYTES);
    sample_journal(files, &second, 5, 7, 1, PS_JOURNAL_SEGMENT_BYTES);
    put(7, 40);
    ck_assert_int_eq(read_all(0).status, PS_ERR_NOT_FOUND);

    put(9, 8);

    struct sample_result result = read_all(0);
    assert_missing(&result, 7, "at least 1 acknowledged pushes are missing");
}
END_TEST

START_TEST(a_former_owner_is_not_believed_against_a_later_checkpoint)
{
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    sample_journal(files, &small, 1, 6, 2, PS_JOURNAL_SEGMENT_BYTES);
    put(7, 40);
    for (uint64_t base = 7; base <= 8; base++) {
        ck_assert_int_eq(ps_journal_reader_open(files, SAMPLE_FOLDER, 6, UINT64_MAX,
                                                ps_allocator_heap(), &reader, NULL),
                         PS_OK);
        ps_journal_reader_expect(reader, &none, base);
        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL),
                         base == 7 ? PS_ERR_CORRUPT : PS_ERR_NOT_FOUND);
        ps_journal_reader_close(reader);
    }
}
END_TEST

START_TEST(what_is_noted_elsewhere_counts_as_well)
{
    const struct ps_journal_note elsewhere = {8, 9};
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    struct ps_error error = {0};
    uint64_t cut = 0;
    sample_journal(files, &small, 1, 6, 2, PS_JOURNAL_SEGMENT_BYTES);
    put(7, 6);
    ck_assert_int_eq(ps_journal_reader_open(files, SAMPLE_FOLDER, 6, UINT64_MAX,
                                            ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    ps_journal_reader_expect(reader, &elsewhere, 7);

    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, &error), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "at least 3 acknowledged pushes"));
    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_ERR_CORRUPT);
    ps_journal_reader_close(reader);
}
END_TEST

START_TEST(what_was_given_up_is_counted_and_holds_for_that_end_only)
{
    struct ps_journal_notes notes = {.highest = {7, 12}};
    struct ps_journal_note end = {7, 9};
    uint64_t given_up = 1;
    ck_assert_uint_eq(ps_journal_notes_missing(&notes, &end, &given_up), 3);
    ck_assert_uint_eq(given_up, 0);

    put(7, 12);
    ck_assert_int_eq(ps_journal_give_up(files, SAMPLE_FOLDER, 20, 9, NULL), PS_OK);
    notes = notes_up_to(UINT64_MAX);

    ck_assert_uint_eq(ps_journal_notes_missing(&notes, &end, &given_up), 0);
    ck_assert_uint_eq(given_up, 11);
    end.position = 8;
    ck_assert_uint_eq(ps_journal_notes_missing(&notes, &end, &given_up), 4);
    ck_assert_uint_eq(given_up, 0);
    end.position = 10;
    ck_assert_uint_eq(ps_journal_notes_missing(&notes, &end, &given_up), 2);
}
END_TEST

START_TEST(a_reader_goes_to_the_end_that_was_decided)
{
    struct noted noted;
    noted_init(&noted);
    put(7, RECORDS);
    memory_files_put(disk, noted.path, (struct ps_bytes){noted.bytes, noted.size - 1});
    ck_assert_int_eq(read_all(0).status, PS_ERR_CORRUPT);

    ck_assert_int_eq(ps_journal_give_up(files, SAMPLE_FOLDER, RECORDS, RECORDS - 1, NULL), PS_OK);

    struct sample_result result = read_all(0);
    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.last, RECORDS - 1);
    free(noted.bytes);
}
END_TEST

START_TEST(a_decision_is_durable_when_it_returns)
{
    put(7, 12);
    ck_assert_int_eq(files->sync_folder(files->self, SAMPLE_FOLDER, NULL), PS_OK);
    ck_assert_int_eq(ps_journal_give_up(files, SAMPLE_FOLDER, 12, 9, NULL), PS_OK);

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    struct ps_journal_notes notes = notes_up_to(UINT64_MAX);
    ck_assert(notes.given_up);
    ck_assert_uint_eq(notes.given_up_at, 9);
    ck_assert_uint_eq(notes.given_up_noted, 12);
}
END_TEST

static TCase *make_reading(const char *name, SFun set_up_format)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, set_up_format, tear_down);
    tcase_add_test(tests,
                   no_flipped_bit_of_the_last_write_is_taken_for_a_torn_end_once_it_is_noted);
    tcase_add_test(tests, no_shorter_journal_is_whole_once_it_is_noted);
    tcase_add_test(tests, a_note_that_is_behind_demands_less);
    tcase_add_test(tests, segments_that_are_gone_are_missed);
    tcase_add_test(tests,
                   a_journal_that_is_gone_altogether_is_missed_but_for_what_a_checkpoint_covers);
    tcase_add_test(tests, what_a_former_owner_noted_after_a_takeover_is_not_missed);
    tcase_add_test(tests, a_former_owner_is_not_believed_against_a_later_checkpoint);
    tcase_add_test(tests, what_is_noted_elsewhere_counts_as_well);
    tcase_add_test(tests, what_was_given_up_is_counted_and_holds_for_that_end_only);
    tcase_add_test(tests, a_reader_goes_to_the_end_that_was_decided);
    tcase_add_test(tests, a_decision_is_durable_when_it_returns);
    return tests;
}

int main(void)
{
    TCase *tests = tcase_create("notes");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_note_moves_on_and_there_is_one);
    tcase_add_test(tests, a_note_that_somebody_removed_is_made_again);
    tcase_add_test(tests, the_highest_epoch_has_the_word_and_later_claims_have_none);
    tcase_add_test(tests, other_files_are_passed_over);
    tcase_add_test(tests,
                   a_folder_that_is_not_there_has_no_notes_and_one_that_cannot_be_read_an_error);
    tcase_add_test(tests, a_refused_put_leaves_the_note_before);
    tcase_add_test(tests, a_sweep_leaves_the_notes_of_the_epoch_that_began);
    tcase_add_test(tests, json_comes_back);
    tcase_add_test(tests, json_that_is_no_note_is_refused);
    Suite *suite = suite_create("journal_note");
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, make_reading("format 1", set_up_format_1));
    suite_add_tcase(suite, make_reading("format 2", set_up_format_2));
    return run_suite(suite);
}
