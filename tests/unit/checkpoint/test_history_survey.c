/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/history_survey.c: what the files of a folder say of their history, on a disk in
 * memory. Where they stand then is test_history_mix.c's. */
#include "checkpoint/history_survey.h"

#include "checkpoint/journal.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "/f"

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_history_survey survey;
static struct ps_checkpoint_place published;

static void setup(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    published = (struct ps_checkpoint_place){0};
    survey = (struct ps_history_survey){0};
}

static void teardown(void)
{
    ps_history_survey_fini(&survey);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

static struct ps_history history(uint8_t which)
{
    return (struct ps_history){{which}};
}

static struct ps_checkpoint_place put_checkpoint(uint64_t epoch, uint64_t position, uint8_t which)
{
    struct ps_checkpoint_facts facts = {.shard_count = 1,
                                        .epoch = epoch,
                                        .position = position,
                                        .history = history(which),
                                        .job = ""};
    struct ps_checkpoint_place place;
    (void)snprintf(facts.uuid, sizeof facts.uuid, "u%u-%u-%u", (unsigned)epoch, (unsigned)position,
                   which);
    ck_assert_int_eq(
        ps_checkpoint_write(files, FOLDER, &facts, NULL, 0, ps_allocator_heap(), &place, NULL),
        PS_OK);
    return place;
}

static void put_segment(uint64_t epoch, uint64_t position, uint64_t previous, uint8_t which)
{
    const struct ps_journal_facts facts = {.shard_count = 1,
                                           .epoch = epoch,
                                           .position = position,
                                           .previous_epoch = previous,
                                           .history = history(which)};
    struct ps_journal_writer *writer = NULL;
    ck_assert_int_eq(ps_journal_writer_open(files, FOLDER, &facts, &(struct ps_journal_setup){0},
                                            ps_allocator_heap(), &writer, NULL),
                     PS_OK);
    ps_journal_writer_close(writer);
}

static void look(void)
{
    ck_assert_int_eq(
        ps_history_survey_init(&survey, files, FOLDER, &published, ps_allocator_heap(), NULL),
        PS_OK);
}

static void expect(size_t i, const char *name, uint8_t which, enum ps_history_place place)
{
    const struct ps_history wanted = history(which);
    ck_assert_uint_lt(i, survey.count);
    ck_assert_msg(strncmp(survey.names[i].text, name, strlen(name)) == 0, "%s",
                  survey.names[i].text);
    ck_assert_mem_eq(&survey.files[i].history, &wanted, sizeof wanted);
    ck_assert_int_eq(ps_history_survey_place(&survey, i), place);
}

START_TEST(a_folder_that_is_not_there_has_none)
{
    look();
    ck_assert_uint_eq(survey.count, 0);
    ck_assert(!ps_history_known(&survey.own) && !survey.is_told);
}
END_TEST

START_TEST(checkpoints_and_segments_say_their_own)
{
    put_segment(2, 0, 0, 1);
    struct ps_checkpoint_place older = put_checkpoint(2, 5, 1);
    (void)put_checkpoint(2, 9, 2);
    put_segment(3, 5, 2, 3);
    published.history = history(1);

    look();

    ck_assert_uint_eq(survey.count, 4);
    expect(0, "0000000000000002-0000000000000009-", 2, PS_HISTORY_MIXED);
    expect(1, "0000000000000002-0000000000000005-", 1, PS_HISTORY_OWN);
    expect(2, "0000000000000002-0000000000000001.journal", 1, PS_HISTORY_OWN);
    expect(3, "0000000000000003-0000000000000006.journal", 3, PS_HISTORY_MIXED);
    ck_assert_uint_eq(survey.files[3].begin, 5);
    ck_assert_uint_eq(survey.files[3].previous, 2);
    ck_assert_uint_eq(survey.mixed_count, 2);
    ck_assert_uint_eq(survey.void_count, 0);
    ck_assert(survey.is_told);
    ck_assert_int_eq(ps_history_survey_checkpoint(&survey, strrchr(older.path, '/') + 1),
                     PS_HISTORY_OWN);
    ck_assert_int_eq(ps_history_survey_checkpoint(&survey, survey.names[0].text), PS_HISTORY_MIXED);
    ck_assert_int_eq(ps_history_survey_checkpoint(&survey, "not there"), PS_HISTORY_OWN);
}
END_TEST

/* A pointer from before there were histories names a file that has one. */
START_TEST(the_file_that_the_store_names_tells)
{
    published = put_checkpoint(2, 5, 1);
    published.history = history(0);
    (void)put_checkpoint(2, 9, 2);

    look();

    const struct ps_history own = history(1);
    ck_assert(survey.is_told);
    ck_assert_mem_eq(&survey.own, &own, sizeof own);
    ck_assert_uint_eq(survey.mixed_count, 1);
}
END_TEST

/* Of a damaged file nobody knows: it is the shard's, and its reader will say what it is. */
START_TEST(what_cannot_be_believed_is_not_known)
{
    struct ps_checkpoint_place place = put_checkpoint(2, 5, 1);
    put_segment(2, 0, 0, 1);
    (void)put_checkpoint(1, 1, 2);
    memory_files_flip(disk, place.path, 100 * 8);
    memory_files_flip(disk, FOLDER "/0000000000000002-0000000000000001.journal", 70 * 8);

    look();

    expect(0, "0000000000000002-0000000000000005-", 0, PS_HISTORY_OWN);
    expect(2, "0000000000000002-0000000000000001.journal", 0, PS_HISTORY_OWN);
    ck_assert(!survey.files[2].is_read);
}
END_TEST

START_TEST(a_disk_that_refuses_a_file_says_nothing_of_it)
{
    (void)put_checkpoint(2, 5, 1);
    put_segment(2, 0, 0, 1);
    memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + 2;

    look();

    memory_files_knobs(disk)->fail_from = -1;
    ck_assert_uint_eq(survey.count, 2);
    ck_assert(!ps_history_known(&survey.own));
}
END_TEST

START_TEST(refused_memory_is_a_failure)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    enum ps_status status = PS_ERR_NO_MEMORY;
    (void)put_checkpoint(2, 5, 1);
    put_segment(2, 0, 0, 1);
    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        ck_assert_int_lt(refuse, 100);
        heap.refuse_at = heap.seen + refuse;
        status = ps_history_survey_init(&survey, files, FOLDER, &published, &memory, NULL);
        heap.refuse_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ps_history_survey_fini(&survey);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history_survey");
    TCase *tests = tcase_create("history_survey");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_folder_that_is_not_there_has_none);
    tcase_add_test(tests, checkpoints_and_segments_say_their_own);
    tcase_add_test(tests, the_file_that_the_store_names_tells);
    tcase_add_test(tests, what_cannot_be_believed_is_not_known);
    tcase_add_test(tests, a_disk_that_refuses_a_file_says_nothing_of_it);
    tcase_add_test(tests, refused_memory_is_a_failure);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
