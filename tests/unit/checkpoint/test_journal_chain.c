/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_chain.c: which epochs stay in a list of segments. */
#include "checkpoint/journal_chain.h"

#include "journal_disk.h"
#include "run_suite.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ps_journal_segments segments;

/* The epochs that are left in the list of the folder, each once: "1 6". */
static const char *kept(uint64_t wanted, enum ps_status expected)
{
    static char text[256];
    size_t size = 0;
    text[0] = '\0';
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, SAMPLE_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);

    ck_assert_int_eq(ps_journal_chain_keep(&segments, files, SAMPLE_FOLDER, wanted, NULL),
                     expected);

    for (size_t i = 0; i < segments.count; i++)
        if (ps_journal_segments_first(&segments, i))
            size += (size_t)snprintf(text + size, sizeof text - size, "%s%" PRIu64,
                                     size > 0 ? " " : "", segments.entries[i].epoch);
    ps_journal_segments_fini(&segments);
    return text;
}

START_TEST(a_list_of_nothing_stays_empty)
{
    ck_assert_str_eq(kept(0, PS_OK), "");
}
END_TEST

START_TEST(a_chain_without_gaps_is_kept_as_it_is)
{
    journal_from(0, 1, 1, 30);
    journal_from(1, 2, 31, 60);
    journal_from(2, 7, 61, 61);

    ck_assert_str_eq(kept(0, PS_OK), "1 2 7");
    ck_assert_str_eq(kept(45, PS_OK), "1 2 7");
}
END_TEST

START_TEST(epochs_that_the_next_owner_did_not_go_on_from_are_taken_out)
{
    journal_from(0, 1, 1, 5);
    journal_from(1, 3, 4, 3);
    journal_from(1, 4, 4, 9);
    journal_from(1, 6, 6, 40);
    journal_from(6, 7, 41, 41);

    ck_assert_str_eq(kept(0, PS_OK), "1 6 7");
}
END_TEST

START_TEST(every_segment_of_a_void_epoch_goes_and_every_other_stays)
{
    journal_from(0, 1, 1, 100);
    journal_from(1, 2, 50, 90);
    journal_from(1, 3, 101, 200);
    size_t before = 0;
    size_t void_ones = 0;
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, SAMPLE_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);
    before = segments.count;
    for (size_t i = 0; i < before; i++)
        void_ones += segments.entries[i].epoch == 2;
    ck_assert_uint_gt(void_ones, 1);

    ck_assert_int_eq(ps_journal_chain_keep(&segments, files, SAMPLE_FOLDER, 0, NULL), PS_OK);

    ck_assert_uint_eq(segments.count, before - void_ones);
    for (size_t i = 1; i < segments.count; i++)
        ck_assert_uint_lt(segments.entries[i - 1].first, segments.entries[i].first);
    ps_journal_segments_fini(&segments);
}
END_TEST

/* Epoch 2 is void by what epoch 3 says; a reader that begins at 70 begins in epoch 3 and does not
 * ask. */
START_TEST(epochs_before_the_one_to_begin_in_are_not_judged)
{
    journal_from(0, 1, 1, 20);
    journal_from(1, 2, 10, 15);
    journal_from(1, 3, 21, 80);

    ck_assert_str_eq(kept(70, PS_OK), "1 2 3");
    ck_assert_str_eq(kept(20, PS_OK), "1 3");
}
END_TEST

START_TEST(the_newest_epoch_is_kept_whatever_it_goes_on_from)
{
    journal_from(0, 5, 1, 5);
    journal_from(1, 6, 3, 9);

    ck_assert_str_eq(kept(0, PS_OK), "6");
}
END_TEST

START_TEST(a_first_record_that_cannot_be_believed_voids_nothing)
{
    char path[128];
    journal_from(0, 1, 1, 5);
    journal_from(1, 4, 4, 9);
    journal_from(1, 6, 6, 9);
    ck_assert_str_eq(kept(0, PS_OK), "1 6");

    memory_files_flip(disk, sample_segment(6, 6, path), 8 * (size_t)_i);

    ck_assert_str_eq(kept(0, PS_OK), "1 4 6");
}
END_TEST

START_TEST(a_file_under_another_segments_name_voids_nothing)
{
    char path[128];
    struct ps_bytes content;
    journal_from(0, 1, 1, 5);
    journal_from(1, 4, 4, 9);
    journal_from(1, 6, 6, 9);
    ck_assert(memory_files_get(disk, sample_segment(6, 6, path), &content));
    uint8_t *copy = malloc(content.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, content.data, content.size);
    memory_files_put(disk, sample_segment(8, 10, path), (struct ps_bytes){copy, content.size});

    ck_assert_str_eq(kept(0, PS_OK), "1 6 8");
    free(copy);
}
END_TEST

START_TEST(a_first_record_cut_short_voids_nothing)
{
    char path[128];
    journal_from(0, 1, 1, 5);
    journal_from(1, 4, 4, 9);
    memory_files_put(disk, sample_segment(6, 6, path), ps_bytes_of_text("PS"));

    ck_assert_str_eq(kept(0, PS_OK), "1 4 6");
}
END_TEST

START_TEST(a_disk_that_fails_makes_the_list_useless)
{
    journal_from(0, 1, 1, 5);
    journal_from(1, 4, 4, 9);
    journal_from(1, 6, 6, 9);
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, SAMPLE_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);
    memory_files_knobs(disk)->fail_mask = 1u << MEMORY_READ;
    memory_files_knobs(disk)->fail_from = 0;

    ck_assert_int_eq(ps_journal_chain_keep(&segments, files, SAMPLE_FOLDER, 0, NULL), PS_ERR_IO);

    ps_journal_segments_fini(&segments);
}
END_TEST

START_TEST(a_segment_that_has_gone_since_makes_the_list_useless)
{
    char path[128];
    journal_from(0, 1, 1, 5);
    journal_from(1, 4, 4, 9);
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, SAMPLE_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);
    ck_assert_int_eq(files->remove(files->self, sample_segment(4, 4, path), NULL), PS_OK);

    ck_assert_int_eq(ps_journal_chain_keep(&segments, files, SAMPLE_FOLDER, 0, NULL), PS_ERR_IO);

    ps_journal_segments_fini(&segments);
}
END_TEST

/* A segment of epoch `epoch` behind `position` without records, of that history. */
static void put_history(uint64_t previous, uint64_t epoch, uint64_t position, uint8_t history)
{
    const struct ps_journal_facts facts = {.index = 2,
                                           .shard_count = 5,
                                           .epoch = epoch,
                                           .position = position,
                                           .previous_epoch = previous,
                                           .history = {{history}}};
    struct journal_maker maker;
    ck_assert_int_eq(
        journal_maker_begin(&maker, files, SAMPLE_FOLDER, &facts, disk_format, 800, NULL), PS_OK);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
}

/* Epochs 1 and 2 are of history 1, of 3 nobody knows, 4 is a stranger's and would void 2 and 3. */
static void put_mixed(void)
{
    put_history(0, 1, 0, 1);
    put_history(1, 2, 5, 1);
    put_history(2, 3, 8, 0);
    put_history(1, 4, 9, 2);
}

static const char *kept_of(uint8_t history)
{
    static char text[256];
    const struct ps_history wanted = {{history}};
    size_t size = 0;
    text[0] = '\0';
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, SAMPLE_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);
    ps_journal_chain_keep_history(&segments, files, SAMPLE_FOLDER, &wanted);
    for (size_t i = 0; i < segments.count; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%" PRIu64, size > 0 ? " " : "",
                                 segments.entries[i].epoch);
    ps_journal_segments_fini(&segments);
    return text;
}

START_TEST(segments_of_another_history_are_taken_out)
{
    put_mixed();
    ck_assert_str_eq(kept_of(1), "1 2 3");
    ck_assert_str_eq(kept_of(2), "3 4");
    ck_assert_str_eq(kept_of(7), "3");
    ck_assert_str_eq(kept_of(0), "1 2 3 4");
}
END_TEST

/* It may be the shard's own, and its reader will say what is wrong with it. */
START_TEST(a_segment_of_which_nobody_knows_stays)
{
    char path[128];
    put_mixed();
    memory_files_flip(disk, sample_segment(4, 10, path), 70 * 8);
    ck_assert_str_eq(kept_of(1), "1 2 3 4");
    memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + 1;
    ck_assert_str_eq(kept_of(2), "1 2 3 4");
    memory_files_knobs(disk)->fail_from = -1;
}
END_TEST

static TCase *make_case(const char *name, SFun set_up_format)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, set_up_format, tear_down);
    tcase_add_test(tests, a_list_of_nothing_stays_empty);
    tcase_add_test(tests, a_chain_without_gaps_is_kept_as_it_is);
    tcase_add_test(tests, epochs_that_the_next_owner_did_not_go_on_from_are_taken_out);
    tcase_add_test(tests, every_segment_of_a_void_epoch_goes_and_every_other_stays);
    tcase_add_test(tests, epochs_before_the_one_to_begin_in_are_not_judged);
    tcase_add_test(tests, the_newest_epoch_is_kept_whatever_it_goes_on_from);
    tcase_add_loop_test(tests, a_first_record_that_cannot_be_believed_voids_nothing, 0, 104);
    tcase_add_test(tests, a_file_under_another_segments_name_voids_nothing);
    tcase_add_test(tests, a_first_record_cut_short_voids_nothing);
    tcase_add_test(tests, a_disk_that_fails_makes_the_list_useless);
    tcase_add_test(tests, a_segment_that_has_gone_since_makes_the_list_useless);
    tcase_add_test(tests, segments_of_another_history_are_taken_out);
    tcase_add_test(tests, a_segment_of_which_nobody_knows_stays);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("journal_chain");
    suite_add_tcase(suite, make_case("format 1", set_up_format_1));
    suite_add_tcase(suite, make_case("format 2", set_up_format_2));
    return run_suite(suite);
}
