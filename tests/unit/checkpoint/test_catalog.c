/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/catalog.c: which checkpoints there are and which may go. */
#include "checkpoint/catalog.h"

#include "checkpoint/checkpoint_name.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_catalog catalog;

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
}

static void tear_down(void)
{
    ps_catalog_fini(&catalog);
    memory_files_destroy(disk);
}

static void put(uint64_t epoch, uint64_t position, const char *uuid, const char *suffix)
{
    char name[PS_CHECKPOINT_NAME_BYTES];
    char path[256];
    ps_checkpoint_name_write(epoch, position, uuid, "", suffix, name);
    (void)snprintf(path, sizeof path, "ck/%s", name);
    memory_files_put(disk, path, ps_bytes_of_text("x"));
}

static void put_checkpoint(uint64_t epoch, uint64_t position, const char *uuid)
{
    put(epoch, position, uuid, PS_CHECKPOINT_SUFFIX);
}

static size_t sweep(size_t keep, const char *published)
{
    size_t removed = 99;
    ck_assert_int_eq(
        ps_catalog_sweep(files, "ck", keep, published, 0, ps_allocator_heap(), &removed, NULL),
        PS_OK);
    return removed;
}

/* The uuids of the catalog, newest first, with a space behind each. */
static const char *listed(void)
{
    static char text[1024];
    text[0] = '\0';
    ps_catalog_fini(&catalog);
    ck_assert_int_eq(ps_catalog_init(&catalog, files, "ck", ps_allocator_heap(), NULL), PS_OK);
    for (size_t i = 0; i < catalog.count; i++) {
        (void)strcat(text, catalog.entries[i].uuid);
        (void)strcat(text, " ");
    }
    return text;
}

START_TEST(the_newest_epoch_then_the_newest_position_comes_first)
{
    put_checkpoint(2, 50, "c");
    put_checkpoint(1, 900, "d");
    put_checkpoint(10, 3, "a");
    put_checkpoint(2, 51, "b");

    ck_assert_str_eq(listed(), "a b c d ");
    ck_assert_uint_eq(catalog.entries[1].epoch, 2);
    ck_assert_uint_eq(catalog.entries[1].position, 51);
    ck_assert_str_eq(catalog.entries[3].name, "0000000000000001-0000000000000384-d.safetensors");
}
END_TEST

START_TEST(a_missing_folder_has_no_checkpoints)
{
    ck_assert_str_eq(listed(), "");
    ck_assert_uint_eq(sweep(2, "u"), 0);
}
END_TEST

START_TEST(other_files_are_passed_over)
{
    put_checkpoint(1, 1, "a");
    put(1, 2, "t", PS_CHECKPOINT_TEMPORARY_SUFFIX);
    memory_files_put(disk, "ck/README", ps_bytes_of_text("x"));
    memory_files_put(disk, "ck/model.safetensors", ps_bytes_of_text("x"));

    ck_assert_str_eq(listed(), "a ");
}
END_TEST

START_TEST(a_thousand_checkpoints_are_listed_in_order)
{
    for (uint64_t i = 0; i < 1000; i++)
        put_checkpoint(1, i * 7919 % 1000, "u");
    ck_assert_int_eq(ps_catalog_init(&catalog, files, "ck", ps_allocator_heap(), NULL), PS_OK);

    ck_assert_uint_eq(catalog.count, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(catalog.entries[i].position, 999 - i);
}
END_TEST

START_TEST(a_sweep_keeps_the_newest_generations)
{
    put_checkpoint(1, 1, "a");
    put_checkpoint(1, 2, "b");
    put_checkpoint(2, 3, "c");
    put_checkpoint(2, 4, "d");

    ck_assert_uint_eq(sweep(2, "d"), 2);

    ck_assert_str_eq(listed(), "d c ");
    ck_assert_uint_eq(sweep(2, "d"), 0);
}
END_TEST

/* A server that was paused finished its checkpoint after the next owner had begun. */
START_TEST(a_late_checkpoint_does_not_take_the_place_of_an_older_one)
{
    put_checkpoint(1, 0, "older");
    put_checkpoint(1, 19, "late");
    put_checkpoint(2, 19, "published");

    ck_assert_uint_eq(sweep(2, "published"), 0);
    ck_assert_str_eq(listed(), "published late older ");

    put_checkpoint(2, 40, "next");
    ck_assert_uint_eq(sweep(2, "next"), 2);
    ck_assert_str_eq(listed(), "next published ");
}
END_TEST

/* Each recovery saves; a server that only falls over must not fill the disk. */
START_TEST(p6_owners_that_come_and_go_without_a_push_leave_few_files)
{
    char name[2] = "a";
    for (uint64_t epoch = 1; epoch <= 8; epoch++, name[0]++) {
        put_checkpoint(epoch, 12, name);
        (void)sweep(2, name);
    }

    ck_assert_str_eq(listed(), "h g f ");
}
END_TEST

START_TEST(b4_a_sweep_never_removes_the_published_checkpoint)
{
    put_checkpoint(1, 1, "older");
    put_checkpoint(1, 2, "published");
    put_checkpoint(1, 3, "x");
    put_checkpoint(1, 4, "y");
    put_checkpoint(1, 5, "z");

    ck_assert_uint_eq(sweep(2, "published"), 2);

    ck_assert_str_eq(listed(), "z y published ");
}
END_TEST

START_TEST(fewer_than_two_generations_are_never_asked_for)
{
    size_t removed = 0;
    put_checkpoint(1, 1, "a");

    enum ps_status status =
        ps_catalog_sweep(files, "ck", 1, "a", 0, ps_allocator_heap(), &removed, NULL);

    ck_abort_msg("came back with %s", ps_status_word(status));
}
END_TEST

START_TEST(leftovers_older_than_the_published_checkpoint_go)
{
    put_checkpoint(2, 10, "published");
    put(1, 99, "old", PS_CHECKPOINT_TEMPORARY_SUFFIX);
    put(2, 10, "same", PS_CHECKPOINT_TEMPORARY_SUFFIX);
    put(2, 11, "newer", PS_CHECKPOINT_TEMPORARY_SUFFIX);
    put(3, 1, "next-owner", PS_CHECKPOINT_TEMPORARY_SUFFIX);

    ck_assert_uint_eq(sweep(2, "published"), 2);

    ck_assert_uint_eq(memory_files_file_count(disk), 3);
}
END_TEST

/* The next owner read up to position 12 and repeats the last record: no recovery would begin with
 * what the former one wrote late, at 12. */
START_TEST(a_checkpoint_behind_the_next_owners_first_record_takes_nobodys_place)
{
    put_checkpoint(1, 9, "old");
    put_checkpoint(1, 10, "good");
    put_checkpoint(1, 12, "late");
    put_checkpoint(2, 15, "published");
    memory_files_put(disk, "ck/0000000000000002-000000000000000c.journal", ps_bytes_of_text("x"));

    ck_assert_uint_eq(sweep(2, "published"), 1);

    ck_assert_str_eq(listed(), "published late good ");
}
END_TEST

START_TEST(a_checkpoint_before_the_next_owners_first_record_is_one_of_those_kept)
{
    put_checkpoint(1, 10, "old");
    put_checkpoint(1, 12, "good");
    put_checkpoint(2, 15, "published");
    memory_files_put(disk, "ck/0000000000000001-000000000000000b.journal", ps_bytes_of_text("x"));
    memory_files_put(disk, "ck/0000000000000002-000000000000000d.journal", ps_bytes_of_text("x"));

    ck_assert_uint_eq(sweep(2, "published"), 1);

    ck_assert_str_eq(listed(), "published good ");
}
END_TEST

START_TEST(other_files_are_never_swept)
{
    for (uint64_t i = 0; i < 5; i++)
        put_checkpoint(1, i, "u");
    memory_files_put(disk, "ck/notes.txt", ps_bytes_of_text("x"));
    memory_files_put(disk, "ck/x.safetensors.tmp", ps_bytes_of_text("x"));

    ck_assert_uint_eq(sweep(3, "none"), 2);

    ck_assert_uint_eq(memory_files_file_count(disk), 5);
}
END_TEST

START_TEST(a_file_that_cannot_be_removed_does_not_stop_the_sweep)
{
    for (uint64_t i = 0; i < 6; i++)
        put_checkpoint(1, i, "u");
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_mask = 1u << MEMORY_REMOVE;
    knobs->fail_at = 1;
    size_t removed = 0;

    ck_assert_int_eq(ps_catalog_sweep(files, "ck", 2, "u2", 0, ps_allocator_heap(), &removed, NULL),
                     PS_ERR_IO);

    ck_assert_uint_eq(removed, 3);
    ck_assert_uint_eq(memory_files_file_count(disk), 3);
}
END_TEST

START_TEST(a_folder_that_cannot_be_listed_is_an_error)
{
    put_checkpoint(1, 1, "a");
    memory_files_knobs(disk)->fail_at = 0;

    ck_assert_int_eq(ps_catalog_init(&catalog, files, "ck", ps_allocator_heap(), NULL), PS_ERR_IO);
    ck_assert_uint_eq(catalog.count, 0);
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_removes_nothing)
{
    for (uint64_t i = 0; i < 40; i++)
        put_checkpoint(1, i, "u");
    put(0, 0, "t", PS_CHECKPOINT_TEMPORARY_SUFFIX);
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    size_t removed = 0;

    enum ps_status status = ps_catalog_sweep(files, "ck", 2, "u", 0, &memory, &removed, NULL);

    bool refused = heap.seen > _i;
    ck_assert_int_eq(status, refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(memory_files_file_count(disk), refused ? 41 : 40);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(b5_the_same_instant_written_again_is_no_other_generation)
{
    put_checkpoint(1, 5, "019a");
    put_checkpoint(1, 8, "019b");
    put_checkpoint(1, 8, "019c");

    ck_assert_uint_eq(sweep(2, "019c"), 1);

    ck_assert_str_eq(listed(), "019c 019a ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("catalog");
    TCase *tests = tcase_create("catalog");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_newest_epoch_then_the_newest_position_comes_first);
    tcase_add_test(tests, a_missing_folder_has_no_checkpoints);
    tcase_add_test(tests, other_files_are_passed_over);
    tcase_add_test(tests, a_thousand_checkpoints_are_listed_in_order);
    tcase_add_test(tests, a_sweep_keeps_the_newest_generations);
    tcase_add_test(tests, b5_the_same_instant_written_again_is_no_other_generation);
    tcase_add_test(tests, p6_owners_that_come_and_go_without_a_push_leave_few_files);
    tcase_add_test(tests, a_late_checkpoint_does_not_take_the_place_of_an_older_one);
    tcase_add_test(tests, b4_a_sweep_never_removes_the_published_checkpoint);
    tcase_add_test_raise_signal(tests, fewer_than_two_generations_are_never_asked_for, SIGABRT);
    tcase_add_test(tests, leftovers_older_than_the_published_checkpoint_go);
    tcase_add_test(tests, a_checkpoint_behind_the_next_owners_first_record_takes_nobodys_place);
    tcase_add_test(tests, a_checkpoint_before_the_next_owners_first_record_is_one_of_those_kept);
    tcase_add_test(tests, other_files_are_never_swept);
    tcase_add_test(tests, a_file_that_cannot_be_removed_does_not_stop_the_sweep);
    tcase_add_test(tests, a_folder_that_cannot_be_listed_is_an_error);
    tcase_add_loop_test(tests, a_refused_allocation_removes_nothing, 0, 6);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
