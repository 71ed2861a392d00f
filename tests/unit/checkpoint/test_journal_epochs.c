/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_epochs.c: which epoch is current at which position. */
#include "journal_disk.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What reading gave, as text: "1:1 2:1 3:2 end" is positions 1 and 2 of epoch 1 and 3 of epoch 2;
 * at the end "end", or the word of the failure. */
static const char *read_text(uint64_t position, uint64_t epoch_max)
{
    static char text[4096];
    struct ps_journal_reader *reader = NULL;
    size_t size = 0;
    enum ps_status status = ps_journal_reader_open(files, SAMPLE_FOLDER, position, epoch_max,
                                                   ps_allocator_heap(), &reader, NULL);
    while (status == PS_OK) {
        const struct sample_shape any = {.content_bytes_max = 60};
        struct ps_journal_row row = {0};
        uint64_t cut = 0;
        status = ps_journal_next(reader, &row, &cut, NULL, NULL);
        if (status != PS_OK)
            break;
        sample_assert_row(&row, &any, ++position);
        ck_assert_uint_eq(row.record.epoch, ps_journal_reader_epoch(reader));
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "%llu:%llu ",
                             (unsigned long long)position, (unsigned long long)row.record.epoch);
        ck_assert_uint_lt(size, sizeof text - 16);
        ps_journal_row_release(&row);
    }
    (void)snprintf(text + size, sizeof text - size, "%s",
                   status == PS_ERR_NOT_FOUND ? "end" : ps_status_word(status));
    ps_journal_reader_close(reader);
    return text;
}

/* Cuts bytes off the last record of a segment. */
static void cut_segment(uint64_t epoch, uint64_t first, size_t cut_bytes)
{
    char path[128];
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, sample_segment(epoch, first, path), &content));
    uint8_t *copy = malloc(content.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, content.data, content.size);
    memory_files_put(disk, path, (struct ps_bytes){copy, sample_end(content) - cut_bytes});
    free(copy);
}

static void remove_segment(uint64_t epoch, uint64_t first)
{
    char path[128];
    ck_assert_int_eq(files->remove(files->self, sample_segment(epoch, first, path), NULL), PS_OK);
}

START_TEST(an_epoch_that_starts_exactly_at_the_end_goes_on)
{
    journal(1, 1, 3);
    journal(2, 4, 5);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:2 5:2 end");
}
END_TEST

START_TEST(what_a_former_owner_writes_after_the_takeover_is_never_read)
{
    journal(1, 1, 8);
    journal(2, 4, 5);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:2 5:2 end");
    ck_assert_str_eq(read_text(5, UINT64_MAX), "end");
    ck_assert_str_eq(read_text(7, UINT64_MAX), "end");
}
END_TEST

START_TEST(segments_that_a_former_owner_begins_after_the_takeover_are_never_read)
{
    journal(1, 1, 40);
    journal(2, 4, 5);

    ck_assert_uint_gt(memory_files_file_count(disk), 4);
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:2 5:2 end");
}
END_TEST

START_TEST(a_chain_of_three_epochs_is_read_from_any_position)
{
    journal(1, 1, 6);
    journal(4, 4, 8);
    journal(9, 6, 7);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:4 5:4 6:9 7:9 end");
    ck_assert_str_eq(read_text(2, UINT64_MAX), "3:1 4:4 5:4 6:9 7:9 end");
    ck_assert_str_eq(read_text(3, UINT64_MAX), "4:4 5:4 6:9 7:9 end");
    ck_assert_str_eq(read_text(5, UINT64_MAX), "6:9 7:9 end");
}
END_TEST

START_TEST(empty_epochs_are_passed_through)
{
    journal(1, 1, 2);
    journal(2, 3, 2);
    journal(3, 3, 2);
    journal(4, 3, 4);
    journal(5, 5, 4);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:4 4:4 end");
    ck_assert_str_eq(read_text(4, UINT64_MAX), "end");
}
END_TEST

/* An empty epoch takes the current away from a former one all the same. */
START_TEST(an_empty_epoch_ends_the_one_before)
{
    journal(1, 1, 5);
    journal(2, 3, 2);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 end");
    ck_assert_str_eq(read_text(3, UINT64_MAX), "end");
}
END_TEST

/* The owner of epoch 4 read epoch 1 up to position 3, was stopped, and opened its journal when the
 * shard was epoch 6's already, which had read two more. */
START_TEST(an_epoch_that_began_too_late_for_anybody_to_go_on_from_it_is_void)
{
    journal(1, 1, 5);
    journal_from(1, 6, 6, 7);
    journal_from(1, 4, 4, 3);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:1 5:1 6:6 7:6 end");
    ck_assert_str_eq(read_text(3, UINT64_MAX), "4:1 5:1 6:6 7:6 end");
    ck_assert_str_eq(read_text(5, UINT64_MAX), "6:6 7:6 end");
}
END_TEST

START_TEST(a_void_epoch_may_have_no_first_record)
{
    char path[128];
    journal(1, 1, 5);
    journal_from(1, 6, 6, 7);
    memory_files_put(disk, sample_segment(4, 4, path), ps_bytes_of_text(""));

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:1 5:1 6:6 7:6 end");
}
END_TEST

/* Nobody has gone on from anything yet: who claims next does so from epoch 4. */
START_TEST(the_newest_epoch_is_never_void)
{
    journal(1, 1, 5);
    journal_from(1, 4, 4, 3);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 end");
    journal_from(1, 6, 4, 4);
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:6 end");
}
END_TEST

/* What it says cannot be believed, so everything is as if it said nothing. */
START_TEST(a_damaged_first_record_voids_nothing)
{
    journal(1, 1, 5);
    journal(4, 4, 4);
    journal_from(1, 6, 6, 7);
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:1 5:1 6:6 7:6 end");

    char path[128];
    memory_files_flip(disk, sample_segment(6, 6, path), 8 * 90);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "corrupt");
}
END_TEST

START_TEST(an_epoch_whose_first_record_never_reached_the_disk_has_begun)
{
    char path[128];
    journal(1, 1, 5);
    memory_files_put(disk, sample_segment(2, 3, path), ps_bytes_of_text(""));
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 end");

    memory_files_put(disk, path, ps_bytes_of_text("PSJR and no more"));
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 end");
    ck_assert_str_eq(read_text(2, UINT64_MAX), "end");
    journal(3, 3, 4);
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:3 4:3 end");
}
END_TEST

START_TEST(an_epoch_that_starts_before_the_one_before_it_replaces_it)
{
    journal(1, 1, 9);
    journal(2, 6, 9);
    journal(3, 4, 5);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:3 5:3 end");
    ck_assert_str_eq(read_text(6, UINT64_MAX), "end");
}
END_TEST

START_TEST(epochs_beyond_the_claim_are_not_looked_at)
{
    journal(1, 1, 5);
    journal(2, 4, 6);
    journal(3, 5, 7);

    ck_assert_str_eq(read_text(3, 1), "4:1 5:1 end");
    ck_assert_str_eq(read_text(2, 2), "3:1 4:2 5:2 6:2 end");
    ck_assert_str_eq(read_text(4, 3), "5:3 6:3 7:3 end");
    ck_assert_str_eq(read_text(0, 0), "end");
}
END_TEST

START_TEST(a_torn_end_behind_the_takeover_does_not_matter)
{
    journal(1, 1, 4);
    journal(2, 4, 5);
    cut_segment(1, 1, 3);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:2 5:2 end");
}
END_TEST

START_TEST(a_torn_end_before_the_takeover_is_damage)
{
    journal(1, 1, 3);
    journal(2, 4, 5);
    cut_segment(1, 1, 3);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 corrupt");
    ck_assert_str_eq(read_text(3, UINT64_MAX), "4:2 5:2 end");
}
END_TEST

START_TEST(records_missing_between_two_epochs_are_damage)
{
    journal(1, 1, 3);
    journal(2, 5, 6);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 corrupt");
    ck_assert_str_eq(read_text(3, UINT64_MAX), "corrupt");
    ck_assert_str_eq(read_text(4, UINT64_MAX), "5:2 6:2 end");
}
END_TEST

/* The first segments of epoch 2 were swept, a segment of epoch 1 came back: it is not current. */
START_TEST(an_epoch_remembers_where_it_began_when_its_first_segment_is_gone)
{
    journal(1, 1, 8);
    journal(2, 4, 20);
    remove_segment(2, 4);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 corrupt");
    ck_assert_str_eq(read_text(5, UINT64_MAX), "corrupt");
    ck_assert_str_eq(read_text(18, UINT64_MAX), "19:2 20:2 end");
}
END_TEST

/* A checkpoint at 8 covers what the disk refused after 4. */
START_TEST(an_epoch_may_go_on_behind_a_checkpoint_after_a_failure)
{
    journal(1, 1, 5);
    cut_segment(1, 1, 3);
    journal(1, 9, 11);

    ck_assert_str_eq(read_text(8, UINT64_MAX), "9:1 10:1 11:1 end");
    ck_assert_str_eq(read_text(10, UINT64_MAX), "11:1 end");
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:1 corrupt");
    journal(2, 12, 12);
    ck_assert_str_eq(read_text(8, UINT64_MAX), "9:1 10:1 11:1 12:2 end");
}
END_TEST

START_TEST(damage_in_epochs_that_are_not_needed_does_not_matter)
{
    char path[128];
    journal(1, 1, 3);
    journal(2, 4, 5);
    memory_files_flip(disk, sample_segment(1, 1, path), 9);

    ck_assert_str_eq(read_text(3, UINT64_MAX), "4:2 5:2 end");
    ck_assert_str_eq(read_text(0, UINT64_MAX), "corrupt");
}
END_TEST

START_TEST(a_later_epoch_with_a_damaged_beginning_is_damage)
{
    char path[128];
    journal(1, 1, 8);
    journal(2, 4, 5);
    memory_files_flip(disk, sample_segment(2, 4, path), 300);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "corrupt");
    ck_assert_str_eq(read_text(4, UINT64_MAX), "corrupt");
}
END_TEST

START_TEST(a_segment_of_another_shard_is_damage)
{
    struct ps_journal_facts facts = {.index = 3, .shard_count = 5, .epoch = 2, .position = 3};
    struct journal_maker maker;
    journal(1, 1, 3);
    ck_assert_int_eq(
        journal_maker_begin(&maker, files, SAMPLE_FOLDER, &facts, disk_format, 800, NULL), PS_OK);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);

    ck_assert_str_eq(read_text(0, UINT64_MAX), "corrupt");
}
END_TEST

/* Records up to `last` of an epoch behind `position`, of that history. */
static void put_history(uint64_t epoch, uint64_t position, uint64_t last, uint8_t history)
{
    const struct sample_shape shape = {
        .epoch = epoch, .format = disk_format, .content_bytes_max = 60};
    const struct ps_journal_facts facts = {.index = 2,
                                           .shard_count = 5,
                                           .epoch = epoch,
                                           .position = position,
                                           .previous_epoch = epoch - 1,
                                           .history = {{history}}};
    struct journal_maker maker;
    ck_assert_int_eq(
        journal_maker_begin(&maker, files, SAMPLE_FOLDER, &facts, disk_format, 100000, NULL),
        PS_OK);
    sample_make(&maker, &shape, position + 1, last, 4);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
}

/* Positions fit, and every checksum is right. */
START_TEST(two_histories_never_meet_in_one_reader)
{
    put_history(1, 0, 3, 1);
    put_history(2, 3, 5, 2);
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 corrupt");
    /* Whoever begins behind the border sees one of them. */
    ck_assert_str_eq(read_text(3, UINT64_MAX), "4:2 5:2 end");
}
END_TEST

START_TEST(a_history_that_is_not_known_fits_everything)
{
    put_history(1, 0, 3, 1);
    put_history(2, 3, 5, 0);
    put_history(3, 5, 6, 1);
    ck_assert_str_eq(read_text(0, UINT64_MAX), "1:1 2:1 3:1 4:2 5:2 6:3 end");
}
END_TEST

START_TEST(a_reader_of_one_history_passes_over_segments_of_others)
{
    const struct ps_history own = {{1}};
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    put_history(1, 0, 3, 1);
    put_history(2, 1, 5, 2);
    ck_assert_int_eq(ps_journal_reader_open_of(files, SAMPLE_FOLDER, 0, UINT64_MAX, &own,
                                               ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    for (uint64_t position = 1; position <= 3; position++) {
        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
        ck_assert_uint_eq(row.record.epoch, 1);
        ps_journal_row_release(&row);
    }
    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_ERR_NOT_FOUND);
    ps_journal_reader_close(reader);
}
END_TEST

static TCase *make_case(const char *name, SFun set_up_format)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, set_up_format, tear_down);
    tcase_add_test(tests, an_epoch_that_starts_exactly_at_the_end_goes_on);
    tcase_add_test(tests, what_a_former_owner_writes_after_the_takeover_is_never_read);
    tcase_add_test(tests, segments_that_a_former_owner_begins_after_the_takeover_are_never_read);
    tcase_add_test(tests, a_chain_of_three_epochs_is_read_from_any_position);
    tcase_add_test(tests, empty_epochs_are_passed_through);
    tcase_add_test(tests, an_empty_epoch_ends_the_one_before);
    tcase_add_test(tests, an_epoch_that_began_too_late_for_anybody_to_go_on_from_it_is_void);
    tcase_add_test(tests, a_void_epoch_may_have_no_first_record);
    tcase_add_test(tests, the_newest_epoch_is_never_void);
    tcase_add_test(tests, a_damaged_first_record_voids_nothing);
    tcase_add_test(tests, an_epoch_whose_first_record_never_reached_the_disk_has_begun);
    tcase_add_test(tests, an_epoch_that_starts_before_the_one_before_it_replaces_it);
    tcase_add_test(tests, epochs_beyond_the_claim_are_not_looked_at);
    tcase_add_test(tests, a_torn_end_behind_the_takeover_does_not_matter);
    tcase_add_test(tests, a_torn_end_before_the_takeover_is_damage);
    tcase_add_test(tests, records_missing_between_two_epochs_are_damage);
    tcase_add_test(tests, an_epoch_remembers_where_it_began_when_its_first_segment_is_gone);
    tcase_add_test(tests, an_epoch_may_go_on_behind_a_checkpoint_after_a_failure);
    tcase_add_test(tests, damage_in_epochs_that_are_not_needed_does_not_matter);
    tcase_add_test(tests, a_later_epoch_with_a_damaged_beginning_is_damage);
    tcase_add_test(tests, a_segment_of_another_shard_is_damage);
    tcase_add_test(tests, two_histories_never_meet_in_one_reader);
    tcase_add_test(tests, a_history_that_is_not_known_fits_everything);
    tcase_add_test(tests, a_reader_of_one_history_passes_over_segments_of_others);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("journal_epochs");
    suite_add_tcase(suite, make_case("format 1", set_up_format_1));
    suite_add_tcase(suite, make_case("format 2", set_up_format_2));
    return run_suite(suite);
}
